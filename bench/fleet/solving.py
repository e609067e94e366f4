"""Solves of instances by the best schedulers and by today's practice, in worker processes or in this process."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.api import Outcome, Run, Scheduler
from bench.evaluation import Trial
from bench.judging.judge import judge
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.planning import Limits, RunOrder, default_jobs, plan_orders
from bench.runner.listener import Listener
from bench.runner.runner import run_tasks
from bench.schedulers.chain import run_chain
from bench.schedulers.parameters import instantiate
from bench.schedulers.registry import entries, load
from instances import Instance, Plan

BEST = "colgen@local-search"
"""Local search, then column generation from its plan."""

SHORT = ("local-search.rounds=2000",)
"""Limit on the local search, which leaves most of the time to column generation."""

PRACTICE = ("whole-gpu", "equal-shares", "time-slicing")
"""Schedulers that stand for today's practice."""

_MEMORY_GB = 8.0


@dataclass(frozen=True, slots=True)
class Solve:
    """A solve to make: an instance, a scheduler, and the time limit in seconds."""

    instance: Instance
    scheduler: str = BEST
    time_limit_s: float = 30.0


def solved(solves: Sequence[Solve], ledger: Ledger | None = None, listener: Listener | None = None) -> list[Row]:
    """Return the rows of all solves, in their order.

    Raises
    ------
    InputError
        If a limit is out of range.
    """
    orders = [
        RunOrder(
            [solve.instance],
            [solve.scheduler],
            SHORT if "local-search" in solve.scheduler else (),
            [0],
            Limits(solve.time_limit_s, _MEMORY_GB, 1),
            Trial(),
        )
        for solve in solves
    ]
    tasks = [task for found, _ in plan_orders(orders) for task in found]
    return run_tasks(tasks, ledger, default_jobs(1), listener)


def plan_of(row: Row) -> Plan | None:
    """Return the plan of a run, if it has one."""
    return row.plan


def scheduler(name: str, **parameters: str) -> Scheduler:
    """Return a registered scheduler with these parameters, for calls in this process."""
    entry = entries()[name]
    return instantiate(load(entry.target, entry.version), parameters, name)


def solved_here(instance: Instance, seconds: float, start: Plan | None = None, below: float | None = None) -> Outcome:
    """Return the result of the best schedulers in this process, which saves the start of a worker.

    With a known plan ``start``, the local search is left out. Column generation is left out if the local search finds
    a plan that costs less than ``below`` per hour.
    """
    chain = [("colgen", scheduler("colgen"))]
    if start is None:
        chain.insert(0, ("local-search", scheduler("local-search", rounds="200")))
    run = Run(deadline=time.monotonic() + seconds, start=start)

    def enough(plan: Plan) -> bool:
        return below is not None and judge(plan, instance).cost_per_hour < below

    return run_chain(chain, instance, run, enough)
