"""Positions of gpulets on one GPU type: permitted neighbours, and their least mutual interference.

A GPU holds one gpulet, two, or more. The model of two is detailed: each neighbour has a range of L2 demand and least
DRAM and power demands. For more than two, each gpulet meets at least the sum of the least demands of the others.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.temporal.places import GpuletPosition, TypeDemand, all_times_ms
from instances.arrays import Ints
from instances.tables import Tables

PAIR_SEATS = 36
"""Approximate number of seats beside one other gpulet: shares times ranges of L2 demand per share."""

CROWDS = (3, 4, 5, 6, 8, 12, 16, 24, 32)
"""Numbers of gpulets at which the least interference is computed anew."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Share beside one other gpulet, with a range of L2 demand; the demands are the least of any slot in the range."""

    units: int
    l2_ceiling_pct: float
    l2_pct: float
    dram_pct: float
    power_w: float


@dataclass(frozen=True, slots=True)
class Seating:
    """All gpulet positions on one GPU type, and the combinations that make a GPU.

    Attributes
    ----------
    places
        All positions.
    alone
        Positions alone on the GPU, shape (shares,).
    beside
        Position of a gpulet in seat i beside one in seat j, -1 if both do not fit, shape (seats, seats).
    crowd
        Positions on a GPU with at least that many gpulets, shape (crowds, shares).
    most_in_crowd
        Largest number of gpulets of each crowd, shape (crowds,).
    """

    places: list[GpuletPosition]
    alone: Ints
    beside: Ints
    crowd: Ints
    most_in_crowd: Ints


def seating(tables: Tables, asked: TypeDemand) -> Seating:
    """List the positions of gpulets that can serve some workload."""
    able = {int(units): _servable(tables, asked, int(units)) for units in tables.permitted}
    shares = [units for units, able_here in able.items() if able_here.any()]
    places: list[GpuletPosition] = []

    def place(units: int, residents: int, l2_ceiling: float, *least: float) -> int:
        places.append(GpuletPosition(units, l2_ceiling, residents, *least))
        return len(places) - 1

    alone = np.array([place(units, 1, np.inf, 0.0, 0.0, 0.0) for units in shares], dtype=np.int64)
    seats = [seat for units in shares for seat in _seats(tables, units, able[units], PAIR_SEATS // len(shares))]
    beside = np.full((len(seats), len(seats)), -1, dtype=np.int64)
    for i, own in enumerate(seats):
        for j, other in enumerate(seats):
            if own.units + other.units <= tables.share_units:
                beside[i, j] = place(own.units, 2, own.l2_ceiling_pct, other.l2_pct, other.dram_pct, other.power_w)
    most = min(tables.most_residents, tables.share_units // shares[0]) if shares else 0
    sizes = np.array([size for size in CROWDS if size <= most], dtype=np.int64)
    crowd = np.empty((len(sizes), len(shares)), dtype=np.int64)
    least = np.min([_least(tables, units, able[units]) for units in shares], axis=0, initial=np.inf)
    for c, size in enumerate(sizes.tolist()):
        crowd[c] = [place(units, size, np.inf, *((size - 1) * least)) for units in shares]
    return Seating(places, alone, beside, crowd, np.append(sizes[1:] - 1, most)[: len(sizes)])


def _servable(tables: Tables, asked: TypeDemand, units: int) -> NDArray[np.bool_]:
    """Mark the batches that meet the SLO of some workload on an otherwise empty GPU, shape (models, max batch + 1)."""
    times_ms, _ = all_times_ms(tables, asked, GpuletPosition(units, np.inf, 1, 0.0, 0.0, 0.0))
    able = np.zeros(times_ms.shape, dtype=np.bool_)
    for model, slo_ms in zip(asked.model, asked.slo_ms, strict=True):
        able[model] |= times_ms[model] <= asked.longest_part * slo_ms
    return able


def _least(tables: Tables, units: int, able: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return the least L2, DRAM and power demand of the batches marked in ``able``."""
    model, batch = np.nonzero(able)
    at = (model, batch, units)
    return float(tables.l2_pct[at].min()), float(tables.dram_pct[at].min()), float(tables.power_w[at].min())


def _seats(tables: Tables, units: int, able: NDArray[np.bool_], ranges: int) -> list[Seat]:
    """Divide the L2 demand of a share into ranges of equal width; ranges without a batch are left out."""
    l2_pct = tables.l2_pct[:, :, units]
    edges = np.linspace(l2_pct[able].min(), l2_pct[able].max(), max(1, ranges) + 1)
    number = np.clip(np.searchsorted(edges, l2_pct, side="right") - 1, 0, max(1, ranges) - 1)
    seats = []
    for n in np.unique(number[able]):
        within = able & (number == n)
        seats.append(Seat(units, float(l2_pct[within].max()), *_least(tables, units, within)))
    return seats
