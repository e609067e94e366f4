"""Compact assignment model in CP-SAT: the GPU and the configuration of every workload.

Importing this module loads OR-Tools.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor

import numpy as np
from ortools.sat.python import cp_model

from formulations.cpsat.conflicts import Chains, find_conflicts
from formulations.cpsat.integers import DEMAND_RESOLUTION, memory_limit
from formulations.pattern import Pattern
from formulations.problem import Offer, Problem
from instances import PART_STEPS, Objective
from instances.arrays import Floats, Ints
from instances.configurations import Configurations
from instances.dominance import largest_others, undominated
from instances.one_gpu import Resident

SUM_RESOLUTION = np.array([1, DEMAND_RESOLUTION, DEMAND_RESOLUTION, DEMAND_RESOLUTION])
"""Steps per unit of N, C, D and P."""


@dataclass(frozen=True, slots=True)
class Modelled:
    """GPUs of one offer in the model.

    Attributes
    ----------
    count
        Number of GPUs in the model.
    chains
        The configurations of every workload in integers.
    shapes
        For each workload, the number of the pair of batch and share of each configuration. The pair determines units,
        memory and demand.
    conflicts
        Sets of workloads that cannot share such a GPU.
    company
        ``largest_others`` of the configurations.
    """

    offer: Offer
    count: int
    chains: Chains
    shapes: Sequence[Ints]
    conflicts: Sequence[tuple[int, ...]]
    company: Floats

    @classmethod
    def of(cls, offer: Offer, count: int, conflict_sets: int, deadline: float) -> "Modelled":
        """Round the configurations of ``offer`` and find conflicts, within a third of the remaining time."""
        tables = offer.view.tables
        company = largest_others(offer.configurations, tables)
        most = company[:, -1, -1].copy()
        most[0] = min(most[0], tables.most_residents)
        conflicts: list[tuple[int, ...]] = []
        if count > 0:
            now = time.monotonic()
            # Conflicts do not depend on the values of the rates.
            any_rate = [undominated(each, tables, count_steps=False) for each in offer.configurations]
            chains = Chains.of(any_rate, tables, most)
            conflicts = find_conflicts(chains, tables, conflict_sets, now + (deadline - now) / 3)
        shapes = [
            np.unique(np.column_stack((each.batch, each.units)), axis=0, return_inverse=True)[1].reshape(-1)
            for each in offer.configurations
        ]
        return cls(offer, count, Chains.of(offer.configurations, tables, most), shapes, conflicts, company)


@dataclass(frozen=True, slots=True)
class Placed:
    """Configuration of one workload on one GPU, as literals.

    Attributes
    ----------
    shape
        One literal for each pair of batch and share; exactly one is true if the workload is on the GPU.
    ladder
        One literal for each step, ascending: whether the rate has at least that step.
    steps
        Rate steps, shape (steps,).
    """

    shape: list[cp_model.IntVar]
    ladder: list[cp_model.IntVar]
    steps: Ints

    def literals(self, shape: int, step: int) -> tuple[cp_model.IntVar, ...]:
        """Return literals that are all true iff the workload has this shape, at a rate of this or a higher step."""
        rung = int(np.searchsorted(self.steps, step))
        return (self.shape[shape], self.ladder[rung]) if rung > 0 else (self.shape[shape],)


class Assignment:
    """CP-SAT model of the assignment.

    GPUs of one type are identical, and so are workloads with the same model, SLO and rate. Of solutions that differ
    only by an exchange of these, symmetry breaking keeps the one with the largest workloads on GPUs with low numbers.

    Parameters
    ----------
    counts
        Number of GPUs of each offer to model; no optimal plan needs more.
    conflict_sets
        Largest number of workload sets tested for conflicts on each GPU type.
    deadline
        ``time.monotonic()`` value by which the model must be complete, and at which ``solving.solve`` stops.

    Raises
    ------
    TimeoutError
        If the model is not complete by the deadline.
    """

    def __init__(self, problem: Problem, counts: Sequence[int], conflict_sets: int, deadline: float) -> None:
        self.problem = problem
        self.deadline = deadline
        self.order = order = problem.largest_first()
        self.modelled = modelled = [
            Modelled.of(offer, count, conflict_sets, deadline)
            for offer, count in zip(problem.offers, counts, strict=True)
        ]
        self.sense = 0  # -1 if there is an objective to minimise, 1 to maximise, 0 for none
        self.objective: cp_model.LinearExprT = 0
        self.model = cp_model.CpModel()
        self.offer_of = [o for o, gpus in enumerate(modelled) for _ in range(gpus.count)]
        self.used = [self.model.new_bool_var("") for _ in self.offer_of]
        self.here: list[dict[int, cp_model.IntVar]] = [{} for _ in self.offer_of]  # by workload
        self.placed: list[dict[int, Placed]] = [{} for _ in self.offer_of]  # by workload
        first = 0
        for gpus in modelled:
            for position in range(gpus.count):
                # Symmetry breaking: GPUs of a type are numbered by their first workload.
                self._add_residents(first + position, gpus, order if problem.split else order[position:])
                self._add_conditions(first + position, gpus)
            self._order_gpus(range(first, first + gpus.count))
            first += gpus.count
        may_wait = problem.instance.objective is Objective.GOODPUT
        for w in order:
            if w in problem.split:
                self.model.add(self._steps_served(w) >= PART_STEPS)
                continue
            places = [here[w] for here in self.here if w in here]
            (self.model.add_at_most_one if may_wait else self.model.add_exactly_one)(places)
        self._order_alike()

    def _add_residents(self, gpu: int, gpus: Modelled, candidates: Sequence[int]) -> None:
        """Add a GPU: its residents among the candidates with their configurations, shares, memory and conflicts."""
        model, tables, used = self.model, gpus.offer.view.tables, self.used[gpu]
        here = self.here[gpu]
        for w in candidates:
            if gpus.offer.configurations[w].size:
                here[w] = model.new_bool_var("")
                model.add_implication(here[w], used)
                self.placed[gpu][w] = self._add_placed(here[w], gpus.shapes[w], gpus.offer.configurations[w].step)
        model.add_bool_or([*here.values(), used.negated()])
        model.add(self._total(gpu, gpus.chains.units) <= tables.share_units * used)
        model.add(self._total(gpu, gpus.chains.memory) <= memory_limit(tables))
        for members in gpus.conflicts:
            if all(w in here for w in members):
                model.add_bool_or([here[w].negated() for w in members])

    def _add_placed(self, here: cp_model.IntVar, shapes: Ints, step: Ints) -> Placed:
        """Add the configuration of one workload on one GPU: one shape, and a rate step that exists for the shape."""
        model = self.model
        steps, level = np.unique(step, return_inverse=True)
        shape = [model.new_bool_var("") for _ in range(int(shapes.max()) + 1)]
        ladder = [here, *(model.new_bool_var("") for _ in steps[1:])]
        model.add_exactly_one(*shape, here.negated())
        for lower, higher in pairwise(ladder):
            model.add_implication(higher, lower)
        on_offer = [np.sort(level[shapes == m]) for m in range(len(shape))]
        for rung in range(1, len(ladder)):
            model.add(sum(x for x, levels in zip(shape, on_offer, strict=True) if levels[-1] >= rung) >= ladder[rung])
        for x, levels in zip(shape, on_offer, strict=True):
            if levels[0] > 0:
                model.add_implication(x, ladder[levels[0]])
            for below, above in pairwise(levels):
                if above > below + 1:
                    model.add_bool_or([x.negated(), ladder[below + 1].negated(), ladder[above]])
        return Placed(shape, ladder, steps)

    def _add_conditions(self, gpu: int, gpus: Modelled) -> None:
        """Add the sums N, C, D and P of a GPU, and the conditions that other residents can violate."""
        model, share_units = self.model, gpus.offer.view.tables.share_units
        most = [floor(total) for total in SUM_RESOLUTION * gpus.company[:, -1, -1]]
        most[0] = min(most[0], gpus.offer.view.tables.most_residents)
        sums = [model.new_int_var(0, bound, "") for bound in most]
        model.add(sum(self.here[gpu].values()) == sums[0])
        crowded = model.new_bool_var("")
        model.add(sums[0] <= 1).only_enforce_if(crowded.negated())
        for q in range(3):
            model.add(self._total(gpu, gpus.chains.demand[:, q]) == sums[1 + q])
        for w, placed in self.placed[gpu].items():
            if time.monotonic() > self.deadline:
                raise TimeoutError("the model is too large for the time left")
            chains, rows, step = gpus.chains, gpus.chains.rows(w), gpus.offer.configurations[w].step
            units, demand, conditions = chains.units[rows], chains.demand[rows], chains.conditions[rows]
            worst = np.floor(gpus.company[:, w] * SUM_RESOLUTION[:, None]).astype(np.int64)
            worst[0] += 1  # the workload itself
            beside = worst[:, share_units - units].T
            amounts = np.column_stack((np.zeros_like(units), demand))
            broken = np.einsum("krj,kj->kr", conditions[:, :, :4], beside) > conditions[:, :, 4]
            for k, row in np.argwhere(broken):
                *coefficients, limit = conditions[k, row].tolist()
                terms = [
                    a * (total - amount)
                    for a, total, amount in zip(coefficients, sums, amounts[k].tolist(), strict=True)
                    if a
                ]
                literals = placed.literals(gpus.shapes[w][k], step[k])
                if coefficients[0] > limit:  # any other resident violates it; alone the workload is feasible
                    literals = (*literals, crowded)
                model.add(sum(terms) <= limit).only_enforce_if(*literals)

    def _total(self, gpu: int, amounts: Ints) -> cp_model.LinearExprT:
        """Return the sum of ``amounts`` (one for each row of the chains) over the configurations on a GPU."""
        gpus = self.modelled[self.offer_of[gpu]]
        literals: list[cp_model.IntVar] = []
        coefficients: list[int] = []
        for w, placed in self.placed[gpu].items():
            of_shape = np.zeros(len(placed.shape), dtype=np.int64)
            of_shape[gpus.shapes[w]] = amounts[gpus.chains.rows(w)]
            literals += placed.shape
            coefficients += of_shape.tolist()
        return cp_model.LinearExpr.weighted_sum(literals, coefficients)

    def _steps_served(self, workload: int) -> cp_model.LinearExprT:
        """Return the sum of the steps at which GPUs serve a workload."""
        terms = []
        for placed in (here[workload] for here in self.placed if workload in here):
            steps = [0, *placed.steps.tolist()]
            terms += [(b - a) * x for (a, b), x in zip(pairwise(steps), placed.ladder, strict=True)]
        return sum(terms)

    def _order_gpus(self, gpus: range) -> None:
        """Number the GPUs of one type by their first workload (symmetry breaking)."""
        for before, after in pairwise(gpus):
            self.model.add_implication(self.used[after], self.used[before])
            earlier: list[cp_model.IntVar] = []
            for w in self.order:
                if w in self.problem.split and w in self.here[before]:
                    earlier.append(self.here[before][w])  # a split workload may be the first one of both GPUs
                if w in self.here[after]:
                    self.model.add_bool_or([*earlier, self.here[after][w].negated()])
                if w in self.here[before]:
                    earlier.append(self.here[before][w])

    def _order_alike(self) -> None:
        """Place the earlier of two identical workloads on a GPU with a lower or the same number (symmetry breaking)."""
        last: dict[tuple[str, float, float], int] = {}
        for w in self.order:
            asked = self.problem.instance.workloads[w]
            likeness = (asked.model, asked.slo_ms, asked.rate_rps)
            earlier = []
            for here in self.here if likeness in last else ():
                if last[likeness] in here:
                    earlier.append(here[last[likeness]])
                if w in here:
                    self.model.add_bool_or([*earlier, here[w].negated()])
            last[likeness] = w

    def minimise(self, price: Sequence[int], below: int | None) -> None:
        """Set the objective: the least sum of the used GPUs' prices, given by offer; it must be less than ``below``."""
        total = sum(price[o] * used for o, used in zip(self.offer_of, self.used, strict=True))
        self.sense, self.objective = -1, total
        self.model.minimize(total)
        if below is not None:
            self.model.add(total <= below - 1)

    def maximise(self, worth: Callable[[int, int], int]) -> None:
        """Set the objective: the largest sum of ``worth(workload, step)`` over the rates served."""
        self.sense = 1
        terms = []
        for placed_here in self.placed:
            for w, placed in placed_here.items():
                values = [0, *(worth(w, step) for step in placed.steps.tolist())]
                terms += [
                    (higher - lower) * x for (lower, higher), x in zip(pairwise(values), placed.ladder, strict=True)
                ]
        self.objective = sum(terms)
        self.model.maximize(self.objective)

    def require_better(self, worth: int) -> None:
        """Replace the objective with the condition that it is better than ``worth``."""
        self.model.add(self.sense * (self.objective - worth) >= 1)
        self.model.clear_objective()  # type: ignore[no-untyped-call]
        self.sense = 0

    def forbid(self, group: Pattern) -> None:
        """Forbid GPUs of this type with these workloads at these batches and at these or higher rates."""
        for gpu, here in enumerate(self.here):
            if self.offer_of[gpu] == group.pool and all(r.workload in here for r in group.residents):
                literals = []
                for resident in group.residents:
                    configurations, shapes = self._configurations(gpu, resident.workload)
                    placed = self.placed[gpu][resident.workload]
                    # Only shares that offer this rate: at others, a higher rate may have a larger budget.
                    same = (configurations.batch == resident.batch) & (configurations.rate_rps == resident.rate_rps)
                    literals += [placed.shape[m] for m in np.unique(shapes[same])]
                    literals.append(placed.ladder[int(np.searchsorted(placed.steps, configurations.step[same][0]))])
                self.model.add(sum(literals) <= 2 * len(group.residents) - 1)

    def _configurations(self, gpu: int, workload: int) -> tuple[Configurations, Ints]:
        """Return the configurations of a workload on a GPU, and the shape of each."""
        gpus = self.modelled[self.offer_of[gpu]]
        return gpus.offer.configurations[workload], gpus.shapes[workload]

    def hint(self, groups: Sequence[Pattern]) -> None:
        """Give ``groups`` to the solver as a hint."""
        taken = self._gpus_for(groups)
        for gpu, here in enumerate(self.here):
            there = {r.workload: r for r in taken[gpu].residents} if gpu in taken else {}
            self.model.add_hint(self.used[gpu], bool(there))
            for w, literal in here.items():
                self.model.add_hint(literal, w in there)

    def _gpus_for(self, groups: Sequence[Pattern]) -> dict[int, Pattern]:
        """Return the groups by the number of the GPU that the model's symmetry breaking gives them."""
        rank = {w: position for position, w in enumerate(self.order)}
        free = {o: [g for g, offer in enumerate(self.offer_of) if offer == o] for o in range(len(self.modelled))}
        taken = {}
        for group in sorted(groups, key=lambda g: min(rank[r.workload] for r in g.residents)):
            if free[group.pool]:
                taken[free[group.pool].pop(0)] = group
        return taken

    def groups(self, is_true: Callable[[cp_model.IntVar], bool]) -> list[Pattern]:
        """Return the groups of a solution."""
        groups = []
        for gpu, o in enumerate(self.offer_of):
            residents = []
            for w, placed in self.placed[gpu].items():
                if is_true(self.here[gpu][w]):
                    configurations, shapes = self._configurations(gpu, w)
                    shape = next(m for m, x in enumerate(placed.shape) if is_true(x))
                    step = placed.steps[sum(map(is_true, placed.ladder)) - 1]
                    k = int(np.flatnonzero((shapes == shape) & (configurations.step == step))[0])
                    residents.append(Resident(w, int(configurations.batch[k]), float(configurations.rate_rps[k])))
            if residents:
                groups.append(Pattern.of(o, tuple(residents)))
        return groups
