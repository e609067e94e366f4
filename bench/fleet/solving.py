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
from bench.schedulers.registry import entries as registered_schedulers
from bench.schedulers.registry import load
from bench.then import Then
from instances import Instance, Partition, Plan

BEST = "colgen@local-search"
"""Local search, then column generation from its plan."""

LOCAL_SEARCH_LIMIT = ("local-search.rounds=2000",)
"""Limit on the rounds of the local search, so that column generation gets most of the time."""

ON_MIG = "mig"
"""Scheduler of GPUs cut into MIG instances."""

TIME_SLICING = "time-slicing"
"""Scheduler whose slots take turns; it plans no language models, because decoding cannot take turns."""

PRACTICE = ("whole-gpu", "equal-shares", TIME_SLICING)
"""Schedulers that stand for today's practice."""

_MEMORY_GB = 8.0
"""Memory limit of each run."""


def best_scheduler(instance: Instance) -> str:
    """Return the name of the best scheduler for an instance, which may be a chain of schedulers."""
    return ON_MIG if instance.partition is Partition.MIG else BEST


def practice(instance: Instance) -> tuple[str, ...]:
    """Return the schedulers of today's practice that support an instance; none of them cuts GPUs into MIG instances."""
    if instance.partition is Partition.MIG:
        return ()
    return tuple(name for name in PRACTICE if not (instance.services and name == TIME_SLICING))


@dataclass(frozen=True, slots=True)
class Solve:
    """Order of one solve: an instance, a scheduler, and the time limit in seconds; ``then`` is the second objective."""

    instance: Instance
    scheduler: str = BEST
    time_limit_s: float = 30.0
    then: Then = Then.NONE


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
            LOCAL_SEARCH_LIMIT if "local-search" in solve.scheduler else (),
            [0],
            Limits(solve.time_limit_s, _MEMORY_GB, 1, then=solve.then, then_limit_s=solve.time_limit_s),
            Trial(),
        )
        for solve in solves
    ]
    tasks = [task for order_tasks, _ in plan_orders(orders) for task in order_tasks]
    return run_tasks(tasks, ledger, default_jobs(1), listener)


def best_plan(rows: Sequence[Row], instance: Instance) -> Plan | None:
    """Return the cheapest plan of any run that the judge accepts for ``instance``; of plans of equal cost the first."""
    plans = [row.plan for row in rows if row.plan is not None]
    verdicts = {position: judge(plan, instance) for position, plan in enumerate(plans)}
    feasible = {position: verdict.cost_per_hour for position, verdict in verdicts.items() if verdict.feasible}
    return plans[min(feasible, key=lambda position: feasible[position])] if feasible else None


def scheduler(name: str, **parameters: str) -> Scheduler:
    """Return a registered scheduler with these parameters, for calls in this process."""
    entry = registered_schedulers()[name]
    return instantiate(load(entry.target, entry.version), parameters, name)


def solved_here(instance: Instance, seconds: float, start: Plan | None = None, below: float | None = None) -> Outcome:
    """Return the outcome of the best schedulers, run in this process without a worker.

    The local search is skipped if a plan ``start`` is given. Column generation is skipped if the local search finds a
    plan that costs less than ``below`` dollars per hour.
    """
    is_mig = instance.partition is Partition.MIG
    chain = [(ON_MIG, scheduler(ON_MIG))] if is_mig else [("colgen", scheduler("colgen"))]
    if start is None and not is_mig:
        chain.insert(0, ("local-search", scheduler("local-search", rounds="200")))
    run = Run(deadline=time.monotonic() + seconds, start=start)

    def is_cheap_enough(plan: Plan) -> bool:
        return below is not None and judge(plan, instance).cost_per_hour < below

    return run_chain(chain, instance, run, is_cheap_enough)
