"""Batches that slow each other while they overlap: by hand, and against the reference simulation with SimPy."""

from dataclasses import replace

import pytest

from bench.plan_simulation import Interference, Settings, Simulated, simulate
from bench.simulation.arrivals import Arrivals, Process
from instances import GpuPool, GpuType, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from instances.catalogue import gpu_type
from tests.bench.simulation.agreement import agree, poisson_ms
from tests.bench.simulation.reference import Resident, gpulet_demand, gpulet_ms
from tests.instances.reference import TOY, transfers_ms

# Without transfer times, at 40 %: a batch of one of a takes 2.1 ms alone (L2 6 %), one of two of b 10.2 ms (10 %);
# together 0.1 + 10 x 0.01 + 2 x 1.10 = 2.4 ms and 0.2 + 20 x 0.01 + 10 x 1.12 = 11.6 ms.
GPU = replace(TOY, models={name: replace(model, input_bytes=0, output_bytes=0) for name, model in TOY.models.items()})
DYNAMIC = Settings(seconds=1.0, warmup_s=0.0)
STATIC = replace(DYNAMIC, interference=Interference.STATIC)


def problem(*workloads: Workload, gpu: GpuType = GPU, model: str = "igniter") -> Instance:
    return Instance("near", Objective.COST, SloRule.HALF_SLO, model, (GpuPool(gpu, None),), workloads)


def plan(*rows: tuple[str, int, int, float], gpu: str = "toy") -> Plan:
    return Plan("near", (spatial_gpu(gpu, rows),))


A, B = Workload("a", "small", 40.0, 100.0), Workload("b", "large", 80.0, 50.0)
PAIR = plan(("a", 4, 1, 100.0), ("b", 4, 2, 50.0))


def latencies_ms(result: Simulated) -> list[float | None]:
    return [workload.max_ms for workload in result.workloads]


# --- By hand ---


def test_a_batch_is_slow_only_while_another_runs() -> None:
    """Until 5 ms, b runs alone; then both overlap for a's 2.4 ms; after that, b runs at full speed again."""
    result = agree(PAIR, problem(A, B), {"b": [0.0, 0.0], "a": [5.0]}, DYNAMIC)

    remaining = 1.0 - 5.0 / 10.2 - 2.4 / 11.6
    assert latencies_ms(result) == pytest.approx([2.4, 5.0 + 2.4 + remaining * 10.2])


def test_a_batch_that_ends_first_speeds_the_other_up() -> None:
    result = agree(PAIR, problem(A, B), {"b": [0.0, 0.0], "a": [9.0]}, DYNAMIC)

    b_ends = 9.0 + (1.0 - 9.0 / 10.2) * 11.6
    a_remaining = 1.0 - (b_ends - 9.0) / 2.4
    assert latencies_ms(result) == pytest.approx([b_ends - 9.0 + a_remaining * 2.1, b_ends])


def test_static_interference_counts_all_neighbours_always() -> None:
    result = agree(PAIR, problem(A, B), {"b": [0.0, 0.0], "a": [500.0]}, STATIC)

    assert latencies_ms(result) == pytest.approx([2.4, 11.6])


def test_dynamic_interference_counts_the_running_batch_and_not_the_planned_one() -> None:
    """A lone request of b: a batch of one takes 6 + 0.2 ms and has less L2 demand than the planned batch of two."""
    arrivals = {"b": [0.0], "a": [40.0]}  # b waits for its timeout, half the SLO

    dynamic, static = (agree(PAIR, problem(A, B), arrivals, settings) for settings in (DYNAMIC, STATIC))

    l2_of_one = 0.04 * 1000.0 / 6.0 + 2.0
    assert dynamic.workloads[0].max_ms == pytest.approx(0.2 + 2.0 * (1.0 + 0.01 * l2_of_one))
    assert static.workloads[0].max_ms == pytest.approx(2.4)


# --- Against SimPy ---


@pytest.mark.parametrize("settings", [DYNAMIC, STATIC], ids=["dynamic", "static"])
@pytest.mark.parametrize("dropping", [True, False], ids=["dropping", "not dropping"])
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_two_gpulets_agree_with_simpy(settings: Settings, dropping: bool, scale: float) -> None:
    workloads = Workload("a", "small", 21.7, 250.0), Workload("b", "large", 53.3, 120.0)
    pair = plan(("a", 4, 3, 250.0), ("b", 5, 4, 120.0))
    arrivals = {w.id: poisson_ms(scale * w.rate_rps, 3.0, 20 + k) for k, w in enumerate(workloads)}

    agree(pair, problem(*workloads), arrivals, replace(settings, seconds=2.0, warmup_s=0.5, dropping=dropping))


@pytest.mark.parametrize("max_power_w", [300.0, 180.0], ids=["cool", "throttled"])
def test_three_gpulets_agree_with_simpy(max_power_w: float) -> None:
    """With three gpulets, kernels have a longer scheduling delay; at the lower power cap, the frequency falls."""
    gpu = replace(GPU, hardware=replace(GPU.hardware, max_power_w=max_power_w))
    workloads = A, B, Workload("c", "small", 30.0, 200.0)
    rows = ("a", 3, 2, 100.0), ("b", 4, 2, 50.0), ("c", 3, 4, 200.0)
    arrivals = {w.id: poisson_ms(1.5 * w.rate_rps, 3.0, 30 + k) for k, w in enumerate(workloads)}

    result = agree(plan(*rows), problem(*workloads, gpu=gpu), arrivals, replace(DYNAMIC, seconds=2.0))
    static = agree(plan(*rows), problem(*workloads, gpu=gpu), arrivals, replace(STATIC, seconds=2.0))

    for workload, static_workload in zip(result.workloads, static.workloads, strict=True):
        assert workload.mean_ms is not None
        assert static_workload.mean_ms is not None
        assert workload.mean_ms < static_workload.mean_ms


RTX = gpu_type("rtx2080ti")
THREE_WORKLOADS = (
    Workload("v", "vgg16", 150.3, 60.0),
    Workload("r", "resnet50", 120.1, 60.0),
    Workload("g", "googlenet", 80.7, 80.0),
)
THREE_GPULETS = plan(
    *((w.id, units, batch, w.rate_rps) for w, units, batch in zip(THREE_WORKLOADS, (4, 3, 3), (4, 3, 2), strict=True)),
    gpu="rtx2080ti",
)


@pytest.mark.parametrize("residents", [1, 2, 3])
@pytest.mark.parametrize("settings", [DYNAMIC, STATIC], ids=["dynamic", "static"])
def test_pairwise_growth_agrees_with_simpy(settings: Settings, residents: int) -> None:
    """Under gpulet's model, every neighbour adds its slowdown, at least 0."""
    present = THREE_WORKLOADS[:residents]
    gpulets = THREE_GPULETS.gpus[0].gpulets[:residents]
    rows = replace(THREE_GPULETS, gpus=(replace(THREE_GPULETS.gpus[0], gpulets=gpulets),))
    arrivals = {w.id: poisson_ms(w.rate_rps, 4.0, 40 + k) for k, w in enumerate(present)}

    agree(rows, problem(*present, gpu=RTX, model="gpulet"), arrivals, replace(settings, seconds=3.0))


def test_three_residents_pairwise_by_hand() -> None:
    """Three batches start at once; after each end, the others run faster."""
    residents = {
        slot.workload: Resident(workload.model, slot.batch, gpulet.share_units)
        for workload, (_, gpulet, slot) in zip(THREE_WORKLOADS, THREE_GPULETS.slots(), strict=True)
    }
    arrivals = {s.workload: [0.0] * s.batch for _, _, s in THREE_GPULETS.slots()}
    transfers = {w.id: sum(transfers_ms(RTX, RTX.models[w.model], residents[w.id].batch)) for w in THREE_WORKLOADS}

    remaining, now_ms, ends = dict.fromkeys(residents, 1.0), 0.0, {}
    while remaining:
        total_ms = {
            name: gpulet_ms(RTX, residents[name], [gpulet_demand(RTX, residents[o]) for o in remaining if o != name])
            for name in remaining
        }
        first = min(remaining, key=lambda name: remaining[name] * total_ms[name])
        step_ms = remaining[first] * total_ms[first]
        remaining = {name: part - step_ms / total_ms[name] for name, part in remaining.items() if name != first}
        now_ms += step_ms
        ends[first] = now_ms

    result = agree(
        THREE_GPULETS, problem(*THREE_WORKLOADS, gpu=RTX, model="gpulet"), arrivals, replace(DYNAMIC, dropping=False)
    )
    assert latencies_ms(result) == pytest.approx([ends[w.id] + transfers[w.id] for w in THREE_WORKLOADS])


# --- Static and dynamic ---


@pytest.mark.parametrize("rate_rps", [50.0, 300.0, 900.0])
def test_alone_on_a_gpu_static_and_dynamic_are_the_same(rate_rps: float) -> None:
    alone = plan(("a", 4, 3, rate_rps))
    asked = problem(replace(A, rate_rps=rate_rps))

    dynamic, static = (simulate(alone, asked, replace(s, seconds=20.0)) for s in (DYNAMIC, STATIC))

    assert dynamic.workloads == static.workloads


def test_workloads_whose_batches_never_overlap_are_as_fast_as_alone() -> None:
    """Requests of the two workloads are always 25 ms apart."""
    arrivals = {"a": [50.0 * k for k in range(18)], "b": [25.0 + 50.0 * k for k in range(18)]}
    pair = plan(("a", 4, 1, 20.0), ("b", 4, 1, 20.0))

    both = agree(pair, problem(A, B), arrivals, DYNAMIC)

    for at, row in enumerate(("a", "b")):
        alone = plan((row, 4, 1, 20.0))
        one = agree(alone, problem(A, B), {row: arrivals[row]}, STATIC)
        assert both.workloads[at].mean_ms == pytest.approx(one.workloads[at].mean_ms, rel=1e-12)
        assert both.workloads[at].max_ms == pytest.approx(one.workloads[at].max_ms, rel=1e-12)


def test_workloads_whose_batches_always_overlap_are_as_slow_as_with_static_interference() -> None:
    """Both workloads are overloaded, so full batches follow each other without a pause."""
    settings = Settings(Arrivals(Process.POISSON), seconds=30.0, dropping=False)
    pair = plan(("a", 4, 4, 2000.0), ("b", 4, 4, 2000.0))
    asked = problem(replace(A, rate_rps=2000.0), replace(B, rate_rps=2000.0))

    dynamic, static = (
        simulate(pair, asked, replace(settings, interference=kind))
        for kind in (Interference.DYNAMIC, Interference.STATIC)
    )

    for workload, static_workload in zip(dynamic.workloads, static.workloads, strict=True):
        assert workload.throughput_rps == pytest.approx(static_workload.throughput_rps, rel=1e-3)
        assert workload.mean_ms == pytest.approx(static_workload.mean_ms, rel=1e-3)


def test_workloads_on_different_gpus_do_not_slow_each_other() -> None:
    apart = Plan("near", (spatial_gpu("toy", [("a", 4, 1, 100.0)]), spatial_gpu("toy", [("b", 4, 2, 50.0)])))

    dynamic, static = (simulate(apart, problem(A, B), replace(s, seconds=20.0)) for s in (DYNAMIC, STATIC))

    assert dynamic.workloads == static.workloads
