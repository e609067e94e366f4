"""``bench library solve``: schedulers on the open entries of the library."""

from typing import Annotated

import typer

from bench.cli.completion import schedulers_option
from bench.cli.options import CheckLimitOption, LibraryOption, TimeLimitOption
from bench.cli.terminal import say
from bench.cli.views.library import open_library
from bench.cli.views.tables import show
from bench.library.solving import solve as solve_entry
from bench.planning import require_limit
from bench.schedulers.registry import entries as registered_schedulers
from bench.schedulers.registry import load, parse_spec
from instances.errors import FieldName

EXAMPLES = (
    "bench library solve --time-limit 60",
    "bench library solve 'cost-*' --schedulers local-search,colgen --largest 300",
)


def solve(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Entries, such as 'cost-*'.")] = "*",
    time_limit_s: TimeLimitOption = 10.0,
    check_limit: CheckLimitOption = 120.0,
    schedulers: Annotated[
        str, schedulers_option("Schedulers, in this order.", metavar="A,B,...")
    ] = "local-search,colgen",
    largest: Annotated[int | None, typer.Option(metavar="N", help="Skip entries with more workloads.")] = None,
    untried: Annotated[bool, typer.Option("--untried", help="Only entries without a plan.")] = False,
    folder: LibraryOption = None,
) -> None:
    """Run schedulers on entries that are not proven, the smallest first; keep better plans and proven bounds.

    Each scheduler starts from the best-known plan. Certificates are checked before they are written. Ctrl-C keeps all
    results so far; run the command again to go on with the open entries.
    """
    require_limit(FieldName("time_limit_s"), time_limit_s)
    require_limit(FieldName("check_limit"), check_limit)
    library = open_library(folder, written=True)
    names = set(library.names(pattern))
    scheduler_entries = [parse_spec(name, registered_schedulers())[0] for name in schedulers.split(",")]
    loaded = [(entry.name, load(entry.target)()) for entry in scheduler_entries]
    open_summaries = [
        summary
        for summary in sorted(library.summaries(), key=lambda summary: summary.workloads)
        if summary.name in names
        and not summary.closed
        and (largest is None or summary.workloads <= largest)
        and not (untried and summary.value is not None)
    ]
    for position, summary in enumerate(open_summaries, start=1):
        for name, scheduler in loaded:
            if not library.entry(summary.name).closed:
                solve_entry(
                    library,
                    summary.name,
                    scheduler,
                    name,
                    time_limit_s,
                    check_limit,
                    lambda result: show(result.sentence),
                )
        say(f"{position} of {len(open_summaries)}: {summary.name}")
