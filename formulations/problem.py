"""Input of an exact search: the GPU types of the pool and the configurations of every workload on them."""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import starmap

from bench.api import Bound
from instances import PART_STEPS, Instance, Objective, PlacedGpu, Plan, PlanClass
from instances.configurations import BATCHES_TRIED, Configurations, Rates, leanest
from instances.dominance import configurations_on
from instances.grouping import grouped
from instances.one_gpu import Pattern, Resident, fit_gpu
from instances.tolerance import widened
from instances.view import View


@dataclass(frozen=True, slots=True)
class Offer:
    """One GPU type of the pool and the configurations of the workloads on it.

    Attributes
    ----------
    count
        Number of GPUs, at most as many as there are workloads, or parts of split ones.
    configurations
        Configurations of every workload, in the order of the instance.
    """

    view: View
    count: int
    configurations: Sequence[Configurations]

    def least_fraction(self, workload: int) -> float:
        """Return the least fraction of a GPU that the workload needs; infinity if no such GPU serves it."""
        units = self.configurations[workload].units
        return int(units.min()) / self.view.tables.share_units if len(units) else math.inf


TOO_FEW = "the pool has too few GPUs to serve all workloads"
"""Reason for infeasibility if every workload, taken alone, fits on some GPU of the pool."""

WHOLE = "each whole on one GPU"
"""Addition to ``TOO_FEW`` if the search covers no plans that split workloads."""

IN_PARTS = "each on one GPU, or in parts on several if no GPU serves it whole"
"""Addition to ``TOO_FEW`` if some workloads are served in parts."""


class Problem:
    """An instance with the configurations of its workloads.

    Parameters
    ----------
    rates
        Rates that each workload may be planned for.
    deadline
        ``time.monotonic()`` value after which ``configurations_on`` raises ``TimeoutError``; ignored if budgets are the
        same at every share.
    split
        Positions of the workloads that several GPUs serve in parts; each of their rates is the rate of a part.

    Attributes
    ----------
    offers
        GPU types of which the pool has at least one GPU.
    """

    def __init__(
        self,
        instance: Instance,
        rates: Sequence[Rates],
        deadline: float = math.inf,
        split: frozenset[int] = frozenset(),
    ) -> None:
        self.instance = instance
        self.split = split
        self.rates = rates
        self.offers: list[Offer] = []
        deadline = deadline if instance.slo_rule.by_share else math.inf
        most_gpus = len(rates) + (PART_STEPS - 1) * len(split)
        for pool in instance.gpus:
            count = most_gpus if pool.count is None else min(pool.count, most_gpus)
            if count > 0:
                view = View.of(instance, pool.type)
                self.offers.append(Offer(view, count, configurations_on(view, rates, deadline)))
        self._placed: dict[Pattern, PlacedGpu | None] = {}

    def least_fraction(self, workload: int) -> float:
        """Return the least fraction of any GPU that the workload needs; infinity if no GPU serves it."""
        return min((offer.least_fraction(workload) for offer in self.offers), default=math.inf)

    def largest_first(self) -> list[int]:
        """Return the workload positions by decreasing fraction of a GPU that they need."""
        return sorted(range(len(self.rates)), key=lambda w: -self.least_fraction(w))

    def unservable(self) -> str:
        """Return a message about the first workload that no GPU serves even alone; empty if there is none."""
        for position, workload in enumerate(self.instance.workloads):
            if self.least_fraction(position) < math.inf:
                continue
            if position in self.split:
                whole = f"{workload.model} at {workload.rate_rps:g} req/s"
                return f"{workload.id}: no GPU of the pool serves even a part of {whole}"
            request = f"{self.rates[position].rate_rps.min():g} req/s of {workload.model} within {workload.slo_ms:g} ms"
            return f"{workload.id}: no GPU of the pool alone serves {request}, and plans here split no workload"
        return ""

    def fit(self, pattern: Pattern) -> PlacedGpu | None:
        """Return a GPU with the residents at their least shares, or ``None`` if they do not fit on one."""
        if pattern not in self._placed:
            self._placed[pattern] = fit_gpu(self.offers[pattern.pool].view, pattern.residents)
        return self._placed[pattern]

    def plan(self, patterns: Sequence[Pattern]) -> Plan:
        """Return the plan of feasible patterns."""
        return Plan(self.instance.name, tuple(gpu for gpu in map(self.fit, patterns) if gpu is not None))

    def serves_all(self, patterns: Sequence[Pattern]) -> bool:
        """Return whether ``patterns`` contain every workload."""
        steps = [0] * len(self.rates)
        for resident in (resident for pattern in patterns for resident in pattern.residents):
            steps[resident.workload] += self.steps(resident)
        return all(count >= PART_STEPS for count in steps)

    def steps(self, resident: Resident) -> int:
        """Return how many steps of its workload's rate a resident serves."""
        return round(PART_STEPS * resident.rate_rps / self.instance.workloads[resident.workload].rate_rps)

    def trimmed(self, patterns: Sequence[Pattern]) -> Sequence[Pattern]:
        """Return the patterns without service beyond the rate of a split workload.

        The returned patterns fit on their GPUs, because budgets fall as rates grow.
        """
        if not self.split:
            return patterns
        steps_left = dict.fromkeys(self.split, PART_STEPS)
        trimmed_patterns = []
        for pattern in patterns:
            residents = []
            for resident in pattern.residents:
                w, steps = resident.workload, self.steps(resident)
                if w in steps_left:
                    steps = min(steps, steps_left[w])
                    steps_left[w] -= steps
                    resident = resident._replace(rate_rps=self.instance.workloads[w].rate_rps * (steps / PART_STEPS))
                if steps:
                    residents.append(resident)
            if residents:
                trimmed_patterns.append(Pattern.of(pattern.pool, tuple(residents)))
        return trimmed_patterns


def residents_by_step(configurations: Configurations) -> dict[int, list[Resident]]:
    """Return the configurations of one workload as residents, by their step of the rate, in the given order."""
    fields = zip(
        configurations.workload.tolist(), configurations.batch.tolist(), configurations.rate_rps.tolist(), strict=True
    )
    return grouped(zip(configurations.step.tolist(), starmap(Resident, fields), strict=True))


def first_fit(problem: Problem, order: Sequence[int], price: Sequence[float], deadline: float) -> list[Pattern]:
    """Place workloads one by one on the first GPU that has room; leave out workloads that fit nowhere.

    The highest rate is tried on every GPU, a new one included, before a lower rate. A new GPU is of the type on which
    the workload's share costs least.

    Parameters
    ----------
    order
        Workload positions; each occurrence of a split workload places one part.
    price
        Price of a GPU, by offer.
    deadline
        ``time.monotonic()`` value after which no further workload is placed.
    """
    offers = problem.offers
    patterns: list[Pattern] = []
    free_gpus = [offer.count for offer in offers]
    for workload in order:
        if time.monotonic() >= deadline:
            break
        by_step = [residents_by_step(leanest(offer.configurations[workload], BATCHES_TRIED)) for offer in offers]
        cheapest_first = sorted(
            range(len(offers)),
            key=lambda offer_position: price[offer_position] * offers[offer_position].least_fraction(workload),
        )
        for step in sorted({step for residents in by_step for step in residents}, reverse=True):
            residents_by_offer = [residents.get(step, []) for residents in by_step]
            enlarged = _join(problem, patterns, workload, residents_by_offer)
            new_gpu_offer = next(
                (
                    offer_position
                    for offer_position in cheapest_first
                    if free_gpus[offer_position] and residents_by_offer[offer_position]
                ),
                None,
            )
            if enlarged is not None:
                patterns[enlarged[0]] = enlarged[1]
            elif new_gpu_offer is not None:
                patterns.append(Pattern.of(new_gpu_offer, (residents_by_offer[new_gpu_offer][0],)))
                free_gpus[new_gpu_offer] -= 1
            else:
                continue
            break
    return patterns


def _join(
    problem: Problem, patterns: Sequence[Pattern], workload: int, residents_by_offer: Sequence[Sequence[Resident]]
) -> tuple[int, Pattern] | None:
    """Return the position of the first pattern with room for the workload, and this pattern with the workload."""
    for position, pattern in enumerate(patterns):
        if any(resident.workload == workload for resident in pattern.residents):
            continue  # the parts of a workload are on different GPUs
        for resident in residents_by_offer[pattern.pool]:
            enlarged = Pattern.of(pattern.pool, (*pattern.residents, resident))
            if problem.fit(enlarged) is not None:
                return position, enlarged
    return None


def patterns_of(plan: Plan, problem: Problem, rates: Sequence[Rates]) -> list[Pattern]:
    """Return the GPUs of ``plan`` as patterns; GPUs that are infeasible or not of class ``spatial`` are left out.

    A rate that is not among ``rates`` is rounded down to the next rate; without a lower rate the slot is left out.
    Workloads that an earlier GPU serves, and GPUs beyond the size of the pool, are left out as well.
    """
    patterns: list[Pattern] = []
    served: set[int] = set()
    free_gpus = [offer.count for offer in problem.offers]
    offer_of = {offer.view.gpu.name: position for position, offer in enumerate(problem.offers)}
    for gpu in plan.gpus:
        offer_position = offer_of.get(gpu.type)
        if (
            offer_position is None
            or not free_gpus[offer_position]
            or any(len(gpulet.slots) > 1 or gpulet.duty_cycle_ms for gpulet in gpu.gpulets)
        ):
            continue
        view, residents = problem.offers[offer_position].view, []
        for slot in (slot for gpulet in gpu.gpulets for slot in gpulet.slots):
            w = problem.instance.workload_index.get(slot.workload)
            if w is None or w in served or slot.batch > view.tables.max_batch[view.model[w]]:
                continue
            permitted_rps = rates[w].rate_rps[rates[w].rate_rps <= widened(slot.rate_rps)]
            if len(permitted_rps):
                residents.append(Resident(w, slot.batch, float(permitted_rps.max())))
                served.add(w)
        pattern = Pattern.of(offer_position, tuple(residents))
        if residents and problem.fit(pattern) is not None:
            patterns.append(pattern)
            free_gpus[offer_position] -= 1
    return patterns


def bound_on_parts(value: float, instance: Instance, split: Collection[int] | None) -> Bound:
    """Return a certified bound for plans that serve workloads in parts: multiples of a step, on different GPUs.

    Parameters
    ----------
    split
        Positions of the workloads that may be split; ``None`` for all.
    """
    return Bound(
        value,
        True,
        plan_class=PlanClass.SPLIT,
        split_workloads=None if split is None else tuple(instance.workloads[w].id for w in sorted(split)),
        part_steps=None if instance.objective is Objective.GOODPUT else PART_STEPS,  # under goodput all rates are steps
        parts_apart=True,
    )
