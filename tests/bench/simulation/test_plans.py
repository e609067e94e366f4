"""Plans of every kind: on MIG, overloaded, incomplete, refused, for each objective, in another world than planned."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.plan_simulation import Interference, Settings, no_simulation, simulate, simulation
from bench.simulation import driver
from bench.simulation.arrivals import Arrivals, Process
from bench.simulation.settings import DRAIN_S
from instances import (
    Gpulet,
    GpuPool,
    InputError,
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
from instances.files import read_plan
from instances.mig import MIG_TABLE
from instances.suites import suite
from tests.instances.reference import TOY

PARVAGPU = {instance.name: instance for instance in suite("parvagpu").build()}
PUBLISHED = Path(__file__).parents[2] / "fixtures" / "parvagpu_plans"
CONSTANT = Arrivals(Process.CONSTANT)

A, B = Workload("a", "small", 30.0, 200.0), Workload("b", "large", 60.0, 50.0)
PAIR = Plan("toys", (spatial_gpu("toy", [("a", 4, 2, 200.0), ("b", 5, 2, 50.0)]),))


def instance(*workloads: Workload, objective: Objective = Objective.COST) -> Instance:
    return Instance("toys", objective, SloRule.HALF_SLO, "igniter", (GpuPool(TOY, None),), workloads or (A, B))


# --- MIG ---


@pytest.mark.parametrize("mix", range(1, 7))
def test_parvagpus_published_plans_keep_up(mix: int) -> None:
    published, _ = read_plan(PUBLISHED / f"parvagpu-{mix}.json")
    asked = PARVAGPU[published.instance]

    found = simulate(published, asked, Settings(CONSTANT, seconds=10.0, warmup_s=5.0))

    for one, workload in zip(found.workloads, asked.workloads, strict=True):
        assert one.offered_rps == workload.rate_rps
        assert one.requests == pytest.approx(10.0 * workload.rate_rps, abs=1.0)
        assert one.goodput_rps == pytest.approx(workload.rate_rps, rel=0.01, abs=0.11)


def test_processes_of_a_mig_instance_share_its_throughput() -> None:
    """Two processes of bert do 104.84 req/s together, 19.08 ms for each batch of one; 19 ms is what was measured."""
    asked = Instance(
        "mig",
        Objective.COST,
        SloRule.HALF_SLO,
        MIG_TABLE,
        (GpuPool(gpu_type("a100-mig"), None),),
        (Workload("b", "bert", 500.0, 300.0),),
    )
    plan = Plan("mig", (PlacedGpu("a100-mig", (Gpulet(1, (Slot("b", 1, 300.0),), start=0, processes=2),)),))

    overloaded, idle = (
        simulate(plan, replace(asked, workloads=(Workload("b", "bert", 500.0, rate_rps),)), Settings(CONSTANT))
        for rate_rps in (300.0, 10.0)
    )

    assert overloaded.workloads[0].throughput_rps == pytest.approx(104.84, rel=0.01)
    assert idle.workloads[0].max_ms == pytest.approx(2000.0 / 104.84)


def test_nothing_is_done_before_its_batch() -> None:
    """vgg19 alone on the whole GPU does 805.53 req/s in batches of two: 2.48 ms each, not the 2 ms it is rounded to."""
    asked = Instance(
        "mig",
        Objective.COST,
        SloRule.HALF_SLO,
        MIG_TABLE,
        (GpuPool(gpu_type("a100-mig"), None),),
        (Workload("v", "vgg19", 50.0, 100.0),),
    )
    plan = Plan("mig", (PlacedGpu("a100-mig", (Gpulet(7, (Slot("v", 2, 100.0),), start=0),)),))

    found = simulate(plan, asked, Settings(CONSTANT)).workloads[0]

    assert found.max_ms == pytest.approx(10.0 + 2000.0 / 805.53)
    assert found.mean_ms == pytest.approx(5.0 + 2000.0 / 805.53)


# --- Incomplete and overloaded ---


def test_a_workload_without_a_slot_is_dropped_whole() -> None:
    only_a = Plan("toys", (spatial_gpu("toy", [("a", 4, 2, 200.0)]),))

    found = simulate(only_a, instance(), Settings(CONSTANT, seconds=4.0, interval_s=1.0))

    served, dropped = found.workloads
    assert served.violation_rate == 0.0
    assert (dropped.requests, dropped.dropped, dropped.unfinished, dropped.violation_rate) == (200, 200, 0, 1.0)
    assert (dropped.p50_ms, dropped.max_ms, dropped.mean_ms) == (None, None, None)
    assert found.series is not None
    assert found.series.dropped.tolist() == [[0, 50]] * 4


def test_a_plan_without_gpus_drops_everybody() -> None:
    found = simulate(Plan("toys", ()), instance(), Settings(seconds=5.0))

    assert found.drop_rate == found.violation_rate == 1.0
    assert found.goodput_rps == 0.0
    assert found.worst_p99 is None


def test_an_overloaded_plan_that_drops_nobody_ends() -> None:
    """1500 req/s come for 30 s, 465 leave: after 60 s more a good 41,000 of 45,000 are served, the rest unfinished."""
    asked = instance(replace(A, rate_rps=1500.0))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, 1500.0)]),))

    found = simulate(plan, asked, Settings(CONSTANT, dropping=False, warmup_s=0.0)).workloads[0]

    served = 1000.0 * (30.0 + DRAIN_S) / 2.15
    assert found.requests == 45_000
    assert found.dropped == 0
    assert found.requests - found.unfinished == pytest.approx(served, rel=0.002)
    assert found.violation_rate > 0.99


def test_what_the_gpu_never_ends_is_unfinished() -> None:
    """So little power that the frequency falls to nothing: batches never end, and who waits is not served."""
    dead = replace(TOY, hardware=replace(TOY.hardware, max_power_w=-2000.0))
    asked = replace(instance(A), gpus=(GpuPool(dead, None),))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, 200.0)]),))

    patient, hasty = (simulate(plan, asked, Settings(seconds=1.0, dropping=d)).workloads[0] for d in (False, True))

    assert patient.unfinished == patient.requests > 150
    assert hasty.dropped == hasty.requests > 150


# --- Objectives ---


@pytest.mark.parametrize(
    ("objective", "offered"),
    [
        (Objective.COST, [200.0, 50.0]),
        (Objective.CAPACITY, [200.0, 50.0]),
        (Objective.GOODPUT, [150.0, 50.0]),
        (Objective.SCALE, [150.0, 37.5]),
    ],
)
def test_as_many_are_let_in_as_the_objective_says(objective: Objective, offered: list[float]) -> None:
    partly = Plan("toys", (spatial_gpu("toy", [("a", 4, 2, 150.0), ("b", 5, 2, 60.0)]),))

    found = simulate(partly, instance(objective=objective), Settings(CONSTANT, seconds=4.0))

    assert [one.offered_rps for one in found.workloads] == pytest.approx(offered)
    assert [one.requests for one in found.workloads] == pytest.approx([4 * rate for rate in offered])


def test_a_workload_left_out_of_goodput_is_nobodys_violation() -> None:
    found = simulate(Plan("toys", PAIR.gpus[:0]), instance(objective=Objective.GOODPUT), Settings(seconds=4.0))

    assert (found.requests, found.violation_rate, found.violating) == (0, 0.0, 0)


# --- Refusals ---


def _in_plan(*gpus: PlacedGpu, name: str = "toys") -> Plan:
    return Plan(name, gpus)


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (_in_plan(name="others"), 'made for "others"'),
        (_in_plan(spatial_gpu("toi", [("a", 4, 1, 1.0)])), 'unknown GPU type "toi"'),
        (_in_plan(spatial_gpu("toy", [("c", 4, 1, 1.0)])), 'unknown workload "c"'),
        (_in_plan(spatial_gpu("toy", [("a", 4, 9, 1.0)])), "GPU 0, a: there are no figures for batch 9"),
        (_in_plan(spatial_gpu("toy", [("a", 4, 0, 1.0)])), "expected a positive batch and a positive, finite rate_rps"),
        (_in_plan(spatial_gpu("toy", [("a", 4, 1, 0.0)])), "expected a positive batch and a positive, finite rate_rps"),
        (_in_plan(PlacedGpu("toy", (Gpulet(4, ()),))), "at least one share unit and one slot"),
        (_in_plan(PlacedGpu("toy", (Gpulet(4, (Slot("a", 1, 1.0), Slot("b", 1, 1.0))),))), "need a duty_cycle_ms"),
    ],
)
def test_what_is_no_plan_for_the_instance_is_refused(plan: Plan, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        simulate(plan, instance())


def test_more_requests_than_can_be_simulated_are_refused_before_the_first() -> None:
    crowd = instance(replace(A, rate_rps=1e9))
    with pytest.raises(InputError, match=r"^simulation: 15,000,000,000 requests would arrive; at most 10,000,000,000"):
        simulate(_in_plan(spatial_gpu("toy", [("a", 4, 1, 1e9)])), crowd, Settings(seconds=10.0))


def test_jobs_and_unmeasured_mig_instances_are_not_simulated() -> None:
    asked = PARVAGPU["parvagpu-1"]
    unknown = Plan(asked.name, (PlacedGpu("a100-mig", (Gpulet(1, (Slot("bert", 7, 1.0),), start=0),)),))

    assert no_simulation(unknown, asked) == "GPU 0, bert: there are no figures for its MIG instance"
    jobs = suite("mediator-40").build()[0]
    assert no_simulation(Plan(jobs.name, ()), jobs) == "best-effort jobs have no requests with an SLO"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"seconds": 0.0}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"seconds": float("inf")}, "seconds"),
        ({"warmup_s": -1.0}, "warmup_s"),
        ({"warmup_s": float("nan")}, "warmup_s"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"noise": -0.1}, "noise"),
        ({"noise": float("nan")}, "noise"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, float], problem: str) -> None:
    with pytest.raises(InputError, match=f"^{problem}: .*expected"):
        Settings(**change)  # type: ignore[arg-type]


def test_the_largest_seed_is_one() -> None:
    assert simulate(PAIR, instance(), Settings(seconds=0.1, seed=2**63 - 1, noise=0.1)).requests > 0


# --- Another world ---


def slower(asked: Instance, factor: float) -> Instance:
    """The same on GPUs whose active times are ``factor`` times as long."""
    models = {
        name: replace(model, k=(*(factor * k for k in model.k[:3]), model.k[3], factor * model.k[4]))
        for name, model in TOY.models.items()
    }
    return replace(asked, gpus=(GpuPool(replace(TOY, models=models), None),))


@pytest.mark.parametrize("interference", list(Interference))
def test_gpus_behave_as_they_are_while_drops_and_timeouts_are_as_planned(interference: Interference) -> None:
    """A lone request waits 20 ms, as planned, and takes 4.1 + 0.15 ms where 2.1 + 0.15 were promised."""
    asked = instance(Workload("a", "small", 40.0, 10.0))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 2, 10.0)]),))
    settings = Settings(CONSTANT, interference=interference)

    planned, really = (simulate(plan, asked, settings, truth).workloads[0] for truth in (None, slower(asked, 2.0)))

    assert planned.max_ms == pytest.approx(20.0 + 2.25)
    assert really.max_ms == pytest.approx(20.0 + 4.25)


def test_in_the_world_as_planned_nothing_changes() -> None:
    asked = instance()

    assert simulate(PAIR, asked, truth=slower(asked, 1.0)).workloads == simulate(PAIR, asked).workloads


def test_too_slow_gpus_break_promises() -> None:
    asked = instance()

    planned, really = (simulate(PAIR, asked, truth=truth) for truth in (None, slower(asked, 2.5)))

    assert planned.violating == 0
    assert really.violating > 0
    assert really.goodput_rps < planned.goodput_rps


# --- Results ---


def test_the_seconds_have_an_end() -> None:
    """A thousand a second, the last of which comes on the very edge where the sum of times is rounded up."""
    asked = instance(Workload("a", "small", 100.0, 1000.0))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 8, 1000.0)]),))

    found = simulate(plan, asked, Settings(CONSTANT, seconds=2.0, warmup_s=0.007, interval_s=1.0))

    assert found.series is not None
    assert found.series.arrived[:, 0].tolist() == [1000, 1000]
    assert found.workloads[0].requests == 2000


def test_json_says_all_there_is() -> None:
    found = simulate(PAIR, instance(), Settings(seconds=2.0, interval_s=1.0))

    values = found.to_json(histograms=True)

    assert values["requests"] == found.requests == sum(one["requests"] for one in values["workloads"])
    assert values["violating"] == 0
    assert values["worst_p99"] == max(one.p99_ms / one.slo_ms for one in found.workloads if one.p99_ms is not None)
    for one in values["workloads"]:
        assert sum(one["histogram"]["requests"]) == one["requests"] - one["dropped"] - one["unfinished"]
    assert np.array(values["series"]["arrived"]).shape == (2, 2)
    assert "histogram" not in found.to_json()["workloads"][0]


def test_it_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "REQUESTS_AT_ONCE", 100)

    parts = list(simulation(PAIR, instance(), Settings(CONSTANT, seconds=2.0, warmup_s=0.0)))

    assert parts == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_memory_does_not_grow_with_simulated_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "REQUESTS_AT_ONCE", 2_000)
    simulate(PAIR, instance(), Settings(seconds=1.0))

    peaks = []
    for seconds in (40.0, 400.0):
        tracemalloc.start()
        simulate(PAIR, instance(), Settings(seconds=seconds))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < 1.2 * peaks[0]


def test_what_rounding_adds_to_a_latency_makes_nobody_late() -> None:
    """A request here waits as long as it may: its latency is its SLO and a rounding error of 1e-13 ms."""
    workloads = [replace(A, id="w0", slo_ms=5.0, rate_rps=26.0), replace(A, id="w1", slo_ms=5.0, rate_rps=5.0)]
    plan = Plan("toys", (PlacedGpu("toy", (Gpulet(5, (Slot("w0", 3, 1.0),), 3.0),)),))
    found = simulate(plan, instance(*workloads), Settings(Arrivals(), 1.0, 0.0, 0, Interference.STATIC, dropping=True))
    assert found.workloads[0].max_ms == pytest.approx(5.0, abs=1e-9)
    assert [one.late for one in found.workloads] == [0, 0]
