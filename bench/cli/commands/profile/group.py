"""``bench profile``: from measurements to catalogue entries, and how far these are from measurements."""

import sys

import typer

from bench.cli.lazy import Subcommand, lazy_group
from bench.cli.terminal import emit

COMMANDS = {
    "fit": Subcommand("profile.fit", "fit", "Fit performance models and write a catalogue entry."),
    "run": Subcommand("profile.run", "run", "Measure models on the GPU at hand."),
    "validate": Subcommand("profile.validate", "validate", "Compare predictions with measured pairs."),
}

app = typer.Typer(cls=lazy_group(COMMANDS), rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def profile(context: typer.Context) -> None:
    """From measurements to catalogue entries."""
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n", sys.stdout)
