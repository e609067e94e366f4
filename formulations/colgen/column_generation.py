"""Column generation over patterns: the problem of a plan class, the loop with smoothed duals, and bounds from duals.

Rows are classes of identical workloads. A slot of a demanding workload may serve one that is easier to serve. This
changes no optimum of the linear relaxation: duals that do not fall as workloads become more demanding are among the
optimal ones (Ben Amor, Desrosiers, Valerio de Carvalho 2006, dual-optimal inequalities). But the master needs far fewer
patterns, fractional or integer.

Bounds follow from arbitrary duals and an upper bound on the worth of every pattern (Farley, Lagrange).
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from bench.api import Bound, Run
from formulations.colgen.restricted_master import Covering, Priced, Relaxation
from formulations.rounding import sum_rounded_down, sum_rounded_up
from instances import Instance, PlacedGpu, Plan, PlanClass
from instances.arrays import Floats
from instances.one_gpu import Pattern, Resident
from instances.view import View
from instances.workload_classes import identical_workloads

COVER_ROOM = 1e-10
"""Relative tolerance for the rounding of sums of fractions of workloads."""


class PatternProblem(ABC):
    """Patterns of an instance, their cost and their pricing; one subclass per plan class.

    Parameters
    ----------
    instance
        Instance with workloads.
    divisible
        Workloads that patterns may serve in parts, multiples of ``1 / PART_STEPS`` of the rate.
    apart
        Workloads that are classes of their own; see ``identical_workloads``.

    Attributes
    ----------
    order, copy_of, class_of
        See ``identical_workloads``.
    copies
        Number of workloads of each class, shape (classes,).
    price, count
        Price of each GPU type, and number of its GPUs: ``inf`` without a limit, shape (GPU types,).
    known
        Solutions that are known from the beginning, each as a list of patterns.
    """

    plan_class: PlanClass = PlanClass.SPATIAL
    """Class of the plans that the bound covers."""

    proof_tolerance: ClassVar[float] = 1e-9
    """Relative difference up to which a throughput and its bound count as equal."""

    first_tolerance: ClassVar[float] = 0.02
    last_tolerance: float = 1e-6
    """First and last fraction of a GPU's worth by which a pattern must gain; column generation halves it."""

    diving_tolerance: ClassVar[float | None] = 1e-3
    """Tolerance of the pricing in each step of diving; ``None`` to dive among the known patterns only."""

    smoothing_weight: ClassVar[float] = 0.7
    """Initial weight of the stability centre's duals against the master's own."""

    patterns_per_call: int = 500
    """Limit on the patterns of a pricing call."""

    node_limits: tuple[int, int] = (2_000, 200_000_000)
    """First and last node limit of a pricing call."""

    def __init__(
        self,
        instance: Instance,
        divisible: frozenset[int] = frozenset(),
        apart: frozenset[int] = frozenset(),
    ) -> None:
        self.instance, self.divisible = instance, divisible
        self.views = [View.of(instance, pool.type) for pool in instance.gpus]
        self.price, self.count = prices_and_counts(instance)
        self.order, self.copy_of, self.class_of = identical_workloads(instance, divisible | apart)
        self.copies = np.bincount(self.class_of).astype(np.float64)
        self.covering = self.rows()
        self.known: list[list[Pattern]] = []

    # Defined by the plan class --------------------------------------------------------------------------------------

    @abstractmethod
    def rows(self) -> Covering:
        """Return the rows of the master."""

    @abstractmethod
    def cost(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""

    @abstractmethod
    def price_patterns(
        self, relaxation: Relaxation, tolerance: float, node_limit: int, deadline: float
    ) -> list[Priced]:
        """Solve the pricing problem of every GPU type: find patterns that gain more than the tolerance."""

    @abstractmethod
    def pattern_of_slots(self, pool: int, residents: list[Resident], units: list[int]) -> Pattern | None:
        """Return the pattern of gpulets with one slot each; ``None`` if they do not fit, or are not of the class."""

    @abstractmethod
    def realise(self, patterns: list[Pattern]) -> tuple[float, Plan] | None:
        """Return the cost and the plan of a complete solution; ``None`` if rounding made some GPU infeasible."""

    # What a plan class may add -----------------------------------------------------------------------------------

    @abstractmethod
    def first_patterns(self, run: Run) -> Iterable[Pattern | None]:
        """Yield the first patterns of the master, and ``None`` for those that are infeasible."""

    def first_prices(self, run: Run) -> Iterable[tuple[list[Priced], Relaxation]]:
        """Yield the results of pricing at first duals, and these duals."""
        return ()

    def price_harder(
        self, priced: list[Priced], relaxation: Relaxation, tolerance: float, node_limit: int, run: Run, most_nodes: int
    ) -> list[Priced]:
        """Return better results where no pattern gained but searches were cut short, in about ``most_nodes`` nodes."""
        return priced

    def dual_features(self) -> Floats | None:
        """Return features of the classes to which duals are fitted at first, shape (classes, features), if any."""
        return None

    def within(self, slack: float, pool: int, relaxation: Relaxation, deadline: float) -> Priced:
        """Return every pattern of a pool with a reduced cost of at most ``slack``; cut short if some may be missing."""
        return Priced(math.inf, [], cut_short=True)

    def serving(self, patterns: list[Pattern], served: list[int]) -> list[Pattern]:
        """Return the patterns of the workloads that the slots of ``patterns`` serve: see ``served_by``."""
        return patterns

    def obstacle(self, patterns: list[Pattern]) -> str:
        """Return a one-line reason why no plan exists, judged from the first patterns; empty if a plan may exist."""
        return ""

    def amounts(self, pattern: Pattern) -> Floats:
        """Return the number of workloads of each class that a pattern covers, shape (classes,); parts are fractions."""
        covered = np.zeros(len(self.copies))
        for w, _, rate in pattern.residents:
            covered[self.class_of[w]] += self.part(w, rate)
        return covered

    def part(self, workload: int, rate_rps: float) -> float:
        """Return the part of a workload that a slot of this rate covers: all of it unless it is divisible."""
        return rate_rps / self.instance.workloads[workload].rate_rps if workload in self.divisible else 1.0

    def charge(self, relaxation: Relaxation) -> Floats:
        """Return the charge for a workload of each class: its dual, negated under a throughput objective."""
        return relaxation.workload_dual if self.minimised else -relaxation.workload_dual

    def certified(self, value: float) -> Bound:
        """Return a bound with the plans for which it holds."""
        return Bound(value, True, plan_class=self.plan_class)

    # Derived from these ------------------------------------------------------------------------------------------

    @property
    def minimised(self) -> bool:
        """Whether the instance's own objective is minimised; the restricted master's always is."""
        return self.instance.objective.minimised

    @property
    def trivial_bound(self) -> float:
        """Bound before the first iteration: no cost, or the sum of all rates."""
        return 0.0 if self.minimised else most_served(self.instance)

    def threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        """Return the worth above which a pattern gains: the price, if any, minus the pool's dual, plus a tolerance."""
        if self.minimised:
            return float(self.price[pool] * (1.0 + tolerance) - relaxation.pool_dual[pool])
        return float(tolerance * self.mean_rps(relaxation) - relaxation.pool_dual[pool])

    def mean_rps(self, relaxation: Relaxation) -> float:
        """Return the mean throughput of a GPU, for a throughput objective."""
        return abs(relaxation.value) / max(1.0, float(self.count.sum()))

    def complete(self, patterns: list[Pattern]) -> bool:
        """Return whether these patterns form a plan: every class covered as required, within the pools."""
        covered = np.sum([self.amounts(p) for p in patterns], axis=0) if patterns else np.zeros_like(self.copies)
        least = self.covering.least * (1.0 - COVER_ROOM)
        return bool(np.all(covered >= least) and np.all(covered <= self.covering.most)) and self.in_pool(patterns)

    def in_pool(self, patterns: list[Pattern]) -> bool:
        """Return whether the pools have a GPU for each pattern."""
        used = np.bincount([p.pool for p in patterns], minlength=len(self.count))
        return bool(np.all(used <= self.count))

    def residents_of(self, patterns: Sequence[Pattern]) -> list[list[Resident]]:
        """Return the residents of each pattern's GPU, where every workload is placed once, or served once in parts."""
        whole_rps = {w: self.instance.workloads[w].rate_rps for w in self.divisible}
        left_rps = whole_rps.copy()
        waiting: dict[int, deque[int]] = defaultdict(deque)
        for workload, group in enumerate(self.class_of.tolist()):
            waiting[group].append(workload)
        placed: list[list[Resident]] = [[] for _ in patterns]
        for pattern, residents in zip(patterns, placed, strict=True):
            for w, batch, rate in pattern.residents:
                of_class = waiting[int(self.class_of[w])]
                if w in left_rps:
                    served = min(rate, left_rps[w])
                    left_rps[w] -= served
                    if served > COVER_ROOM * whole_rps[w]:
                        residents.append(Resident(w, batch, served))
                elif of_class:
                    residents.append(Resident(of_class.popleft(), batch, rate))
        return placed

    def pattern_of(self, gpu: PlacedGpu) -> Pattern | None:
        """Return the content of a placed GPU as a pattern, or ``None`` if it is infeasible or not of the plan class."""
        pools = {pool.type.name: t for t, pool in enumerate(self.instance.gpus)}
        if gpu.type not in pools or any(len(gpulet.slots) != 1 for gpulet in gpu.gpulets):
            return None
        view, residents = self.views[pools[gpu.type]], []
        for (slot,) in (gpulet.slots for gpulet in gpu.gpulets):
            w = self.instance.workload_index.get(slot.workload)
            if w is None or not 1 <= slot.batch <= view.tables.max_batch[view.model[w]]:
                return None
            residents.append(Resident(w, slot.batch, slot.rate_rps))
        return self.pattern_of_slots(pools[gpu.type], residents, [gpulet.share_units for gpulet in gpu.gpulets])


def most_served(instance: Instance) -> float:
    """Return an upper bound on the throughput of any pool: the sum of the rates, in requests per second."""
    return sum_rounded_up(workload.rate_rps for workload in instance.workloads)


def prices_and_counts(instance: Instance) -> tuple[Floats, Floats]:
    """Return the price of each GPU type of the pool, and the number of its GPUs: ``inf`` without a limit."""
    price = np.array([pool.type.price_per_hour for pool in instance.gpus])
    return price, np.array([math.inf if pool.count is None else float(pool.count) for pool in instance.gpus])


StepResult = Literal["gain", "no gain", "coarse", "enough"]
"""Result of a step.

``gain`` and ``no gain`` tell whether a column gains at the master's own duals. ``coarse`` means that none does because
the tolerance of pricing is too large, and ``enough`` that the bound is good enough.
"""


@dataclass(slots=True)
class Smoothing:
    """Smoothing of the duals towards the stability centre, the duals of the best bound (Wentges).

    Without it the master's own duals oscillate in the first iterations.

    Attributes
    ----------
    initial, weight
        Weight of the centre's duals against the master's own: after a gain, and now. Without gain it is halved.
    least
        Least positive weight: the weight after it is 0.
    """

    initial: float
    least: float = 0.2
    weight: float = 0.0
    stability_centre: Relaxation | None = None

    def smoothed(self, relaxation: Relaxation) -> Relaxation:
        """Return a solution of the master with smoothed duals."""
        centre, weight = self.stability_centre, self.weight
        if centre is None or weight == 0.0:
            return relaxation
        return replace(
            relaxation,
            workload_dual=weight * centre.workload_dual + (1.0 - weight) * relaxation.workload_dual,
            pool_dual=weight * centre.pool_dual + (1.0 - weight) * relaxation.pool_dual,
        )


def generate(
    run: Run,
    smoothing: Smoothing,
    relax: Callable[[], Relaxation],
    step: Callable[[Relaxation, Relaxation], StepResult],
    refine: Callable[[], bool],
) -> None:
    """Repeat: solve the master, price at smoothed duals, add columns; until the bound suffices or no column gains.

    A step without gain weakens the smoothing. If the duals were already the master's own, or pricing was too coarse,
    pricing is refined instead.

    Parameters
    ----------
    smoothing
        Smoothing of the duals; ``step`` sets its stability centre.
    step
        Prices at the smoothed duals, its second argument, and adds columns; the first has the master's own duals.
    refine
        Makes pricing more exact; returns whether it could.
    """
    while run.remaining_s > 0.0:
        relaxation = relax()
        match step(relaxation, smoothing.smoothed(relaxation)):
            case "enough":
                return
            case "gain":
                smoothing.weight = smoothing.initial
            case "no gain" if smoothing.weight > 0.0:
                smoothing.weight = smoothing.weight / 2.0 if smoothing.weight > smoothing.least else 0.0
            case "no gain" | "coarse":
                if not refine():
                    return


def cost_bound(
    workload_dual: Floats,
    copies: Floats,
    best_worth: Floats,
    price: Floats,
    count: Floats,
    least: Floats | float = 0.0,
) -> float:
    """Return a lower bound on the cost of covering every workload.

    For any factor f > 0 the duals ``f pi`` with ``sigma_t = max(0, f v_t - price_t)`` on the pools are feasible. So ``f
    sum(pi) - sum(count_t sigma_t)`` bounds the cost. The bound is concave and piecewise linear in f; it breaks where
    ``f v_t`` of a type equals its price. Types without a limit require ``sigma_t = 0``. Each GPU that must be used adds
    ``max(0, price_t - f v_t)``.

    Parameters
    ----------
    workload_dual
        ``pi``, shape (classes,); negative values count as 0.
    copies
        Number of workloads of each class.
    best_worth
        ``v_t``: upper bound on the sum of duals of a pattern of type t, shape (types,).
    price, count, least
        Price of each GPU type, number of its GPUs (``inf`` without a limit), and how many of them must be used.
    """
    return best_factor(workload_dual, copies, best_worth, price, count, least)[1]


def best_factor(
    workload_dual: Floats,
    copies: Floats,
    best_worth: Floats,
    price: Floats,
    count: Floats,
    least: Floats | float = 0.0,
) -> tuple[float, float]:
    """Return the factor on the duals with the best bound on the cost, and that bound, rounded down.

    See ``cost_bound`` for the parameters. Both are 0 without a bound.
    """
    total = math.fsum(np.maximum(workload_dual, 0.0) * copies)
    unlimited = np.isinf(count)
    # At a factor of 0, only the GPUs that must be used cost something.
    corners = [0.0, *(p / v for p, v in zip(price, best_worth, strict=True) if 0.0 < v < math.inf)]
    most = min(
        (p / v for p, v in zip(price[unlimited], best_worth[unlimited], strict=True) if v > 0.0), default=math.inf
    )
    best = (0.0, 0.0)
    if math.isinf(float(best_worth.max(initial=0.0))):
        return best
    for factor in corners:
        if factor > most:
            continue
        worth = factor * best_worth
        # The worth's rounding error may be as large as its difference from the price, so the worth is rounded up.
        sigma = np.maximum(0.0, worth * (1.0 + 4.0 * np.finfo(float).eps) - price)[~unlimited]
        idle = least * np.maximum(0.0, price - worth)
        bound = sum_rounded_down([factor * total, *-(count[~unlimited] * sigma), *idle])
        best = max(best, (float(factor), bound), key=lambda candidate: candidate[1])
    return best


def value_bound(workload_dual: Floats, copies: Floats, best_worth: Floats, count: Floats) -> float:
    """Return a Lagrangian upper bound on the throughput of a bounded pool, for arbitrary duals of the coverage rows.

    Parameters
    ----------
    workload_dual
        ``rho``: charge on a pattern for each workload of the class; at least 0 unless every workload must be placed.
    copies, count
        Number of workloads of each class, and of GPUs of each type.
    best_worth
        Upper bound ``v_t`` on the worth of a pattern of type t after those charges.
    """
    if math.isinf(float(best_worth.max(initial=0.0))):
        return math.inf
    terms = [*(workload_dual * copies), *(c * max(0.0, v) for c, v in zip(count, best_worth, strict=True))]
    return sum_rounded_up(terms)
