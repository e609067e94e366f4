"""``bench library score``: scores of a ledger's schedulers on entries of the library."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli.completion import schedulers_option
from bench.cli.options import DEFAULT_LEDGER, LibraryOption
from bench.cli.terminal import emit, print_json
from bench.cli.views.library import open_library
from bench.cli.views.tables import Fitted, show
from bench.formatting import seconds
from bench.ledger.store import Ledger
from bench.provenance import distribution_version
from bench.selection import names_in
from instances import InputError
from instances.library import Library
from instances.library.benchmark import BENCHMARK
from reports.statistics.library_score import WORST_RATIO, LibraryScores, library_scores
from reports.statistics.tables import StatsTable, latex

EXAMPLES = (
    "bench run --instances library/benchmark --schedulers colgen --work-limit 3000000 --time-limit 600",
    "bench library score results/ledger.sqlite",
    "bench library score results/ledger.sqlite --entries 'cost-*' --format latex > scores.tex",
)


def score(
    ledger_file: Annotated[Path, typer.Argument(metavar="LEDGER", help="SQLite file with the runs.")] = DEFAULT_LEDGER,
    pattern: Annotated[
        str, typer.Option("--entries", metavar="PATTERN", help="Entries that count, such as 'cost-*'.")
    ] = BENCHMARK,
    schedulers: Annotated[
        str | None, schedulers_option("Schedulers. Default: all in the ledger.", metavar="A,B,...")
    ] = None,
    folder: LibraryOption = None,
    form: Annotated[Literal["table", "latex", "json"], typer.Option("--format", help="Output format.")] = "table",
) -> None:
    """Score the schedulers of a ledger on the benchmark set: one number for plans and one for bounds.

    The scores are geometric means of value / best and best / bound, inverted under maximised objectives; 1 is the best
    known value. A missing run, plan or bound counts as 10, and no ratio counts as more. Integrals over time are shown
    if no run has a work limit.
    """
    library = open_library(folder)
    entries = [library.entry(name) for name in library.names(pattern)]
    entries = [entry for entry in entries if entry.plan is not None]
    if not entries:
        raise InputError("--entries", f'"{pattern}" matches no entry with a plan; `bench library` lists all')
    with Ledger(ledger_file) as ledger:
        scores = library_scores(ledger, entries, names_in(schedulers or ""))
    source = f"{_source(library, pattern)} of gpushare-bench {distribution_version('gpushare-bench')}"
    if form == "json":
        print_json({"source": source, **asdict(scores)})
        return
    table, notes = _table(scores, source), _notes(scores)
    if form == "latex":
        emit(latex([table], notes), sys.stdout)
        return
    heads = [f"{'>' * (column > 0)}{head}" for column, head in enumerate(table.heads)]
    show(table.caption, Fitted(heads, table.lines, None, ("primal", "dual")), *notes)


def _source(library: Library, pattern: str) -> str:
    if pattern == BENCHMARK and library.benchmark is not None:
        return f"benchmark set {library.benchmark.version}"
    return f'entries "{pattern}"'


def _table(scores: LibraryScores, source: str) -> StatsTable:
    """Return a table with a line per scheduler; it has columns of integrals only if they are known."""
    timed = scores.horizon_s is not None
    heads = ["scheduler", "plans", "found", "bounds", "bounded", *["primal", "dual"] * timed]
    lines = [
        [
            each.name,
            f"{each.plans:.4f}",
            f"{each.planned}/{scores.entries}",
            f"{each.bounds:.4f}",
            f"{each.bounded}/{scores.entries}",
            *[seconds(each.primal_s), seconds(each.dual_s)] * timed,
        ]
        for each in scores.scores
    ]
    return StatsTable(f"Scores on the {source} (best values {scores.digest})", heads, lines, "library-score")


def _notes(scores: LibraryScores) -> list[str]:
    """Return the definitions of the scores."""
    notes = [
        "plans, bounds: geometric means of value / best and best / bound (inverted for maximised objectives); a missing"
        f" run counts as {WORST_RATIO:g}, and no ratio counts as more",
    ]
    if scores.horizon_s is not None:
        notes.append(f"primal, dual: mean integrals of the gaps to the best value over {scores.horizon_s:g} s")
    return notes
