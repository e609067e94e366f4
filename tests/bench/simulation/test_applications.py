"""Requests that visit several workloads: by hand, and against the reference simulation with SimPy."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from bench.plan_simulation import Interference, Settings, no_simulation, simulate
from bench.simulation import driver
from bench.simulation.applications import flow_of, none_underway, with_rows
from instances import Application, Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from tests.bench.simulation.agreement import agree, poisson_ms, simulated
from tests.frozen import frozen
from tests.instances.reference import TOY

# A GPU without transfer times: at 40 %, a batch of b takes b + 1.1 ms of the small model, 4 b + 2.2 ms of the large.
GPU = replace(TOY, models={name: replace(model, input_bytes=0, output_bytes=0) for name, model in TOY.models.items()})
SECOND = Settings(seconds=1.0, warmup_s=0.0)

CHAIN = Application("app", ("x", "y"), (("x", "y"),), 30.0)
PARALLEL = Application("app", ("x", "y"), (), 30.0)
DIAMOND = Application("app", ("x", "y", "z", "w"), (("x", "y"), ("x", "z"), ("y", "w"), ("z", "w")), 60.0)
SLO_MS = {"x": 20.0, "y": 40.0, "z": 30.0, "w": 25.0}
MODEL = {"x": "small", "y": "large", "z": "small", "w": "small"}


def instance(application: Application, slo_ms: Mapping[str, float] = SLO_MS, rate_rps: float = 100.0) -> Instance:
    workloads = tuple(Workload(stage, MODEL[stage], slo_ms[stage], rate_rps) for stage in application.stages)
    pools = (GpuPool(GPU, None),)
    return Instance("apps", Objective.COST, SloRule.HALF_SLO, "igniter", pools, workloads, (application,))


def plan(**batches: int) -> Plan:
    """Return a plan with 40 % of a separate GPU for each stage, with these batches."""
    return Plan(
        "apps",
        tuple(PlacedGpu("toy", (Gpulet(4, (Slot(stage, batch, 100.0),)),)) for stage, batch in batches.items()),
    )


# --- By hand ---


def test_one_stage_follows_another() -> None:
    result = agree(plan(x=1, y=1), instance(CHAIN), {"app": [5.0, 50.0]}, SECOND)

    (app,) = result.applications
    assert (app.requests, app.dropped, app.late, app.unfinished) == (2, 0, 0, 0)
    assert app.max_ms == pytest.approx(2.1 + 6.2)
    assert [one.max_ms for one in result.workloads] == pytest.approx([2.1, 6.2])
    assert result.workloads[1].requests == 2


def test_stages_in_parallel_take_as_long_as_the_longest() -> None:
    result = agree(plan(x=1, y=1), instance(PARALLEL), {"app": [5.0, 50.0]}, SECOND)

    assert result.applications[0].max_ms == pytest.approx(6.2)


def test_a_stage_after_two_waits_for_both() -> None:
    result = agree(plan(x=1, y=1, z=1, w=1), instance(DIAMOND), {"app": [5.0]}, SECOND)

    assert result.applications[0].max_ms == pytest.approx(2.1 + max(6.2, 2.1) + 2.1)
    assert [one.requests for one in result.workloads] == [1, 1, 1, 1]


def test_an_application_is_late_by_its_own_slo() -> None:
    tight = replace(CHAIN, slo_ms=8.0)

    result = agree(plan(x=1, y=1), instance(tight), {"app": [5.0]}, SECOND)

    assert (result.applications[0].late, [one.late for one in result.workloads]) == (1, [0, 0])


def test_a_request_dropped_at_a_stage_counts_once_as_dropped_by_the_application() -> None:
    """Each stage drops seven of eight requests; in a chain, these seven do not reach the second stage."""
    hopeless = {"x": 2.2, "y": 6.3}
    arrivals = {"app": [5.0] * 8}

    side_by_side = agree(plan(x=1, y=1), instance(PARALLEL, hopeless), arrivals, SECOND)
    chained = agree(plan(x=1, y=1), instance(CHAIN, hopeless), arrivals, SECOND)

    for result, second_stage in ((side_by_side, (8, 7)), (chained, (1, 0))):
        (app,) = result.applications
        assert (app.requests, app.dropped, app.throughput_rps) == (8, 7, 1.0)
        assert (result.workloads[0].requests, result.workloads[0].dropped) == (8, 7)
        assert (result.workloads[1].requests, result.workloads[1].dropped) == second_stage


# --- Against SimPy ---


@pytest.mark.parametrize("dropping", [True, False], ids=["dropping", "not dropping"])
@pytest.mark.parametrize("rate_rps", [40.0, 150.0])
@pytest.mark.parametrize("application", [CHAIN, PARALLEL, DIAMOND], ids=["chain", "parallel", "diamond"])
def test_applications_agree_with_simpy(application: Application, rate_rps: float, dropping: bool) -> None:
    batches = {"x": 2, "y": 3, "z": 1, "w": 4}
    asked = instance(application, rate_rps=rate_rps)
    placed = plan(**{stage: batches[stage] for stage in application.stages})
    settings = Settings(seconds=3.0, warmup_s=0.5, dropping=dropping)

    result = agree(placed, asked, {"app": poisson_ms(rate_rps, 6.0, 50)}, settings)

    assert result.applications[0].requests > 0.8 * 3.0 * rate_rps


def test_batches_that_overtake_each_other_agree_with_simpy() -> None:
    """Uploads overlap with other batches but lengthen latencies: a large batch that ends first may be answered last."""
    uploads = {name: replace(model, input_bytes=3_000_000) for name, model in GPU.models.items()}
    asked = instance(DIAMOND, dict.fromkeys("xyzw", 80.0), 150.0)
    asked = replace(asked, gpus=(GpuPool(replace(GPU, models=uploads), None),))
    placed = plan(x=6, y=4, z=6, w=3)
    replica = PlacedGpu("toy", (Gpulet(4, (Slot("x", 1, 60.0),)),))

    result = agree(
        replace(placed, gpus=(*placed.gpus, replica)),
        asked,
        {"app": poisson_ms(150.0, 5.0, 60)},
        Settings(seconds=3.0, warmup_s=0.5),
    )

    assert result.applications[0].throughput_rps > 100.0


@pytest.mark.parametrize("interference", list(Interference))
def test_stages_on_one_gpu_agree_with_simpy(interference: Interference) -> None:
    """The stages slow each other, and a workload outside the application slows both."""
    alone = Workload("z", "small", 25.0, 120.0)
    asked = instance(CHAIN)
    asked = replace(asked, workloads=(*asked.workloads, alone))
    gpulets = tuple(Gpulet(3, (Slot(w.id, 2, w.rate_rps),)) for w in asked.workloads)
    arrivals = {"app": poisson_ms(100.0, 4.0, 51), "z": poisson_ms(120.0, 4.0, 52)}

    agree(
        Plan("apps", (PlacedGpu("toy", gpulets),)),
        asked,
        arrivals,
        Settings(seconds=3.0, warmup_s=0.5, interference=interference),
    )


def test_stages_that_take_turns_agree_with_simpy() -> None:
    gpulet = Gpulet(6, (Slot("x", 2, 100.0), Slot("y", 3, 100.0)), 15.0)

    agree(Plan("apps", (PlacedGpu("toy", (gpulet,)),)), instance(CHAIN), {"app": poisson_ms(80.0, 3.0, 53)}, SECOND)


# --- gpulet's applications ---


def gpulet_application(
    name: str, edges: tuple[tuple[str, str], ...], slo_ms: float, rate_rps: float
) -> tuple[Plan, Instance]:
    """Return an application of gpulet's suite with these edges, and a plan with half a GPU for each stage."""
    asked = frozen(f"gpulet-{name}")
    workloads = tuple(replace(w, rate_rps=rate_rps) for w in asked.workloads)
    application = Application(name, tuple(w.id for w in workloads), edges, slo_ms)
    asked = replace(asked, objective=Objective.COST, workloads=workloads, applications=(application,))
    pairs = [workloads[at : at + 2] for at in range(0, len(workloads), 2)]
    gpus = tuple(PlacedGpu("rtx2080ti", tuple(Gpulet(5, (Slot(w.id, 4, rate_rps),)) for w in pair)) for pair in pairs)
    return Plan(asked.name, gpus), asked


def test_the_application_game_takes_as_long_as_its_slowest_stage() -> None:
    placed, asked = gpulet_application("game", (), 108.0, 60.0)
    assert len(asked.workloads) == 7

    result = agree(placed, asked, {"game": poisson_ms(60.0, 5.0, 54)}, Settings(seconds=4.0, warmup_s=0.5))

    (game,) = result.applications
    assert game.throughput_rps > 55.0
    assert game.p99_ms is not None
    assert all(stage.p99_ms is not None and game.p99_ms >= stage.p99_ms * 0.99 for stage in result.workloads)


def test_the_application_traffic_takes_ssd_and_the_slower_classifier() -> None:
    edges = (("ssd-mobilenet", "googlenet"), ("ssd-mobilenet", "vgg16"))
    placed, asked = gpulet_application("traffic", edges, 202.0, 40.0)

    result = agree(placed, asked, {"traffic": poisson_ms(40.0, 5.0, 55)}, Settings(seconds=4.0, warmup_s=0.5))

    (traffic,) = result.applications
    ssd, *others = result.workloads
    assert traffic.throughput_rps > 35.0
    assert traffic.mean_ms is None  # applications have a histogram only
    assert ssd.max_ms is not None
    for stage in others:
        assert traffic.max_ms is not None
        assert stage.max_ms is not None
        assert stage.max_ms < traffic.max_ms <= ssd.max_ms + max(one.max_ms or 0.0 for one in others)


# --- Ends and edges ---


def test_requests_still_underway_at_the_end_are_served() -> None:
    """The last request leaves the first stage after the measured second, and is still served by the second stage."""
    asked, settings = instance(CHAIN, {"x": 1.0, "y": 1.0}), replace(SECOND, dropping=False)

    result = agree(plan(x=1, y=1), asked, {"app": [10.0, 999.0]}, settings)

    assert (result.applications[0].requests, result.applications[0].unfinished) == (2, 0)


@pytest.mark.parametrize("missing", ["x", "y"])
@pytest.mark.parametrize("application", [CHAIN, PARALLEL], ids=["chain", "parallel"])
def test_without_a_stage_every_request_is_dropped(application: Application, missing: str) -> None:
    batches = {stage: 1 for stage in application.stages if stage != missing}

    (app,) = simulated(plan(**batches), instance(application), {"app": [5.0, 50.0, 999.0]}, SECOND).applications

    assert (app.requests, app.dropped, app.unfinished, app.violation_rate) == (3, 3, 0, 1.0)


@pytest.mark.parametrize("requests", [1, 5, 1_000_000])
def test_results_do_not_depend_on_the_size_of_windows(requests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = instance(DIAMOND, rate_rps=150.0)
    placed, settings = plan(x=2, y=3, z=1, w=4), Settings(seconds=3.0, warmup_s=0.5)
    expected = simulate(placed, asked, settings)

    monkeypatch.setattr(driver, "REQUESTS_AT_ONCE", requests)
    result = simulate(placed, asked, settings)

    assert result.applications == expected.applications
    assert result.workloads == expected.workloads
    assert np.array_equal(result.applications[0].histogram, expected.applications[0].histogram)


def test_with_rows_drops_finished_rows_and_appends_new_ones() -> None:
    flow = flow_of(instance(DIAMOND))
    first = with_rows(none_underway(flow), flow, np.array([0]), np.array([0]), [np.array([1.0, 2.0, 3.0])])
    first.stages_left[0, 1], first.missing[3, 1], first.ready_ms[3, 1], first.done_ms[0, 2] = 2, 1, 7.5, 9.5

    result = with_rows(first, flow, np.array([1]), np.array([3]), [np.array([4.0])])

    assert result.base.tolist() == [1]
    assert result.arrived_ms.tolist() == [[2.0, 3.0, 4.0]]
    assert result.stages_left.tolist() == [[2, 4, 4]]
    assert result.missing.tolist() == [[0, 0, 0], [1, 1, 1], [1, 1, 1], [1, 2, 2]]
    assert result.ready_ms[3].tolist() == [7.5, 0.0, 0.0]
    assert result.done_ms.tolist() == [[0.0, 9.5, 0.0]]


def test_applications_over_several_types_of_gpu_are_refused() -> None:
    asked = instance(CHAIN)
    asked = replace(asked, gpus=(*asked.gpus, GpuPool(replace(GPU, name="other"), None)))
    placed = plan(x=1, y=1)
    placed = replace(placed, gpus=(placed.gpus[0], replace(placed.gpus[1], type="other")))

    assert no_simulation(placed, asked) == "applications over several types of GPU are not simulated"
