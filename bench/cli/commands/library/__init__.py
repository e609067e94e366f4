"""``bench library``: the library of frozen instances, best-known plans and proven bounds."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli.lazy import Subcommand, lazy_group
from bench.cli.options import FormatOption, LibraryOption, examples, output_option
from bench.cli.terminal import print_json

COMMANDS = {
    "submit": Subcommand("library.submit", "submit", "Judge a plan or check a certificate for the library."),
    "solve": Subcommand("library.solve", "solve", "Run schedulers on open entries."),
    "classify": Subcommand("library.classify", "classify", "Measure how difficult proven entries are."),
    "score": Subcommand("library.score", "score", "Score the schedulers of a ledger by plans and by bounds."),
    "review": Subcommand("library.review", "review", "Tell which entries this version computes as before."),
    "check-changes": Subcommand("library.check_changes", "check_changes", "Check the entries that changed."),
    "draw": Subcommand("library.draw", "draw", "Draw the held-out instances of the challenge."),
    "site": Subcommand("library.site", "site", "Write the library as a web site."),
    "covering": Subcommand("library.covering", "covering", "Write the covering problem of a small entry."),
    "renew": Subcommand("library.renew", "renew", "Make entries again under new names."),
    "withdraw": Subcommand("library.withdraw", "withdraw", "Remove degenerate entries."),
}

EXAMPLES = (
    "bench library --open",
    "bench library --instance cost-t4-24 -o cost-t4-24.json",
    "bench library --instance cost-t4-24 --part certificate -o proof.json",
    "bench run --instances library/cost-t4-24 --schedulers colgen",
    "bench library submit plan.json --by 'A. Author'",
)

app = typer.Typer(cls=lazy_group(COMMANDS), rich_markup_mode=None)


@app.callback(invoke_without_command=True, epilog=examples(EXAMPLES))
def library(
    context: typer.Context,
    only_open: Annotated[bool, typer.Option("--open", help="Only entries whose plan is not proven best.")] = False,
    instance: Annotated[str | None, typer.Option(metavar="NAME", help="Show one entry in full.")] = None,
    output: Annotated[Path | None, output_option("Write a part of the entry of --instance to a file.")] = None,
    part: Annotated[
        Literal["instance", "plan", "certificate"] | None,
        typer.Option(help="What -o writes: the instance (default), its best plan, or the certificate of its bound."),
    ] = None,
    folder: LibraryOption = None,
    form: FormatOption = "table",
) -> None:
    """List the library: best-known value and proven bound of every entry.

    A bound is accepted only with a certificate, which `bench check` checks. docs/library.md has the rules.
    """
    if context.invoked_subcommand is not None:
        return
    from bench.cli.views import library as views  # `bench library --help` needs no tables

    opened = views.open_library(folder)
    if output is not None or part is not None:
        views.write_part(opened, instance, part or "instance", output)
    if instance is not None:
        views.show_entry(opened.entry(instance), opened.history(instance), form)
        return
    lines = [line for line in opened.summaries() if not (only_open and line.closed)]
    if form == "json":
        print_json([asdict(line) for line in lines])
    else:
        views.show_lines(lines)
