"""Elastic partitioning of gpulet: most efficient share, best fit, then turns (ATC'22, Alg. 1; arXiv'21, Alg. 1).

In order of reading: the sizes ``p_eff`` and ``p_req``; the steps that Algorithm 1 names (``FindBestFit``, ``Split``,
``TemporalMerge``, ``RevertSplit``); how a gpulet takes a rate; and the algorithm's loop.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from heuristics.gpulet.pools import CuttingScheduler
from heuristics.gpulet.state import (
    SLACK,
    Gpulets,
    can_take_turns,
    capacity_on_rps,
    load,
    put,
    restore,
    settle,
    snapshot,
)
from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled, kernel
from instances.tables import Tables
from instances.view import View

PROFILED_PCT = (20, 40, 50, 60, 80, 100)
"""Shares that the papers profile."""

BISECTIONS = 12
"""Bisection steps in the search for a largest rate."""

LEAST_PART = 0.01
"""Smallest part of an unserved rate for which a slot is added."""


class Variant(StrEnum):
    """Paper whose algorithm is used."""

    ATC22 = "atc22"
    ARXIV = "arxiv"


class EfficientShare(StrEnum):
    """Reading of ``p_eff``, the share with the highest performance per resource."""

    KNEE = "knee"
    RATE_PER_SHARE = "rate-per-share"


class RemainingGpulets(StrEnum):
    """Meaning of "remaining gpulets" in the while condition of the ATC paper (line 4)."""

    ANY = "any"
    FREE_GPULETS = "free-gpulets"


class KneeAxes(StrEnum):
    """Axes of the curve on which a knee is found."""

    RELATIVE = "relative"
    """Both axes relative to their largest value."""

    RAW = "raw"
    """Share in percent and rate in requests per second."""


def knee_units(units: Ints, share_units: int, rate_rps: Floats, axes: KneeAxes = KneeAxes.RELATIVE) -> int:
    """Return the share at the knee of a curve of rates over shares.

    The knee is where the circle through a point and its two neighbours is smallest.

    Parameters
    ----------
    units, rate_rps
        Points of the curve, by ascending share, shape (points,); at least three.
    share_units
        Units of the whole GPU.
    axes
        Axes on which the circles are drawn.
    """
    if axes is KneeAxes.RAW:
        points = np.column_stack([100.0 * units / share_units, rate_rps])
    else:
        points = np.column_stack([units / share_units, rate_rps / rate_rps.max()])
    (ax, ay), (bx, by) = (points[1:-1] - points[:-2]).T, (points[2:] - points[1:-1]).T
    # 1 / radius of a circle through three points: four times the area of their triangle, over the product of its sides
    sides = np.hypot(ax, ay) * np.hypot(bx, by) * np.hypot(ax + bx, ay + by)
    return int(units[1 + int(np.argmax(2.0 * np.abs(ax * by - ay * bx) / sides))])


def max_efficient_partition(view: View, gpulets: Gpulets, workload: int, reading: EfficientShare) -> int:
    """Return ``p_eff`` in units (gpulet, ATC'22 and arXiv'21, Sec. 4.3).

    ``knee``: the knee of the served rate over the share. ``rate-per-share``: the share with the highest rate per unit,
    the largest if several have it. The points of the curve are the permitted shares. If every unit is permitted, they
    are the shares that the papers profile, because between neighbouring units the curve has steps where the batch
    changes.
    """
    share_units = view.tables.share_units
    shares = np.array(
        view.gpu.allowed_shares or [round(share_units * pct / 100) for pct in PROFILED_PCT], dtype=np.int64
    )
    rate = gpulets.alone_rps[workload, shares]
    shares, rate = shares[rate > 0.0], rate[rate > 0.0]
    if reading is EfficientShare.RATE_PER_SHARE:
        per_unit = rate / shares
        return int(shares[per_unit >= per_unit.max() * (1.0 - SLACK)][-1]) if len(shares) else share_units
    return share_units if len(shares) < 3 else knee_units(shares, share_units, rate)


@kernel
def min_required_partition(tables: Tables, gpulets: Gpulets, workload: int, rate_rps: float) -> int:
    """Return ``p_req`` in units: the least share that serves ``rate_rps`` alone, or the whole GPU if none does."""
    for units in tables.permitted:
        if gpulets.alone_rps[workload, units] >= rate_rps:
            return units
    return tables.share_units


@kernel
def find_best_fit(gpulets: Gpulets, ideal: int, tried: Flags) -> int:
    """Return the free gpulet that fits ``p_ideal`` best, -1 if no gpulet is free.

    The best fit is the smallest gpulet of at least ``ideal`` units, or the largest if all are smaller. Gpulets without
    slots are free. Gpulets marked in ``tried``, shape (gpulets,), are excluded.
    """
    best = -1
    for i in range(len(gpulets.units)):
        units = gpulets.units[i]
        if gpulets.slots[i] > 0 or units == 0 or tried[i]:
            continue
        best_units = 0 if best < 0 else gpulets.units[best]
        if best < 0 or (ideal <= units < best_units) or (best_units < ideal and units > best_units):
            best = i
    return best


@kernel
def split(tables: Tables, gpulets: Gpulets, i: int, units: int) -> None:
    """Split an undivided GPU into a gpulet of ``units`` and the largest permitted remainder."""
    remainder = 0
    for permitted in tables.permitted:
        if permitted <= tables.share_units - units:
            remainder = permitted
    gpulets.units[i], gpulets.units[i ^ 1] = units, remainder


@kernel
def revert_split(tables: Tables, gpulets: Gpulets, i: int) -> None:
    """Merge the gpulets of the GPU of ``i`` if it is empty."""
    g = i - i % 2
    if gpulets.slots[g] == 0 and gpulets.slots[g + 1] == 0:
        gpulets.units[g], gpulets.units[g + 1] = tables.share_units, 0


@compiled
def temporal_merge(tables: Tables, gpulets: Gpulets, i: int, workload: int, unserved_rps: Floats) -> bool:
    """Serve a workload's unserved rate in turns with the slots of an allocated gpulet; return whether it is possible.

    Allocated gpulets are tried from the smallest on. If an allocated gpulet cannot serve the rate and the free gpulet
    ``i`` is larger, the slots of the allocated gpulet and the workload move to ``i`` if they fit there. Without a free
    gpulet, ``i`` is -1.
    """
    for units in tables.permitted:
        for a in range(len(gpulets.units)):
            if gpulets.slots[a] == 0 or gpulets.units[a] != units:
                continue
            if give(tables, gpulets, a, workload, unserved_rps[workload], unserved_rps):
                return True
            if i >= 0 and gpulets.units[i] > units and _move(tables, gpulets, a, i, workload, unserved_rps):
                return True
    return False


@compiled
def _move(tables: Tables, gpulets: Gpulets, a: int, i: int, workload: int, unserved_rps: Floats) -> bool:
    """Move the slots of ``a`` and a workload's unserved rate to the free gpulet ``i`` if possible; return success."""
    saved_a, saved_i = snapshot(gpulets, a), snapshot(gpulets, i)
    for s in range(gpulets.slots[a]):
        put(gpulets, i, gpulets.workload[a, s], gpulets.rate_rps[a, s])
    gpulets.slots[a] = 0
    settled = put(gpulets, i, workload, unserved_rps[workload]) and settle(tables, gpulets, i)
    if settled and settle(tables, gpulets, a):
        revert_split(tables, gpulets, a)
        unserved_rps[workload] = 0.0
        return True
    restore(gpulets, i, saved_i)
    restore(gpulets, a, saved_a)
    return False


@compiled
def _make_room(tables: Tables, gpulets: Gpulets, i: int) -> tuple[bool, int, float]:
    """Settle the GPU of ``i`` (see ``settle``), if necessary by reducing the rate of the neighbour's largest slot.

    Return whether that was possible, the workload of the reduced slot (-1 if no slot is reduced), and the rate that
    this workload loses. If it was not possible, the state of the GPU is invalid.
    """
    if settle(tables, gpulets, i):
        return True, -1, 0.0
    neighbour = i ^ 1
    if gpulets.slots[neighbour] == 0 or not can_take_turns(tables, gpulets, i):
        return False, -1, 0.0
    slot = np.argmax(gpulets.rate_rps[neighbour, : gpulets.slots[neighbour]])
    full_rps = gpulets.rate_rps[neighbour, slot]
    low, high = 0.0, full_rps
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        gpulets.rate_rps[neighbour, slot] = middle
        if settle(tables, gpulets, i):
            low = middle
        else:
            high = middle
    gpulets.rate_rps[neighbour, slot] = low
    return low > 0.0 and settle(tables, gpulets, i), gpulets.workload[neighbour, slot], full_rps - low


@compiled
def give(tables: Tables, gpulets: Gpulets, i: int, workload: int, rate_rps: float, unserved_rps: Floats) -> bool:
    """Let gpulet ``i`` serve ``rate_rps`` of a workload, in turns if it has other slots; return whether it is possible.

    If not, nothing changes. The neighbour's largest slot may lose rate; the loss is added to ``unserved_rps``. The loss
    must be less than the rate that a free gpulet ``i`` can serve, or than half of ``rate_rps`` if ``i`` has slots; this
    guarantees termination. Loss and gain are compared as fractions of the rates that a whole GPU serves.
    """
    if rate_rps > (1.0 - load(gpulets, i)) * gpulets.alone_rps[workload, gpulets.units[i]] * (1.0 + SLACK):
        return False
    saved = snapshot(gpulets, i)
    gain_rps = rate_rps / 2.0
    if gpulets.slots[i] == 0:
        gain_rps = capacity_on_rps(tables, gpulets, workload, i)
    if put(gpulets, i, workload, rate_rps):
        settled, loser, lost_rps = _make_room(tables, gpulets, i)
        if settled and (
            loser < 0
            or lost_rps * gpulets.alone_rps[workload, tables.share_units]
            < gain_rps * gpulets.alone_rps[loser, tables.share_units]
        ):
            unserved_rps[workload] = max(0.0, unserved_rps[workload] - rate_rps)
            if loser >= 0:
                unserved_rps[loser] += lost_rps
            return True
    restore(gpulets, i, saved)
    return False


@compiled
def give_most(tables: Tables, gpulets: Gpulets, i: int, workload: int, unserved_rps: Floats) -> bool:
    """Let gpulet ``i`` serve what it can of an unserved rate without loss to others; return whether it serves any."""
    spare_rps = (1.0 - load(gpulets, i)) * gpulets.alone_rps[workload, gpulets.units[i]]
    low, high = LEAST_PART * unserved_rps[workload], min(unserved_rps[workload], spare_rps)
    if low > high:
        return False
    saved = snapshot(gpulets, i)
    if not (put(gpulets, i, workload, low) and settle(tables, gpulets, i)):
        restore(gpulets, i, saved)
        return False
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        restore(gpulets, i, saved)
        put(gpulets, i, workload, middle)
        if settle(tables, gpulets, i):
            low = middle
        else:
            high = middle
    restore(gpulets, i, saved)
    put(gpulets, i, workload, low)
    settle(tables, gpulets, i)
    unserved_rps[workload] -= low
    return True


@compiled
def partition(
    tables: Tables,
    gpulets: Gpulets,
    order: Ints,
    efficient: Ints,
    sizing_rps: Floats,
    any_turns: bool,
    unserved_rps: Floats,
) -> None:
    """Serve the rates in ``unserved_rps``, which are reduced in place (Algorithm 1).

    Parameters
    ----------
    order, efficient
        The workloads in the order of placement, and ``p_eff`` of each workload.
    sizing_rps
        Rates that ``p_req`` serves: ``unserved_rps`` itself for what is left of each rate, or the whole rates.
    any_turns
        Try turns also if no free gpulet serves the workload.
    """
    progress = True
    while progress:
        progress = False
        # atc22 line 3, arxiv line 5; repeated for workloads that lost rate because of later neighbours
        for workload in order:
            while unserved_rps[workload] > 0.0:  # atc22 line 4, arxiv line 8
                # atc22 line 7, arxiv line 10
                required = min_required_partition(tables, gpulets, workload, sizing_rps[workload])
                ideal = min(efficient[workload], required)  # atc22 line 8, arxiv line 11
                if not _allocate(tables, gpulets, workload, ideal, any_turns, unserved_rps):
                    return
                progress = True


@compiled
def _allocate(
    tables: Tables, gpulets: Gpulets, workload: int, ideal: int, any_turns: bool, unserved_rps: Floats
) -> bool:
    """Give ``workload`` one more gpulet of ``ideal`` units or one more slot; return whether that was possible."""
    tried = np.zeros(len(gpulets.units), dtype=np.bool_)
    while True:
        i = find_best_fit(gpulets, ideal, tried)  # atc22 line 9, arxiv line 12
        if i < 0:
            break
        if gpulets.units[i] == tables.share_units and ideal < tables.share_units:
            split(tables, gpulets, i, ideal)  # atc22 lines 17-19, arxiv lines 23-26
        # atc22 lines 20-21, arxiv lines 27-28
        largest_rps = capacity_on_rps(tables, gpulets, workload, i)
        # atc22 line 22, arxiv lines 33-39
        if largest_rps >= unserved_rps[workload] and temporal_merge(tables, gpulets, i, workload, unserved_rps):
            revert_split(tables, gpulets, i)
            return True
        if largest_rps > 0.0 and give(
            tables, gpulets, i, workload, min(largest_rps, unserved_rps[workload]), unserved_rps
        ):
            return True
        tried[i] = True
        revert_split(tables, gpulets, i)
    if not any_turns:
        return False
    if temporal_merge(tables, gpulets, -1, workload, unserved_rps):  # all free gpulets were tried
        return True
    for i in range(len(gpulets.units)):
        if gpulets.slots[i] > 0 and give_most(tables, gpulets, i, workload, unserved_rps):
            return True
    return False


@dataclass(frozen=True, slots=True)
class ElasticPartitioning(CuttingScheduler):
    """Elastic partitioning (gpulet ATC'22, Algorithm 1; gpulet arXiv'21, Algorithm 1).

    Each workload receives gpulets until its rate is served. Their size is the most efficient share, or the least share
    that serves the remaining rate if that is smaller. A gpulet is the smallest free one that is large enough, or part
    of a new GPU split in two. A remainder that needs no gpulet of its own takes turns with others where possible.

    The papers leave three cases open. If a new neighbour reduces the rate of a workload, the lost rate is served
    elsewhere. If all free gpulets are too small, the largest is taken. If none is free, turns are still tried, for a
    part of the rate too. ``docs/deviations.md`` lists these choices.

    Attributes
    ----------
    variant
        ``atc22``: workloads by rate times SLO, ascending; ``p_req`` serves the rate that is left. ``arxiv``: by rate,
        descending; ``p_req`` serves the whole rate.
    interference
        Whether interference is considered. Without it, plans violate latency budgets, and the judge reports this.
    second_pass
        Whether a failure is followed by a second pass in which the whole GPU is the most efficient share. Two gpulets
        with strong interference often serve less than the undivided GPU. The papers have no second pass.
    turns
        ``any``: a gpulet remains while it has time left, so turns are tried even if no gpulet is free.
        ``free-gpulets``: only gpulets without a slot remain, and without them the workload fails.
    efficient
        ``knee``: ``p_eff`` is the knee of the rate over the share, as in the text of both papers. ``rate-per-share``:
        it is the share with the highest rate per unit, the ATC's "highest performance per resource" taken literally.
    """

    name: ClassVar[str] = "elastic-partitioning"

    variant: Variant = Variant.ATC22
    interference: bool = True
    second_pass: bool = False
    turns: RemainingGpulets = RemainingGpulets.ANY
    efficient: EfficientShare = EfficientShare.KNEE

    def cut(self, view: View, gpus: int) -> Gpulets | None:
        """Serve all workloads on ``gpus`` GPUs of one type; return ``None`` if that fails."""
        empty = Gpulets.undivided(view, gpus, self.interference)
        # atc22 line 2, arxiv line 3
        key = view.rate_rps * view.slo_ms if self.variant is Variant.ATC22 else -view.rate_rps
        order = np.argsort(key, kind="stable")
        shares = np.array(
            [max_efficient_partition(view, empty, w, self.efficient) for w in range(len(order))], dtype=np.int64
        )
        for efficient in [shares, np.full_like(shares, view.tables.share_units)] if self.second_pass else [shares]:
            gpulets, unserved_rps = empty.copied(), view.rate_rps.copy()
            sizing_rps = unserved_rps if self.variant is Variant.ATC22 else view.rate_rps
            any_turns = self.turns is RemainingGpulets.ANY
            partition(view.tables, gpulets, order, efficient, sizing_rps, any_turns, unserved_rps)
            if not unserved_rps.any():
                return gpulets
        return None
