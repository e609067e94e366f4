"""Execution of runs with progress on standard error; the runs that figures need and a ledger lacks."""

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from bench.cli.option_names import in_options
from bench.cli.options import DEFAULT_LEDGER, INTERRUPTED
from bench.cli.terminal import say
from bench.cli.views.progress import LiveTable, Progress
from bench.extras import how_to_install
from bench.formatting import clock, short_key
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.max_rate import Climb, climb, with_all_served
from bench.planning import Limits, RunOrder, base_of, fitting_jobs, plan_orders
from bench.runner.runner import run_tasks
from bench.selection import find_problems
from bench.task import Task
from instances import InputError
from reports.need import Need

if TYPE_CHECKING:
    from bench.runner.cluster import DaskCluster


def announced_jobs(jobs: int | None, threads: int) -> int:
    """Return the number of parallel runs from ``fitting_jobs``, and print its message."""
    parallel, message = fitting_jobs(jobs, threads)
    if message:
        say(in_options(message))
    return parallel


def run_with_progress(
    tasks: Sequence[Task], ledger: Ledger, jobs: int, cluster_address: str | None = None, retry: bool = False
) -> tuple[list[Row], int, bool]:
    """Run ``tasks``, ``jobs`` at a time or on a Dask cluster, and report progress on standard error.

    Runs in the ledger are reused; with ``retry``, failed runs are repeated. Return the rows in the order of ``tasks``,
    the number of rows that the ledger had, and whether Ctrl-C interrupted the runs. Unfinished runs have no row.
    """
    with ExitStack() as stack:
        cluster = None if cluster_address is None else stack.enter_context(_cluster(cluster_address))
        jobs = jobs if cluster is None else cluster.jobs(tasks)
        progress = LiveTable(tasks, jobs) if sys.stderr.isatty() else Progress(tasks, jobs)
        interrupted = False
        try:
            with progress.live:
                if cluster is None:
                    run_tasks(tasks, ledger, jobs, progress, retry=retry)
                else:
                    cluster.run(tasks, ledger, progress, retry)
        except KeyboardInterrupt:
            interrupted = True
    keys = dict.fromkeys(task.key for task in tasks)
    return [progress.rows[key] for key in keys if key in progress.rows], progress.reused, interrupted


def report_failures(rows: Sequence[Row], ledger: Ledger) -> int:
    """Report every failed run with its reason and the command that shows it; return the number of failures.

    A ledger that was lost during the runs counts as a failure; the message names the file with the rows.
    """
    option = "" if ledger.path == DEFAULT_LEDGER else f" --ledger {ledger.path}"
    failed = [row for row in rows if row.failed]
    for row in failed:
        say(
            f"failed: {row.instance}, {row.scheduler}, seed {row.seed}: {row.termination}: {row.reason}"
            f" (bench show {short_key(row)}{option})"
        )
    return len(failed) + report_loss(ledger)


def end_interrupted(ledger: Ledger, finished: str) -> NoReturn:
    """End the command after Ctrl-C, and say where the finished runs are."""
    report_loss(ledger)
    say(f"interrupted: {finished} are in {ledger.path}; repeat the command for the rest")
    raise typer.Exit(INTERRUPTED)


def report_loss(ledger: Ledger) -> bool:
    """Report where the rows are if the ledger was lost during the runs; return whether the ledger was lost."""
    if ledger.notice is not None:
        say(f"failed: {ledger.notice}")
    return ledger.notice is not None


def _cluster(address: str) -> "DaskCluster":
    try:
        from bench.runner.cluster import DaskCluster  # dask is an extra
    except ModuleNotFoundError as error:
        if (problem := how_to_install(error)) is None:
            raise
        raise InputError("--cluster", problem) from None
    # Dask logs failures with tracebacks; the bench reports them in one line.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    return DaskCluster(address)


def tasks_of(needs: Iterable[Need], where: str, limits: Limits, quick: bool = False) -> dict[Need, list[Task]]:
    """Return the runs of every need.

    For a need with a climb (the search for the largest rates, ``bench.max_rate``) this is the first run of each climb.
    ``where`` is the command or option that errors name. ``limits`` apply to needs without limits of their own. With
    ``quick``, a need with smaller instances uses those.
    """
    orders = {}
    for need in needs:
        name = need.quick if quick and need.quick is not None else need.instances
        instances = find_problems([name], where)
        # A climb raises the rates of one instance, and each of its plans must serve all requests: objective ``cost``.
        problems = [with_all_served(base_of(problem)) if need.climb else problem for problem in instances]
        need_limits = limits if need.time_limit_s is None else replace(limits, time_limit_s=need.time_limit_s)
        need_limits = need_limits if need.work_limit is None else replace(need_limits, work_limit=need.work_limit)
        orders[need] = RunOrder(problems, need.schedulers, need.parameters, need.seeds, need_limits, need.trial)
    planned = plan_orders(list(orders.values()))
    return {need: tasks for need, (tasks, _) in zip(orders, planned, strict=True)}


def distinct_tasks(tasks: Iterable[Sequence[Task]]) -> list[Task]:
    """Return the tasks of several needs without duplicates."""
    return list({task.key: task for tasks_of_need in tasks for task in tasks_of_need}.values())


def _runs_and_climbs(planned: Mapping[Need, Sequence[Task]]) -> tuple[list[Task], dict[bool, list[Task]]]:
    """Return the single runs of all needs, and the first run of every climb, by whether it is from above."""
    single = distinct_tasks(tasks for need, tasks in planned.items() if not need.climb)
    return single, {
        from_above: distinct_tasks(
            tasks for need, tasks in planned.items() if need.climb and need.from_above is from_above
        )
        for from_above in (False, True)
    }


def missing_of(planned: Mapping[Need, Sequence[Task]], ledger_file: Path) -> tuple[list[Task], list[Task]]:
    """Return the runs that the ledger lacks, and the next run of every climb that is unfinished in the ledger.

    ``planned`` is the result of ``tasks_of``.
    """
    tasks, first_of_climbs = _runs_and_climbs(planned)
    if not ledger_file.exists():
        return tasks, [first for firsts in first_of_climbs.values() for first in firsts]
    with Ledger(ledger_file) as ledger:
        keys = ledger.keys()
        missing_runs, next_of_climbs = [task for task in tasks if task.key not in keys], []
        for first, from_above in ((first, key) for key, firsts in first_of_climbs.items() for first in firsts):
            search = Climb(first.instance, from_above=from_above)
            while (multiple := search.next) is not None:
                task = replace(first, instance=first.instance.scaled(multiple))
                if task.key not in keys:
                    next_of_climbs.append(task)
                    break
                search.rows[multiple] = ledger.row(task.key)
    return missing_runs, next_of_climbs


def report_cost(missing: Sequence[Task], climbs: int, jobs: int) -> None:
    """Report the expected cost of the missing runs before they start."""
    if climbs:
        say(f"{climbs} climbs to finish, some ten to twenty runs each")
    if not missing:
        return
    single = [task for task in missing if task.scenarios is None]
    longest = f"at most about {clock(sum(task.time_limit_s for task in single) / jobs)}"
    if len(single) < len(missing):
        longest += f", plus the time of {len(missing) - len(single)} scenario sets"
    say(f"{len(missing)} runs to execute, {jobs} at a time: {longest}")


def make_runs(planned: Mapping[Need, Sequence[Task]], ledger: Ledger, jobs: int) -> dict[str, list[Row]]:
    """Execute the runs and climbs of ``tasks_of`` that the ledger lacks; return all rows by the key of their task.

    The rows of a climb stand under the key of its first task. Ctrl-C ends the command with the number of finished runs.
    """

    def run(tasks: list[Task]) -> list[Row]:
        rows, _, interrupted = run_with_progress(tasks, ledger, jobs)
        if interrupted:
            end_interrupted(ledger, f"{len(rows)} of {len(tasks)} runs")
        return rows

    single, first_of_climbs = _runs_and_climbs(planned)
    rows_of = {task.key: [row] for task, row in zip(single, run(single), strict=True)}
    for from_above, firsts in first_of_climbs.items():
        for first, search in zip(firsts, climb(firsts, run, from_above=from_above), strict=True):
            # Both searches, and a single run, may have the same first task.
            rows = (*rows_of.get(first.key, ()), *search.rows.values())
            rows_of[first.key] = list({row.key: row for row in rows}.values())
    return rows_of
