"""``bench figures``: runs what the ledger lacks, and draws."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli.options import (
    DEFAULT_LEDGER,
    JobsOption,
    LedgerOption,
    MemoryLimitOption,
    ThreadsOption,
    TimeLimitOption,
)

if TYPE_CHECKING:
    from bench.ledger.row import Row
    from bench.ledger.store import Ledger
    from bench.task import Task
    from reports.figure import Figure

EXAMPLES = (
    "bench list figures",
    "bench figures igniter-fig14",
    "bench figures --quick --out results/figures",
    "bench figures --no-run",
    "bench figures --from results/demo.sqlite   # what can be drawn from another ledger",
)


def draw_figures(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Default: all.")] = None,
    ledger_file: LedgerOption = DEFAULT_LEDGER,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go.")] = Path("results/figures"),
    no_run: Annotated[bool, typer.Option("--no-run", help="Refuse (exit 2) if runs are missing.")] = False,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Draw what this ledger has, however it was made; run nothing."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller instances where a figure has them.")] = False,
    time_limit: TimeLimitOption = 10.0,
    memory_limit: MemoryLimitOption = 8.0,
    threads: ThreadsOption = 1,
    jobs: JobsOption = None,
) -> None:
    """Draw figures of the papers from the ledger; runs that it lacks are made first, after saying what they cost.

    Prints the files written. Other schedulers' runs on a figure's instances are drawn, too.

    With --from the runs need not be those that would be made here: other limits, versions and machines count as well.
    Without names, figures of which that ledger has nothing are left out.
    """
    from bench.cli.files import make_folder
    from bench.cli.needed_runs import each_once, make_runs, missing_of, tasks_of
    from bench.cli.running import tell_failures
    from bench.cli.tasks import Limits, fitting_jobs
    from bench.cli.terminal import say
    from bench.doctor.known_bad import refuse_wrong_answers
    from bench.ledger.store import Ledger
    from reports.figures import figure, figure_names

    if source is not None:
        _draw_from(source, names, out)
        return
    limits = Limits(time_limit, memory_limit, threads)
    at_a_time, reduced = fitting_jobs(jobs, threads)
    if reduced:
        say(reduced)
    chosen = [figure(name, "figures") for name in dict.fromkeys(names or figure_names())]
    planned = tasks_of([need for each in chosen for need in each.needs], "figures", limits, quick)
    tasks, climbing = (
        each_once(found for need, found in planned.items() if need.climb is climb) for climb in (False, True)
    )
    missing, unended = missing_of(tasks, climbing, ledger_file)
    if no_run and (missing or unended):
        _refuse([*missing, *unended], ledger_file)
    if missing or unended:
        refuse_wrong_answers()
    make_folder(out, "--out")
    _tell_cost(chosen, missing, len(unended), at_a_time)
    with Ledger(ledger_file, create=True) as ledger:
        found = make_runs(tasks, climbing, ledger, at_a_time)
        for each in chosen:
            own = [row for task in each_once(planned[need] for need in each.needs) for row in found[task.key]]
            _draw(each, [*_others(own, ledger), *own], out)
    if tell_failures([row for rows in found.values() for row in rows], ledger_file):
        raise typer.Exit(1)


def _draw(figure: "Figure", rows: "Sequence[Row]", out: Path) -> None:
    from bench.cli.terminal import emit

    for file in figure.draw(rows, out):
        emit(f"{file}\n", sys.stdout)


def _draw_from(ledger_file: Path, names: Sequence[str] | None, out: Path) -> None:
    """Draw the figures called ``names``, or all of which the ledger has a run, from the rows that are there."""
    from bench.cli.files import make_folder
    from bench.cli.terminal import say
    from bench.ledger.store import Ledger
    from reports.figure import NothingToDrawError
    from reports.figures import figure, figure_names

    chosen = [figure(name, "figures") for name in dict.fromkeys(names or figure_names())]
    with Ledger(ledger_file) as ledger:
        rows = ledger.rows()
    make_folder(out, "--out")
    without = []
    for each in chosen if names else [each for each in chosen if each.needs]:
        try:
            _draw(each, rows, out)
        except NothingToDrawError:
            if names:
                raise
            without.append(each.name)
    if without:
        say(f"not drawn, for lack of runs in {ledger_file}: {', '.join(without)}")


def _refuse(missing: "Sequence[Task]", ledger_file: Path) -> None:
    from bench.cli.terminal import listed
    from instances import InputError

    runs = listed([f"{task.scheduler} on {task.instance.name}" for task in missing])
    problem = f"{ledger_file} lacks {len(missing)} runs: {runs}; without --no-run they are made"
    raise InputError("--no-run", problem)


def _tell_cost(figures: "Sequence[Figure]", missing: "Sequence[Task]", climbs: int, jobs: int) -> None:
    """Say what making the missing runs takes before they are made."""
    from bench.cli.needed_runs import tell_cost
    from bench.cli.terminal import say

    if not missing and not climbs:
        say("every run is in the ledger")
        return
    for figure in figures:
        if figure.cost:
            say(f"{figure.name}: {figure.cost}")
    tell_cost(missing, climbs, jobs)


def _others(rows: "Sequence[Row]", ledger: "Ledger") -> "list[Row]":
    """Return what the ledger has of other schedulers on the instances of ``rows``."""
    own = {row.scheduler for row in rows}
    instances = dict.fromkeys(row.instance_hash for row in rows)
    return [row for key in instances for row in ledger.rows(instance_hash=key) if row.scheduler not in own]
