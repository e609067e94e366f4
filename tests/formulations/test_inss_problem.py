"""Solvers against plain enumeration on problem (1) of InSS: three workloads on two A100s.

The enumeration tries every placement, batch and share by the paper's formulas. From the instance it takes only the
coefficients.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.api import Run, Scheduler, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from instances import GpuPool, Instance, Workload
from instances.catalogue import gpu_type
from instances.files import read_instance
from instances.gpu import GpuType
from instances.performance.inss import regressed_ms

FROZEN = Path(__file__).parents[1] / "fixtures" / "frozen" / "inss-small.json"
SOLVABLE_S = 120.0
"""Time limit of a run: many times what any of these solvers takes."""


class Alone:
    """Batches and shares of one workload that meet constraint (1c) without neighbours.

    Neighbours only lengthen times, so no other batch or share ever meets it.
    """

    def __init__(self, gpu: GpuType, workload: Workload) -> None:
        model = gpu.models[workload.model]
        solo, self.growths = model.profiled(gpu.name), model.inss
        assert self.growths is not None
        assert min(self.growths) >= 0.0
        batch, units = np.meshgrid(np.arange(1, model.max_batch + 1), np.arange(1, gpu.share_units + 1), indexing="ij")
        alone_ms = regressed_ms(solo, batch.astype(float), 100.0 * units / gpu.share_units)
        per_item_ms = (model.input_bytes + model.output_bytes) / gpu.hardware.pcie_bytes_per_ms
        # Equation 3 for even arrivals: the first request waits for b - 1 others; a batch is served in b / rate.
        budget_ms = np.minimum(
            workload.slo_ms - 1000.0 * (batch - 1) / workload.rate_rps, 1000.0 * batch / workload.rate_rps
        )
        possible = alone_ms + batch * per_item_ms <= budget_ms
        self.batch, self.units = batch[possible], units[possible]
        self.alone_ms, self.budget_ms = alone_ms[possible], budget_ms[possible]
        self.transfer_ms = self.batch * per_item_ms
        throughput_rps = 1000.0 * self.batch / self.alone_ms
        self.l2_pct = solo.l2[0] * throughput_rps + solo.l2[1]
        self.dram_pct = solo.dram[0] * throughput_rps + solo.dram[1]
        assert min(self.l2_pct.min(), self.dram_pct.min()) >= 0.0

    def only(self, chosen: NDArray[np.int64]) -> "Alone":
        """Return only the configurations at the positions ``chosen``."""
        part = object.__new__(Alone)
        part.__dict__ = {
            name: value[chosen] if isinstance(value, np.ndarray) else value for name, value in vars(self).items()
        }
        return part


def throughput_rps(members: Sequence[Alone]) -> NDArray[np.float64]:
    """Return the total throughput ``b / t_inf`` of the members on one GPU; minus infinity where one is late.

    Each member has one configuration, or an array of them that is broadcast.
    """
    total = np.zeros(np.broadcast_shapes(*(member.batch.shape for member in members)))
    for member in members:
        l2_pct = sum(other.l2_pct for other in members if other is not member)
        dram_pct = sum(other.dram_pct for other in members if other is not member)
        growth = 1.0 + member.growths[0] * l2_pct + member.growths[1] * dram_pct
        inference_ms = member.alone_ms * growth + member.transfer_ms
        total = np.where(inference_ms <= member.budget_ms, total + 1000.0 * member.batch / inference_ms, -np.inf)
    return total


def most_of_one_gpu(members: Sequence[Alone], share_units: int) -> float:
    """Return the most throughput of the members on one GPU by enumeration; minus infinity if they do not fit."""
    if not members:
        return 0.0
    *others, last = members
    # Units that the others take, by the configuration of each
    taken_units = np.zeros((1,) * len(others), dtype=np.int64)
    for axis, other in enumerate(others):
        taken_units = taken_units + np.expand_dims(other.units, tuple(n for n in range(len(others)) if n != axis))
    best = -np.inf
    for chosen in np.argwhere(taken_units + last.units.min() <= share_units):
        chosen_others = [other.only(chosen[n : n + 1]) for n, other in enumerate(others)]
        fitting = np.flatnonzero(last.units + taken_units[tuple(chosen)] <= share_units)
        best = max(best, float(throughput_rps([*chosen_others, last.only(fitting)]).max()))
    return best


def optimum_rps(instance: Instance) -> float:
    """Return the most throughput of the workloads on the GPUs of the instance's only type (problem (1))."""
    (pool,) = instance.gpus
    assert pool.count is not None
    alone = [Alone(pool.type, workload) for workload in instance.workloads]
    most_rps: dict[tuple[int, ...], float] = {}
    best = -np.inf
    for gpu_of in product(range(pool.count), repeat=len(alone)):
        total = 0.0
        for gpu in range(pool.count):
            members = tuple(position for position, chosen in enumerate(gpu_of) if chosen == gpu)
            if members not in most_rps:
                most_rps[members] = most_of_one_gpu([alone[position] for position in members], pool.type.share_units)
            total += most_rps[members]
        best = max(best, total)
    return best


def small_problem() -> Instance:
    """Return the frozen problem on the catalogue's ``a100-inss``."""
    frozen = read_instance(FROZEN)
    assert isinstance(frozen, Instance)
    (pool,) = frozen.gpus
    return replace(frozen, gpus=(GpuPool(gpu_type("a100-inss"), pool.count),))


def test_enumeration_finds_the_known_optimum_of_the_frozen_problem() -> None:
    frozen = read_instance(FROZEN)
    assert isinstance(frozen, Instance)
    assert optimum_rps(frozen) == pytest.approx(14_259.616, abs=1e-3)


@pytest.fixture(scope="module")
def enumerated_rps() -> float:
    return optimum_rps(small_problem())


@pytest.mark.parametrize("scheduler", [ColGen(), CpSat()], ids=["colgen", "cpsat"])
def test_solvers_find_the_optimum_on_the_types_of_the_catalogue(scheduler: Scheduler, enumerated_rps: float) -> None:
    instance = small_problem()
    scheduler.warm(instance.objective)  # compiles kernels outside the limit

    outcome = scheduler.schedule(instance, Run(deadline=time.monotonic() + SOLVABLE_S))

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert outcome.bound is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert verdict.value == pytest.approx(enumerated_rps, rel=1e-7)
    assert outcome.bound.value == pytest.approx(enumerated_rps, rel=1e-7)
