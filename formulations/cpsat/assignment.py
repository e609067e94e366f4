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
from formulations.problem import Offer, Problem
from instances import PART_STEPS, Objective
from instances.arrays import Floats, Ints
from instances.configurations import Configurations
from instances.dominance import largest_others, undominated
from instances.one_gpu import Pattern, Resident

SUM_RESOLUTION = np.array([1, DEMAND_RESOLUTION, DEMAND_RESOLUTION, DEMAND_RESOLUTION])
"""Steps per unit of N, C, D and P: number of residents, total L2 and DRAM demand in percent, total power in watts."""


@dataclass(frozen=True, slots=True)
class ModelledGpus:
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
    most_others
        Largest N, C, D and P of a workload's neighbours; see ``largest_others``.
    """

    offer: Offer
    count: int
    chains: Chains
    shapes: Sequence[Ints]
    conflicts: Sequence[tuple[int, ...]]
    most_others: Floats

    @classmethod
    def of(cls, offer: Offer, count: int, conflict_sets: int, deadline: float) -> "ModelledGpus":
        """Round the configurations of ``offer`` and find conflicts, within a third of the remaining time."""
        tables = offer.view.tables
        most_others = largest_others(offer.configurations, tables)
        most_amounts = most_others[:, -1, -1].copy()
        most_amounts[0] = min(most_amounts[0], tables.most_residents)
        conflicts: list[tuple[int, ...]] = []
        if count > 0:
            now = time.monotonic()
            # Conflicts do not depend on the values of the rates.
            configurations_of_any_rate = [
                undominated(configurations, tables, count_steps=False) for configurations in offer.configurations
            ]
            chains = Chains.of(configurations_of_any_rate, tables, most_amounts)
            conflicts = find_conflicts(chains, tables, conflict_sets, now + (deadline - now) / 3)
        shapes = [_shape_numbers(configurations) for configurations in offer.configurations]
        return cls(offer, count, Chains.of(offer.configurations, tables, most_amounts), shapes, conflicts, most_others)


def _shape_numbers(configurations: Configurations) -> Ints:
    """Return the number of the pair of batch and share of each configuration."""
    pairs = np.column_stack((configurations.batch, configurations.units))
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True, slots=True)
class PlacedWorkload:
    """Configuration of one workload on one GPU, as literals.

    Attributes
    ----------
    has_shape
        One literal for each pair of batch and share; exactly one is true if the workload is on the GPU.
    reaches_step
        One literal for each step, ascending: whether the rate has at least that step.
    steps
        Rate steps, shape (steps,).
    """

    has_shape: list[cp_model.IntVar]
    reaches_step: list[cp_model.IntVar]
    steps: Ints

    def literals(self, shape: int, step: int) -> tuple[cp_model.IntVar, ...]:
        """Return literals that are all true if and only if the workload has this shape and at least this rate step."""
        position = int(np.searchsorted(self.steps, step))
        return (self.has_shape[shape], self.reaches_step[position]) if position > 0 else (self.has_shape[shape],)


class Assignment:
    """CP-SAT model of the assignment.

    GPUs of one type are identical, and so are workloads with the same model, SLO and rate. Some solutions differ only
    by an exchange of identical GPUs or workloads. Symmetry breaking permits only the solution that has the largest
    workloads on the GPUs with the lowest numbers.

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
            ModelledGpus.of(offer, count, conflict_sets, deadline)
            for offer, count in zip(problem.offers, counts, strict=True)
        ]
        self.sense = 0  # -1 if there is an objective to minimise, 1 to maximise, 0 for none
        self.objective: cp_model.LinearExprT = 0
        self.model = cp_model.CpModel()
        self.offer_of_gpu = [offer for offer, modelled_gpus in enumerate(modelled) for _ in range(modelled_gpus.count)]
        self.used = [self.model.new_bool_var("") for _ in self.offer_of_gpu]
        self.is_resident: list[dict[int, cp_model.IntVar]] = [{} for _ in self.offer_of_gpu]  # by workload
        self.placed_workloads: list[dict[int, PlacedWorkload]] = [{} for _ in self.offer_of_gpu]  # by workload
        first_gpu = 0
        for modelled_gpus in modelled:
            for position in range(modelled_gpus.count):
                # Symmetry breaking: GPUs of a type are numbered by their first workload.
                self._add_residents(first_gpu + position, modelled_gpus, order if problem.split else order[position:])
                self._add_conditions(first_gpu + position, modelled_gpus)
            self._order_gpus(range(first_gpu, first_gpu + modelled_gpus.count))
            first_gpu += modelled_gpus.count
        may_be_left_out = problem.instance.objective is Objective.GOODPUT
        for w in order:
            if w in problem.split:
                self.model.add(self._steps_served(w) >= PART_STEPS)
                continue
            literals = [is_resident[w] for is_resident in self.is_resident if w in is_resident]
            if may_be_left_out:
                self.model.add_at_most_one(literals)
            else:
                self.model.add_exactly_one(literals)
        self._order_identical_workloads()

    def _add_residents(self, gpu: int, gpus: ModelledGpus, candidates: Sequence[int]) -> None:
        """Add a GPU: its residents among the candidates with their configurations, shares, memory and conflicts."""
        model, tables, used = self.model, gpus.offer.view.tables, self.used[gpu]
        is_resident = self.is_resident[gpu]
        for workload in candidates:
            if gpus.offer.configurations[workload].size:
                is_resident[workload] = model.new_bool_var("")
                model.add_implication(is_resident[workload], used)
                self.placed_workloads[gpu][workload] = self._add_placed(
                    is_resident[workload], gpus.shapes[workload], gpus.offer.configurations[workload].step
                )
        model.add_bool_or([*is_resident.values(), used.negated()])
        model.add(self._total(gpu, gpus.chains.units) <= tables.share_units * used)
        model.add(self._total(gpu, gpus.chains.memory) <= memory_limit(tables))
        for members in gpus.conflicts:
            if all(workload in is_resident for workload in members):
                model.add_bool_or([is_resident[workload].negated() for workload in members])

    def _add_placed(self, is_resident: cp_model.IntVar, shapes: Ints, steps_of_rows: Ints) -> PlacedWorkload:
        """Add the configuration of one workload on one GPU: one shape, and a rate step that exists for the shape."""
        model = self.model
        steps, step_positions = np.unique(steps_of_rows, return_inverse=True)
        has_shape = [model.new_bool_var("") for _ in range(int(shapes.max()) + 1)]
        reaches_step = [is_resident, *(model.new_bool_var("") for _ in steps[1:])]
        model.add_exactly_one(*has_shape, is_resident.negated())
        for lower, higher in pairwise(reaches_step):
            model.add_implication(higher, lower)
        positions_of_shape = [np.sort(step_positions[shapes == shape]) for shape in range(len(has_shape))]
        for position in range(1, len(reaches_step)):
            shapes_with_step = [
                literal
                for literal, positions in zip(has_shape, positions_of_shape, strict=True)
                if positions[-1] >= position
            ]
            model.add(sum(shapes_with_step) >= reaches_step[position])
        for literal, positions in zip(has_shape, positions_of_shape, strict=True):
            if positions[0] > 0:
                model.add_implication(literal, reaches_step[positions[0]])
            for below, above in pairwise(positions):
                if above > below + 1:
                    model.add_bool_or([literal.negated(), reaches_step[below + 1].negated(), reaches_step[above]])
        return PlacedWorkload(has_shape, reaches_step, steps)

    def _add_conditions(self, gpu: int, gpus: ModelledGpus) -> None:
        """Add the sums N, C, D and P of a GPU, and the conditions of configurations that neighbours can violate."""
        model, share_units = self.model, gpus.offer.view.tables.share_units
        most_sums = [floor(total) for total in SUM_RESOLUTION * gpus.most_others[:, -1, -1]]
        most_sums[0] = min(most_sums[0], gpus.offer.view.tables.most_residents)
        sums = [model.new_int_var(0, largest_sum, "") for largest_sum in most_sums]
        model.add(sum(self.is_resident[gpu].values()) == sums[0])
        has_neighbour = model.new_bool_var("")
        model.add(sums[0] <= 1).only_enforce_if(has_neighbour.negated())
        for quantity in range(3):
            model.add(self._total(gpu, gpus.chains.demand[:, quantity]) == sums[1 + quantity])
        for workload, placed in self.placed_workloads[gpu].items():
            if time.monotonic() > self.deadline:
                raise TimeoutError("the model is too large for the time left")
            chains, rows, step = gpus.chains, gpus.chains.rows(workload), gpus.offer.configurations[workload].step
            units, demand, conditions = chains.units[rows], chains.demand[rows], chains.conditions[rows]
            most_others_by_units = np.floor(gpus.most_others[:, workload] * SUM_RESOLUTION[:, None]).astype(np.int64)
            most_others_by_units[0] += 1  # the workload itself
            most_others = most_others_by_units[:, share_units - units].T
            own_amounts = np.column_stack((np.zeros_like(units), demand))
            may_break = np.einsum("krj,kj->kr", conditions[:, :, :4], most_others) > conditions[:, :, 4]
            for configuration, row in np.argwhere(may_break):
                *coefficients, limit = conditions[configuration, row].tolist()
                terms = [
                    coefficient * (total - amount)
                    for coefficient, total, amount in zip(
                        coefficients, sums, own_amounts[configuration].tolist(), strict=True
                    )
                    if coefficient
                ]
                literals = placed.literals(gpus.shapes[workload][configuration], step[configuration])
                if coefficients[0] > limit:  # any other resident violates it; alone the workload is feasible
                    literals = (*literals, has_neighbour)
                model.add(sum(terms) <= limit).only_enforce_if(*literals)

    def _total(self, gpu: int, amounts: Ints) -> cp_model.LinearExprT:
        """Return the sum of ``amounts`` (one for each row of the chains) over the configurations on a GPU."""
        gpus = self.modelled[self.offer_of_gpu[gpu]]
        literals: list[cp_model.IntVar] = []
        coefficients: list[int] = []
        for workload, placed in self.placed_workloads[gpu].items():
            amounts_by_shape = np.zeros(len(placed.has_shape), dtype=np.int64)
            amounts_by_shape[gpus.shapes[workload]] = amounts[gpus.chains.rows(workload)]
            literals += placed.has_shape
            coefficients += amounts_by_shape.tolist()
        return cp_model.LinearExpr.weighted_sum(literals, coefficients)

    def _steps_served(self, workload: int) -> cp_model.LinearExprT:
        """Return the sum of the steps at which GPUs serve a workload."""
        terms = []
        for placed in (placed_here[workload] for placed_here in self.placed_workloads if workload in placed_here):
            steps = [0, *placed.steps.tolist()]
            terms += [
                (higher - lower) * literal
                for (lower, higher), literal in zip(pairwise(steps), placed.reaches_step, strict=True)
            ]
        return sum(terms)

    def _order_gpus(self, gpus: range) -> None:
        """Number the GPUs of one type by their first workload (symmetry breaking)."""
        for before, after in pairwise(gpus):
            self.model.add_implication(self.used[after], self.used[before])
            earlier: list[cp_model.IntVar] = []
            for workload in self.order:
                # A split workload may be the first workload of both GPUs.
                if workload in self.problem.split and workload in self.is_resident[before]:
                    earlier.append(self.is_resident[before][workload])
                if workload in self.is_resident[after]:
                    self.model.add_bool_or([*earlier, self.is_resident[after][workload].negated()])
                if workload in self.is_resident[before]:
                    earlier.append(self.is_resident[before][workload])

    def _order_identical_workloads(self) -> None:
        """Place the earlier of two identical workloads on a GPU with a lower or the same number (symmetry breaking)."""
        previous: dict[tuple[str, float, float], int] = {}
        for w in self.order:
            workload = self.problem.instance.workloads[w]
            key = (workload.model, workload.slo_ms, workload.rate_rps)
            earlier = []
            for is_resident in self.is_resident if key in previous else ():
                if previous[key] in is_resident:
                    earlier.append(is_resident[previous[key]])
                if w in is_resident:
                    self.model.add_bool_or([*earlier, is_resident[w].negated()])
            previous[key] = w

    def minimise(self, prices: Sequence[int], cost_limit: int | None) -> None:
        """Set the objective: the least sum of the used GPUs' prices, by offer. The sum must be below ``cost_limit``."""
        total = sum(prices[offer] * used for offer, used in zip(self.offer_of_gpu, self.used, strict=True))
        self.sense, self.objective = -1, total
        self.model.minimize(total)
        if cost_limit is not None:
            self.model.add(total <= cost_limit - 1)

    def maximise(self, worth: Callable[[int, int], int]) -> None:
        """Set the objective: the largest sum of ``worth(workload, step)`` over the rates served."""
        self.sense = 1
        terms = []
        for placed_here in self.placed_workloads:
            for workload, placed in placed_here.items():
                values = [0, *(worth(workload, step) for step in placed.steps.tolist())]
                terms += [
                    (higher - lower) * literal
                    for (lower, higher), literal in zip(pairwise(values), placed.reaches_step, strict=True)
                ]
        self.objective = sum(terms)
        self.model.maximize(self.objective)

    def require_better(self, worth: int) -> None:
        """Replace the objective with the condition that it is better than ``worth``."""
        self.model.add(self.sense * (self.objective - worth) >= 1)
        self.model.clear_objective()  # type: ignore[no-untyped-call]
        self.sense = 0

    def forbid(self, pattern: Pattern) -> None:
        """Forbid GPUs of this type with these workloads at these batches and at these or higher rates."""
        for gpu, is_resident in enumerate(self.is_resident):
            if self.offer_of_gpu[gpu] == pattern.pool and all(
                resident.workload in is_resident for resident in pattern.residents
            ):
                literals = []
                for resident in pattern.residents:
                    configurations, shapes = self._configurations(gpu, resident.workload)
                    placed = self.placed_workloads[gpu][resident.workload]
                    # Shares that do not have exactly this rate stay permitted: there, a higher rate may have a larger
                    # budget.
                    same_rate = configurations.rate_rps == resident.rate_rps
                    forbidden = same_rate & (configurations.batch == resident.batch)
                    literals += [placed.has_shape[shape] for shape in np.unique(shapes[forbidden])]
                    step_position = int(np.searchsorted(placed.steps, configurations.step[forbidden][0]))
                    literals.append(placed.reaches_step[step_position])
                self.model.add(sum(literals) <= 2 * len(pattern.residents) - 1)

    def _configurations(self, gpu: int, workload: int) -> tuple[Configurations, Ints]:
        """Return the configurations of a workload on a GPU, and the shape of each."""
        gpus = self.modelled[self.offer_of_gpu[gpu]]
        return gpus.offer.configurations[workload], gpus.shapes[workload]

    def hint(self, patterns: Sequence[Pattern]) -> None:
        """Give ``patterns`` to the solver as a hint."""
        patterns_by_gpu = self._gpus_for(patterns)
        for gpu, is_resident in enumerate(self.is_resident):
            residents = patterns_by_gpu[gpu].residents if gpu in patterns_by_gpu else ()
            workloads = {resident.workload for resident in residents}
            self.model.add_hint(self.used[gpu], bool(workloads))
            for workload, literal in is_resident.items():
                self.model.add_hint(literal, workload in workloads)

    def _gpus_for(self, patterns: Sequence[Pattern]) -> dict[int, Pattern]:
        """Return the patterns by the number of the GPU that the model's symmetry breaking gives them."""
        rank = {workload: position for position, workload in enumerate(self.order)}
        free_gpus: dict[int, list[int]] = {offer: [] for offer in range(len(self.modelled))}
        for gpu, offer in enumerate(self.offer_of_gpu):
            free_gpus[offer].append(gpu)
        patterns_by_gpu = {}
        for pattern in sorted(patterns, key=lambda p: min(rank[resident.workload] for resident in p.residents)):
            if free_gpus[pattern.pool]:
                patterns_by_gpu[free_gpus[pattern.pool].pop(0)] = pattern
        return patterns_by_gpu

    def patterns(self, is_true: Callable[[cp_model.IntVar], bool]) -> list[Pattern]:
        """Return the patterns of a solution."""
        patterns = []
        for gpu, offer in enumerate(self.offer_of_gpu):
            residents = []
            for workload, placed in self.placed_workloads[gpu].items():
                if is_true(self.is_resident[gpu][workload]):
                    configurations, shapes = self._configurations(gpu, workload)
                    shape = next(position for position, literal in enumerate(placed.has_shape) if is_true(literal))
                    step = placed.steps[sum(map(is_true, placed.reaches_step)) - 1]
                    row = int(np.flatnonzero((shapes == shape) & (configurations.step == step))[0])
                    residents.append(
                        Resident(workload, int(configurations.batch[row]), float(configurations.rate_rps[row]))
                    )
            if residents:
                patterns.append(Pattern.of(offer, tuple(residents)))
        return patterns
