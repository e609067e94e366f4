"""Simulations of plans: on MIG, overloaded, incomplete, refused, by objective, and on other GPUs than planned."""

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
def test_parvagpus_published_plans_serve_the_rates(mix: int) -> None:
    published, _ = read_plan(PUBLISHED / f"parvagpu-{mix}.json")
    asked = PARVAGPU[published.instance]

    result = simulate(published, asked, Settings(CONSTANT, seconds=10.0, warmup_s=5.0))

    for served, workload in zip(result.workloads, asked.workloads, strict=True):
        assert served.offered_rps == workload.rate_rps
        assert served.requests == pytest.approx(10.0 * workload.rate_rps, abs=1.0)
        assert served.goodput_rps == pytest.approx(workload.rate_rps, rel=0.01, abs=0.11)


def test_processes_of_a_mig_instance_share_its_throughput() -> None:
    """Two processes of bert serve 104.84 req/s together: 19.08 ms for each batch of one, measured as 19 ms."""
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


def test_on_mig_a_batch_takes_the_time_that_its_throughput_implies() -> None:
    """vgg19 on the whole GPU serves 805.53 req/s in batches of two: 2.48 ms each, not the rounded latency of 2 ms."""
    asked = Instance(
        "mig",
        Objective.COST,
        SloRule.HALF_SLO,
        MIG_TABLE,
        (GpuPool(gpu_type("a100-mig"), None),),
        (Workload("v", "vgg19", 50.0, 100.0),),
    )
    plan = Plan("mig", (PlacedGpu("a100-mig", (Gpulet(7, (Slot("v", 2, 100.0),), start=0),)),))

    result = simulate(plan, asked, Settings(CONSTANT)).workloads[0]

    assert result.max_ms == pytest.approx(10.0 + 2000.0 / 805.53)
    assert result.mean_ms == pytest.approx(5.0 + 2000.0 / 805.53)


# --- Incomplete and overloaded ---


def test_all_requests_of_a_workload_without_a_slot_are_dropped() -> None:
    only_a = Plan("toys", (spatial_gpu("toy", [("a", 4, 2, 200.0)]),))

    result = simulate(only_a, instance(), Settings(CONSTANT, seconds=4.0, interval_s=1.0))

    served, dropped = result.workloads
    assert served.violation_rate == 0.0
    assert (dropped.requests, dropped.dropped, dropped.unfinished, dropped.violation_rate) == (200, 200, 0, 1.0)
    assert (dropped.p50_ms, dropped.max_ms, dropped.mean_ms) == (None, None, None)
    assert result.series is not None
    assert result.series.dropped.tolist() == [[0, 50]] * 4


def test_a_plan_without_gpus_drops_all_requests() -> None:
    result = simulate(Plan("toys", ()), instance(), Settings(seconds=5.0))

    assert result.drop_rate == result.violation_rate == 1.0
    assert result.goodput_rps == 0.0
    assert result.worst_p99 is None


def test_the_simulation_of_an_overloaded_plan_without_dropping_ends() -> None:
    """1500 req/s arrive for 30 s, and 465 req/s are served: 60 s later, about 41,900 of 45,000 are served."""
    asked = instance(replace(A, rate_rps=1500.0))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, 1500.0)]),))

    result = simulate(plan, asked, Settings(CONSTANT, dropping=False, warmup_s=0.0)).workloads[0]

    served = 1000.0 * (30.0 + DRAIN_S) / 2.15
    assert result.requests == 45_000
    assert result.dropped == 0
    assert result.requests - result.unfinished == pytest.approx(served, rel=0.002)
    assert result.violation_rate > 0.99


def test_requests_in_batches_that_never_end_are_unfinished() -> None:
    """With too little power, the frequency is 0 and batches never end: no request is served."""
    dead = replace(TOY, hardware=replace(TOY.hardware, max_power_w=-2000.0))
    asked = replace(instance(A), gpus=(GpuPool(dead, None),))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, 200.0)]),))

    not_dropping, dropping = (
        simulate(plan, asked, Settings(seconds=1.0, dropping=d)).workloads[0] for d in (False, True)
    )

    assert not_dropping.unfinished == not_dropping.requests > 150
    assert dropping.dropped == dropping.requests > 150


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
def test_the_offered_rates_follow_from_the_objective(objective: Objective, offered: list[float]) -> None:
    partly = Plan("toys", (spatial_gpu("toy", [("a", 4, 2, 150.0), ("b", 5, 2, 60.0)]),))

    result = simulate(partly, instance(objective=objective), Settings(CONSTANT, seconds=4.0))

    assert [workload.offered_rps for workload in result.workloads] == pytest.approx(offered)
    assert [workload.requests for workload in result.workloads] == pytest.approx([4 * rate for rate in offered])


def test_under_goodput_workloads_without_a_slot_have_no_requests() -> None:
    result = simulate(Plan("toys", PAIR.gpus[:0]), instance(objective=Objective.GOODPUT), Settings(seconds=4.0))

    assert (result.requests, result.violation_rate, result.violating) == (0, 0.0, 0)


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
def test_plans_that_do_not_fit_the_instance_are_refused(plan: Plan, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        simulate(plan, instance())


def test_too_many_requests_are_refused_before_the_simulation() -> None:
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


def test_the_largest_seed_is_accepted() -> None:
    assert simulate(PAIR, instance(), Settings(seconds=0.1, seed=2**63 - 1, noise=0.1)).requests > 0


# --- Other GPUs than planned ---


def slower(asked: Instance, factor: float) -> Instance:
    """Return the instance on GPUs whose active times are ``factor`` times as long."""
    models = {
        name: replace(model, k=(*(factor * k for k in model.k[:3]), model.k[3], factor * model.k[4]))
        for name, model in TOY.models.items()
    }
    return replace(asked, gpus=(GpuPool(replace(TOY, models=models), None),))


@pytest.mark.parametrize("interference", list(Interference))
def test_times_are_those_of_the_true_gpus_and_timeouts_those_of_the_planned_ones(interference: Interference) -> None:
    """A lone request waits for 20 ms, as planned, then takes 4.1 + 0.15 ms instead of 2.1 + 0.15 ms."""
    asked = instance(Workload("a", "small", 40.0, 10.0))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 2, 10.0)]),))
    settings = Settings(CONSTANT, interference=interference)

    planned, really = (simulate(plan, asked, settings, truth).workloads[0] for truth in (None, slower(asked, 2.0)))

    assert planned.max_ms == pytest.approx(20.0 + 2.25)
    assert really.max_ms == pytest.approx(20.0 + 4.25)


def test_a_truth_equal_to_the_plan_changes_nothing() -> None:
    asked = instance()

    assert simulate(PAIR, asked, truth=slower(asked, 1.0)).workloads == simulate(PAIR, asked).workloads


def test_on_slower_gpus_workloads_are_late() -> None:
    asked = instance()

    planned, really = (simulate(PAIR, asked, truth=truth) for truth in (None, slower(asked, 2.5)))

    assert planned.violating == 0
    assert really.violating > 0
    assert really.goodput_rps < planned.goodput_rps


# --- Results ---


def test_a_request_at_the_end_of_the_measured_time_is_not_counted() -> None:
    """At 1000 req/s, a request arrives exactly at the end, where the sum of times is rounded up."""
    asked = instance(Workload("a", "small", 100.0, 1000.0))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 8, 1000.0)]),))

    result = simulate(plan, asked, Settings(CONSTANT, seconds=2.0, warmup_s=0.007, interval_s=1.0))

    assert result.series is not None
    assert result.series.arrived[:, 0].tolist() == [1000, 1000]
    assert result.workloads[0].requests == 2000


def test_json_has_the_totals_workloads_histograms_and_series() -> None:
    result = simulate(PAIR, instance(), Settings(seconds=2.0, interval_s=1.0))

    values = result.to_json(histograms=True)

    assert values["requests"] == result.requests == sum(workload["requests"] for workload in values["workloads"])
    assert values["violating"] == 0
    assert values["worst_p99"] == max(
        workload.p99_ms / workload.slo_ms for workload in result.workloads if workload.p99_ms is not None
    )
    for workload in values["workloads"]:
        assert (
            sum(workload["histogram"]["requests"])
            == workload["requests"] - workload["dropped"] - workload["unfinished"]
        )
    assert np.array(values["series"]["arrived"]).shape == (2, 2)
    assert "histogram" not in result.to_json()["workloads"][0]


def test_a_simulation_yields_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_latency_above_the_slo_by_rounding_is_not_late() -> None:
    """A request waits as long as permitted: its latency is its SLO plus a rounding error of 1e-13 ms."""
    workloads = [replace(A, id="w0", slo_ms=5.0, rate_rps=26.0), replace(A, id="w1", slo_ms=5.0, rate_rps=5.0)]
    plan = Plan("toys", (PlacedGpu("toy", (Gpulet(5, (Slot("w0", 3, 1.0),), 3.0),)),))
    result = simulate(plan, instance(*workloads), Settings(Arrivals(), 1.0, 0.0, 0, Interference.STATIC, dropping=True))
    assert result.workloads[0].max_ms == pytest.approx(5.0, abs=1e-9)
    assert [workload.late for workload in result.workloads] == [0, 0]
