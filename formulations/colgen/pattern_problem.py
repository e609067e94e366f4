"""Problem that column generation solves for one plan class: rows, patterns, pricing and plans of patterns.

Rows are classes of identical workloads. A slot of a demanding workload may serve one that is easier to serve. A
workload is easier than another of the same model if its latency budget is at least as large at every batch. This
changes no optimum of the linear relaxation: duals that do not fall as workloads become more demanding are among the
optimal ones (Ben Amor, Desrosiers, Valerio de Carvalho 2006, dual-optimal inequalities). But the master needs far fewer
patterns, fractional or integer.
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching, maximum_flow

from bench.api import Bound, Run
from formulations.colgen.restricted_master import Covering, Priced, Relaxation
from formulations.rounding import sum_rounded_up
from instances import Instance, PlacedGpu, Plan, PlanClass, SloRule
from instances.arrays import Flags, Floats, Ints
from instances.one_gpu import Pattern, Resident
from instances.view import View

COVER_ROOM = 1e-10
"""Relative tolerance for the rounding of sums of fractions of workloads."""

RULES = (SloRule.HALF_SLO, SloRule.DUTY_CYCLE)
"""Rules by whose budgets workloads are compared: formulas that grow with the SLO and fall with the rate."""

MOST_PAIRS = 200_000
"""Pairs of a slot and a workload above which a matching is found as a maximum flow.

With fewer, SciPy's bipartite matching is faster; on larger dense graphs it takes seconds to hours, and the flow less
than a second.
"""


class PatternProblem(ABC):
    """Patterns of an instance, their cost and their pricing; one subclass per plan class.

    Parameters
    ----------
    instance
        Instance with workloads.
    divisible
        Workloads that patterns may serve in parts, multiples of ``1 / PART_STEPS`` of the rate.

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


def identical_workloads(instance: Instance, apart: Collection[int] = ()) -> tuple[Ints, Ints, Ints]:
    """Group workloads of equal model, SLO and rate; those in ``apart`` are each a class of their own.

    Returns
    -------
    order
        Positions in the instance with identical workloads adjacent, shape (workloads,).
    copy_of
        For each place in ``order`` the preceding place if its workload is identical, else -1.
    class_of
        Class of each workload, by position in the instance.
    """
    keys = [
        (w.model, w.slo_ms, w.rate_rps, w.id if position in apart else "")
        for position, w in enumerate(instance.workloads)
    ]
    classes = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    class_of = np.array([classes[key] for key in keys], dtype=np.int64)
    order = np.argsort(class_of, kind="stable").astype(np.int64)
    copy_of = np.full(len(order), -1, dtype=np.int64)
    same = class_of[order][1:] == class_of[order][:-1]
    copy_of[1:][same] = np.flatnonzero(same)
    return order, copy_of, class_of


def most_served(instance: Instance) -> float:
    """Return an upper bound on the throughput of any pool: the sum of the rates, in requests per second."""
    return sum_rounded_up(workload.rate_rps for workload in instance.workloads)


def prices_and_counts(instance: Instance) -> tuple[Floats, Floats]:
    """Return the price of each GPU type of the pool, and the number of its GPUs: ``inf`` without a limit."""
    price = np.array([pool.type.price_per_hour for pool in instance.gpus])
    return price, np.array([math.inf if pool.count is None else float(pool.count) for pool in instance.gpus])


def exchangeable(views: Sequence[View], class_of: Ints) -> tuple[Flags, Ints] | tuple[None, None]:
    """Return ``easier`` and ``nearest`` of the classes; ``None`` if none is easier, or the rule is not of ``RULES``."""
    if not views or views[0].instance.slo_rule not in RULES:
        return None, None
    _, first = np.unique(class_of, return_index=True)
    serves = easier(views, first)
    return (serves, nearest(serves, views[0].model[first])) if serves.any() else (None, None)


def served_by(serves: Flags, class_of: Ints, patterns: Sequence[Pattern]) -> list[int]:
    """Return the workload that each slot of the patterns serves, in the order of the slots; -1 for none."""
    slots = class_of[[slot.workload for pattern in patterns for slot in pattern.residents]]
    return matched(serves, slots, class_of).tolist()


def easier(views: Sequence[View], workloads: Ints) -> Flags:
    """Mark which workloads are easier than which: row i has those that a slot of workload i can serve.

    Parameters
    ----------
    views
        The instance as seen from every GPU type; the budget of a batch is the same at all shares.
    workloads
        Positions in the instance, no two identical.

    Returns
    -------
    Flags
        Shape (workloads, workloads); false on the diagonal, and without cycles.
    """
    serves = np.zeros((len(workloads), len(workloads)), dtype=bool)
    for model in np.unique(views[0].model[workloads]):
        of_model = np.flatnonzero(views[0].model[workloads] == model)
        within = np.ones((len(of_model), len(of_model)), dtype=bool)
        for view in views:
            for batch in range(1, int(view.tables.max_batch[view.model[workloads[of_model[0]]]]) + 1):
                budget_ms: Floats = np.maximum(view.budget_ms(workloads[of_model], batch), 0.0)
                within &= budget_ms[:, None] <= budget_ms[None, :]
        # Of two workloads with equal budgets the first one counts as more demanding.
        serves[np.ix_(of_model, of_model)] = within & ~(within.T & np.tril(np.ones_like(within)))
    return serves


def nearest(serves: Flags, group: Ints) -> Ints:
    """Return the pairs (demanding, easier) without a workload between the two, shape (pairs, 2).

    Only workloads of one ``group`` are comparable.
    """
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for number in np.unique(group):
        members = np.flatnonzero(group == number)
        block = serves[np.ix_(members, members)]
        paths = block.astype(np.float32)
        pairs.append(members[np.argwhere(block & (paths @ paths == 0.0))])
    return np.concatenate(pairs)


def matched(serves: Flags, slots: Ints, places: Ints) -> Ints:
    """Return the workload that each slot serves, -1 for none, such that as many as possible are served.

    Parameters
    ----------
    serves
        See ``easier``.
    slots, places
        Class of each slot, and of each workload.
    """
    possible = serves | np.eye(len(serves), dtype=bool)
    pairs = possible[np.ix_(slots, places)]
    if np.count_nonzero(pairs) <= MOST_PAIRS:
        return np.asarray(maximum_bipartite_matching(csr_array(pairs), perm_type="column"))
    # A matching is a flow from the source, node 0, over slots and places to the last node, the sink.
    slot, place = np.nonzero(pairs)
    first, sink = 1 + len(slots), 1 + len(slots) + len(places)
    tail = np.concatenate([np.zeros(len(slots), dtype=np.int64), 1 + slot, np.arange(first, sink)])
    head = np.concatenate([np.arange(1, first), first + place, np.full(len(places), sink)])
    graph = csr_array((np.ones(len(tail), dtype=np.int32), (tail, head)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, 0, sink).flow.tocoo()
    used = (flow.data > 0) & (flow.row > 0) & (flow.row < first)
    served = np.full(len(slots), -1, dtype=np.int64)
    served[flow.row[used] - 1] = flow.col[used] - first
    return served
