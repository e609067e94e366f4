"""One run of column generation: bound, integer solution, closing of the gap."""

import math
from typing import ClassVar

import numpy as np

from bench.api import Bound, Duals, Outcome, Status
from formulations.colgen.capacity.generation import CapacityGeneration
from formulations.colgen.clock import now, work_done
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.repacking import BudgetSearch, suits
from formulations.colgen.spatial.branching import Tree
from formulations.colgen.spatial.generation import CostGeneration, GoodputGeneration
from formulations.problem import TOO_FEW, WHOLE
from instances import Objective, Plan, PlanClass
from instances.arrays import Floats
from instances.costs import cost_step, next_cost

GOOD_ENOUGH = 1e-4
"""Relative gap between bound and relaxation at which a throughput objective turns to integer solutions."""

ROUNDING_PART = 0.2
"""Fraction of the branching time up to which the restricted master is solved over integers again."""

REPACKING_PART, MOST_FAILURES = 0.8, 40
"""Fraction of the remaining time for repacking, and the number of failed searches that end it."""

CONVERGING_PART = 0.2
"""Largest fraction of the remaining time for the convergence of the relaxation before repacking."""

FIRST_ROUNDING_PART = 0.2
"""Largest fraction of the remaining time for the integer restricted master before diving, where costs are minimised."""

MOST_GPUS = 1_000_000
"""Largest number of GPUs of a plan that rounding makes."""

GENERATIONS: dict[Objective, type[ColumnGeneration]] = {
    Objective.COST: CostGeneration,
    Objective.GOODPUT: GoodputGeneration,
    Objective.CAPACITY: CapacityGeneration,
}


class Solution:
    """One run: the column generation, the incumbent and the best bound; see ``ColGen`` for ``integer_fraction``."""

    pattern_fraction: ClassVar[float] = 0.5
    """Fraction of the time for patterns and bound; the rest is for integer solutions and for closing the gap."""

    def __init__(self, generation: ColumnGeneration, integer_fraction: float) -> None:
        self.instance = generation.instance
        self.run = generation.run
        self.integer_fraction = integer_fraction
        self.generation = generation
        self.minimised = generation.minimised
        self.counts: dict[int, int] | None = None
        self.plan: Plan | None = None
        self.value = math.inf  # of the minimised objective
        self.reported = -math.inf

    def solve(self) -> Outcome:
        """Run until the plan is proven optimal or time is up."""
        generation, run = self.generation, self.run
        obstacle = generation.obstacle()
        if obstacle:
            # The duals do not matter: some workload fits on no GPU.
            nothing = Duals((0.0,) * len(self.instance.workloads), (0.0,) * len(self.instance.gpus))
            return Outcome(Status.INFEASIBLE, reason=obstacle, proof=[nothing])
        for patterns in generation.starts():
            self._accept(generation.master.counts(patterns))
        self._report_bound()
        left_s = (1.0 - self.pattern_fraction) * run.remaining_s
        generation.solve(lambda: self.bound_suffices() or run.remaining_s < left_s)
        self._to_whole_gpus()
        if not self.proven():
            generation.solve(lambda: self.bound_suffices(gap=1e-9))
            self._to_whole_gpus()
        if not self.proven():
            self._close()
        return self._outcome()

    def _to_whole_gpus(self) -> None:
        if self.generation.relaxation is None or self.proven():
            return
        if isinstance(self.generation, CostGeneration) and suits(self.generation):
            self._accept(dive(self.generation))
            self._repack(self.generation)
            self._round()
            return
        # Diving prices at every step. For a throughput, the integer restricted master takes less time.
        self._round(FIRST_ROUNDING_PART * self.run.remaining_s if self.minimised else 1e6)
        if not self.proven():
            self._accept(dive(self.generation))
            self._round()

    def _repack(self, generation: CostGeneration) -> None:
        """Search for plans at the cost of the bound; after a failure there, search once at a higher cost."""
        least_left_s = (1.0 - CONVERGING_PART) * self.run.remaining_s
        generation.solve(lambda: self.run.remaining_s < least_left_s)  # the search needs the duals of the optimum
        self._report_bound()
        repacking, deadline = BudgetSearch(generation), now() + REPACKING_PART * self.run.remaining_s
        failures, higher, room = 0, False, 0.0
        while not self.proven() and now() < deadline and failures < MOST_FAILURES:
            target = next_cost(generation.bound, self.instance) + (room if higher else 0.0)
            if target > self._worst_of_interest():
                failures, higher, room = failures + 1, False, 0.0
                continue
            if not higher:
                repacking.restart()
            found = repacking.search(target, deadline)
            if found is None:
                failures, higher = failures + 1, not higher
                room = max(2.0 * room, repacking.unserved_worth(), cost_step(self.instance)) if higher else room
                continue
            generation.add(found)
            before, higher, room = self.value, False, 0.0
            self._accept(generation.master.counts(found))
            if self.value >= before:
                return

    def _close(self) -> None:
        """Add every pattern that a better plan could use, and solve the restricted master over integers exactly."""
        worst = self._worst_of_interest()
        if math.isinf(worst) or self.run.remaining_s <= 0.0:
            return
        if self.generation.complete_below(worst) and self._round():
            # A better plan could use only the known patterns, and the restricted master has no better solution.
            cost = math.inf if self.plan is None else self.value
            self.generation.bound = cost if self.minimised else -cost
            self._report_bound()
        elif isinstance(self.generation, CostGeneration) and not self.proven():
            self._branch(self.generation)

    def _branch(self, generation: CostGeneration) -> None:
        """Branch and price until no better plan can exist or the time is over."""
        tree = Tree(
            generation, lambda bound: next_cost(bound, self.instance) > self._worst_of_interest() * (1.0 + 1e-9)
        )
        began, rounding_s = now(), 0.0
        while tree.open and self.run.remaining_s > 0.0:
            split, before = tree.step(), self.value
            generation.proof = tree.nodes
            generation.bound = max(generation.bound, min(tree.bound, self.value))
            self._report_bound()
            at = now()
            if not split or rounding_s < ROUNDING_PART * (at - began):
                self._round(1e6 if not split else at - began)
                rounding_s += now() - at
            if not split and self.value == before:
                return

    def _worst_of_interest(self) -> float:
        """Return the largest master cost at which a plan is of interest."""
        if self.plan is None:
            return self.generation.pool_price if self.minimised else 0.0
        return self.value - cost_step(self.instance) if self.minimised else self.value

    def _round(self, most_s: float = 1e6) -> bool:
        """Solve the restricted master over integers within ``most_s``; return whether it was solved to optimality."""
        if self.proven() or self.run.remaining_s <= 0.0:
            return False
        limit_s = min(self.integer_fraction * self.run.remaining_s, most_s)
        target = next_cost(self.generation.bound, self.instance) if self.minimised else -math.inf
        counts, proven = self.generation.master.integer(limit_s, self.run.seed, self.counts, target)
        self._accept(counts)
        return proven

    def bound_suffices(self, gap: float = GOOD_ENOUGH) -> bool:
        """Report the bound; return whether more patterns could hardly improve it: a throughput's by this gap."""
        self._report_bound()
        relaxation = self.generation.relaxation
        if relaxation is None:
            return True  # the time was over before the first relaxation
        if self.minimised:
            # No bound exceeds the master's value over all patterns, which is at most its value over the known ones.
            return next_cost(self.generation.bound, self.instance) >= next_cost(relaxation.value, self.instance)
        return self.generation.bound <= -relaxation.value * (1.0 + gap)

    def _report_bound(self) -> None:
        bound = self._bound()
        if bound is None:
            return
        better = bound.value if self.minimised else -bound.value
        if better > self.reported:
            self.reported = better
            self.run.report(bound=bound)

    def _bound(self) -> Bound | None:
        bound = self.generation.bound
        if not math.isfinite(bound) or (bound < 0.0 and not self.minimised):  # no plan exists that it could bound
            return None
        return self.generation.certified(bound)

    def _accept(self, counts: dict[int, int] | None) -> None:
        """Make a solution of the master the incumbent if it is better."""
        if counts is not None and sum(counts.values()) > MOST_GPUS:
            return  # where a GPU costs next to nothing, the solver may take any number
        counts = None if counts is None else self.generation.own_slots(counts)
        realised = None if counts is None else self.generation.realise(counts)
        if realised is not None and realised[0] < self.value:
            self.value, self.plan = realised
            self.counts = counts
            self.run.report(plan=self.plan)

    def proven(self) -> bool:
        """Return whether the bound proves the incumbent optimal."""
        return self.plan is not None and self.generation.reaches(self.value if self.minimised else -self.value)

    def _outcome(self) -> Outcome:
        statistics = {
            "iterations": float(self.generation.iterations),
            "nodes": float(self.generation.nodes),
            "patterns": float(len(self.generation.master.patterns)),
            "work": work_done(),
        }
        if self.generation.impossible():
            reason = f"{TOO_FEW}, {WHOLE}" if self.generation.plan_class is PlanClass.SPATIAL else TOO_FEW
            return Outcome(Status.INFEASIBLE, statistics=statistics, reason=reason, proof=self.generation.proof)
        status = Status.UNKNOWN if self.plan is None else Status.OPTIMAL if self.proven() else Status.FEASIBLE
        return Outcome(status, self.plan, self._bound(), statistics, proof=self.generation.proof)


DIVING_PART = 0.05
"""Fraction of the open GPUs that one step of diving fixes."""

SURE = 0.999
"""Weights at or above this count as integers."""


def dive(generation: ColumnGeneration) -> dict[int, int] | None:
    """Fix the largest weights step by step, and price for the rest.

    A step fixes the fraction ``DIVING_PART`` of the open GPUs, or as many as let it finish in half of the time left.

    Returns
    -------
    dict or None
        Number of GPUs of each pattern, or ``None`` if the time or the pool was exhausted.
    """
    master, run = generation.master, generation.run
    fixed: dict[int, float] = {}
    try:
        while run.remaining_s > 0.0:
            began = now()
            relaxation = master.relax()
            if generation.diving_tolerance is not None:
                for priced in generation.price_at(relaxation, generation.diving_tolerance, generation.first_node_limit):
                    generation.add(priced.patterns)
                relaxation = master.relax()
            if not master.solved():
                return None  # the fixed parts of a workload exceed the whole
            weight = relaxation.weight
            open_weight = weight - np.array([fixed.get(column, 0.0) for column in range(len(weight))])
            part = open_weight - np.floor(open_weight + 1.0 - SURE)
            whole = np.flatnonzero(open_weight >= SURE)
            for sure in whole.tolist():
                fixed[sure] = fixed.get(sure, 0.0) + math.floor(open_weight[sure] + 1.0 - SURE)
                master.fix(sure, fixed[sure])
            if part.max(initial=0.0) < 1.0 - SURE:
                counts = {c: round(w) for c, w in enumerate(weight.tolist()) if round(w) > 0}
                return counts if master.complete() else None
            step_s = now() - began
            # The time term is 0 without a deadline.
            in_time = math.ceil(part.sum() * step_s / max(run.remaining_s / 2.0, step_s))
            at_once = max(1, math.ceil(part.sum() * DIVING_PART), in_time)
            for column in _apart(generation, part, at_once):
                fixed[column] = fixed.get(column, 0.0) + 1.0
                master.fix(column, fixed[column])
        return None
    finally:
        for column in fixed:
            master.release(column)


def _apart(generation: ColumnGeneration, part: Floats, most: int) -> list[int]:
    """Return at most ``most`` columns of the largest parts, of which no two hold workloads of one class."""
    chosen: list[int] = []
    held: set[int] = set()
    for column in np.argsort(-part, kind="stable").tolist():
        classes = {int(generation.class_of[w]) for w, _, _ in generation.master.patterns[column].members}
        if len(chosen) == most or part[column] < 1.0 - SURE:
            break
        if held.isdisjoint(classes):
            chosen.append(column)
            held |= classes
    return chosen
