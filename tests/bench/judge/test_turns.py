"""The judge on gpulets whose slots take turns: ``D + t_inf <= SLO``, ``r <= 1000 b / D``, ``sum of t_inf <= D``."""

from dataclasses import replace

import pytest

from bench.judging.judge import judge
from instances import Gpulet, SloRule, Workload
from instances.budget import latency_budget_ms
from instances.tolerance import widened
from tests.bench.toys import ROWS, TURNS, A, instance, of, only, plan, shared
from tests.instances.reference import TOY

# Alone on the GPU at 40 %: a at batch 1 takes 2.1 ms of GPU time and 2.25 ms in all, b at batch 2 10.2 and 10.5 ms.
SLOW_A, SLOW_B = Workload("a", "small", 30.0, 50.0), Workload("b", "large", 40.0, 100.0)


def test_the_verdict_on_turns_is_that_calculated_by_hand() -> None:
    verdict = judge(of(TURNS), instance(SLOW_A, SLOW_B))

    assert verdict.feasible
    a, b = verdict.slots
    assert (a.t_gpu_ms, b.t_gpu_ms) == pytest.approx((2.1, 10.2))  # they neither delay nor slow each other
    assert (a.t_inf_ms, b.t_inf_ms) == pytest.approx((2.25, 10.5))
    assert (a.budget_ms, b.budget_ms) == pytest.approx((30 - 20 - 0.15, 40 - 20 - 0.3))
    assert (a.throughput_rps, b.throughput_rps) == (50.0, 100.0)  # a batch per cycle
    assert (a.busy, b.busy) == pytest.approx((2.25 / 20, 10.5 / 20))
    assert verdict.utilisation_pct == pytest.approx(40 * 12.75 / 20)
    assert verdict.fragments_pct == pytest.approx(60.0)


def test_the_utilisation_of_a_gpulet_is_at_most_its_share() -> None:
    overrun = shared(4, 20.0, ("a", 1, 50.0), ("b", 2, 180.0))  # 11.25 and 94.5 % of the time

    assert judge(of(overrun), instance(SLOW_A, SLOW_B)).utilisation_pct == pytest.approx(40.0)


def test_to_a_neighbour_turns_are_one_resident_with_their_largest_demand() -> None:
    neighbour = Workload("c", "small", 40.0, 100.0)

    verdict = judge(of(TURNS, shared(4, None, ("c", 1, 100.0))), instance(SLOW_A, SLOW_B, neighbour))

    assert verdict.feasible
    a, b, c = verdict.slots
    assert c.t_gpu_ms == pytest.approx(0.1 + 10 * 0.01 + 2 * 1.10)  # 10 % of b, not 16; two residents, not three
    assert a.t_gpu_ms == pytest.approx(0.2 + 2 * 1.06)
    assert b.t_gpu_ms == pytest.approx(0.4 + 10 * 1.12)


def test_a_slot_has_its_own_power_in_its_turn_and_neighbours_see_the_largest() -> None:
    # Idle 50 W, c 60 W, a 60 W, b 90 W, cap 150 W: a runs at 170 W (frequency 0.98), b and c at 200 W (0.95).
    cool = replace(TOY, hardware=replace(TOY.hardware, max_power_w=150.0))
    neighbour = Workload("c", "small", 40.0, 100.0)
    problem = instance(SLOW_A, SLOW_B, neighbour, gpu=cool)

    a, b, c = judge(of(TURNS, shared(4, None, ("c", 1, 100.0))), problem).slots

    assert a.t_gpu_ms == pytest.approx((0.2 + 2 * 1.06) / 0.98)
    assert b.t_gpu_ms == pytest.approx((0.4 + 10 * 1.12) / 0.95)
    assert c.t_gpu_ms == pytest.approx((0.2 + 2 * 1.10) / 0.95)


def test_a_duty_cycle_shorter_than_the_turns_is_a_violation() -> None:
    fast = shared(4, 12.0, ("a", 1, 50.0), ("b", 2, 100.0))  # 12.75 ms

    violation = only(judge(of(fast), instance(SLOW_A, SLOW_B)))

    assert (violation.kind, violation.gpu, violation.workload) == ("duty-cycle", 0, None)
    assert (violation.actual, violation.limit) == pytest.approx((12.75, 12.0))
    assert violation.message == "GPU 0: the slots of a gpulet take 12.750 ms of 12 ms"


def test_a_duty_cycle_too_long_for_the_rate_is_a_violation() -> None:
    violation = only(judge(of(shared(4, 20.0, ("a", 1, 60.0))), instance(replace(SLOW_A, rate_rps=60.0))))

    assert (violation.kind, violation.gpu, violation.workload) == ("rate", 0, "a")
    assert (violation.actual, violation.limit) == (50.0, 60.0)
    assert violation.message == "GPU 0, a: 60 req/s, the cycle serves 50"


@pytest.mark.parametrize("rate_rps", [15.0, 29.0, 30.0])
def test_a_cycle_of_exactly_batch_over_rate_serves_the_rate(rate_rps: float) -> None:
    """In floating point ``r (1000 b / r)`` is more than ``1000 b`` for these rates."""
    problem = instance(Workload("a", "small", 100.0, rate_rps))

    assert rate_rps * (1000.0 / rate_rps) > 1000.0
    assert judge(of(shared(4, 1000.0 / rate_rps, ("a", 1, rate_rps))), problem).feasible


@pytest.mark.parametrize(("slo_ms", "feasible"), [(22.251, True), (22.249, False)])
def test_a_duty_cycle_too_long_for_the_slo_is_a_violation(slo_ms: float, feasible: bool) -> None:
    verdict = judge(of(shared(4, 20.0, ("a", 1, 50.0))), instance(replace(SLOW_A, slo_ms=slo_ms)))

    assert verdict.feasible == feasible
    if not feasible:
        violation = only(verdict)
        assert (violation.kind, violation.workload) == ("latency", "a")
        assert (violation.actual, violation.limit) == pytest.approx((2.1, 2.099))


@pytest.mark.parametrize(
    ("cycle_ms", "kinds"),
    [(16.0, []), (15.9, ["duty-cycle"])],
    ids=["1.25 times 12.75 ms are 15.94", "longer than the cycle"],
)
def test_the_latency_buffer_lengthens_the_turns(cycle_ms: float, kinds: list[str]) -> None:
    problem = replace(instance(SLOW_A, SLOW_B), latency_buffer=1.25)

    verdict = judge(of(replace(TURNS, duty_cycle_ms=cycle_ms)), problem)

    assert [violation.kind for violation in verdict.violations] == kinds
    assert verdict.slots[0].budget_ms == pytest.approx((30 - cycle_ms) / 1.25 - 0.15)


@pytest.mark.parametrize("rule", [rule for rule in SloRule if not rule.by_share])
def test_budgets_follow_the_rule_and_the_buffer_of_the_instance(rule: SloRule) -> None:
    problem = replace(instance(A), slo_rule=rule, latency_buffer=1.1)

    (slot,) = judge(plan([ROWS[0]]), problem).slots

    expected = widened(latency_budget_ms(rule, 5.12, 200.0, 1, 0.15, 0.05, 1.1))
    assert slot.budget_ms == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rule", [SloRule.P99, SloRule.ATTAINMENT])
@pytest.mark.parametrize("gpulet", [TURNS, replace(TURNS, slots=TURNS.slots[:1])], ids=["two slots", "one slot"])
def test_under_rules_for_random_arrivals_turns_are_a_violation(rule: SloRule, gpulet: Gpulet) -> None:
    verdict = judge(of(gpulet), replace(instance(SLOW_A, SLOW_B), slo_rule=rule))

    refused = [violation for violation in verdict.violations if violation.kind == "duty-cycle"]
    assert f"under {rule} its latencies have no bound" in refused[0].message
    assert not verdict.feasible
