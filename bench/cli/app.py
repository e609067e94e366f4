"""The command ``bench``: its subcommands, and how errors become one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Any

import typer

import bench.cli.commands.check_plugin as check_plugin
import bench.cli.commands.compare as compare
import bench.cli.commands.doctor as doctor
import bench.cli.commands.export as export
import bench.cli.commands.figures as figures
import bench.cli.commands.generate as generate
import bench.cli.commands.listing as listing
import bench.cli.commands.max_rate as max_rate
import bench.cli.commands.online as online
import bench.cli.commands.profile.group as profile
import bench.cli.commands.replay as replay
import bench.cli.commands.report as report
import bench.cli.commands.run as run
import bench.cli.commands.salvage as salvage
import bench.cli.commands.schema as schema
import bench.cli.commands.show as show
import bench.cli.commands.simulate as simulate
import bench.cli.commands.train as train
import bench.cli.commands.verify as verify
from bench.cli.options import examples
from bench.cli.terminal import emit, open_closed_streams, say

# The class of everything wrong with a command line; typer does not export it.
UsageError: Any = typer.BadParameter.__base__

EXAMPLES = (
    "bench run --instances smoke        # every scheduler on four tiny instances",
    "bench show                         # the best of each scheduler so far",
    "bench list instances               # what there is to solve",
    "bench generate igniter-mix --size 20 -o mix.json",
)

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", short_help="Run schedulers on instances.", epilog=examples(run.EXAMPLES))(run.run)
app.command(
    "list", short_help="List instances, schedulers, figures, suites or GPUs.", epilog=examples(listing.EXAMPLES)
)(listing.list_things)
app.command("show", short_help="Show the best results, a run in full, or an instance.", epilog=examples(show.EXAMPLES))(
    show.show_things
)
app.command("verify", short_help="Judge a plan file.", epilog=examples(verify.EXAMPLES))(verify.verify)
app.command("simulate", short_help="Simulate a plan under real arrivals.", epilog=examples(simulate.EXAMPLES))(
    simulate.simulate_plan
)
app.command("replay", short_help="Replay a plan on hardware.", epilog=examples(replay.EXAMPLES))(replay.replay_plan)
app.command(
    "max-rate", short_help="Find the largest rates that are served in time.", epilog=examples(max_rate.EXAMPLES)
)(max_rate.max_rate)
app.command("online", short_help="Serve a changing load while plans follow it.", epilog=examples(online.EXAMPLES))(
    online.online
)
app.command("train", short_help="Train a learning scheduler.", epilog=examples(train.EXAMPLES))(train.train)
app.command("generate", short_help="Draw a random instance.", epilog=examples(generate.EXAMPLES))(
    generate.generate_instance
)
app.command("figures", short_help="Draw the papers' figures.", epilog=examples(figures.EXAMPLES))(figures.draw_figures)
app.command("salvage", short_help="Save what is whole in a damaged ledger.", epilog=examples(salvage.EXAMPLES))(
    salvage.salvage_ledger
)
app.command("report", short_help="Write a ledger as a web page.", epilog=examples(report.EXAMPLES))(report.report)
app.command("compare", short_help="Compare two ledgers or two schedulers.", epilog=examples(compare.EXAMPLES))(
    compare.compare
)
app.command(
    "check-plugin", short_help="Check that a scheduler keeps its promises.", epilog=examples(check_plugin.EXAMPLES)
)(check_plugin.check_plugin)
app.command("export", short_help="Write a ledger as one table.", epilog=examples(export.EXAMPLES))(export.export)
app.command("schema", short_help="Print the JSON Schema of a file format.", epilog=examples(schema.EXAMPLES))(
    schema.print_schema
)
app.command("doctor", short_help="Check the solvers and the machine.", epilog=examples(doctor.EXAMPLES))(doctor.doctor)
app.add_typer(profile.app, name="profile")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        emit(f"gpushare-bench {version('gpushare-bench')}\n", sys.stdout)
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=examples(EXAMPLES))
def bench(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Compare schedulers that share GPUs among DNN inference workloads.

    Instances go in, every scheduler turns them into plans, one judge scores the plans, and a ledger keeps the scores.

    Exit codes: 0 done, 1 something that ran failed, 2 the input or the usage is wrong, 130 interrupted.
    """
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n", sys.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; ``arguments`` are those of the process unless given."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the terminal's encoding lacks is escaped rather than an error
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()  # noqa: PTH109 - all that names are relative to, and where runs begin
    except FileNotFoundError:
        say("error: the working folder no longer exists; change to one that does")
        return 2
    try:
        code = app(args=arguments, prog_name="bench", standalone_mode=False)
    except UsageError as error:
        say(f"error: {_usage_problem(error)}")
        return 2
    except ValueError as error:
        from instances import InputError

        if not isinstance(error, InputError):
            raise
        say(f"error: {error}")
        return 2
    return code or 0


def _usage_problem(error: Any) -> str:
    """Say where on the command line something is wrong, what it is, and what would be right."""
    command = error.ctx.command_path if error.ctx is not None else "bench"
    option = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    message = error.message.strip().rstrip(".").removeprefix("Value error, ")
    near = getattr(error, "possibilities", None)
    if near and option is not None:
        return f'{option}: no such option; did you mean "{sorted(near)[0]}"?'
    if parameter is not None:
        name = parameter.opts[0]
        option = name if name.startswith("-") else parameter.metavar or name.upper()
    return f"{option or command}: {message or 'is missing'}; see `{command} --help`"
