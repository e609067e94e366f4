"""Command ``bench``: its subcommands, and the conversion of errors to one line and an exit code."""

import os
import re
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from bench.cli.lazy import Subcommand, lazy_group
from bench.cli.options import CRASHED, examples
from bench.cli.terminal import emit, open_closed_streams, say
from bench.extras import how_to_install

# The base class of all errors in a command line; typer does not export it.
UsageError: Any = typer.BadParameter.__base__

EXAMPLES = (
    "bench run --instances smoke        # every scheduler on four tiny instances",
    "bench show                         # the best of each scheduler so far",
    "bench list instances               # the instances that come with the bench",
    "bench generate igniter-mix --size 20 -o mix.json",
)

COMMANDS = {
    "plan": Subcommand("plan", "plan", "Find the cheapest GPUs for services of your own."),
    "deploy": Subcommand("deploy", "deploy", "Write the files that deploy a plan."),
    "run": Subcommand("run", "run", "Run schedulers on instances."),
    "list": Subcommand("listing", "list_things", "List instances, schedulers, figures, suites or GPUs."),
    "show": Subcommand("show", "show_things", "Show the best results, one run in full, or an instance."),
    "verify": Subcommand("verify", "verify", "Judge a plan file."),
    "simulate": Subcommand("simulate", "simulate_plan", "Simulate every request of a plan."),
    "replay": Subcommand("replay", "replay_plan", "Serve a plan on real GPUs or CPU cores."),
    "max-rate": Subcommand("max_rate", "max_rate", "Find the largest request rates that a scheduler can serve."),
    "online": Subcommand("online", "online", "Simulate a changing load with replanning."),
    "train": Subcommand("train", "train", "Train a learning scheduler."),
    "generate": Subcommand("generate", "generate_instance", "Generate a random instance."),
    "prove": Subcommand("prove", "prove", "Write the certificate of a run's bound."),
    "check": Subcommand("check", "check_certificate", "Check a certificate."),
    "library": Subcommand("library", "app", "List the library, submit to it, or solve its open entries."),
    "model": Subcommand("model", "write_model", "Write the model of an instance for other solvers."),
    "figures": Subcommand("figures", "draw_figures", "Draw the papers' figures."),
    "report": Subcommand("report", "report", "Write a ledger as a web page."),
    "stats": Subcommand("stats", "stats", "Compare all schedulers of a ledger with statistics."),
    "compare": Subcommand("compare", "compare", "Compare two ledgers or two schedulers."),
    "check-plugin": Subcommand("check_plugin", "check_plugin", "Check that a scheduler meets the interface."),
    "export": Subcommand("export", "export", "Write a ledger as one table (CSV or Parquet)."),
    "schema": Subcommand("schema", "print_schema", "Print the JSON Schema of a file format."),
    "doctor": Subcommand("doctor", "doctor", "Check the solvers and the machine."),
    "gpu": Subcommand("gpu", "gpu", "Profile, plan and replay on the GPU of this host, in one go."),
    "profile": Subcommand("profile", "app", "Measure GPUs and fit performance models."),
}

app = typer.Typer(
    cls=lazy_group(COMMANDS),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version  # loads an e-mail parser, which `bench --help` does not need

        emit(f"gpushare-bench {version('gpushare-bench')}\n", sys.stdout)
        raise typer.Exit


def _set_catalogue(path: str | None) -> None:
    if path is not None:  # an environment variable also reaches the workers of runs
        from instances.catalogue import CATALOGUE_VARIABLE  # loads NumPy, which `bench --help` does not need

        os.environ[CATALOGUE_VARIABLE] = path


@app.callback(invoke_without_command=True, epilog=examples(EXAMPLES))
def bench(
    context: typer.Context,
    catalogue: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|FILE",
            callback=_set_catalogue,
            is_eager=True,
            help="Catalogue file, or folder of them, with GPU types of your own; also after a command. "
            "Default: the environment variable GPUSHARE_CATALOGUE.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Benchmark schedulers that share GPUs among DNN inference workloads.

    A scheduler turns an instance into a plan. An independent judge scores every plan. The ledger, an SQLite file,
    stores every result.

    Exit codes: 0 success, 1 a run or a check failed, 2 wrong input or usage, 3 a check gave up, 70 a fault of the
    bench itself, 130 interrupted.
    """
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n", sys.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; the default of ``arguments`` is ``sys.argv[1:]``."""
    try:
        return _run(arguments)
    except Exception:  # noqa: BLE001 - Python's own exit code is 1, which means that a run or a check failed
        traceback.print_exc()
        return CRASHED


def _run(arguments: Sequence[str] | None) -> int:
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # escape characters that the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()  # noqa: PTH109 - relative names and runs need the working folder
    except FileNotFoundError:
        say("error: the working folder no longer exists; change to an existing folder")
        return 2
    try:
        code = app(
            args=_catalogue_first(sys.argv[1:] if arguments is None else arguments),
            prog_name="bench",
            standalone_mode=False,
        )
    except UsageError as error:
        say(f"error: {_usage_problem(error)}")
        return 2
    except ValueError as error:
        from instances import InputError  # loads NumPy, which `bench --help` does not need

        if not isinstance(error, InputError):
            raise
        say(f"error: {error}")
        return 2
    except ModuleNotFoundError as error:
        if (problem := how_to_install(error)) is None:
            raise
        say(f"error: {problem}")
        return 2
    return code or 0


def _catalogue_first(arguments: Sequence[str]) -> list[str]:
    """Return ``arguments`` with ``--catalogue`` before the command; users may also write the option after it."""
    for position, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == "--catalogue" or argument.startswith("--catalogue="):
            end = position + (1 if "=" in argument else 2)
            return [*arguments[position:end], *arguments[:position], *arguments[end:]]
    return list(arguments)


def _usage_problem(error: Any) -> str:
    """Return the place of an error on the command line, the error, and the remedy."""
    command = error.ctx.command_path if error.ctx is not None else "bench"
    option = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    message = error.message.strip().rstrip(".").removeprefix("Value error, ")
    similar = getattr(error, "possibilities", None)
    from difflib import get_close_matches  # slow to import, and only errors need it

    if similar and option is not None:
        return f'{option}: no such option; did you mean "{get_close_matches(option, similar, 1, 0.0)[0]}"?'
    message = re.sub(r"^Input should be a valid (number|integer)\b.*", r"expected a plain \1, without a unit", message)
    if choice := re.match("'(.*?)' is not one of (.*)", message):
        closest = get_close_matches(choice[1], re.findall("'(.*?)'", choice[2]), n=1)
        message += f'; did you mean "{closest[0]}"?' if closest else ""
    if parameter is not None:
        name = parameter.opts[0]
        option = name if name.startswith("-") else parameter.metavar or name.upper()
    return f"{option or command}: {message or 'is missing'}; see `{command} --help`"
