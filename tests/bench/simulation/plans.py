"""Hypothesis strategies: small instances on toy GPUs, and plans for them, feasible or not."""

from dataclasses import replace

from hypothesis import strategies as st

from instances import Application, Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from tests.instances.reference import TOY

OTHER = replace(TOY, name="other")

RULES = (SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Plan, Instance]:
    """Draw a plan and its instance: up to four workloads, perhaps with an application of two, on up to three GPUs."""
    count = draw(st.integers(1, 4))
    workloads = tuple(
        Workload(
            f"w{k}",
            draw(st.sampled_from(["small", "large"])),
            draw(st.floats(5.0, 80.0)),
            draw(st.floats(5.0, 400.0)),
        )
        for k in range(count)
    )
    applications: tuple[Application, ...] = ()
    if count > 1 and draw(st.booleans()):
        edges = (("w0", "w1"),) if draw(st.booleans()) else ()
        applications = (Application("app", ("w0", "w1"), edges, draw(st.floats(10.0, 120.0))),)
    pools = (GpuPool(TOY, None),) if applications else (GpuPool(TOY, None), GpuPool(OTHER, None))
    instance = Instance("any", Objective.COST, draw(st.sampled_from(RULES)), "igniter", pools, workloads, applications)
    gpus = draw(st.lists(placed(instance), min_size=1, max_size=3))
    return Plan("any", tuple(gpus)), instance


@st.composite
def placed(draw: st.DrawFn, instance: Instance) -> PlacedGpu:
    gpu_type = draw(st.sampled_from([pool.type.name for pool in instance.gpus]))
    return PlacedGpu(gpu_type, tuple(draw(st.lists(gpulets(instance), min_size=1, max_size=3))))


@st.composite
def gpulets(draw: st.DrawFn, instance: Instance) -> Gpulet:
    slot = st.builds(
        Slot,
        st.sampled_from([workload.id for workload in instance.workloads]),
        st.integers(1, 8),
        st.floats(1.0, 300.0),
    )
    slots = tuple(draw(st.lists(slot, min_size=1, max_size=2)))
    cycle_ms = draw(st.floats(3.0, 60.0)) if len(slots) > 1 or draw(st.booleans()) else None
    return Gpulet(draw(st.integers(1, 6)), slots, cycle_ms)
