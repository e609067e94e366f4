"""Workloads on one GPU: functions that call the kernels for feasibility, least shares and throughput."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from instances.catalogue import gpu_type
from instances.interference import gpu_time_beside_ms, gpu_times_ms
from instances.least_shares import least_shares, raise_to_feasible, within_budgets
from instances.plan import PlacedGpu
from instances.queueing import p99_latency_ms
from instances.spare_shares import spend_spare_shares, throughput_rps
from instances.tables import gpu_tables
from instances.view import View

SPARE_NODE_LIMIT = 200_000
"""Node limit of ``spend_spare_shares``, which then returns its incumbent; only GPUs with many residents reach it."""


class Resident(NamedTuple):
    """A workload on a GPU: its position in the instance, its batch and the rate served on the GPU."""

    workload: int
    batch: int
    rate_rps: float


@dataclass(frozen=True, slots=True)
class Pattern:
    """The gpulets and slots of one GPU.

    Attributes
    ----------
    pool
        Position of the GPU type in the instance's pool, or in the list of GPU types that a search uses.
    gpulets
        Share units of each gpulet, and its slots. A share of 0 stands for the least share that suffices. A rate of 0
        stands for the largest rate that the slot can serve.
    throughput_rps
        Requests per second that the slots complete together if they are always busy; 0 if the objective ignores it.
        Patterns that differ only in their throughput are equal.
    """

    pool: int
    gpulets: tuple[tuple[int, tuple[Resident, ...]], ...]
    throughput_rps: float = field(default=0.0, compare=False)

    @classmethod
    def of(cls, pool: int, residents: Iterable[Resident]) -> "Pattern":
        """Return a pattern with one slot per gpulet, at the least shares."""
        return cls(pool, tuple((0, (resident,)) for resident in residents))

    @property
    def residents(self) -> tuple[Resident, ...]:
        """The slots of all gpulets."""
        return tuple(slot for _, slots in self.gpulets for slot in slots)


def fit_gpu(view: View, residents: Sequence[Resident], spend_spare: bool = False) -> PlacedGpu | None:
    """Place ``residents`` on one GPU at their least shares, or return ``None`` if they do not fit.

    With ``spend_spare``, the spare units are then distributed so that the throughput is largest.
    """
    workload = np.array([resident.workload for resident in residents], dtype=np.int64)
    batch = np.array([resident.batch for resident in residents], dtype=np.int64)
    rate_rps = np.array([resident.rate_rps for resident in residents], dtype=np.float64)
    model, budgets_ms = view.model[workload], view.budgets_ms(workload, batch, rate_rps)
    units = np.zeros(len(residents), dtype=np.int64)
    if not least_shares(view.tables, model, batch, budgets_ms, units):
        return None
    if spend_spare:
        spend_spare_shares(view.tables, model, batch, budgets_ms, units, SPARE_NODE_LIMIT)
    return view.placed(workload, units, batch, rate_rps)


def placed_throughput_rps(view: View, gpu: PlacedGpu) -> float:
    """Return the largest throughput of the slots of one GPU together, in requests per second."""
    units_and_slots = [(gpulet.share_units, slot) for gpulet in gpu.gpulets for slot in gpulet.slots]
    total: float = throughput_rps(
        view.tables,
        view.model[[view.instance.workload_index[slot.workload] for _, slot in units_and_slots]],
        np.array([slot.batch for _, slot in units_and_slots], dtype=np.int64),
        np.array([units for units, _ in units_and_slots], dtype=np.int64),
    )
    return total


def warm_kernels() -> None:
    """Call every shared kernel once, so that the first timed call does not load compiled code."""
    tables = gpu_tables(gpu_type("v100"), "igniter")
    model, batch = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    budgets_ms, units = np.full((1, 1), 2.0), np.ones(1, dtype=np.int64)
    least_shares(tables, model, batch, budgets_ms, units)
    raise_to_feasible(tables, model, batch, budgets_ms, units, 1)
    within_budgets(tables, model, batch, budgets_ms, units)
    spend_spare_shares(tables, model, batch, budgets_ms, units, 1)
    gpu_times_ms(tables, model, batch, units, 1, np.zeros(1))
    gpu_time_beside_ms(tables, 0, 1, 1, np.zeros((1, 3)), 0)
    p99_latency_ms(1, 1.0, 1.0, 1.0)
