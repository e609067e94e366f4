"""Early loading of the simulation's compiled code."""

from functools import cache

from bench.plan_simulation import Settings, simulate
from instances import Gpulet, PlacedGpu, Plan, Slot
from instances.suites import suite


@cache
def warm_simulation() -> None:
    """Simulate a tenth of a second so that no run waits for the compiler; slow only on the first call on a host."""
    instance = suite("igniter-3").build()[0]
    gpulets = tuple(Gpulet(10, (Slot(w.id, 1, w.rate_rps),)) for w in instance.workloads)
    simulate(Plan(instance.name, (PlacedGpu(instance.gpus[0].type.name, gpulets),)), instance, Settings(seconds=0.1))
