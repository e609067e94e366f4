"""Slack as the second objective: of the plans of equal cost, one whose tightest workload has the most slack.

A plan of slack s is a plan of the instance whose latency buffer is multiplied by 1 + s (``bench.judging.slack``). Two
bisections over the factor on the buffer therefore seek plans of the same cost. The first repacks the best plan so far
(``bench.repacking``). The second uses the scheduler that found the cheapest plan: at every factor it finds a plan,
proves that every plan costs more, or neither.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.api import Outcome, Status
from bench.judging.judge import judge
from bench.judging.slack import is_roomier
from bench.judging.verdict import Verdict
from bench.repacking import repacked, warm_repacking
from instances import Instance, Objective, Partition, PlacedGpu, Plan
from instances.one_gpu import Resident, fit_gpu
from instances.tolerance import TOLERANCE
from instances.view import View

PRECISION = 1e-3
"""Relative distance of factors at which the bisection ends: a tenth of a percentage point of slack."""

_FIRST_STEP = 0.01
"""First increase of the factor; the increase doubles as long as no factor has failed."""

_LARGEST_FACTOR = 1e6
"""Factor on the latencies above which the search for more slack ends."""

ROUNDS = 5_000
"""Largest number of rounds of the repacking at one factor."""

_FRACTION_OF_TIME = 0.75
"""Largest fraction of the remaining time for all repacking, and for one solve unless its work is limited."""

Solve = Callable[[Instance, float], Outcome]
"""Function that solves an instance until a deadline, which is a time of the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Roomiest:
    """Plan with the most slack that was found, and a bound on the slack of all plans of its cost.

    Attributes
    ----------
    least_slack
        Slack of the plan's tightest workload.
    bound
        Slack that no plan of this cost exceeds, within the class of plans of the scheduler's bounds; ``None`` without a
        proof.
    """

    plan: Plan
    least_slack: float
    bound: float | None = None


def warm() -> None:
    """Load the compiled kernels before time is measured."""
    warm_repacking()


def more_slack(
    instance: Instance,
    plan: Plan,
    solve: Solve,
    deadline: float,
    proves: bool,
    listener: Callable[[Roomiest], None] = lambda _: None,
    by_work: bool = False,
) -> Roomiest | None:
    """Return a plan of the same cost with the most slack that is found until the deadline.

    Return ``None`` if the objective is not ``cost``, or ``plan`` is infeasible or empty.

    Parameters
    ----------
    proves
        Whether the status ``infeasible`` of a solve counts as a proof.
    listener
        Receiver of every better plan or bound.
    by_work
        Whether a work limit ends each solve, which may then take all of the time. The result depends on the time only
        if the deadline cuts the search short.
    """
    verdict = judge(plan, instance)
    if instance.objective is not Objective.COST or not verdict.feasible or verdict.least_slack is None:
        return None
    search = _SlackSearch(instance, verdict, Roomiest(plan, verdict.least_slack), listener)

    def step_deadline() -> float:
        now = time.monotonic()
        return now + _FRACTION_OF_TIME * (deadline - now)

    def solve_at(factor: float) -> None:
        outcome = solve(slower(search.affordable, factor), deadline if by_work else step_deadline())
        if outcome.plan is not None:
            search.accept(outcome.plan)
        bound = outcome.bound
        if 1.0 + search.best.least_slack < factor and (
            (proves and outcome.status is Status.INFEASIBLE)
            or (bound is not None and bound.certified and bound.value > search.cost_limit)
        ):
            search.exclude(factor)

    search.accept(plan)  # other shares may already have more slack
    repacking_ends_at = step_deadline()  # the solves have the rest
    _bisect(search, lambda factor: search.repack(factor, repacking_ends_at), repacking_ends_at)
    _bisect(search, solve_at, deadline)
    return search.best


def _bisect(search: "_SlackSearch", attempt: Callable[[float], None], deadline: float) -> None:
    """Raise the slack by attempts at factors between the best plan's factor and the least factor that has failed."""
    step, least_failed = _FIRST_STEP, math.inf
    while time.monotonic() < deadline:
        best_factor = 1.0 + search.best.least_slack
        factor = _between(best_factor, least_failed, step)
        if least_failed <= best_factor * (1.0 + PRECISION) or factor > _LARGEST_FACTOR:
            return
        attempt(factor)
        if 1.0 + search.best.least_slack >= factor:
            step *= 2.0
        else:
            least_failed = factor


def slower(instance: Instance, factor: float) -> Instance:
    """Return the instance with all latencies multiplied by ``factor``."""
    return replace(instance, latency_buffer=instance.latency_buffer * factor)


def _between(fits: float, fails: float, step: float) -> float:
    """Return the factor to try next, between one that fits and one that fails.

    It is their geometric mean, or ``fits + step`` as long as no factor has failed.
    """
    return math.sqrt(fits * fails) if fails < math.inf else fits + step


class _SlackSearch:
    """Best plan and bound so far; ``verdict`` is the judge's verdict on the plan of ``start``."""

    def __init__(
        self, instance: Instance, verdict: Verdict, start: Roomiest, listener: Callable[[Roomiest], None]
    ) -> None:
        self.instance = instance
        self.best = start
        self.affordable = _affordable(instance, verdict.cost_per_hour)
        self.cost_limit = verdict.cost_per_hour * (1.0 + TOLERANCE)
        self._verdict = verdict
        self._listener = listener

    def accept(self, plan: Plan) -> bool:
        """Take a plan if it has more slack, as it is or with other shares; return whether the best plan changed."""
        changed = False
        for candidate in filter(None, (plan, roomiest_shares(plan, self.instance, self.best.least_slack))):
            verdict = judge(candidate, self.instance)
            if is_roomier(verdict, self._verdict):
                assert verdict.least_slack is not None
                self.best = replace(self.best, plan=candidate, least_slack=verdict.least_slack)
                self._verdict, changed = verdict, True
        if changed:
            self._listener(self.best)
        return changed

    def repack(self, factor: float, deadline: float) -> None:
        """Repack the best plan for latencies multiplied by ``factor``."""
        candidate = repacked(self.best.plan, slower(self.affordable, factor), self.cost_limit, ROUNDS, deadline)
        if candidate is not None:
            self.accept(candidate)

    def exclude(self, factor: float) -> None:
        """Lower the bound on the slack, since every plan costs more at this factor."""
        bound = factor * (1.0 + TOLERANCE) - 1.0
        if self.best.bound is None or bound < self.best.bound:
            self.best = replace(self.best, bound=bound)
            self._listener(self.best)


def roomiest_shares(plan: Plan, instance: Instance, above: float | None = None) -> Plan | None:
    """Return the plan with the shares at which its tightest workload has the most slack; batches and neighbours stay.

    The plan may have shares in other units than ``instance``. GPUs with slots that take turns are not divided anew.
    The result is ``None`` if no shares give more slack than ``above``, or no shares fit at all, or if GPUs are cut into
    MIG instances.
    """
    if instance.partition is Partition.MIG:
        return None
    roomiest = _with_least_shares(plan, instance) if above is None else None
    if above is None and roomiest is None:
        return None
    fits, fails, step = 1.0 + (above or 0.0), math.inf, _FIRST_STEP
    while fails > fits * (1.0 + 0.1 * PRECISION) and fits < _LARGEST_FACTOR:
        factor = _between(fits, fails, step)
        if (attempt := _with_least_shares(plan, slower(instance, factor))) is None:
            fails = factor
        else:
            fits, roomiest, step = factor, attempt, 2.0 * step
    return roomiest


def _affordable(instance: Instance, cost_per_hour: float) -> Instance:
    """Return the instance with no more GPUs of a type than this cost pays.

    A solver then proves the instance infeasible instead of searching plans that cost too much.
    """
    pools = []
    for pool in instance.gpus:
        price = pool.type.price_per_hour
        paid = cost_per_hour * (1.0 + TOLERANCE) / price if price > 0.0 else math.inf
        count = math.inf if pool.count is None else pool.count
        affordable_count = min(paid, count)
        pools.append(replace(pool, count=None if math.isinf(affordable_count) else math.floor(affordable_count)))
    return replace(instance, gpus=tuple(pools))


def _with_least_shares(plan: Plan, instance: Instance) -> Plan | None:
    """Return the plan with the least share of every slot, or ``None`` if these shares exceed a GPU."""
    views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}
    gpus: list[PlacedGpu] = []
    for gpu in plan.gpus:
        if any(gpulet.duty_cycle_ms is not None for gpulet in gpu.gpulets) or not gpu.gpulets:
            gpus.append(gpu)
            continue
        residents = [
            Resident(instance.workload_index[slot.workload], slot.batch, slot.rate_rps)
            for gpulet in gpu.gpulets
            for slot in gpulet.slots
        ]
        placed = fit_gpu(views[gpu.type], residents)
        if placed is None:
            return None
        gpus.append(placed)
    return replace(plan, gpus=tuple(gpus))
