"""Input of an exact search: the GPU types of the pool and the configurations of every workload on them."""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import starmap

from bench.api import Bound
from formulations.pattern import Pattern
from instances import PART_STEPS, Instance, Objective, PlacedGpu, Plan, PlanClass
from instances.configurations import BATCHES_TRIED, Configurations, Rates, leanest
from instances.dominance import configurations_on
from instances.grouping import grouped
from instances.one_gpu import Resident, fit_gpu
from instances.tolerance import widened
from instances.view import View


@dataclass(frozen=True, slots=True)
class Offer:
    """One GPU type of the pool and the configurations of the workloads on it.

    Attributes
    ----------
    count
        Number of GPUs; the number of workloads if the pool has no limit.
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
"""Addition to that reason if the search covers no plans that split workloads."""

IN_PARTS = "each on one GPU, or in parts on several if no GPU serves it whole"
"""Addition to that reason if some workloads are served in parts."""


class Problem:
    """An instance with the configurations of its workloads.

    Parameters
    ----------
    rates
        Rates that each workload may be planned for.
    deadline
        See ``configurations_on``, which may raise ``TimeoutError``; ignored if budgets are the same at every share.
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
        most = len(rates) + (PART_STEPS - 1) * len(split)
        for pool in instance.gpus:
            count = most if pool.count is None else min(pool.count, most)
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
        """Name the first workload that no GPU serves even alone; return an empty string if there is none."""
        for w, asked in enumerate(self.instance.workloads):
            if self.least_fraction(w) < math.inf:
                continue
            if w in self.split:
                return f"{asked.id}: no GPU of the pool serves even a part of {asked.model} at {asked.rate_rps:g} req/s"
            asks = f"{self.rates[w].rate_rps.min():g} req/s of {asked.model} within {asked.slo_ms:g} ms"
            return f"{asked.id}: no GPU of the pool alone serves {asks}, and plans here split no workload"
        return ""

    def fits(self, group: Pattern) -> PlacedGpu | None:
        """Return a GPU with the residents at their least shares, or ``None`` if they do not fit on one."""
        if group not in self._placed:
            self._placed[group] = fit_gpu(self.offers[group.pool].view, group.residents)
        return self._placed[group]

    def plan(self, groups: Sequence[Pattern]) -> Plan:
        """Return the plan of feasible groups."""
        return Plan(self.instance.name, tuple(gpu for gpu in map(self.fits, groups) if gpu is not None))

    def serves_all(self, groups: Sequence[Pattern]) -> bool:
        """Return whether ``groups`` contain every workload."""
        steps = [0] * len(self.rates)
        for resident in (resident for group in groups for resident in group.residents):
            steps[resident.workload] += self.steps(resident)
        return all(count >= PART_STEPS for count in steps)

    def steps(self, resident: Resident) -> int:
        """Return how many steps of its workload's rate a resident serves."""
        return round(PART_STEPS * resident.rate_rps / self.instance.workloads[resident.workload].rate_rps)

    def trimmed(self, groups: Sequence[Pattern]) -> Sequence[Pattern]:
        """Return groups that serve no split workload beyond its rate; they fit, because budgets fall as rates grow."""
        left = dict.fromkeys(self.split, PART_STEPS)
        found = []
        for group in groups if self.split else ():
            residents = []
            for resident in group.residents:
                w, steps = resident.workload, self.steps(resident)
                if w in left:
                    steps = min(steps, left[w])
                    left[w] -= steps
                    resident = resident._replace(rate_rps=self.instance.workloads[w].rate_rps * (steps / PART_STEPS))
                if steps:
                    residents.append(resident)
            if residents:
                found.append(Pattern.of(group.pool, tuple(residents)))
        return found if self.split else groups


def lean_residents(lean: Configurations) -> dict[int, list[Resident]]:
    """Return the residents of the configurations of one workload by the step of their rate, in their order."""
    figures = zip(lean.workload.tolist(), lean.batch.tolist(), lean.rate_rps.tolist(), strict=True)
    return grouped(zip(lean.step.tolist(), starmap(Resident, figures), strict=True))


def first_fit(problem: Problem, order: Sequence[int], price: Sequence[float], deadline: float) -> list[Pattern]:
    """Place workloads one by one on the first GPU that has room; leave out those that fit nowhere.

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
    groups: list[Pattern] = []
    free = [offer.count for offer in offers]
    for w in order:
        if time.monotonic() >= deadline:
            break
        tried = [lean_residents(leanest(offer.configurations[w], BATCHES_TRIED)) for offer in offers]
        cheapest = sorted(range(len(offers)), key=lambda o: price[o] * offers[o].least_fraction(w))
        for step in sorted({step for by_step in tried for step in by_step}, reverse=True):
            joined = _join(problem, groups, w, [by_step.get(step, []) for by_step in tried])
            opened = next((o for o in cheapest if free[o] and step in tried[o]), None)
            if joined is not None:
                groups[joined[0]] = joined[1]
            elif opened is not None:
                groups.append(Pattern.of(opened, (tried[opened][step][0],)))
                free[opened] -= 1
            else:
                continue
            break
    return groups


def _join(
    problem: Problem, groups: Sequence[Pattern], workload: int, tried: Sequence[Sequence[Resident]]
) -> tuple[int, Pattern] | None:
    """Return the index of the first GPU with room for the workload, and the enlarged group; ``tried`` is by offer."""
    for g, group in enumerate(groups):
        if any(resident.workload == workload for resident in group.residents):
            continue  # the parts of a workload are on different GPUs
        for resident in tried[group.pool]:
            grown = Pattern.of(group.pool, (*group.residents, resident))
            if problem.fits(grown) is not None:
                return g, grown
    return None


def groups_of(plan: Plan, problem: Problem, rates: Sequence[Rates]) -> list[Pattern]:
    """Return the GPUs of ``plan`` as groups; GPUs that are infeasible or not of class ``spatial`` are left out.

    A rate that is not among ``rates`` is rounded down to the next one; without a lower rate the slot is left out.
    Also left out are workloads that an earlier GPU serves, and GPUs beyond the size of the pool.
    """
    found: list[Pattern] = []
    seen: set[int] = set()
    free = [offer.count for offer in problem.offers]
    position = {offer.view.gpu.name: o for o, offer in enumerate(problem.offers)}
    for gpu in plan.gpus:
        o = position.get(gpu.type)
        if o is None or not free[o] or any(len(gpulet.slots) > 1 or gpulet.duty_cycle_ms for gpulet in gpu.gpulets):
            continue
        view, residents = problem.offers[o].view, []
        for slot in (slot for gpulet in gpu.gpulets for slot in gpulet.slots):
            w = problem.instance.workload_index.get(slot.workload)
            if w is None or w in seen or slot.batch > view.tables.max_batch[view.model[w]]:
                continue
            lower = rates[w].rate_rps[rates[w].rate_rps <= widened(slot.rate_rps)]
            if len(lower):
                residents.append(Resident(w, slot.batch, float(lower.max())))
                seen.add(w)
        group = Pattern.of(o, tuple(residents))
        if residents and problem.fits(group) is not None:
            found.append(group)
            free[o] -= 1
    return found


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
