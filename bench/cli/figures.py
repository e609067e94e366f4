"""``bench figures``: runs what the ledger lacks, and draws."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli.options import DEFAULT_LEDGER, INTERRUPTED, LedgerOption
from bench.cli.run import JobsOption, MemoryLimitOption, ThreadsOption, TimeLimitOption, tell_failures

if TYPE_CHECKING:
    from bench.cli.tasks import Limits
    from bench.ledger import Ledger
    from bench.row import Row
    from bench.task import Task
    from reports.figure import Figure, Need

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
    from bench.max_rate import climb
    from reports.figures import figure, figure_names

    limits = Limits(time_limit, memory_limit, threads)
    at_a_time = jobs or default_jobs(threads)
    chosen = [figure(name, "figures") for name in dict.fromkeys(names or figure_names())]
    runs = {each.name: _tasks(each, [need for need in each.needs if not need.climb], quick, limits) for each in chosen}
    starts = {each.name: _tasks(each, [need for need in each.needs if need.climb], quick, limits) for each in chosen}
    tasks, climbing = _each_once(runs), _each_once(starts)
    missing, unended = _missing(tasks, climbing, ledger_file)
    if no_run and (missing or unended):
        _refuse([*missing, *unended], ledger_file)
    if missing or unended:
        refuse_wrong_answers()
    make_folder(out, "--out")
    _tell_cost(chosen, missing, len(unended), at_a_time)
    with Ledger(ledger_file, create=True) as ledger:

        def run(tasks: "list[Task]") -> "list[Row]":
            rows, _, interrupted = run_with_progress(tasks, ledger, at_a_time)
            if interrupted:
                done = f"{len(rows)} of {len(tasks)} runs are in {ledger_file}"
                say(f"interrupted: {done}; the same command runs the rest")
                raise typer.Exit(INTERRUPTED)
            return rows

        found = {task.key: [row] for task, row in zip(tasks, run(tasks), strict=True)}
        climbs = climb(climbing, run)
        found |= {start.key: list(one.rows.values()) for start, one in zip(climbing, climbs, strict=True)}
        for each in chosen:
            own = [row for task in (*runs[each.name], *starts[each.name]) for row in found[task.key]]
            for file in each.draw([*_others(own, ledger), *own], out):
                emit(f"{file}\n", sys.stdout)
    if tell_failures([row for rows in found.values() for row in rows], ledger_file):
        raise typer.Exit(1)


def _tasks(figure: "Figure", needs: "Sequence[Need]", quick: bool, limits: "Limits") -> "list[Task]":
    """Return the runs of some of a figure's needs, where rates grow at their start."""
    from bench.cli.selection import find_problems
    from bench.cli.tasks import base_of, plan_tasks
    from bench.max_rate import with_all_served

    tasks = []
    for need in needs:
        name = need.quick if quick and need.quick is not None else need.instances
        found = find_problems([name], f"figure {figure.name}")
        problems = [with_all_served(base_of(one)) if need.climb else one for one in found]
        tasks += plan_tasks(problems, need.schedulers, need.parameters, need.seeds, limits, need.trial)[0]
    return tasks


def _each_once(tasks: "Mapping[str, Sequence[Task]]") -> "list[Task]":
    return list({task.key: task for needed in tasks.values() for task in needed}.values())


def _missing(tasks: "Sequence[Task]", climbing: "Sequence[Task]", ledger_file: Path) -> "tuple[list[Task], list[Task]]":
    """Return the runs that the ledger lacks, and of each climb that it lacks something of the next run."""
    from bench.ledger import Ledger
    from bench.max_rate import Climb

    if not ledger_file.exists():
        return list(tasks), list(climbing)
    with Ledger(ledger_file) as ledger:
        keys = ledger.keys()
        missing, unended = [task for task in tasks if task.key not in keys], []
        for start in climbing:
            one = Climb(start.instance)
            while (multiple := one.next) is not None:
                task = replace(start, instance=start.instance.scaled(multiple))
                if task.key not in keys:
                    unended.append(task)
                    break
                one.take(multiple, ledger.row(task.key))
    return missing, unended


def _refuse(missing: "Sequence[Task]", ledger_file: Path) -> None:
    from bench.cli.terminal import listed
    from instances import InputError

    runs = listed([f"{task.scheduler} on {task.instance.name}" for task in missing])
    problem = f"{ledger_file} lacks {len(missing)} runs: {runs}; without --no-run they are made"
    raise InputError("--no-run", problem)


def _tell_cost(figures: "Sequence[Figure]", missing: "Sequence[Task]", climbs: int, jobs: int) -> None:
    """Say what making the missing runs takes before they are made."""
    from bench.cli.tables import clock
    from bench.cli.terminal import say

    if not missing and not climbs:
        say("every run is in the ledger")
        return
    for figure in figures:
        if figure.cost:
            say(f"{figure.name}: {figure.cost}")
    if climbs:
        say(f"{climbs} climbs to go on with, some ten to twenty runs each")
    if not missing:
        return
    single = [task for task in missing if task.scenarios is None]
    most = f"at most about {clock(sum(task.time_limit_s for task in single) / jobs)}"
    if len(single) < len(missing):
        most += f" and what {len(missing) - len(single)} scenario sets take"
    say(f"{len(missing)} runs to make, {jobs} at a time: {most}")


def _others(rows: "Sequence[Row]", ledger: "Ledger") -> "list[Row]":
    """Return what the ledger has of other schedulers on the instances of ``rows``."""
    own = {row.scheduler for row in rows}
    instances = dict.fromkeys(row.instance_hash for row in rows)
    return [row for key in instances for row in ledger.rows(instance_hash=key) if row.scheduler not in own]
