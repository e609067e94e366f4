"""The judge on best-effort jobs: three scores from a simulation, every kind of violation, and refused plans."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.judging.colocation import demand_over_time, over_capacity_pct
from bench.judging.judge import judge
from instances import (
    Gpulet,
    GpuPool,
    InputError,
    Instance,
    Job,
    Objective,
    PlacedGpu,
    Plan,
    PlanClass,
    SloRule,
    Slot,
    Workload,
    spatial_gpu,
)
from instances.catalogue import gpu_type
from instances.colocation import Sample, draw_launches, run_alone, run_together
from instances.files import plan_from_json, plan_to_json
from instances.view import View

V100 = gpu_type("v100")
FULL = V100.share_units

# GPU time alone on a V100: r takes 12.5 ms of every 100 ms, v 26.7 ms of every 32 ms, a 0.7 ms of every 500 ms.
RESNET = Job("r", "resnet50", (16,), (1.0,), (100.0,), (1.0,))
VGG = Job("v", "vgg19", (16,), (1.0,), (32.0,), (1.0,))
ALEX = Job("a", "alexnet", (1,), (1.0,), (500.0,), (1.0,))


def problem(*jobs: Job, count: int | None = None, gpu_memory_mib: float = V100.memory_mib) -> Instance:
    pool = GpuPool(replace(V100, memory_mib=gpu_memory_mib), count)
    rule = SloRule.HALF_SLO
    return Instance("jobs", Objective.COLOCATION, rule, "igniter", (pool,), (), jobs=jobs or (RESNET, ALEX), seed=4)


def gpu(*jobs: tuple[str, int]) -> PlacedGpu:
    return PlacedGpu("v100", tuple(Gpulet(FULL, (Slot(job, batch, 1.0),)) for job, batch in jobs))


def plan(*gpus: Sequence[tuple[str, int]]) -> Plan:
    return Plan("jobs", tuple(gpu(*jobs) for jobs in gpus))


def alone_ms(model: str, batch: int) -> float:
    view = View.of(problem(), V100)
    row = list(V100.models).index(model)
    return float(view.tables.scheduling_ms[row] + view.tables.active_ms[row, batch, FULL])


# --- Scores ---


def test_jobs_that_need_less_than_the_gpu_have_their_full_throughput() -> None:
    verdict = judge(plan([("r", 16), ("a", 1)]), problem())

    assert verdict.feasible
    assert verdict.value == verdict.throughput_rps == verdict.goodput_rps == pytest.approx(160 + 2, rel=0.001)
    assert verdict.over_capacity_pct == 0.0
    assert (verdict.gpus_used, verdict.cost_per_hour, verdict.fragments_pct) == (1, 3.06, 0.0)
    resnet, alexnet = verdict.slots
    assert resnet.throughput_rps == pytest.approx(160, rel=0.001)
    assert resnet.busy == pytest.approx(alone_ms("resnet50", 16) / 100, rel=0.01)
    assert resnet.t_gpu_ms == pytest.approx(alone_ms("resnet50", 16), rel=0.05)
    assert resnet.t_inf_ms - resnet.t_gpu_ms == pytest.approx(16 * (602112 + 4000) / 1e7)
    assert verdict.utilisation_pct == pytest.approx(100 * (resnet.busy + alexnet.busy))


def test_jobs_that_need_more_than_the_gpu_are_slower_and_over_capacity() -> None:
    twin = replace(VGG, id="w")
    both = problem(VGG, twin)

    on_one_gpu, on_two_gpus = judge(plan([("v", 16), ("w", 16)]), both), judge(plan([("v", 16)], [("w", 16)]), both)

    assert on_one_gpu.feasible
    assert on_one_gpu.over_capacity_pct == 100.0
    assert 97.0 < on_one_gpu.utilisation_pct < 100.0  # idle only while both jobs transfer data
    assert on_one_gpu.gpus_used == 1
    assert on_two_gpus.over_capacity_pct == 0.0
    assert on_two_gpus.value == pytest.approx(1000.0, rel=0.002)
    assert on_two_gpus.gpus_used == 2
    # The GPU is always busy, and interference costs some of its throughput.
    assert on_one_gpu.value is not None
    assert 0.8 < on_one_gpu.value / (1000 * 16 / alone_ms("vgg19", 16)) < 0.99
    assert on_one_gpu.slots[0].throughput_rps == pytest.approx(on_one_gpu.slots[1].throughput_rps, rel=0.01)


def test_time_over_capacity_is_the_mean_over_gpus() -> None:
    jobs = (VGG, replace(VGG, id="w"), RESNET, ALEX)

    verdict = judge(plan([("v", 16), ("w", 16)], [("r", 16), ("a", 1)]), problem(*jobs))

    assert verdict.over_capacity_pct == 50.0


def test_a_demand_of_exactly_the_gpu_is_not_over_capacity() -> None:
    demand = np.array([[0.5, 0.7, 0.2, 1.0], [0.5, 0.4, 0.1, 1e-12]])

    assert over_capacity_pct(demand) == 25.0


def test_the_judge_draws_other_launches_than_the_profile() -> None:
    varied = replace(RESNET, interarrival_ms=(50.0, 150.0), interarrival_weights=(1.0, 1.0))
    instance = problem(varied)
    tables = View.of(instance, V100).tables
    row = list(V100.models).index("resnet50")

    value = judge(plan([("r", 16)]), instance).value

    expected = {
        sample: run_together(tables, [draw_launches(tables, row, varied, 16, 4, sample)]).throughput_rps[0]
        for sample in Sample
    }
    assert value == expected[Sample.TRIAL] != expected[Sample.PROFILE]
    assert judge(plan([("r", 16)]), instance).value == value
    assert judge(plan([("r", 16)]), replace(instance, seed=5)).value != value


def test_a_smaller_batch_of_a_slot_has_shorter_launches_and_more_busy_time() -> None:
    small, large = (judge(plan([("v", b), ("a", 1)]), problem(VGG, ALEX)) for b in (4, 16))

    assert small.feasible
    assert small.slots[0].t_gpu_ms < large.slots[0].t_gpu_ms
    assert small.slots[0].busy > large.slots[0].busy


@pytest.mark.parametrize("sample", Sample)
def test_demand_over_time_is_that_of_the_jobs_run_alone(sample: Sample) -> None:
    varying = replace(VGG, interarrival_ms=(20.0, 44.0), interarrival_weights=(1.0, 1.0))
    view = View.of(problem(varying, ALEX), V100)
    rows = [list(V100.models).index(name) for name in ("vgg19", "alexnet")]
    drawn = [
        draw_launches(view.tables, row, job, batch, 4, sample)
        for row, job, batch in zip(rows, (varying, ALEX), (16, 1), strict=True)
    ]
    shared = gpu(("v", 16), ("a", 1))

    assert np.array_equal(demand_over_time(shared, view, sample), run_alone(view.tables, drawn))
    assert np.array_equal(demand_over_time(shared, view), demand_over_time(shared, view, Sample.TRIAL))
    assert not np.array_equal(demand_over_time(shared, view), demand_over_time(shared, view, Sample.PROFILE))


def test_a_plan_without_gpus_places_no_job() -> None:
    verdict = judge(Plan("jobs", ()), problem())

    assert (verdict.value, verdict.over_capacity_pct, verdict.gpus_used) == (0.0, 0.0, 0)
    assert [v.kind for v in verdict.violations] == ["job", "job"]


# --- Violations ---


@pytest.mark.parametrize(
    ("gpus", "job", "placed"),
    [
        ([[("r", 16)]], "a", 0),
        ([[("r", 16), ("a", 1)], [("a", 1)]], "a", 2),
        ([[("r", 16), ("a", 1), ("a", 1)]], "a", 2),
    ],
    ids=["lost", "on two GPUs", "twice on one"],
)
def test_every_job_is_placed_once(gpus: list[list[tuple[str, int]]], job: str, placed: int) -> None:
    verdict = judge(plan(*gpus), problem())

    assert not verdict.feasible
    (violation,) = verdict.violations
    assert (violation.kind, violation.gpu, violation.workload) == ("job", None, job)
    assert (violation.actual, violation.limit) == (placed, 1)
    assert violation.message == f"{job}: placed {placed} times, expected once"


def test_too_little_memory_is_a_violation() -> None:
    verdict = judge(plan([("r", 16), ("a", 1)]), problem(gpu_memory_mib=1900.0))

    (violation,) = verdict.violations
    assert (violation.kind, violation.gpu, violation.limit) == ("memory", 0, 1900.0)
    assert violation.actual == sum(V100.models[m].memory_mib(b) for m, b in (("resnet50", 16), ("alexnet", 1)))
    assert verdict.goodput_rps == 0.0
    assert verdict.value == pytest.approx(162, rel=0.001)


def test_a_batch_above_the_largest_measured_is_a_violation() -> None:
    verdict = judge(plan([("r", 33)], [("a", 1)]), problem())

    (violation,) = verdict.violations
    assert (violation.kind, violation.gpu, violation.workload) == ("batch", 0, "r")
    assert (violation.actual, violation.limit) == (33, 32)
    assert [slot.workload for slot in verdict.slots] == ["a"]


def test_more_gpus_than_the_pool_has_are_a_violation() -> None:
    verdict = judge(plan([("r", 16)], [("a", 1)]), problem(count=1))

    assert [v.kind for v in verdict.violations] == ["pool"]


# --- Plans that do not fit the instance ---


@pytest.mark.parametrize(
    ("gpulet", "where"),
    [
        (Gpulet(FULL - 1, (Slot("r", 16, 1.0),)), "plan: gpus[0].gpulets[0]: under colocation, a gpulet has one job"),
        (Gpulet(FULL, (Slot("r", 16, 1.0),), 20.0), "plan: gpus[0].gpulets[0]: under colocation"),
        (Gpulet(FULL, (Slot("r", 16, 1.0), Slot("a", 1, 1.0)), 20.0), "plan: gpus[0].gpulets[0]: under colocation"),
        (
            Gpulet(FULL, (Slot("rr", 16, 1.0),)),
            'gpus[0].gpulets[0].slots[0].workload: unknown job "rr"; did you mean "r"?',
        ),
    ],
)
def test_gpulets_that_do_not_hold_one_known_job_are_refused(gpulet: Gpulet, where: str) -> None:
    with pytest.raises(InputError) as caught:
        judge(Plan("jobs", (PlacedGpu("v100", (gpulet,)),)), problem())

    assert where in str(caught.value)


def test_workloads_cannot_be_placed_under_colocation() -> None:
    mixed = replace(problem(), workloads=(Workload("w", "alexnet", 20.0, 10.0),))

    assert judge(plan([("r", 16), ("a", 1)]), mixed).feasible
    with pytest.raises(InputError, match='unknown job "w"'):
        judge(Plan("jobs", (spatial_gpu("v100", [("w", FULL, 1, 10.0)]),)), mixed)


def test_instances_with_mig_repeated_ids_or_unknown_models_are_refused() -> None:
    a100 = gpu_type("a100-mig")
    with pytest.raises(InputError, match='objective: is "colocation": jobs share whole GPUs; a100-mig is cut'):
        Instance("jobs", Objective.COLOCATION, SloRule.HALF_SLO, "mig-table", (GpuPool(a100),), ())
    with pytest.raises(InputError, match=r'jobs: jobs\[1\]: "r" occurs twice'):
        problem(RESNET, RESNET)
    with pytest.raises(InputError, match=r'jobs\[0\]\.model: unknown model on v100 "resnet5"'):
        problem(replace(RESNET, model="resnet5"))


def test_plans_with_jobs_together_on_a_gpu_are_unchanged_by_json() -> None:
    shared = plan([("r", 16), ("a", 1)])

    assert shared.plan_class is PlanClass.SPATIAL
    assert plan_from_json(json.loads(json.dumps(plan_to_json(shared)))) == shared
