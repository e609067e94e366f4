"""The judge: values calculated by hand, a plan for every kind of violation, and refused plans."""

import json
from dataclasses import replace
from math import inf, nan

import pytest

from bench.judging.judge import Verdict, judge
from instances import Gpulet, GpuPool, InputError, Objective, PlacedGpu, Plan, SloRule, Workload, spatial_gpu
from tests.bench.toys import ROWS, TURNS, A, instance, of, only, plan
from tests.instances.reference import TOY

# --- A feasible plan ---


def test_the_verdict_on_a_feasible_plan_is_that_calculated_by_hand() -> None:
    verdict = judge(plan(ROWS), instance())

    assert verdict.feasible
    assert verdict.violations == ()
    a, b = verdict.slots
    assert (a.gpu, a.workload, b.gpu, b.workload) == (0, "a", 0, "b")
    assert (a.t_gpu_ms, b.t_gpu_ms) == pytest.approx((2.4, 11.6))
    assert (a.t_inf_ms, b.t_inf_ms) == pytest.approx((2.55, 11.9))
    assert (a.budget_ms, b.budget_ms) == pytest.approx((2.41, 11.8))
    assert (a.throughput_rps, b.throughput_rps) == pytest.approx((1000 / 2.45, 2000 / 11.7))
    assert (a.busy, b.busy) == pytest.approx((200 * 2.45 / 1000, 100 * 11.7 / 2000))
    assert (verdict.gpus_used, verdict.cost_per_hour, verdict.value) == (1, 2.0, 2.0)
    assert verdict.throughput_rps == pytest.approx(1000 / 2.45 + 2000 / 11.7)
    assert verdict.goodput_rps == 300.0
    assert verdict.fragments_pct == pytest.approx(20.0)
    assert verdict.utilisation_pct == pytest.approx(40 * 0.49 + 40 * 0.585)


def test_fragments_and_utilisation_are_means_over_the_gpus_that_run_something() -> None:
    idle = PlacedGpu("toy", ())
    two = replace(plan([ROWS[0]], [ROWS[1]]), gpus=(*plan([ROWS[0]], [ROWS[1]]).gpus, idle))

    verdict = judge(two, instance())

    # alone: a 2.1 ms, b 10.2 ms of GPU time
    assert verdict.gpus_used == 2
    assert verdict.cost_per_hour == 4.0
    assert verdict.fragments_pct == pytest.approx((60 + 60) / 2)
    assert verdict.utilisation_pct == pytest.approx((40 * 200 * 2.15 / 1000 + 40 * 100 * 10.3 / 2000) / 2)


def test_two_slots_of_one_workload_on_a_gpu_are_judged_separately() -> None:
    split = plan([("a", 3, 1, 150.0), ("a", 4, 1, 50.0)])

    verdict = judge(split, instance(replace(A, slo_ms=20.0)))

    # Active times: 7/3 ms at 30 %, beside 6 % of L2; 2 ms at 40 %, beside (1 + 10 / (7/3)) % of L2.
    slow, fast = 0.2 + 7 / 3 * 1.06, 0.2 + 2 * (1.01 + 0.1 / (7 / 3))
    assert verdict.feasible
    assert [slot.t_gpu_ms for slot in verdict.slots] == pytest.approx([slow, fast])
    assert verdict.utilisation_pct == pytest.approx(30 * 150 * (slow + 0.05) / 1000 + 40 * 50 * (fast + 0.05) / 1000)


def test_a_plan_without_gpus_has_zero_cost_and_fragments() -> None:
    verdict = judge(Plan("toys", ()), instance(objective=Objective.GOODPUT))

    assert verdict == Verdict(True, (), 0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, ())


@pytest.mark.parametrize(
    ("objective", "value"),
    [
        (Objective.COST, 2.0),
        (Objective.CAPACITY, 1000 / 2.45 + 2000 / 11.7),
        (Objective.GOODPUT, 300.0),
        (Objective.SCALE, 1.0),
    ],
)
def test_the_value_is_that_of_the_objective(objective: Objective, value: float) -> None:
    verdict = judge(plan(ROWS), instance(objective=objective))

    assert verdict.feasible
    assert verdict.value == pytest.approx(value)
    assert verdict.over_capacity_pct is None


@pytest.mark.parametrize(
    ("rows", "scale"),
    [
        ([("a", 4, 1, 400.0), ("b", 4, 2, 150.0)], 1.5),
        ([("a", 4, 1, 100.0), ("b", 4, 2, 100.0)], 0.5),
        ([("b", 4, 2, 100.0)], 0.0),
    ],
    ids=["the least multiple counts", "below its own rate", "left out"],
)
def test_scale_is_the_least_multiple_of_any_rate(rows: list[tuple[str, int, int, float]], scale: float) -> None:
    assert judge(plan(rows), instance(objective=Objective.SCALE)).value == pytest.approx(scale)


def test_a_pool_of_two_types_is_priced_and_measured_by_type() -> None:
    twin = replace(TOY, name="twin", price_per_hour=5.0, share_units=20)
    problem = replace(instance(), gpus=(GpuPool(TOY), GpuPool(twin)))
    both = Plan("toys", (spatial_gpu("toy", [ROWS[0]]), spatial_gpu("twin", [("b", 8, 2, 100.0)])))

    verdict = judge(both, problem)

    assert verdict.feasible
    assert verdict.cost_per_hour == 7.0
    assert verdict.fragments_pct == pytest.approx(60.0)
    assert verdict.slots[1].t_gpu_ms == pytest.approx(10.2)  # 8 of 20 units are 40 % as well


# --- Every kind of violation, one at a time ---


def test_a_gpu_time_above_its_budget_is_a_violation() -> None:
    violation = only(judge(plan([("a", 3, 1, 200.0), ROWS[1]]), instance()))

    t_gpu = 0.2 + 7 / 3 * 1.1
    assert (violation.kind, violation.gpu, violation.workload) == ("latency", 0, "a")
    assert (violation.actual, violation.limit) == pytest.approx((t_gpu, 2.41))
    assert violation.message == (
        "GPU 0, a: GPU time 2.767 ms exceeds its budget of 2.410 ms (batch 1, 200 req/s, SLO 5.12 ms)"
    )


def test_at_frequency_zero_the_latency_is_infinite() -> None:
    hot = replace(TOY, hardware=replace(TOY.hardware, max_power_w=-1000.0))

    verdict = judge(plan([ROWS[0]]), instance(A, gpu=hot))

    violation = only(verdict)
    assert (violation.kind, violation.workload, violation.actual) == ("latency", "a", inf)
    assert (verdict.throughput_rps, verdict.goodput_rps) == (0.0, 0.0)


def test_more_share_units_than_the_gpu_has_are_a_violation() -> None:
    violation = only(judge(plan([("a", 6, 1, 200.0), ("b", 5, 2, 100.0)]), instance()))

    assert (violation.kind, violation.gpu, violation.workload) == ("share", 0, None)
    assert (violation.actual, violation.limit) == (11, 10)
    assert violation.message == "GPU 0: 11 share units allocated, 10 exist"


@pytest.mark.parametrize("units", [11, 2**31 - 1])
def test_a_single_share_beyond_the_gpu_is_refused(units: int) -> None:
    with pytest.raises(InputError, match=rf"share_units: {units}; a toy has 10 share units$"):
        judge(plan([("a", units, 1, 200.0)]), instance(A))


def test_a_share_that_is_not_allowed_is_a_violation() -> None:
    gapped = replace(TOY, allowed_shares=(2, 5))

    violation = only(judge(plan([("a", 5, 1, 200.0), ("b", 4, 2, 100.0)]), instance(gpu=gapped)))

    assert (violation.kind, violation.gpu, violation.actual) == ("allowed-share", 0, 4)
    assert violation.message == "GPU 0: a share of 4 units is not permitted on toy"


def test_too_little_memory_is_a_violation() -> None:
    small = replace(TOY, memory_mib=1299.0)  # 600 + 700 MiB are resident

    violation = only(judge(plan(ROWS), instance(gpu=small)))

    assert (violation.kind, violation.gpu, violation.workload) == ("memory", 0, None)
    assert (violation.actual, violation.limit) == (1300.0, 1299.0)
    assert violation.message == "GPU 0: 1300 MiB resident, 1299 MiB exist"
    assert judge(plan(ROWS), instance(gpu=replace(TOY, memory_mib=1300.0))).feasible


def test_a_batch_above_the_largest_measured_is_a_violation() -> None:
    verdict = judge(plan([("a", 4, 9, 200.0), ROWS[1]], [ROWS[0]]), instance())

    violation = only(verdict)
    assert (violation.kind, violation.gpu, violation.workload) == ("batch", 0, "a")
    assert (violation.actual, violation.limit) == (9, 8)
    assert violation.message == "GPU 0, a: batch 9, figures exist up to 8"
    # The GPU with that batch has no verdicts on slots; the other GPU does.
    assert [(slot.gpu, slot.workload) for slot in verdict.slots] == [(1, "a")]
    assert verdict.utilisation_pct == pytest.approx(40 * 200 * 2.15 / 1000 / 2)


def test_more_gpus_than_the_pool_has_are_a_violation() -> None:
    violation = only(judge(plan([ROWS[0]], [ROWS[1]]), instance(gpus=1)))

    assert (violation.kind, violation.gpu, violation.workload) == ("pool", None, None)
    assert (violation.actual, violation.limit) == (2, 1)
    assert violation.message == "2 GPUs of type toy used, the pool has 1"


@pytest.mark.parametrize("objective", [Objective.COST, Objective.CAPACITY])
@pytest.mark.parametrize(
    ("rows", "workload", "actual", "message"),
    [
        ([ROWS[0]], "b", 0.0, "b: 0 req/s served of 100"),
        ([("a", 4, 1, 150.0), ROWS[1]], "a", 150.0, "a: 150 req/s served of 200"),
        ([("a", 4, 1, 199.999), ROWS[1]], "a", 199.999, "a: 199.999 req/s served of 200"),
    ],
    ids=["not at all", "in part", "nearly"],
)
def test_under_cost_and_capacity_a_rate_below_the_workloads_is_a_violation(
    objective: Objective, rows: list[tuple[str, int, int, float]], workload: str, actual: float, message: str
) -> None:
    violation = only(judge(plan(rows), instance(objective=objective)))

    assert (violation.kind, violation.gpu, violation.workload) == ("rate", None, workload)
    assert violation.actual == actual
    assert violation.limit == {"a": 200.0, "b": 100.0}[workload]
    assert violation.message == message


def test_slots_may_miss_the_rate_by_rounding() -> None:
    third = 200.0 / 3
    thirds = plan([("a", 3, 1, third)], [("a", 3, 1, third)], [("a", 3, 1, third - 1e-8)])

    assert judge(thirds, instance(replace(A, slo_ms=20.0))).feasible


@pytest.mark.parametrize("rate_rps", [190.0, 10.0, 200.0])
def test_under_goodput_any_multiple_of_5_percent_may_be_served(rate_rps: float) -> None:
    verdict = judge(plan([("a", 4, 1, rate_rps)]), instance(objective=Objective.GOODPUT))

    assert verdict.feasible
    assert verdict.value == verdict.goodput_rps == rate_rps


def test_under_goodput_a_rate_between_the_steps_is_a_violation() -> None:
    violation = only(judge(plan([("a", 4, 1, 195.0)]), instance(objective=Objective.GOODPUT)))

    assert (violation.kind, violation.gpu, violation.workload) == ("rate", 0, "a")
    assert violation.actual == 195.0
    assert violation.message == "GPU 0, a: 195 req/s is not a multiple of 5 % of 200"


def test_under_goodput_a_rate_above_the_workloads_is_a_violation() -> None:
    verdict = judge(plan([ROWS[0]], [("a", 4, 1, 10.0)]), instance(objective=Objective.GOODPUT))

    violation = only(verdict)
    assert (violation.kind, violation.gpu, violation.workload) == ("rate", None, "a")
    assert (violation.actual, violation.limit) == (210.0, 200.0)
    assert violation.message == "a: 210 req/s served, only 200 arrive"
    assert verdict.goodput_rps == 200.0


def test_under_cost_a_rate_above_the_workloads_is_no_violation() -> None:
    assert judge(plan([("a", 4, 1, 220.0), ROWS[1]]), instance()).feasible


def test_a_planned_rate_above_the_workloads_does_not_lengthen_the_budget() -> None:
    """InSS, equation 3: at 100 req/s the first of two requests waits 10 ms for the second, whatever rate is planned."""
    assembly = replace(instance(), slo_rule=SloRule.ASSEMBLY)
    at_workload_rate, above_workload_rate = (plan([("b", 4, 2, rate)], [ROWS[0]]) for rate in (100.0, 150.0))

    (first, _), (second, _) = (judge(plan_, assembly).slots for plan_ in (at_workload_rate, above_workload_rate))

    # After the wait, 24.2 - 10 ms of the SLO remain; at 150 req/s, a batch of 2 must end within 2000 / 150 ms.
    assert first.budget_ms == pytest.approx(24.2 - 10.0 - 0.3)
    assert second.budget_ms == pytest.approx(2000.0 / 150.0 - 0.3)
    slow = plan([("b", 4, 3, 150.0)], [ROWS[0]])
    assert judge(slow, assembly).slots[0].budget_ms == pytest.approx(24.2 - 20.0 - 0.3 * 1.5)


def test_goodput_counts_only_slots_without_violations() -> None:
    late_and_fine = plan([("a", 3, 1, 200.0), ROWS[1]])
    overfull = plan([("a", 6, 1, 200.0), ("b", 5, 2, 100.0)])

    assert judge(late_and_fine, instance()).goodput_rps == 100.0
    assert judge(overfull, instance()).goodput_rps == 0.0


def test_all_violations_of_a_plan_are_listed() -> None:
    broken = plan([("a", 1, 1, 200.0), ("b", 10, 2, 50.0)], [])

    verdict = judge(broken, instance(gpu=replace(TOY, memory_mib=1000.0)))

    assert [(v.kind, v.workload) for v in verdict.violations] == [
        ("share", None),
        ("memory", None),
        ("latency", "a"),
        ("rate", "b"),
    ]


# --- Plans that do not fit the instance ---


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Plan("others", ()), 'plan: instance: made for "others"; expected a plan for "toys"'),
        (
            plan([("a", 4, 1, 200.0), ("bb", 4, 2, 100.0)]),
            'plan: gpus[0].gpulets[1].slots[0].workload: unknown workload "bb"; did you mean "b"?',
        ),
        (
            Plan("toys", (spatial_gpu("toyy", ROWS),)),
            'plan: gpus[0].type: unknown GPU type "toyy"; did you mean "toy"?',
        ),
        (plan(ROWS, [("a", 0, 1, 1.0)]), "plan: gpus[1].gpulets[0]: expected at least one share unit and one slot"),
        (of(Gpulet(3, ())), "plan: gpus[0].gpulets[0]: expected at least one share unit and one slot"),
        (
            of(replace(TURNS, duty_cycle_ms=None)),
            "plan: gpus[0].gpulets[0]: slots that take turns need a duty_cycle_ms",
        ),
        *(
            (
                of(replace(TURNS, duty_cycle_ms=cycle)),
                f"plan: gpus[0].gpulets[0].duty_cycle_ms: {cycle} is not a finite time greater than 0",
            )
            for cycle in (0.0, -1.0, inf, nan)
        ),
        *(
            (
                plan([("a", 4, batch, rate)]),
                "plan: gpus[0].gpulets[0].slots[0]: expected a positive batch and a positive, finite rate_rps",
            )
            for batch, rate in ((0, 1.0), (-1, 1.0), (1, 0.0), (1, -1.0), (1, inf), (1, nan))
        ),
    ],
)
def test_plans_that_do_not_fit_the_instance_are_refused(answer: Plan, message: str) -> None:
    with pytest.raises(InputError) as caught:
        judge(answer, instance())

    assert str(caught.value) == message


# --- Verdicts as JSON ---


def test_a_verdict_has_valid_json_even_with_infinite_times() -> None:
    hot = replace(TOY, hardware=replace(TOY.hardware, max_power_w=-1000.0))

    text = json.dumps(judge(plan(ROWS), instance(gpu=hot)).to_json(), allow_nan=False)

    content = json.loads(text)
    assert content["feasible"] is False
    assert [violation["kind"] for violation in content["violations"]] == ["latency", "latency"]
    assert content["slots"][0]["t_gpu_ms"] is None
    assert content["slots"][0]["budget_ms"] == pytest.approx(2.41)


# --- A rate within the tolerance ---


@pytest.mark.parametrize("part", [1.0 - 0.9e-9, 1.0 - 1e-12, 1.0, 1.0 + 1e-12, 1.0 + 0.9e-9])
def test_a_rate_planned_within_the_tolerance_does_not_lengthen_the_budget(part: float) -> None:
    """At ``late``'s rate, the slot is 1.5e-9 too slow, at ``timely``'s 0.5e-9; times may be 1e-9 too long."""
    alone = judge(plan([("a", 4, 1, 200.0)]), instance(A)).slots[0]
    late = replace(A, slo_ms=1000.0, rate_rps=1000.0 / alone.t_inf_ms * (1.0 + 1.5e-9))
    timely = replace(late, rate_rps=1000.0 / alone.t_inf_ms * (1.0 + 0.5e-9))

    def judged(workload: Workload) -> Verdict:
        rate_rps = workload.rate_rps * part
        return judge(plan([("a", 4, 1, rate_rps)]), replace(instance(workload), slo_rule=SloRule.DUTY_CYCLE))

    assert judged(timely).feasible == (part <= 1.0 + 1e-12)
    assert only(judged(late)).kind == "latency"
