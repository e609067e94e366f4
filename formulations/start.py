"""Where an exact search starts from: a plan that was handed over, or first fit with the one-GPU kernel."""

from collections.abc import Sequence

import numpy as np

from formulations.choices import Choices, Rates
from formulations.offers import Fits, Group, Offer
from instances import Plan
from instances.one_gpu import Resident

BATCHES_TRIED = 3
"""First fit tries the pairs of batch and rate of a workload that need the fewest units, this many of each rate."""

RATE_TOLERANCE = 1e-9
"""Relative difference at which two rates are the same."""


def first_fit(offers: Sequence[Offer], order: Sequence[int], price: Sequence[float], fits: Fits) -> list[Group]:
    """Place workloads one by one on the first GPU that has room; whoever fits nowhere is left out.

    The highest rate is tried everywhere, on a new GPU too, before a lower one. A new GPU is of the type on which the
    workload's share costs least.

    Parameters
    ----------
    offers, order, price
        What there is, workload positions, and the price of a GPU of each offer.
    fits
        Asked about every group.
    """
    groups: list[Group] = []
    free = [offer.count for offer in offers]
    for w in order:
        tried = [_to_try(offer.choices[w]) for offer in offers]
        for step in sorted({step for offered in tried for step in offered}, reverse=True):
            grown = next(
                (
                    (g, bigger)
                    for g, group in enumerate(groups)
                    for batch, rate in tried[group.offer].get(step, ())
                    if fits(bigger := Group(group.offer, (*group.residents, Resident(w, batch, rate))))
                ),
                None,
            )
            if grown is not None:
                groups[grown[0]] = grown[1]
                break
            opened = [o for o, offered in enumerate(tried) if free[o] and step in offered]
            if opened:
                o = min(
                    opened,
                    key=lambda o: price[o] * int(offers[o].choices[w].units.min()) / offers[o].view.tables.share_units,
                )
                groups.append(Group(o, (Resident(w, *tried[o][step][0]),)))
                free[o] -= 1
                break
    return groups


def _to_try(choices: Choices) -> dict[int, list[tuple[int, float]]]:
    """Pairs of batch and rate by step, those of the fewest units first."""
    found: dict[int, list[tuple[int, float]]] = {}
    for k in np.argsort(choices.units, kind="stable"):
        pairs = found.setdefault(int(choices.step[k]), [])
        pair = (int(choices.batch[k]), float(choices.rate_rps[k]))
        if pair not in pairs and len(pairs) < BATCHES_TRIED:
            pairs.append(pair)
    return found


def groups_of(plan: Plan, offers: Sequence[Offer], rates: Sequence[Rates], fits: Fits) -> list[Group]:
    """Return the GPUs of ``plan`` as groups: those that are of class ``spatial`` and fit.

    A rate that is not on offer becomes the next lower one that is; where there is none the slot is left out. So is a
    workload that an earlier GPU has already, and GPUs beyond what an offer has.
    """
    found: list[Group] = []
    seen: set[int] = set()
    free = [offer.count for offer in offers]
    for gpu in plan.gpus:
        o = next((o for o, offer in enumerate(offers) if offer.view.gpu.name == gpu.type), None)
        if o is None or not free[o] or any(len(gpulet.slots) != 1 or gpulet.duty_cycle_ms for gpulet in gpu.gpulets):
            continue
        residents = []
        for slot in (gpulet.slots[0] for gpulet in gpu.gpulets):
            w = offers[o].view.instance.workload_index.get(slot.workload)
            if w is None or w in seen:
                continue
            lower = rates[w].rate_rps[rates[w].rate_rps <= slot.rate_rps * (1.0 + RATE_TOLERANCE)]
            top = int(offers[o].view.tables.max_batch[offers[o].view.model[w]])
            if len(lower) and slot.batch <= top:
                residents.append(Resident(w, slot.batch, float(lower.max())))
        group = Group(o, tuple(residents))
        if residents and fits(group):
            found.append(group)
            seen.update(r.workload for r in residents)
            free[o] -= 1
    return found
