"""Repair of a model's assignment: the one-GPU kernel tests each GPU, and excess workloads move elsewhere.

A solver's shares satisfy its own model within its own tolerances. So only the placement, the batches and the rates are
used. If the residents of a GPU do not fit, the best batch of each is tried, then the largest residents leave. They join
the first GPU with room, open another one, or (``goodput``) are served at a lower rate. Without groups to start from,
the repair is first fit decreasing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from formulations.pattern import Pattern
from formulations.problem import Offer, Problem, lean_residents
from instances import Objective
from instances.configurations import Configurations, leanest
from instances.one_gpu import Resident
from instances.tolerance import TOLERANCE

BATCHES_REPAIRED = 2
"""Batches that the repair tries at each rate of a workload: those of the fewest units."""


def repair(problem: Problem, groups: Sequence[Pattern]) -> list[Pattern] | None:
    """Return feasible groups close to ``groups``, or ``None`` if a required workload fits nowhere.

    Parameters
    ----------
    groups
        At most ``Offer.count`` groups of each offer, each workload in at most one group.
    """
    settled = [_settle(problem, group) for group in groups]
    repaired = [_Repaired.of(group, problem) for group in settled if group.residents]
    served = {resident.workload for gpu in repaired for resident in gpu.group.residents}
    lean = {
        w: [leanest(offer.configurations[w], BATCHES_REPAIRED) for offer in problem.offers]
        for w in range(len(problem.rates))
        if w not in served
    }
    for workload in sorted(lean, key=lambda w: -_fraction(problem.offers, lean[w])):
        if not _place(problem, repaired, lean[workload]) and problem.instance.objective is not Objective.GOODPUT:
            return None
    return [gpu.group for gpu in repaired]


@dataclass(slots=True)
class _Repaired:
    """Feasible group, and the units that its least shares leave free: no workload that needs more can join."""

    group: Pattern
    free_units: int

    @classmethod
    def of(cls, group: Pattern, problem: Problem) -> "_Repaired":
        placed = problem.fits(group)
        assert placed is not None, "only groups that fit are repaired"
        return cls(group, problem.offers[group.pool].view.tables.share_units - placed.share_units)


def _settle(problem: Problem, group: Pattern) -> Pattern:
    """Make a group feasible: unchanged, with best batches, or without its largest residents."""
    configurations = problem.offers[group.pool].configurations
    while group.residents and problem.fits(group) is None:
        best = Pattern.of(group.pool, tuple(_best(configurations[r.workload], r) for r in group.residents))
        if problem.fits(best) is not None:
            return best
        largest = max(group.residents, key=lambda r: int(configurations[r.workload].units.min()))
        group = Pattern.of(group.pool, tuple(r for r in group.residents if r is not largest))
    return group


def _best(configurations: Configurations, resident: Resident) -> Resident:
    """Return the resident with the batch that serves its rate on the fewest units."""
    for residents in lean_residents(leanest(configurations, BATCHES_REPAIRED)).values():
        for lean in residents:
            if abs(lean.rate_rps - resident.rate_rps) <= TOLERANCE * resident.rate_rps:
                return lean
    return resident


def _fraction(offers: Sequence[Offer], lean: Sequence[Configurations]) -> float:
    """Return the least fraction of a GPU that serves a workload at its highest feasible rate."""
    # The first configuration has the highest rate and the fewest units.
    fractions = [
        int(configurations.units[0]) / offer.view.tables.share_units
        for offer, configurations in zip(offers, lean, strict=True)
        if configurations.size
    ]
    return min(fractions, default=0.0)


def _place(problem: Problem, repaired: list[_Repaired], lean: Sequence[Configurations]) -> bool:
    """Add a workload to the first group with room, else to a new one; try lower rates only if both fail."""
    offers, tried = problem.offers, [lean_residents(configurations) for configurations in lean]
    cheapest_first = sorted(range(len(offers)), key=lambda t: offers[t].view.gpu.price_per_hour)
    for step in sorted({step for by_step in tried for step in by_step}, reverse=True):
        for position, gpu in enumerate(repaired):
            o = gpu.group.pool
            units = lean[o].units[lean[o].step == step].tolist()
            for resident, least_units in zip(tried[o].get(step, []), units, strict=True):
                if least_units <= gpu.free_units:
                    grown = Pattern.of(o, (*gpu.group.residents, resident))
                    if problem.fits(grown) is not None:
                        repaired[position] = _Repaired.of(grown, problem)
                        return True
        for t in cheapest_first:
            if step in tried[t] and sum(gpu.group.pool == t for gpu in repaired) < offers[t].count:
                repaired.append(_Repaired.of(Pattern.of(t, (tried[t][step][0],)), problem))
                return True
    return False
