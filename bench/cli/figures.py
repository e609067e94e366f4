"""``bench figures``: runs what the ledger lacks, and draws."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli.options import DEFAULT_LEDGER, LedgerOption
from bench.cli.run import INTERRUPTED, JobsOption, MemoryLimitOption, ThreadsOption, TimeLimitOption, tell_failures

if TYPE_CHECKING:
    from bench.cli.tasks import Limits
    from bench.ledger import Ledger
    from bench.row import Row
    from bench.task import Task
    from reports.figure import Figure

EXAMPLES = (
    "bench list figures",
    "bench figures igniter-fig14",
    "bench figures --quick --out results/figures",
    "bench figures --no-run",
)


def draw_figures(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Default: all.")] = None,
    ledger_file: LedgerOption = DEFAULT_LEDGER,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go.")] = Path("results/figures"),
    no_run: Annotated[bool, typer.Option("--no-run", help="Refuse (exit 2) if runs are missing.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller instances where a figure has them.")] = False,
    time_limit: TimeLimitOption = 10.0,
    memory_limit: MemoryLimitOption = 8.0,
    threads: ThreadsOption = 1,
    jobs: JobsOption = None,
) -> None:
    """Draw figures of the papers from the ledger; runs that it lacks are made first, after saying what they cost.

    Prints the files written. Other schedulers' runs on a figure's instances are drawn, too.
    """
    from bench.cli.files import make_folder
    from bench.cli.running import run_with_progress
    from bench.cli.tasks import Limits, default_jobs
    from bench.cli.terminal import emit, say
    from bench.known_bad import refuse_wrong_answers
    from bench.ledger import Ledger
    from reports.figures import figure, figure_names

    limits = Limits(time_limit, memory_limit, threads)
    at_a_time = jobs or default_jobs(threads)
    chosen = [figure(name, "figures") for name in dict.fromkeys(names or figure_names())]
    runs = {each.name: _tasks(each, quick, limits) for each in chosen}
    tasks = list({task.key: task for needed in runs.values() for task in needed}.values())
    missing = _missing(tasks, ledger_file)
    if missing and no_run:
        _refuse(missing, ledger_file)
    if missing:
        refuse_wrong_answers()
    make_folder(out, "--out")
    _tell_cost(chosen, missing, at_a_time)
    with Ledger(ledger_file, create=True) as ledger:
        rows, _, interrupted = run_with_progress(tasks, ledger, at_a_time)
        if interrupted:
            say(f"interrupted: {len(rows)} of {len(tasks)} runs are in {ledger_file}; the same command runs the rest")
            raise typer.Exit(INTERRUPTED)
        by_key = {row.key: row for row in rows}
        for each in chosen:
            own = [by_key[task.key] for task in runs[each.name]]
            for file in each.draw([*_others(own, ledger), *own], out):
                emit(f"{file}\n", sys.stdout)
    if tell_failures(rows, ledger_file):
        raise typer.Exit(1)


def _tasks(figure: "Figure", quick: bool, limits: "Limits") -> "list[Task]":
    """Return the runs that a figure draws."""
    from bench.cli.selection import find_instances
    from bench.cli.tasks import plan_tasks

    tasks = []
    for need in figure.needs:
        name = need.quick if quick and need.quick is not None else need.instances
        found = find_instances([name], f"figure {figure.name}")
        tasks += plan_tasks(found, need.schedulers, (), need.seeds, limits)[0]
    return tasks


def _missing(tasks: "Sequence[Task]", ledger_file: Path) -> "list[Task]":
    from bench.ledger import Ledger

    if not ledger_file.exists():
        return list(tasks)
    with Ledger(ledger_file) as ledger:
        keys = ledger.keys()
    return [task for task in tasks if task.key not in keys]


def _refuse(missing: "Sequence[Task]", ledger_file: Path) -> None:
    from bench.cli.terminal import listed
    from instances import InputError

    runs = listed([f"{task.scheduler} on {task.instance.name}" for task in missing])
    problem = f"{ledger_file} lacks {len(missing)} runs: {runs}; without --no-run they are made"
    raise InputError("--no-run", problem)


def _tell_cost(figures: "Sequence[Figure]", missing: "Sequence[Task]", jobs: int) -> None:
    """Say what making the missing runs takes before they are made."""
    from bench.cli.tables import clock
    from bench.cli.terminal import say

    if not missing:
        say("every run is in the ledger")
        return
    for figure in figures:
        if figure.cost:
            say(f"{figure.name}: {figure.cost}")
    most_s = sum(task.time_limit_s for task in missing) / jobs
    say(f"{len(missing)} runs to make, {jobs} at a time: at most about {clock(most_s)}")


def _others(rows: "Sequence[Row]", ledger: "Ledger") -> "list[Row]":
    """Return what the ledger has of other schedulers on the instances of ``rows``."""
    own = {row.scheduler for row in rows}
    instances = dict.fromkeys(row.instance_hash for row in rows)
    return [row for key in instances for row in ledger.rows(instance_hash=key) if row.scheduler not in own]
