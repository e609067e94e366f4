"""The judge on GPUs cut into MIG instances: ParvaGPU's published plans, and a plan for every kind of violation."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from bench.judging.judge import Verdict, judge
from instances import (
    Gpulet,
    GpuPool,
    InputError,
    Instance,
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
from instances.files import plan_from_json, plan_to_json, read_plan
from instances.mig import MIG_TABLE
from instances.suites import suite

A100 = gpu_type("a100-mig")
PARVAGPU = {instance.name: instance for instance in suite("parvagpu").build()}

# ParvaGPU's published plans. On 32 of 46 GPUs, the starts that its allocator prints collide (it marks only the first
# position of an instance as taken); there, the files have other starts. Rates are split in proportion to throughput.
PUBLISHED = Path(__file__).parents[2] / "fixtures" / "parvagpu_plans"

# bert in an instance of 1 at batch 1: one process serves 74.408 req/s in 13 ms, two 104.84 in 19 ms. vgg19 on a whole
# GPU at batch 2: two processes serve 1033.292 req/s in 4 ms.
BERT = Workload("b", "bert", 26.0, 70.0)
VGG = Workload("v", "vgg19", 8.0, 1000.0)


def instance(*workloads: Workload, count: int | None = None, buffer: float = 1.0) -> Instance:
    pools = (GpuPool(A100, count),)
    return Instance(
        "mix", Objective.COST, SloRule.HALF_SLO, MIG_TABLE, pools, workloads or (BERT,), latency_buffer=buffer
    )


def bert(start: int, units: int = 1, batch: int = 1, processes: int = 1, rate_rps: float = 70.0) -> Gpulet:
    return Gpulet(units, (Slot("b", batch, rate_rps),), start=start, processes=processes)


WHOLE = Gpulet(7, (Slot("v", 2, 1000.0),), start=0, processes=2)


def plan(*gpus: Sequence[Gpulet]) -> Plan:
    return Plan("mix", tuple(PlacedGpu("a100-mig", tuple(gpulets)) for gpulets in gpus))


def kinds(verdict: Verdict) -> list[str]:
    return [violation.kind for violation in verdict.violations]


# --- The published plans ---


@pytest.mark.parametrize(("mix", "gpus"), [(1, 2), (2, 3), (3, 5), (4, 7), (5, 13), (6, 16)])
def test_the_published_plans_are_feasible(mix: int, gpus: int) -> None:
    published, _ = read_plan(PUBLISHED / f"parvagpu-{mix}.json")

    verdict = judge(published, PARVAGPU[f"parvagpu-{mix}"])

    assert verdict.violations == ()
    assert verdict.gpus_used == gpus
    assert verdict.value == pytest.approx(4.10 * gpus)


def test_the_published_plans_are_unchanged_by_json() -> None:
    for path in sorted(PUBLISHED.glob("*.json")):
        published, _ = read_plan(path)
        written = plan_to_json(published, PARVAGPU[published.instance])
        assert plan_from_json(written) == published


def test_the_starts_as_published_overlap() -> None:
    """On GPU 2 of the second plan, vgg16 has an instance of 2 at 0, and mobilenetv2 one of 1 at 1."""
    published, _ = read_plan(PUBLISHED / "parvagpu-2.json")
    starts = {"vgg16": 0, "mobilenetv2": 1, "vgg19": 4, "inceptionv3": 6}
    gpu = published.gpus[2]
    moved = replace(gpu, gpulets=tuple(replace(g, start=starts[g.slots[0].workload]) for g in gpu.gpulets))

    verdict = judge(replace(published, gpus=(*published.gpus[:2], moved)), PARVAGPU["parvagpu-2"])

    assert [v.message for v in verdict.violations] == ["GPU 2: the instances of 2 at 0 and of 1 at 1 overlap"]


# --- A feasible plan ---


def test_the_verdict_on_a_feasible_plan_is_that_calculated_by_hand() -> None:
    verdict = judge(plan([bert(6)], [WHOLE]), instance(BERT, VGG))

    assert verdict.feasible
    slice_, whole = verdict.slots
    assert (slice_.gpu, slice_.workload, slice_.t_gpu_ms, slice_.t_inf_ms, slice_.budget_ms) == (
        0,
        "b",
        13.0,
        13.0,
        13.0,
    )
    assert (whole.gpu, whole.workload, whole.t_gpu_ms, whole.budget_ms) == (1, "v", 4.0, 4.0)
    assert (slice_.throughput_rps, whole.throughput_rps) == (74.408, 1033.292)
    assert (slice_.busy, whole.busy) == pytest.approx((70 / 74.408, 1000 / 1033.292))
    assert (verdict.gpus_used, verdict.value) == (2, pytest.approx(8.20))
    assert verdict.goodput_rps == 1070.0
    assert verdict.fragments_pct == pytest.approx(100 * (6 / 7 + 0) / 2)
    assert verdict.utilisation_pct == pytest.approx(100 * (70 / 74.408 / 7 + 1000 / 1033.292) / 2)


def test_a_workload_may_be_split_over_instances() -> None:
    split = plan([bert(0), bert(1, rate_rps=30.0)])

    assert judge(split, instance(replace(BERT, rate_rps=100.0))).feasible
    assert split.plan_class is PlanClass.SPLIT


# --- Places ---


def _positions(units: int, start: int) -> tuple[set[int], set[int]]:
    """Return the positions that an instance holds, and those that it holds or blocks: a 3 at 0 also blocks 3."""
    held = set(range(start, start + units))
    return held, held | ({3} if (units, start) == (3, 0) else set())


LEGAL_UNITS_AND_STARTS = [(1, s) for s in range(7)] + [(2, 0), (2, 2), (2, 4), (3, 0), (3, 4), (4, 0), (7, 0)]


def test_two_instances_collide_if_their_positions_do(subtests: pytest.Subtests) -> None:
    for one, other in combinations(LEGAL_UNITS_AND_STARTS, 2):
        pair = [Gpulet(units, (Slot("b", 1, 1.0),), start=start) for units, start in (one, other)]

        violation_kinds = set(kinds(judge(plan(pair), instance()))) & {"overlap", "blocked", "start", "slice"}

        (held, taken), (other_held, other_taken) = _positions(*one), _positions(*other)
        expected = {"overlap"} if held & other_held else {"blocked"} if taken & other_taken else set()
        with subtests.test(one=one, other=other):
            assert violation_kinds == expected


def test_two_instances_at_one_start_overlap() -> None:
    assert kinds(judge(plan([bert(3), bert(3)]), instance())) == ["overlap"]


def test_a_blocked_position_is_named() -> None:
    three = bert(0, units=3)

    verdict = judge(plan([three, bert(3)]), instance())

    assert "GPU 0: the instance of 3 at 0 blocks the one of 1 at 3" in [v.message for v in verdict.violations]


@pytest.mark.parametrize(("units", "start"), [(2, 1), (2, 6), (3, 2), (4, 3), (7, 1), (1, 7)])
def test_an_illegal_start_is_named(units: int, start: int) -> None:
    (violation, *_) = judge(plan([bert(start, units=units)]), instance()).violations

    assert (violation.kind, violation.gpu, violation.actual) == ("start", 0, start)
    assert violation.message.startswith(f"GPU 0: an instance of {units} begins at {start}; it may at 0")


@pytest.mark.parametrize("units", [5, 6])
def test_a_size_that_does_not_exist_is_named(units: int) -> None:
    verdict = judge(plan([bert(0, units=units)]), instance())

    assert kinds(verdict) == ["slice", "configuration"]
    assert verdict.violations[0].message == (f"GPU 0: no instance has {units} slices; a100-mig has sizes 1, 2, 3, 4, 7")


# --- Configurations, latencies and rates ---


def test_a_latency_above_half_the_slo_is_a_violation() -> None:
    (violation,) = judge(plan([bert(0, processes=2)]), instance()).violations

    assert (violation.kind, violation.workload, violation.actual, violation.limit) == ("latency", "b", 19.0, 13.0)
    assert violation.message == "GPU 0, b: 19 ms exceed 13 ms, half its SLO"


@pytest.mark.parametrize(
    ("batch", "processes"),
    [(3, 1), (1, 5), (2, 1)],  # not profiled; out of memory; dominated by another
)
def test_a_configuration_without_figures_is_a_violation(batch: int, processes: int) -> None:
    verdict = judge(plan([bert(0, batch=batch, processes=processes)]), instance(BERT))

    assert kinds(verdict) == ["configuration"]
    assert verdict.violations[0].message == (
        f"GPU 0, b: no figures for bert in an instance of 1 with batch {batch} and {processes} processes"
    )
    assert (verdict.throughput_rps, verdict.goodput_rps) == (0.0, 0.0)
    assert verdict.to_json()["slots"] == [
        {
            "gpu": 0,
            "workload": "b",
            "t_gpu_ms": None,
            "t_inf_ms": None,
            "budget_ms": 13.0,
            "throughput_rps": 0.0,
            "busy": 0.0,
            "slack": -1.0,
        }
    ]


def test_a_rate_that_is_not_served_is_a_violation() -> None:
    (violation,) = judge(plan([bert(0)]), instance(replace(BERT, rate_rps=70.5))).violations

    assert (violation.kind, violation.gpu, violation.workload) == ("rate", None, "b")
    assert (violation.actual, violation.limit) == (70.0, 70.5)


def test_a_planned_rate_above_the_throughput_is_a_violation() -> None:
    verdict = judge(plan([bert(0, rate_rps=74.409)]), instance())

    assert kinds(verdict) == ["rate"]
    assert verdict.violations[0].message == "GPU 0, b: 74.409 req/s, the instance serves 74.408"
    assert verdict.goodput_rps == 0.0
    assert judge(plan([bert(0, rate_rps=74.408)]), instance()).feasible


def test_the_latency_buffer_lengthens_latencies_and_lowers_rates() -> None:
    relaxed = replace(BERT, slo_ms=28.6, rate_rps=60.0)

    assert judge(plan([bert(0, rate_rps=67.64)]), instance(relaxed, buffer=1.1)).feasible
    assert kinds(judge(plan([bert(0, rate_rps=67.65)]), instance(relaxed, buffer=1.1))) == ["rate"]
    assert kinds(judge(plan([bert(0, rate_rps=60.0)]), instance(replace(relaxed, slo_ms=28.5), buffer=1.1))) == [
        "latency"
    ]


def test_more_gpus_than_the_pool_has_are_a_violation() -> None:
    two = plan([bert(0, rate_rps=35.0)], [bert(0, rate_rps=35.0)])

    assert kinds(judge(two, instance(count=1))) == ["pool"]
    assert judge(two, instance(count=2)).feasible


# --- Plans that do not fit the instance ---


@pytest.mark.parametrize(
    ("gpulet", "message"),
    [
        (Gpulet(1, (Slot("b", 1, 70.0),)), ".start: is None; expected the position of a MIG instance, at least 0"),
        (bert(-1), ".start: is -1; expected the position of a MIG instance, at least 0"),
        (bert(0, processes=0), ".processes: is 0; expected at least 1"),
        (
            Gpulet(1, (Slot("b", 1, 1.0),) * 2, 9.0, 0),
            ": a MIG instance has one slot and no duty_cycle_ms",
        ),
        (Gpulet(1, (Slot("b", 1, 1.0),), 9.0, 0), ": a MIG instance has one slot and no duty_cycle_ms"),
    ],
)
def test_a_gpulet_that_is_no_mig_instance_is_refused(gpulet: Gpulet, message: str) -> None:
    with pytest.raises(InputError) as caught:
        judge(plan([gpulet]), instance())

    assert str(caught.value) == f"plan: gpus[0].gpulets[0]{message}"


@pytest.mark.parametrize("changed", [{"start": 0}, {"processes": 2}])
def test_a_start_or_several_processes_on_a_gpu_with_shares_are_refused(changed: dict[str, int]) -> None:
    (shares,) = suite("igniter-3").build()
    gpu = spatial_gpu("v100", [("W1", 15, 4, 500.0)])
    gpulet = replace(gpu.gpulets[0], **changed)

    with pytest.raises(InputError, match=r"gpulets\[0\]: has a start or several processes"):
        judge(Plan(shares.name, (replace(gpu, gpulets=(gpulet,)),)), shares)
