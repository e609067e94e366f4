"""``bench profile``: measurement of GPUs, fit of catalogue entries, and validation of their predictions."""

import sys

import typer

from bench.cli.lazy import Subcommand, lazy_group
from bench.cli.terminal import emit

COMMANDS = {
    "cost": Subcommand("profile.cost", "cost", "Price the error of performance models on measured pairs."),
    "fit": Subcommand("profile.fit", "fit", "Fit performance models and write a catalogue entry."),
    "run": Subcommand("profile.run", "run", "Measure models on a GPU of this host."),
    "validate": Subcommand("profile.validate", "validate", "Compare predictions with measured pairs."),
}

app = typer.Typer(cls=lazy_group(COMMANDS), rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def profile(context: typer.Context) -> None:
    """Measure GPUs, fit performance models to the measurements, and validate the predictions."""
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n", sys.stdout)
