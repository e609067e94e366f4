"""Two workloads on the toy GPU, and plans for them; tests compare the judge with figures calculated by hand."""

from bench.judging.judge import Verdict, Violation
from instances import (
    Gpulet,
    GpuPool,
    GpuType,
    Instance,
    Objective,
    PlacedGpu,
    Plan,
    SloRule,
    Slot,
    Workload,
    spatial_gpu,
)
from instances.catalogue import gpu_type
from tests.instances.reference import TOY

V100 = gpu_type("v100")

# Budgets of GPU time, half the SLO less transfers: 5.12 / 2 - 0.15 = 2.41 ms for "a", 24.2 / 2 - 0.3 = 11.8 ms for "b".
A = Workload("a", "small", 5.12, 200.0)
B = Workload("b", "large", 24.2, 100.0)
# GPU times at 40 %: "a" at batch 1 takes 2 ms (L2 6 %, 60 W), "b" at batch 2 10 ms (10 %, 90 W); together 2.4 and 11.6.
ROWS = [("a", 4, 1, 200.0), ("b", 4, 2, 100.0)]


def instance(
    *workloads: Workload, objective: Objective = Objective.COST, gpus: int | None = None, gpu: GpuType = TOY
) -> Instance:
    return Instance("toys", objective, SloRule.HALF_SLO, "igniter", (GpuPool(gpu, gpus),), workloads or (A, B))


def plan(*gpus: list[tuple[str, int, int, float]]) -> Plan:
    """A spatial plan of (workload, share units, batch, rate) rows per GPU."""
    return Plan("toys", tuple(spatial_gpu("toy", rows) for rows in gpus))


def shared(units: int, cycle_ms: float | None, *slots: tuple[str, int, float]) -> Gpulet:
    """Return a gpulet whose (workload, batch, rate) slots take turns."""
    return Gpulet(units, tuple(Slot(*slot) for slot in slots), cycle_ms)


TURNS = shared(4, 20.0, ("a", 1, 50.0), ("b", 2, 100.0))


def of(*gpulets: Gpulet) -> Plan:
    """A plan of one GPU with these gpulets."""
    return Plan("toys", (PlacedGpu("toy", gpulets),))


def only(verdict: Verdict) -> Violation:
    assert not verdict.feasible
    (violation,) = verdict.violations
    return violation
