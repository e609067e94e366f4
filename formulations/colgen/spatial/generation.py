"""Column generation for ``cost`` and ``goodput``: patterns at least shares, priced exactly."""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from bench.api import Bound, Run
from formulations.colgen.aggregated_master import AggregatedMaster
from formulations.colgen.column_generation import COVER_ROOM, ColumnGeneration
from formulations.colgen.exchanges import exchangeable
from formulations.colgen.restricted_master import Covering, Pattern, Priced, Relaxation
from formulations.colgen.spatial.features import features
from formulations.colgen.spatial.pricer import Pricer
from formulations.problem import bound_on_parts
from instances import GOODPUT_STEP, PART_STEPS, Instance, PlanClass
from instances.arrays import Floats
from instances.configurations import Rates, rates_at, rates_of
from instances.one_gpu import Resident, fit_gpu
from instances.view import View

PATTERNS_PER_CALL, PATTERNS_PER_BOX = 500, 10
"""Limits on the patterns of a pricing call and of a box; the first is at least the number of workload classes."""

SEED_FILL, SEED_MARGIN, SEED_PATTERNS = 0.95, 0.12, 3_000
"""Fill at which the first duals pay for a GPU, margin above its price in pricing at them, and limit on patterns."""

CLOSING_PATTERNS, CLOSING_NODES = 20_000, 2_000_000
"""Limits on the patterns of a GPU type and on the nodes of a box when every pattern of small reduced cost is listed."""

FEWEST_CLASSES, FITTING_PATTERNS, FITTING_GAP = 2, 100, 4e-3
"""Classes per feature from which duals are first fitted to the features, and the patterns per call and gap for this."""


class _SpatialGeneration(ColumnGeneration):
    """Base of ``cost`` and ``goodput``: exact pricing of patterns at least shares."""

    brackets: ClassVar[bool] = False
    """Whether pricing begins with bounds on the budgets."""

    def __init__(self, instance: Instance, run: Run) -> None:
        super().__init__(instance, run)
        rates, covering = self.rates(), self.minimised and bool(self.divisible)
        self.pricers = [
            Pricer(view, t, self.order, self.copy_of, rates, covering, run.deadline, self.brackets and view.bracketed)
            for t, view in enumerate(self.views)
        ]
        self.patterns_per_call = max(PATTERNS_PER_CALL, len(self.copies))
        self.initial_columns()

    def rates(self) -> list[Rates]:
        """Return the rates that each workload may be planned for."""
        return [rates_of(self.instance, w) for w in range(len(self.instance.workloads))]

    def certified(self, value: float) -> Bound:
        """Return a bound with the plans for which it holds: parts are multiples of a step, each on another GPU."""
        if not self.divisible:
            return super().certified(value)
        return bound_on_parts(value, self.instance, None if self.plan_class is PlanClass.SPLIT else self.divisible)

    def initial_columns(self) -> None:
        """Add a pattern for each choice alone; for a divisible workload only that of the largest part that fits."""
        for pricer in self.pricers:
            for place, w in enumerate(pricer.workloads.tolist()):
                for choice in range(pricer.choices.first[place], pricer.choices.first[place + 1]):
                    pattern = self._alone(pricer, choice)
                    self.add([pattern])
                    if pattern is not None and w in self.divisible:
                        break

    def _alone(self, pricer: Pricer, choice: int) -> Pattern | None:
        """Return a choice alone at its first feasible batch: a least share ignores the choice's own power."""
        choices = pricer.choices
        w, rate = int(pricer.workloads[choices.workload[choice]]), float(choices.rate_rps[choice])
        for option in range(choices.option[choice], choices.option[choice + 1]):
            member = (w, int(choices.batch[option]), rate)
            if fit_gpu(self.views[pricer.pool], [Resident(*member)]) is not None:
                return Pattern(pricer.pool, (member,))
        return None

    def price_at(self, relaxation: Relaxation, tolerance: float, node_limit: int) -> list[Priced[Pattern]]:
        """Solve the pricing problem of every GPU type."""
        return [
            pricer.price(
                self.profit(pricer, relaxation.workload_dual),
                self.threshold(pricer.pool, relaxation, tolerance),
                node_limit,
                PATTERNS_PER_BOX,
                self.patterns_per_call,
                self.run.deadline,
            )
            for pricer in self.pricers
        ]

    def patterns_within(self, slack: float, pool: int, relaxation: Relaxation) -> list[Pattern] | None:
        """Return every pattern with a reduced cost of at most ``slack``, or ``None`` if some are missing."""
        pricer = self.pricers[pool]
        profit = self.profit(pricer, relaxation.workload_dual)
        # No pattern has a negative reduced cost, so a resident with profit below -slack is in none of these patterns.
        profit = np.where(profit < -slack, -np.inf, profit)
        threshold, limit = self.threshold(pool, relaxation, 0.0) - slack, CLOSING_PATTERNS
        priced = pricer.price(profit, threshold, CLOSING_NODES, limit, limit, self.run.deadline, bonus=2.0 * slack)
        self.nodes += priced.nodes
        missing = len(priced.patterns) == limit or priced.bound == math.inf or priced.cut_short
        return None if missing else priced.patterns

    def profit(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        """Return the profit of each choice: the dual of its workload, in proportion to the part that it serves."""
        choices = pricer.choices
        at = pricer.workloads[choices.workload]
        dual = workload_dual[self.class_of[at]]
        if not self.divisible:
            return dual
        rates = zip(at.tolist(), choices.rate_rps.tolist(), strict=True)
        return dual * np.array([self.part(w, rate) for w, rate in rates])


def _serves_alone(view: View, workload: int) -> bool:
    """Return whether a whole GPU of the view's type serves a workload alone at some batch."""
    top, rate = int(view.tables.max_batch[view.model[workload]]), float(view.rate_rps[workload])
    return any(fit_gpu(view, [Resident(workload, b, rate)]) is not None for b in range(1, top + 1))


class CostGeneration(_SpatialGeneration):
    """Column generation for ``cost``: cover every workload at its full rate with the cheapest GPUs.

    Under a rule whose budget depends on the share, workloads that no single GPU serves are covered in parts.
    """

    _fitted = False

    def cover(self) -> Covering:
        """Return the rows of the master."""
        free = np.full_like(self.copies, np.inf)
        exchanges = exchangeable(self.views, self.class_of)
        return Covering(self.copies, free, self.count, 10.0 * float(self.price.max()), *exchanges)

    def serving(self, patterns: list[Pattern], served: list[int]) -> list[Pattern]:
        """Return the patterns of the workloads that the slots of ``patterns`` serve: see ``served_by``."""
        members = [(g, member) for g, pattern in enumerate(patterns) for member in pattern.members]
        own: list[list[tuple[int, int, float]]] = [[] for _ in patterns]
        for (g, (w, batch, rate)), place in zip(members, served, strict=True):
            if place >= 0:
                same = self.class_of[place] == self.class_of[w]
                own[g].append((place, batch, rate if same else self.instance.workloads[place].rate_rps))
        found = [
            self.pattern_if_feasible(pattern.pool, tuple(sorted(slots)))
            for pattern, slots in zip(patterns, own, strict=True)
            if slots
        ]
        return [pattern for pattern in found if pattern is not None]

    def find_divisible(self) -> frozenset[int]:
        """Return the workloads that no GPU of the pool serves alone at their full rate."""
        if not self.instance.slo_rule.by_share:
            return frozenset()
        workloads = range(len(self.instance.workloads))
        return frozenset(w for w in workloads if not any(_serves_alone(view, w) for view in self.views))

    def rates(self) -> list[Rates]:
        """Return the full rate of each workload, and the steps of divisible ones."""
        found = super().rates()
        step = np.arange(1, PART_STEPS + 1, dtype=np.int64)
        for w in self.divisible:
            found[w] = Rates(found[w].rate_rps[0] * (step / PART_STEPS), step)
        return found

    def cost_of(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        return float(self.price[pattern.pool])

    def pattern_if_feasible(self, pool: int, members: tuple[tuple[int, int, float], ...]) -> Pattern | None:
        """Return the pattern of these members if they fit at their full rates, or at parts of divisible ones."""
        if any(rate < self.views[pool].rate_rps[w] for w, _, rate in members if w not in self.divisible):
            return None
        steps = [PART_STEPS * self.part(w, rate) for w, _, rate in members if w in self.divisible]
        if any(abs(step - round(step)) > 1e-9 * step for step in steps):
            return None
        return super().pattern_if_feasible(pool, members)

    def initial_columns(self) -> None:
        """Add GPUs filled by first fit, and patterns that gain if each workload pays for its least share."""
        super().initial_columns()
        shares = [self.least_fraction(pricer) for pricer in self.pricers]
        self._filled = [self._first_fit(p, share) for p, share in zip(self.pricers, shares, strict=True)]
        for patterns in self._filled:
            self.add(patterns)
        first = self.first_duals(shares)
        if np.isfinite(first).all():
            duals = Relaxation(0.0, first, np.zeros(len(self.count)), np.zeros(0))
            # A threshold near the best worth gives a bound but few patterns; a lower one gives many patterns.
            for margin in (SEED_MARGIN, 0.0):
                self.learn([self._seed_prices(pricer, first, margin) for pricer in self.pricers], duals)

    def solve(self, finished: Callable[[], bool]) -> None:
        """Add patterns; where classes are many, first at duals that are a function of few features."""
        if not self._fitted:
            self._fitted = True
            self._fit_duals(finished)
        self.generate(self.relaxed, finished)

    def _fit_duals(self, finished: Callable[[], bool]) -> None:
        """Find patterns and a stability centre by column generation on an aggregated master."""
        if self.divisible:
            return
        fitted = np.hstack([self._features(pricer) for pricer in self.pricers])
        if len(self.copies) < FEWEST_CLASSES * fitted.shape[1]:
            return
        self.relaxation = self.master.relax()
        aggregated = AggregatedMaster(self.master, fitted, self.run.threads)
        self.patterns_per_call = FITTING_PATTERNS
        self.generate(aggregated.relax, lambda: finished() or self.bound >= aggregated.value * (1.0 - FITTING_GAP))
        self.patterns_per_call = max(PATTERNS_PER_CALL, len(self.copies))

    def _features(self, pricer: Pricer) -> Floats:
        class_of = self.class_of[pricer.workloads[pricer.choices.workload]]
        return features(pricer.choices, pricer.boxes.takes, class_of, len(self.copies))

    def first_duals(self, shares: list[Floats]) -> Floats:
        """Return the duals at which the first patterns are priced: each class pays the price of its least share.

        ``shares`` is ``least_fraction`` on each GPU type.
        """
        fair = np.full(len(self.copies), np.inf)
        for pricer, share in zip(self.pricers, shares, strict=True):
            np.minimum.at(fair, self.class_of[pricer.workloads], share * float(self.price[pricer.pool]) / SEED_FILL)
        return fair

    def starts(self) -> list[list[Pattern]]:
        """Return initial solutions: first fit on each GPU type alone, and the given start plan."""
        return [*(p for p in self._filled if self.complete(p)), *super().starts()]

    def _seed_prices(self, pricer: Pricer, duals: Floats, margin: float) -> Priced[Pattern]:
        threshold = float(self.price[pricer.pool]) * (1.0 + margin)
        limit = max(SEED_PATTERNS, 2 * len(duals))
        return pricer.price(
            self.profit(pricer, duals), threshold, self.first_node_limit, limit, limit, self.run.deadline
        )

    def least_fraction(self, pricer: Pricer) -> Floats:
        """Return each workload's least share alone as a fraction of the GPU, in pattern order; inf if infeasible.

        For a divisible workload it is the sum over its parts, at the best ratio of part to share.
        """
        fraction = np.full(len(pricer.workloads), np.inf)
        for k, w in enumerate(pricer.choices.workload):
            options = slice(pricer.choices.option[k], pricer.choices.option[k + 1])
            least = float(pricer.choices.lower_units[options].min()) / pricer.tables.share_units
            least /= self.part(int(pricer.workloads[w]), float(pricer.choices.rate_rps[k]))
            fraction[w] = min(fraction[w], least)
        return fraction

    def _first_fit(self, pricer: Pricer, fraction: Floats) -> list[Pattern]:
        """Fill GPUs by first fit with the workloads in order of decreasing least share."""
        view, choices = self.views[pricer.pool], pricer.choices
        gpus: list[tuple[list[tuple[int, int, float]], float]] = []
        for place in np.argsort(-fraction, kind="stable").tolist():
            if not np.isfinite(fraction[place]):
                continue
            for choice in self._first_choices(pricer, place):
                options = range(choices.option[choice], choices.option[choice + 1])
                least = min(options, key=lambda o: int(choices.lower_units[o]))
                need = float(choices.lower_units[least]) / pricer.tables.share_units
                member = (int(pricer.workloads[place]), int(choices.batch[least]), float(choices.rate_rps[choice]))
                for g, (members, used) in enumerate(gpus):
                    if used + need <= 1.0 and member[0] not in [w for w, _, _ in members]:
                        placed = fit_gpu(view, [Resident(*m) for m in (*members, member)])
                        if placed is not None:
                            members.append(member)
                            gpus[g] = (members, placed.share_units / pricer.tables.share_units)
                            break
                else:
                    if fit_gpu(view, [Resident(*member)]) is not None:
                        gpus.append(([member], need))
        return [Pattern(pricer.pool, tuple(sorted(members))) for members, _ in gpus]

    def _first_choices(self, pricer: Pricer, place: int) -> list[int]:
        """Return the choices of a workload for first fit: of least share, or the fewest equal parts that cover it."""
        choices, w = pricer.choices, int(pricer.workloads[place])
        own = range(choices.first[place], choices.first[place + 1])
        if w not in self.divisible:
            return [min(own, key=lambda k: int(choices.lower_units[choices.option[k] : choices.option[k + 1]].min()))]
        part = {k: self.part(w, float(choices.rate_rps[k])) for k in own}
        count = math.ceil((1.0 - COVER_ROOM) / max(part.values()))
        enough = [k for k in own if part[k] * count >= 1.0 - COVER_ROOM]
        return [min(enough, key=lambda k: (part[k], int(choices.lower_units[choices.option[k]])))] * count

    def obstacle(self) -> str:
        """Name the first workload that no GPU type serves: at its full rate or, if it is divisible, in parts."""
        served = {pattern.members[0][0] for pattern in self.master.patterns if len(pattern.members) == 1}
        classes = {int(self.class_of[w]) for w in served}
        for w, asked in enumerate(self.instance.workloads):
            if int(self.class_of[w]) not in classes:
                rate = f"{asked.model} at {asked.rate_rps:g} req/s"
                if w in self.divisible:
                    return f"{asked.id}: no GPU of the pool serves even a part of {rate}"
                return f"{asked.id}: no GPU of the pool alone serves {rate}, and plans of this class split no workload"
        return ""


class FitGeneration(CostGeneration):
    """Column generation that checks whether the pool serves every workload at its rate or a higher, easier one."""

    def find_divisible(self) -> frozenset[int]:
        """Return no workload: under ``scale`` none is split."""
        return frozenset()

    def rates(self) -> list[Rates]:
        """Return the rates that each workload may be planned for."""
        return rates_at(self.instance, 1.0)


class GoodputGeneration(_SpatialGeneration):
    """Column generation for ``goodput``: serve the most requests; a workload may be served in part or not at all."""

    def cover(self) -> Covering:
        """Return the rows of the master."""
        free = np.full_like(self.copies, -np.inf)
        return Covering(free, self.copies, self.count, artificial_cost=0.0)

    def cost_of(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        return -math.fsum(rate for _, _, rate in pattern.members)

    def pattern_if_feasible(self, pool: int, members: tuple[tuple[int, int, float], ...]) -> Pattern | None:
        """Return the pattern of these members if they fit and each rate is one of the steps."""
        steps = [rate / (GOODPUT_STEP * self.views[pool].rate_rps[w]) for w, _, rate in members]
        if any(abs(step - round(step)) > 1e-9 * step or step * GOODPUT_STEP > 1.0 + 1e-9 for step in steps):
            return None
        return super().pattern_if_feasible(pool, members)

    def profit(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        """Return the profit of each choice: its rate minus the charge on its workload."""
        return pricer.choices.rate_rps + super().profit(pricer, workload_dual)
