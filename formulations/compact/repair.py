"""From a model's assignment to groups that hold: the one-GPU kernel decides, and whoever is over finds a new place.

A solver's shares satisfy its own model, within its own tolerances. Only *who is where, with which batch and rate* is
taken from it. A GPU whose residents do not fit is tried with the best batch of each, then gives residents up, the
largest first. Those join the first GPU with room, open another one, or (``goodput``) are served at a lower rate.
"""

from collections.abc import Sequence

import numpy as np

from formulations.choices import Choices
from formulations.offers import Fits, Group, Offer
from instances import Instance, Objective
from instances.one_gpu import Resident

BATCHES_TRIED = 2
"""Batches tried for a workload at each rate: those of its choices that need the fewest units."""

RATE_TOLERANCE = 1e-9
"""Relative difference at which two rates are the same."""


def repair(instance: Instance, offers: Sequence[Offer], fits: Fits, groups: Sequence[Group]) -> list[Group] | None:
    """Return groups close to ``groups`` that all fit, or ``None`` if somebody who must be served finds no place.

    Parameters
    ----------
    instance, offers
        What is to be served, and where.
    fits
        Asked about every group.
    groups
        At most as many of each offer as there are; every workload at most once.
    """
    kept: list[Group] = []
    for group in groups:
        settled = _settle(offers[group.offer], fits, group)
        if settled.residents:
            kept.append(settled)
    served = {resident.workload for group in kept for resident in group.residents}
    over = [w for w in range(len(instance.workloads)) if w not in served]
    for workload in sorted(over, key=lambda w: -_least_part(offers, w)):
        if not _house(offers, fits, kept, workload) and instance.objective is not Objective.GOODPUT:
            return None
    return kept


def _ways(choices: Choices, workload: int) -> dict[int, list[Resident]]:
    """Return the batches and rates to try for a workload by step of its rate, those of the fewest units first."""
    found: dict[int, list[Resident]] = {}
    for k in np.argsort(choices.units, kind="stable"):
        ways = found.setdefault(int(choices.step[k]), [])
        way = Resident(workload, int(choices.batch[k]), float(choices.rate_rps[k]))
        if len(ways) < BATCHES_TRIED and way not in ways:
            ways.append(way)
    return found


def _settle(offer: Offer, fits: Fits, group: Group) -> Group:
    """Make a group fit: as it is, with best batches, or without its largest residents."""
    while group.residents and fits(group) is None:
        best = Group(group.offer, tuple(_best(offer.choices[r.workload], r) for r in group.residents))
        if fits(best) is not None:
            return best
        largest = max(group.residents, key=lambda r: int(offer.choices[r.workload].units.min()))
        group = Group(group.offer, tuple(r for r in group.residents if r is not largest))
    return group


def _best(choices: Choices, resident: Resident) -> Resident:
    """Return the resident with the batch that serves its rate on the fewest units."""
    for ways in _ways(choices, resident.workload).values():
        for way in ways:
            if abs(way.rate_rps - resident.rate_rps) <= RATE_TOLERANCE * resident.rate_rps:
                return way
    return resident


def _least_part(offers: Sequence[Offer], workload: int) -> float:
    """Least fraction of a GPU that serves the workload."""
    parts = [
        float(offer.choices[workload].units.min()) / offer.view.tables.share_units
        for offer in offers
        if len(offer.choices[workload])
    ]
    return min(parts, default=0.0)


def _house(offers: Sequence[Offer], fits: Fits, kept: list[Group], workload: int) -> bool:
    """Add a workload to the first group with room, else to a new one; at lower rates only where neither does."""
    ways = [_ways(offer.choices[workload], workload) for offer in offers]
    for step in sorted({step for offered in ways for step in offered}, reverse=True):
        for g, group in enumerate(kept):
            for way in ways[group.offer].get(step, []):
                grown = Group(group.offer, (*group.residents, way))
                if fits(grown) is not None:
                    kept[g] = grown
                    return True
        for t in sorted(range(len(offers)), key=lambda t: offers[t].view.gpu.price_per_hour):
            if step in ways[t] and sum(group.offer == t for group in kept) < offers[t].count:
                kept.append(Group(t, (ways[t][step][0],)))
                return True
    return False
