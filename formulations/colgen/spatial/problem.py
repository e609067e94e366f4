"""Patterns of ``cost`` and ``goodput`` at least shares, priced exactly."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from bench.api import Bound, Run
from formulations.colgen.clock import now
from formulations.colgen.column_generation import PatternProblem
from formulations.colgen.pairs import Pairs
from formulations.colgen.restricted_master import Covering, LinearMaster, Priced, Relaxation
from formulations.colgen.solution import ColumnGeneration
from formulations.colgen.spatial.choices import MOST_BUDGETS, budgets_of
from formulations.colgen.spatial.packing import FIRST_FRACTION, FIRST_STALLED, Packer, every_choice_alone
from formulations.colgen.spatial.pricer import Pricer, features
from formulations.problem import bound_on_parts
from formulations.rounding import sum_rounded_up
from instances import GOODPUT_STEP, PART_STEPS, Instance, Plan, PlanClass
from instances.arrays import Floats
from instances.configurations import Rates, rates_of
from instances.one_gpu import Pattern, Resident, fit_gpu
from instances.view import View
from instances.workload_classes import exchangeable

PATTERNS_PER_CALL, PATTERNS_PER_BOX = 500, 10
"""Limits on the patterns of a pricing call and of a box; the first is at least the number of workload classes."""

BRANCH_PATTERNS_PER_CALL, BRANCH_PATTERNS_PER_BOX = 200, 5
"""The same limits in a branch."""

MATE_BONUS = 1e-9
"""Least bonus on every profit in a branch, so that a workload of zero dual stays if it is tied to one with a dual."""

EFFORT_FACTOR, MOST_EFFORT = 4, 4**12
"""Growth of the nodes per box and of the halved boxes of a call in which no pattern gains, and their largest growth."""

SEED_FILL, SEED_PATTERNS = 0.95, 3_000
"""Filled part of a GPU for which the first duals pay its price, and limit on the patterns of pricing at them."""

SEED_COST_PARTS, SEED_GOODPUT_PARTS = (1.12, 1.0), (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Thresholds at the first duals, as parts of what these pay for a GPU: high for a bound, low for many patterns."""

CLOSING_PATTERNS, CLOSING_NODES = 20_000, 2_000_000
"""Limits on the patterns of a GPU type and the nodes of a box if all patterns of small reduced cost are listed."""


class SpatialProblem(PatternProblem):
    """Patterns of slots at their least shares, for ``cost`` and ``goodput``.

    Under ``cost`` every workload is covered at its full rate by the cheapest GPUs; under ``goodput`` it may be served
    in part or not at all. Divisible workloads are covered in parts, each on another GPU. Pricing begins with bounds on
    the budgets if ``whole`` or ``value`` is given, or if there are more than ``MOST_BUDGETS``.

    Parameters
    ----------
    deadline
        Deadline of the choices and boxes of pricing, which may raise ``TimeoutError``.
    divisible
        Workloads that may be covered in parts.
    rates
        Rates that each workload may be planned for; ``None`` for those of the objective.
    whole
        Column generation without splitting, if every workload is divisible: its patterns and duals are used.
    value
        Under ``goodput``, value of a served request of each workload, shape (workloads,); ``None`` for 1. The objective
        is then the value served per second. If budgets depend on the share, the batch search for a set of residents is
        short.
    """

    def __init__(
        self,
        instance: Instance,
        deadline: float = math.inf,
        divisible: frozenset[int] = frozenset(),
        rates: Sequence[Rates] | None = None,
        whole: ColumnGeneration | None = None,
        value: Floats | None = None,
    ) -> None:
        super().__init__(instance, divisible, frozenset() if value is None else frozenset(range(len(value))))
        self.value = np.ones(len(instance.workloads)) if value is None else value
        self.whole = whole
        self.plan_class = PlanClass.SPATIAL if whole is None else PlanClass.SPLIT
        rates = self._rates() if rates is None else rates
        covering = self.minimised and bool(divisible)
        rough = whole is not None or value is not None or budgets_of(self.views, rates) > MOST_BUDGETS
        hasty = value is not None and instance.slo_rule.by_share
        self.pricers = [
            Pricer(view, t, self.order, self.copy_of, rates, covering, deadline, rough and view.bracketed, hasty)
            for t, view in enumerate(self.views)
        ]
        self.patterns_per_call = max(PATTERNS_PER_CALL, len(self.copies))

    def _rates(self) -> list[Rates]:
        """Return the rates that each workload may be planned for: under ``cost`` also the parts of divisible ones."""
        rates = [rates_of(self.instance, w) for w in range(len(self.instance.workloads))]
        step = np.arange(1, PART_STEPS + 1, dtype=np.int64)
        for w in self.divisible if self.minimised else ():
            rates[w] = Rates(rates[w].rate_rps[0] * (step / PART_STEPS), step)
        return rates

    # Rows and patterns -------------------------------------------------------------------------------------------

    def rows(self) -> Covering:
        """Return the rows of the master."""
        if not self.minimised:
            return Covering(np.full_like(self.copies, -np.inf), self.copies, self.count, artificial_cost=0.0)
        exchanges = exchangeable(self.views, self.class_of)
        unlimited = np.full_like(self.copies, np.inf)
        return Covering(self.copies, unlimited, self.count, 10.0 * float(self.price.max()), *exchanges)

    def first_patterns(self, run: Run) -> Iterator[Pattern | None]:
        """Yield every choice alone, and the GPUs of packings."""
        for pricer in self.pricers:
            yield from every_choice_alone(self, pricer)
        if self.whole is not None:
            yield from self.whole.master.patterns
        self.packer = Packer(self, run.seed)
        if self.whole is not None and (known := self.whole.problem.known):
            self.known = known
            return
        until = now() + FIRST_FRACTION * run.remaining_s
        for packing in self.packer.packings(until, FIRST_STALLED):
            self.known = [packing]
            yield from packing

    def first_prices(self, run: Run) -> Iterator[tuple[list[Priced], Relaxation]]:
        """Yield the results of pricing at the first duals; under ``goodput`` thresholds fall until pricing is hard."""
        duals = self._fair_duals() if self.minimised else self._duals_of_filled_gpus(run.threads)
        if not np.isfinite(duals.workload_dual).all():
            return
        paid, limit = self.price if self.minimised else -duals.pool_dual, max(SEED_PATTERNS, 2 * len(self.copies))
        per_box = limit if self.minimised else PATTERNS_PER_BOX
        for part in SEED_COST_PARTS if self.minimised else SEED_GOODPUT_PARTS:
            priced = [
                pricer.price(
                    self.profit(pricer, duals.workload_dual),
                    float(paid[pricer.pool]) * part,
                    self.node_limits[0],
                    per_box,
                    limit,
                    run.deadline,
                )
                for pricer in self.pricers
            ]
            yield priced, duals
            if not self.minimised and any(result.patterns or result.cut_short for result in priced):
                return

    def _fair_duals(self) -> Relaxation:
        """Return the duals of column generation without splitting; without it, each class pays for its least share."""
        nothing = np.zeros(len(self.count)), np.zeros(0)
        if self.whole is not None and self.whole.relaxation is not None:
            return Relaxation(0.0, self.whole.relaxation.workload_dual[self.whole.problem.class_of], *nothing)
        fair = np.full(len(self.copies), np.inf)
        for pricer in self.pricers:
            share = _least_fraction(self, pricer) * float(self.price[pricer.pool]) / SEED_FILL
            np.minimum.at(fair, self.class_of[pricer.workloads], share)
        return Relaxation(0.0, fair, *nothing)

    def _duals_of_filled_gpus(self, threads: int) -> Relaxation:
        """Return the duals of a master whose GPUs are each filled with one choice at its least share alone."""
        master = LinearMaster(self.covering.least, self.covering.most, self.count, threads)
        for pricer in self.pricers:
            choices = pricer.choices
            for k, w in enumerate(pricer.workloads[choices.workload].tolist()):
                least = float(choices.lower_units[choices.option[k] : choices.option[k + 1]].min())
                number, rate = SEED_FILL * pricer.tables.share_units / least, float(choices.rate_rps[k])
                amounts = np.zeros(len(self.copies))
                amounts[self.class_of[w]] = number * self.part(w, rate)
                master.add_column(-number * rate * float(self.value[w]), amounts, pricer.pool)
        relaxation = master.relax()
        # Duals with an infeasible sign stem from rounding.
        return replace(
            relaxation,
            workload_dual=np.minimum(relaxation.workload_dual, 0.0),
            pool_dual=np.minimum(relaxation.pool_dual, 0.0),
        )

    def dual_features(self) -> Floats | None:
        """Return the features of the classes under ``cost``, unless workloads are divisible."""
        if self.divisible or not self.minimised:
            return None
        classes = [self.class_of[pricer.workloads[pricer.choices.workload]] for pricer in self.pricers]
        return np.hstack(
            [
                features(pricer.choices, pricer.boxes, class_of, len(self.copies))
                for pricer, class_of in zip(self.pricers, classes, strict=True)
            ]
        )

    def cost(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        if self.minimised:
            return float(self.price[pattern.pool])
        return -math.fsum(slot.rate_rps * float(self.value[slot.workload]) for slot in pattern.residents)

    @property
    def trivial_bound(self) -> float:
        """Bound before the first iteration: no cost, or the value of all requests."""
        if self.minimised:
            return 0.0
        return sum_rounded_up(
            workload.rate_rps * float(value)
            for workload, value in zip(self.instance.workloads, self.value, strict=True)
        )

    def pattern_if_feasible(self, pool: int, residents: Sequence[Resident]) -> Pattern | None:
        """Return the pattern of these residents; ``None`` if they do not fit at rates that the objective permits."""
        if len({w for w, _, _ in residents}) < len(residents):
            return None  # parts of a workload are on different GPUs
        if not all(self._permitted(w, rate) for w, _, rate in residents):
            return None
        return Pattern.of(pool, residents) if fit_gpu(self.views[pool], residents) is not None else None

    def _permitted(self, workload: int, rate_rps: float) -> bool:
        """Return whether a rate is one of the steps, or under ``cost`` at least that of an undivided workload."""
        whole_rps = self.instance.workloads[workload].rate_rps
        if not self.minimised:
            step = rate_rps / (GOODPUT_STEP * whole_rps)
            return abs(step - round(step)) <= 1e-9 * step and step * GOODPUT_STEP <= 1.0 + 1e-9
        step = PART_STEPS * self.part(workload, rate_rps)
        return abs(step - round(step)) <= 1e-9 * step if workload in self.divisible else rate_rps >= whole_rps

    def pattern_of_slots(self, pool: int, residents: list[Resident], units: list[int]) -> Pattern | None:
        """Return the pattern of these slots at their least shares; ``None`` if they do not fit."""
        return self.pattern_if_feasible(pool, sorted(residents))

    # Pricing and bound -------------------------------------------------------------------------------------------

    def price_patterns(
        self, relaxation: Relaxation, tolerance: float, node_limit: int, deadline: float
    ) -> list[Priced]:
        """Solve the pricing problem of every GPU type."""
        return [self._price(pricer, relaxation, tolerance, node_limit, deadline) for pricer in self.pricers]

    def price_harder(
        self, priced: list[Priced], relaxation: Relaxation, tolerance: float, node_limit: int, run: Run, most_nodes: int
    ) -> list[Priced]:
        """Price types whose search was cut short again with more and more effort, until a pattern gains."""
        priced, spent, effort = list(priced), 0, 1
        while (
            spent <= most_nodes
            and effort < MOST_EFFORT
            and run.remaining_s > 0.0
            and not any(result.patterns for result in priced)
        ):
            effort *= EFFORT_FACTOR
            cut_short = [t for t, result in enumerate(priced) if result.cut_short]
            for t in cut_short:
                again = self._price(self.pricers[t], relaxation, tolerance, node_limit, run.deadline, effort)
                bound, nodes = min(priced[t].bound, again.bound), priced[t].nodes + again.nodes
                priced[t] = Priced(bound, again.patterns, nodes, again.cut_short)
                spent += again.nodes
            if not cut_short:
                break
        return priced

    def price_in_branch(
        self, pool: int, relaxation: Relaxation, pairs: Pairs, threshold: float, node_limit: int, deadline: float
    ) -> Priced:
        """Find patterns of one GPU type worth more than ``threshold`` under conditions on pairs of workloads.

        Classes with a dual of -inf are on no GPU of the type.
        """
        pricer = self.pricers[pool]
        profit, tied = self.profit(pricer, relaxation.workload_dual), pairs.tied[pricer.choices.workload]
        # A workload without profit stays if it is tied to one with profit.
        bonus = max(MATE_BONUS, 2.0 * float(-profit[tied & (profit > -np.inf)].min(initial=0.0)))
        profit = np.where(tied | (profit > 0.0), profit, -np.inf)
        limits = node_limit, BRANCH_PATTERNS_PER_BOX, BRANCH_PATTERNS_PER_CALL, deadline, bonus
        return pricer.price(profit, threshold, *limits, pairs=pairs)

    def _price(
        self,
        pricer: Pricer,
        relaxation: Relaxation,
        tolerance: float,
        node_limit: int,
        deadline: float,
        effort: int = 1,
    ) -> Priced:
        return pricer.price(
            self.profit(pricer, relaxation.workload_dual),
            self.threshold(pricer.pool, relaxation, tolerance),
            node_limit,
            PATTERNS_PER_BOX,
            self.patterns_per_call,
            deadline,
            effort=effort,
        )

    def profit(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        """Return the profit of each choice: the dual of its workload, in proportion to the part that it serves.

        Under ``goodput`` the dual is negative, a charge, and the choice also has the value of its rate.
        """
        choices = pricer.choices
        at = pricer.workloads[choices.workload]
        dual = workload_dual[self.class_of[at]]
        if self.divisible:
            rates = zip(at.tolist(), choices.rate_rps.tolist(), strict=True)
            dual = dual * np.array([self.part(w, rate) for w, rate in rates])
        return dual if self.minimised else choices.rate_rps * self.value[at] + dual

    def within(self, slack: float, pool: int, relaxation: Relaxation, deadline: float) -> Priced:
        """Return every pattern with a reduced cost of at most ``slack``; cut short if some are missing."""
        pricer = self.pricers[pool]
        profit = self.profit(pricer, relaxation.workload_dual)
        # No pattern has a negative reduced cost, so a resident with profit below -slack is in none of these patterns.
        profit = np.where(profit < -slack, -np.inf, profit)
        threshold, limit = self.threshold(pool, relaxation, 0.0) - slack, CLOSING_PATTERNS
        priced = pricer.price(profit, threshold, CLOSING_NODES, limit, limit, deadline, bonus=2.0 * slack)
        missing = len(priced.patterns) == limit or priced.bound == math.inf or priced.cut_short
        return Priced(priced.bound, priced.patterns, priced.nodes, missing)

    def certified(self, value: float) -> Bound:
        """Return a bound with the plans for which it holds: parts are multiples of a step, each on another GPU."""
        if not self.divisible:
            return super().certified(value)
        return bound_on_parts(value, self.instance, None if self.plan_class is PlanClass.SPLIT else self.divisible)

    def obstacle(self, patterns: list[Pattern]) -> str:
        """Name the first workload that no GPU type serves: at its full rate or, if it is divisible, in parts."""
        if not self.minimised:
            return ""
        classes = {int(self.class_of[p.residents[0].workload]) for p in patterns if len(p.gpulets) == 1}
        for w, workload in enumerate(self.instance.workloads):
            if int(self.class_of[w]) not in classes:
                rate = f"{workload.model} at {workload.rate_rps:g} req/s"
                if w in self.divisible:
                    return f"{workload.id}: no GPU of the pool serves even a part of {rate}"
                return (
                    f"{workload.id}: no GPU of the pool alone serves {rate}, and plans of this class split no workload"
                )
        return ""

    # Plans -------------------------------------------------------------------------------------------------------

    def serving(self, patterns: list[Pattern], served: list[int]) -> list[Pattern]:
        """Return the patterns of the workloads that the slots of ``patterns`` serve: see ``served_by``."""
        slots, serving = iter(served), []
        for pattern in patterns:
            residents = []
            for w, batch, rate in pattern.residents:
                workload = next(slots)
                if workload >= 0:
                    if self.class_of[workload] != self.class_of[w]:
                        rate = self.instance.workloads[workload].rate_rps
                    residents.append(Resident(workload, batch, rate))
            changed = self.pattern_if_feasible(pattern.pool, sorted(residents)) if residents else None
            serving += [] if changed is None else [changed]
        return serving

    def realise(self, patterns: list[Pattern]) -> tuple[float, Plan] | None:
        """Return the cost and the plan of a complete solution; ``None`` if a GPU without its surplus does not fit."""
        gpus = []
        for pattern, residents in zip(patterns, self.residents_of(patterns), strict=True):
            gpu = fit_gpu(self.views[pattern.pool], residents) if residents else None
            if residents and gpu is None:
                return None
            gpus += [] if gpu is None else [gpu]
        try:
            return math.fsum(map(self.cost, patterns)), Plan(self.instance.name, tuple(gpus))
        except OverflowError:  # the sum exceeds the largest float
            return math.inf, Plan(self.instance.name, tuple(gpus))


def served_by_none(instance: Instance) -> frozenset[int]:
    """Return the workloads that no GPU of the pool serves alone at their full rate: they are divisible.

    Only rules whose budget depends on the share are so strict that the parts of a workload may fit where it does not.
    """
    if not instance.slo_rule.by_share:
        return frozenset()
    views = [View.of(instance, pool.type) for pool in instance.gpus]
    workloads = range(len(instance.workloads))
    return frozenset(w for w in workloads if not any(_serves_alone(view, w) for view in views))


def _serves_alone(view: View, workload: int) -> bool:
    """Return whether a whole GPU of the view's type serves a workload alone at some batch."""
    top, rate = int(view.tables.max_batch[view.model[workload]]), float(view.rate_rps[workload])
    return any(fit_gpu(view, [Resident(workload, b, rate)]) is not None for b in range(1, top + 1))


def _least_fraction(problem: SpatialProblem, pricer: Pricer) -> Floats:
    """Return each workload's least share alone as a fraction of the GPU, in pattern order; inf if infeasible.

    For a divisible workload it is the sum over its parts, at the best ratio of part to share.
    """
    fraction = np.full(len(pricer.workloads), np.inf)
    for k, w in enumerate(pricer.choices.workload):
        options = slice(pricer.choices.option[k], pricer.choices.option[k + 1])
        least = float(pricer.choices.lower_units[options].min()) / pricer.tables.share_units
        least /= problem.part(int(pricer.workloads[w]), float(pricer.choices.rate_rps[k]))
        fraction[w] = min(fraction[w], least)
    return fraction
