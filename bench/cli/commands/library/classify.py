"""``bench library classify``: the difficulty of proven entries, measured by work."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from bench.cli import options
from bench.cli.options import LibraryOption
from bench.cli.running import announced_jobs, end_interrupted, run_with_progress
from bench.cli.terminal import say
from bench.cli.views.library import open_library
from bench.doctor.solvers import refuse_wrong_answers
from bench.evaluation import SIMULATED
from bench.ledger.store import Ledger
from bench.library.difficulty import LIMITS_S, WORK_PER_S, Measuring, references
from bench.planning import Limits, RunOrder, plan_orders
from bench.task import Task
from instances import InputError
from instances.library import Library, LibraryEntry

EXAMPLES = (
    "bench library classify --largest 10",
    "bench library classify 'cost-*' --again --ledger results/difficulty.sqlite",
)

LONGEST_S = 3600.0
"""Time limit of a run in seconds, so long that the work limit ends the run first."""


def classify(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Entries, such as 'cost-*'.")] = "*",
    largest: Annotated[int | None, typer.Option(metavar="N", help="Skip entries with more workloads.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure entries again that have a difficulty.")] = False,
    jobs: options.JobsOption = 1,
    ledger_file: options.LedgerOption = options.DEFAULT_LEDGER,
    folder: LibraryOption = None,
) -> None:
    """Measure the difficulty of proven entries: toy, easy, medium or hard.

    The reference schedulers run on one thread with work limits that stand for 1, 10 and 60 seconds of a core. Runs are
    stored in the ledger, and those that it has are reused. The difficulty of an entry is written as soon as it is
    known. After Ctrl-C, the same command goes on.
    """
    refuse_wrong_answers()
    library = open_library(folder, written=True)
    lines = [
        line
        for line in sorted(library.summaries(), key=lambda line: (line.workloads, line.name))
        if line.closed and (again or line.difficulty is None) and (largest is None or line.workloads <= largest)
    ]
    names = set(library.names(pattern))
    entries = [library.entry(line.name) for line in lines if line.name in names]
    if not entries:
        raise InputError(
            "PATTERN", f'"{pattern}" matches no proven entry without a difficulty; --again measures others'
        )
    tasks, measuring = _tasks(entries), {entry.instance.name: Measuring(entry) for entry in entries}
    with Ledger(ledger_file, create=True) as ledger:
        parallel_runs = announced_jobs(jobs, 1)
        for limit_s in LIMITS_S:
            wanted = [
                tasks[limit_s, scheduler, name]
                for name, measurement in measuring.items()
                for scheduler in measurement.missing
            ]
            if not wanted:
                break
            say(f"work of {limit_s} s: {len(wanted)} runs")
            rows, _, interrupted = run_with_progress(wanted, ledger, parallel_runs)
            for row in rows:
                measuring[row.instance].add(row, limit_s)
            _record(library, measuring)
            if interrupted:
                end_interrupted(ledger, f"{len(rows)} of {len(wanted)} runs")


def _tasks(entries: Sequence[LibraryEntry]) -> Mapping[tuple[int, str, str], Task]:
    """Return the runs of all entries, by limit in seconds, scheduler and entry."""
    orders = {}
    for limit_s in LIMITS_S:
        for scheduler, work_per_s in WORK_PER_S.items():
            problems = [entry.instance for entry in entries if scheduler in references(entry.instance)]
            if problems:
                limits = Limits(time_limit_s=LONGEST_S, work_limit=limit_s * work_per_s)
                trial = replace(SIMULATED, arrivals=None)
                orders[limit_s, scheduler] = RunOrder(problems, [scheduler], [], [0], limits, trial)
    planned = zip(orders, plan_orders(list(orders.values())), strict=True)
    return {(*order, task.instance.name): task for order, (tasks, _) in planned for task in tasks}


def _record(library: Library, measuring: dict[str, Measuring]) -> None:
    """Write the difficulties that are known, and remove their entries from ``measuring``."""
    for name, measurement in list(measuring.items()):
        measured = measurement.result
        if measured is not None:
            library.record_difficulty(name, measured)
            say(f"{name}: {measured.difficulty}")
            del measuring[name]
