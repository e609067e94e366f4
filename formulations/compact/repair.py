"""Repair of a model's assignment: the one-GPU kernel tests each GPU, and excess workloads move elsewhere.

A solver's shares satisfy its own model within its own tolerances. So only the placement, the batches and the rates are
used. If the residents of a GPU do not fit, the best batch of each is tried, then the largest residents leave. They join
the first GPU with room, open another one, or (``goodput``) are served at a lower rate. Without groups to start from,
the repair is first fit decreasing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from formulations.problem import Group, Offer, Problem, Way, ways_to_serve
from instances import Objective
from instances.configurations import Configurations
from instances.one_gpu import Resident
from instances.tolerance import TOLERANCE

BATCHES_TRIED = 2
"""Number of batches tried per workload and rate: those of the configurations with the fewest units."""

_Ways = dict[int, list[Way]]


def repair(problem: Problem, groups: Sequence[Group]) -> list[Group] | None:
    """Return feasible groups close to ``groups``, or ``None`` if a required workload fits nowhere.

    Parameters
    ----------
    groups
        At most ``Offer.count`` groups of each offer, each workload in at most one group.
    """
    settled = [_settle(problem, group) for group in groups]
    kept = [_Kept.of(group, problem) for group in settled if group.residents]
    served = {resident.workload for one in kept for resident in one.group.residents}
    ways = {
        w: [ways_to_serve(w, offer.configurations[w], BATCHES_TRIED) for offer in problem.offers]
        for w in range(len(problem.rates))
        if w not in served
    }
    for workload in sorted(ways, key=lambda w: -_part(problem.offers, ways[w])):
        if not _place(problem, kept, ways[workload]) and problem.instance.objective is not Objective.GOODPUT:
            return None
    return [one.group for one in kept]


@dataclass(slots=True)
class _Kept:
    """Feasible group, and the units that its least shares leave free: no workload that needs more can join."""

    group: Group
    free_units: int

    @classmethod
    def of(cls, group: Group, problem: Problem) -> "_Kept":
        placed = problem.fits(group)
        assert placed is not None, "only groups that fit are kept"
        return cls(group, problem.offers[group.offer].view.tables.share_units - placed.share_units)


def _settle(problem: Problem, group: Group) -> Group:
    """Make a group feasible: unchanged, with best batches, or without its largest residents."""
    configurations = problem.offers[group.offer].configurations
    while group.residents and problem.fits(group) is None:
        best = Group(group.offer, tuple(_best(configurations[r.workload], r) for r in group.residents))
        if problem.fits(best) is not None:
            return best
        largest = max(group.residents, key=lambda r: int(configurations[r.workload].units.min()))
        group = Group(group.offer, tuple(r for r in group.residents if r is not largest))
    return group


def _best(configurations: Configurations, resident: Resident) -> Resident:
    """Return the resident with the batch that serves its rate on the fewest units."""
    for ways in ways_to_serve(resident.workload, configurations, BATCHES_TRIED).values():
        for way in ways:
            if abs(way.resident.rate_rps - resident.rate_rps) <= TOLERANCE * resident.rate_rps:
                return way.resident
    return resident


def _part(offers: Sequence[Offer], ways: Sequence[_Ways]) -> float:
    """Return the least fraction of a GPU that serves a workload at its highest feasible rate."""
    parts = [
        found[max(found)][0].units / offer.view.tables.share_units
        for offer, found in zip(offers, ways, strict=True)
        if found
    ]
    return min(parts, default=0.0)


def _place(problem: Problem, kept: list[_Kept], ways: Sequence[_Ways]) -> bool:
    """Add a workload to the first group with room, else to a new one; try lower rates only if both fail."""
    offers = problem.offers
    cheapest_first = sorted(range(len(offers)), key=lambda t: offers[t].view.gpu.price_per_hour)
    for step in sorted({step for found in ways for step in found}, reverse=True):
        for position, one in enumerate(kept):
            for way in ways[one.group.offer].get(step, []):
                if way.units <= one.free_units:
                    grown = Group(one.group.offer, (*one.group.residents, way.resident))
                    if problem.fits(grown) is not None:
                        kept[position] = _Kept.of(grown, problem)
                        return True
        for t in cheapest_first:
            if step in ways[t] and sum(one.group.offer == t for one in kept) < offers[t].count:
                kept.append(_Kept.of(Group(t, (ways[t][step][0].resident,)), problem))
                return True
    return False
