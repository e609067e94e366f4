"""Formulas of docs/model.md: brute force by them finds the optima of the solvers on two small instances.

For the models with measured times, plans have the throughput of the formulas.

The brute force uses no performance model, budget or solver of the project, only the coefficients of the catalogue.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import NamedTuple

import pytest

from bench.api import Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from instances import DnnModel, GpuPool, GpuType, Instance, Objective, PlacedGpu, Plan, SloRule, Workload
from instances.catalogue import gpu_type
from instances.plan import Gpulet
from instances.plan import Slot as PlanSlot
from instances.suites import suite

(IGNITER_3,) = suite("igniter-3").build()


class Slot(NamedTuple):
    """Workload i with a batch and a share in units."""

    i: int
    b: int
    u: int


@dataclass(frozen=True)
class Page:
    """Symbols of docs/model.md for an instance with one GPU type and the rule half-slo.

    A parameter ``gpu`` has the slots of one GPU.
    """

    instance: Instance

    @property
    def gpu(self) -> GpuType:
        return self.instance.gpus[0].type

    def model(self, slot: Slot) -> DnnModel:
        return self.gpu.models[self.instance.workloads[slot.i].model]

    def k(self, slot: Slot) -> float:
        """Return the active time alone (equation 11)."""
        k1, k2, k3, k4, k5 = self.model(slot).k
        r = 100.0 * slot.u / self.gpu.share_units
        return (k1 * slot.b**2 + k2 * slot.b + k3) / (r + k4) + k5

    def demand(self, slot: Slot, line: tuple[float, float]) -> float:
        a, b = line
        return a * 1000.0 * slot.b / self.k(slot) + b

    def t_gpu(self, slot: Slot, gpu: Sequence[Slot]) -> float:
        """Return the GPU time of a slot beside the others (equations 4 to 6 and 8 to 10)."""
        model, hardware, n = self.model(slot), self.gpu.hardware, len(gpu)
        delta = max(0.0, hardware.alpha_sch * n + hardware.beta_sch) if n > 1 else 0.0
        t_sch = model.scheduling_alone_ms + model.kernels * delta
        others = sum(self.demand(other, self.model(other).l2) for other in gpu if other is not slot)
        t_act = self.k(slot) * (1.0 + model.alpha_cache * others)
        p_all = hardware.idle_power_w + sum(self.demand(other, self.model(other).power) for other in gpu)
        slower = hardware.alpha_f / hardware.max_frequency_mhz * max(0.0, p_all - hardware.max_power_w)
        return (t_sch + t_act) / (1.0 + slower) if slower > -1.0 else inf

    def transfers(self, slot: Slot) -> tuple[float, float]:
        """Return the times of loading and of feedback (equation 3)."""
        model, per_ms = self.model(slot), self.gpu.hardware.pcie_bytes_per_ms
        return slot.b * model.input_bytes / per_ms, slot.b * model.output_bytes / per_ms

    def in_time(self, slot: Slot, gpu: Sequence[Slot]) -> bool:
        """Return whether a slot meets its rate and half its SLO (equations 13 and 14)."""
        workload, buffer, t_gpu = self.instance.workloads[slot.i], self.instance.latency_buffer, self.t_gpu(slot, gpu)
        load, feedback = self.transfers(slot)
        meets_rate = 1000.0 * slot.b / (t_gpu + feedback) >= buffer * workload.rate_rps
        return meets_rate and t_gpu + load + feedback <= workload.slo_ms / (2.0 * buffer)

    def fits(self, gpu: Sequence[Slot]) -> bool:
        """Return whether the slots of a GPU are feasible (equations 13 to 15, and memory)."""
        memory = sum(self.model(slot).memory_mib(slot.b) for slot in gpu)
        space = sum(slot.u for slot in gpu) <= self.gpu.share_units and memory <= self.gpu.memory_mib
        return space and all(self.in_time(slot, gpu) for slot in gpu)

    def h(self, slot: Slot, gpu: Sequence[Slot]) -> float:
        """Return the throughput of a slot (equation 2)."""
        return 1000.0 * slot.b / (self.t_gpu(slot, gpu) + self.transfers(slot)[1])

    def slots(self, i: int) -> list[Slot]:
        """Return every batch and share at which workload i is in time alone on a GPU; others only slow it down."""
        largest = self.gpu.models[self.instance.workloads[i].model].max_batch
        all_slots = (Slot(i, b, u) for u in range(1, self.gpu.share_units + 1) for b in range(1, largest + 1))
        return [slot for slot in all_slots if self.in_time(slot, [slot])]

    def contents(self, members: Sequence[int]) -> Iterator[tuple[Slot, ...]]:
        """Yield every choice of batches and shares at which the workloads fit on one GPU."""
        return (gpu for gpu in product(*map(self.slots, members)) if self.fits(gpu))


def capacity_instance() -> Instance:
    """Return an instance of four workloads on two GPUs of six share units and batches of at most three."""
    base = gpu_type("v100")
    models = {name: replace(base.models[name], max_batch=3) for name in ("alexnet", "resnet50")}
    gpu = replace(base, name="small", share_units=6, models=models)
    rows = [("alexnet", 15.0, 300.0), ("resnet50", 40.0, 80.0), ("alexnet", 10.0, 200.0), ("resnet50", 60.0, 60.0)]
    workloads = tuple(Workload(f"w{i}", *row) for i, row in enumerate(rows))
    return Instance("two", Objective.CAPACITY, SloRule.HALF_SLO, "igniter", (GpuPool(gpu, 2),), workloads)


def test_the_least_cost_of_igniter_3_is_that_of_the_formulas() -> None:
    page = Page(IGNITER_3)
    one_gpu = next(page.contents(range(3)), None)
    assert one_gpu is not None
    least = page.gpu.price_per_hour  # no plan has fewer than one GPU

    for scheduler in (ColGen(), CpSat()):
        outcome = scheduler.schedule(IGNITER_3, Run())
        assert outcome.status is Status.OPTIMAL
        assert outcome.plan is not None
        assert judge(outcome.plan, IGNITER_3).value == pytest.approx(least)


def test_the_most_throughput_of_two_gpus_is_that_of_the_formulas() -> None:
    instance = capacity_instance()
    page, most = Page(instance), -inf
    best: dict[tuple[int, ...], float] = {}
    for chosen in product((0, 1), repeat=4):
        members = tuple(i for i in range(4) if chosen[i])
        totals = (sum(page.h(slot, gpu) for slot in gpu) for gpu in page.contents(members))
        best[members] = max(totals, default=-inf)
    for members, value in best.items():
        most = max(most, value + best[tuple(i for i in range(4) if i not in members)])
    assert most > 0.0

    for scheduler in (ColGen(), CpSat()):
        outcome = scheduler.schedule(instance, Run())
        assert outcome.status is Status.OPTIMAL
        assert outcome.plan is not None
        assert judge(outcome.plan, instance).value == pytest.approx(most, rel=1e-9)


@dataclass(frozen=True)
class PageOfTables(Page):
    """Symbols of docs/model.md where times alone are measured; only batches and shares of the grid have one."""

    def at_grid(self, times_ms: Sequence[Sequence[float]], slot: Slot) -> float:
        solo = self.model(slot).solo
        assert solo is not None
        share_pct = 100.0 * slot.u / self.gpu.share_units
        return times_ms[solo.batch.index(slot.b)][solo.share_pct.index(share_pct)]

    def k(self, slot: Slot) -> float:
        """Return the time alone, o(b, r)."""
        solo = self.model(slot).solo
        assert solo is not None
        return self.at_grid(solo.gpu_ms, slot)

    def transfers(self, slot: Slot) -> tuple[float, float]:
        """Return the times of loading, with the batching time a(b), and of feedback."""
        load, feedback = super().transfers(slot)
        solo = self.model(slot).solo
        assert solo is not None
        return load + (solo.batching_ms[solo.batch.index(slot.b)] if solo.batching_ms else 0.0), feedback


class HybridPage(PageOfTables):
    """Symbols of the hybrid model."""

    def t_gpu(self, slot: Slot, gpu: Sequence[Slot]) -> float:
        """Return the GPU time of a slot beside the others."""
        solo, company, n = self.model(slot).solo, self.model(slot).company, len(gpu)
        assert solo is not None
        assert company is not None
        hardware = self.gpu.hardware
        kappa = max(1.0, self.at_grid(company.gpu_ms, slot) / self.k(slot)) if n > 1 else 1.0
        others = [other for other in gpu if other is not slot]
        l2, dram = (
            sum(self.demand(other, line(other)) for other in others)
            for line in (self.line_of("l2"), self.line_of("dram"))
        )
        growth = kappa + company.alpha_l2 * l2 + company.alpha_dram * dram
        delta = max(0.0, hardware.alpha_sch * n + hardware.beta_sch) if n > 1 else 0.0
        p_all = hardware.idle_power_w + sum(self.demand(other, self.model(other).power) for other in gpu)
        slower = hardware.alpha_f / hardware.max_frequency_mhz * max(0.0, p_all - hardware.max_power_w)
        return (self.model(slot).kernels * delta + self.k(slot) * growth) / (1.0 + slower)

    def line_of(self, demand: str) -> Callable[[Slot], tuple[float, float]]:
        """Return the function from a slot to the coefficients (a, b) of a demand."""
        return lambda slot: getattr(self.model(slot).solo, demand)


class GpuletPage(PageOfTables):
    """Symbols of gpulet's model; the upload delays the next batch, too."""

    def t_gpu(self, slot: Slot, gpu: Sequence[Slot]) -> float:
        """Return the GPU time of a slot beside the others."""
        pair = self.gpu.pair
        assert pair is not None
        l2, dram = self.demands_pct(slot)
        time = 1.0
        for other in gpu:
            if other is not slot:
                l2_other, dram_other = self.demands_pct(other)
                own, others = (
                    pair.l2_own * l2 + pair.dram_own * dram,
                    pair.l2_other * l2_other + pair.dram_other * dram_other,
                )
                time += max(0.0, (own + others) / 100.0 + pair.constant - 1.0)
        return self.k(slot) * time

    def demands_pct(self, slot: Slot) -> tuple[float, float]:
        solo, share = self.model(slot).solo, slot.u / self.gpu.share_units
        assert solo is not None
        row = solo.batch.index(slot.b)
        return solo.l2_pct[row] * share, solo.dram_pct[row] * share

    def h(self, slot: Slot, gpu: Sequence[Slot]) -> float:
        """Return the throughput of a slot; y = x."""
        return 1000.0 * slot.b / (self.t_gpu(slot, gpu) + sum(self.transfers(slot)))


@pytest.mark.parametrize(
    ("kind", "model", "gpu_name", "slots"),
    [
        (HybridPage, "hybrid", "a100", [("resnet50", 64, 54)]),
        (HybridPage, "hybrid", "a100", [("resnet50", 16, 27), ("vgg16", 8, 27)]),
        (HybridPage, "hybrid", "v100", [("resnet50", 16, 20), ("vgg19", 8, 20)]),
        (GpuletPage, "gpulet", "rtx2080ti", [("resnet50", 32, 10)]),
        (GpuletPage, "gpulet", "rtx2080ti", [("resnet50", 8, 5), ("vgg16", 4, 5)]),
        (GpuletPage, "gpulet", "rtx2080ti", [("resnet50", 4, 4), ("vgg16", 16, 6)]),
    ],
)
def test_the_throughput_of_a_plan_is_that_of_the_formulas(
    kind: type[Page], model: str, gpu_name: str, slots: list[tuple[str, int, int]]
) -> None:
    gpu = gpu_type(gpu_name)
    workloads = tuple(Workload(f"w{i}", name, 1e4, 1.0) for i, (name, _, _) in enumerate(slots))
    instance = Instance("page", Objective.CAPACITY, SloRule.HALF_SLO, model, (GpuPool(gpu, 1),), workloads)
    gpulets = tuple(Gpulet(u, (PlanSlot(f"w{i}", b, 1.0),)) for i, (_, b, u) in enumerate(slots))
    verdict = judge(Plan("page", (PlacedGpu(gpu_name, gpulets),)), instance)
    page, contents = kind(instance), [Slot(i, b, u) for i, (_, b, u) in enumerate(slots)]
    assert verdict.value == pytest.approx(sum(page.h(slot, contents) for slot in contents), rel=1e-9)
