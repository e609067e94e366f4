"""``bench profile``: from measurements to catalogue entries, and how far these are from measurements."""

import sys

import typer

import bench.cli.commands.profile.fit as fit
import bench.cli.commands.profile.run as run
import bench.cli.commands.profile.validate as validate
from bench.cli.options import examples
from bench.cli.terminal import emit

app = typer.Typer(rich_markup_mode=None)
app.command("fit", epilog=examples(fit.EXAMPLES))(fit.fit)
app.command("run", epilog=examples(run.EXAMPLES))(run.run)
app.command("validate", epilog=examples(validate.EXAMPLES))(validate.validate)


@app.callback(invoke_without_command=True)
def profile(context: typer.Context) -> None:
    """From measurements to catalogue entries."""
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n", sys.stdout)
