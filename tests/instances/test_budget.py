"""Latency budgets: each rule against values worked out by hand and against its definition."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import InputError, SloRule
from instances.budget import latency_budget_ms
from instances.queueing import P99_TOLERANCE, p99_latency_ms
from tests.instances.reference import percentile_99, served_latencies_ms

FOR_ALL_SHARES = [rule for rule in SloRule if not rule.by_share]
ANALYTIC = [SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE]


# The SLO is 40 ms, the batch 4, and transfers take 1 ms, of which 0.4 ms delay the next batch.
# 100, 200, 400 requests/s: a batch every 40, 20, 10 ms, and its first request waits 30, 15, 7.5 ms for the others.
@pytest.mark.parametrize(
    ("rule", "rate_rps", "buffer", "budget_ms"),
    [
        (SloRule.HALF_SLO, 200.0, 1.0, 19.0),  # half of the SLO less 1; the period less 0.4 is 19.6
        (SloRule.HALF_SLO, 400.0, 1.0, 9.6),
        (SloRule.HALF_SLO, 200.0, 1.25, 20 / 1.25 - 0.4 - 0.6),
        (SloRule.HALF_SLO, 400.0, 1.25, 8.0 - 0.4),
        (SloRule.ASSEMBLY, 100.0, 1.0, 9.0),  # 10 ms of the SLO are left
        (SloRule.ASSEMBLY, 200.0, 1.0, 19.0),  # 25 are left, and the next batch is due after 20
        (SloRule.ASSEMBLY, 400.0, 1.0, 9.0),
        (SloRule.ASSEMBLY, 400.0, 1.25, 7.0),
        (SloRule.ASSEMBLY, 60.0, 1.0, -11.0),  # assembling takes 50 ms: impossible
        (SloRule.DUTY_CYCLE, 100.0, 1.0, 19.0),
        (SloRule.DUTY_CYCLE, 200.0, 1.0, 19.0),
        (SloRule.DUTY_CYCLE, 400.0, 1.0, 9.0),
        (SloRule.DUTY_CYCLE, 400.0, 1.25, 7.0),
    ],
)
def test_budgets_are_as_worked_out_by_hand(rule: SloRule, rate_rps: float, buffer: float, budget_ms: float) -> None:
    assert latency_budget_ms(rule, 40.0, rate_rps, 4, 1.0, 0.4, buffer) == pytest.approx(budget_ms, rel=1e-14)


@pytest.mark.parametrize("rule", FOR_ALL_SHARES)
def test_a_rule_may_be_given_by_name(rule: SloRule) -> None:
    by_name = latency_budget_ms(str(rule.value), 40.0, 200.0, 4, 1.0, 0.4)  # type: ignore[arg-type]

    assert by_name == latency_budget_ms(rule, 40.0, 200.0, 4, 1.0, 0.4)


def test_a_rule_whose_budget_depends_on_the_share_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match='is "attainment": its budgets depend on the share'):
        latency_budget_ms(SloRule.ATTAINMENT, 40.0, 200.0, 4, 1.0, 0.4)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="halfslo"):
        latency_budget_ms("halfslo", 40.0, 200.0, 4, 1.0, 0.4)  # type: ignore[arg-type]


def test_a_batch_whose_transfers_alone_take_too_long_has_no_budget() -> None:
    for rule in FOR_ALL_SHARES:
        assert latency_budget_ms(rule, 10.0, 100.0, 1, 10.5, 10.5) <= 0.0
        assert latency_budget_ms(rule, 10.0, 100.0, 1, np.inf, np.inf) == -np.inf


# --- The rules as the papers define them: does a slot with this GPU time meet its SLO and its rate? ---


def half_slo(t_gpu: float, slo: float, rate: float, batch: int, transfer: float, exposed: float, buffer: float) -> bool:
    """Equations 14 and 13 of iGniter: half of the SLO for the execution, and the arrival rate as throughput."""
    return buffer * (t_gpu + transfer) <= slo / 2 and 1000 * batch / (buffer * (t_gpu + exposed)) >= rate


def assembly(t_gpu: float, slo: float, rate: float, batch: int, transfer: float, exposed: float, buffer: float) -> bool:
    """Equation 3 of InSS: the batch assembles while the one before it executes."""
    t_inf = buffer * (t_gpu + transfer)
    waited = (batch - 1) * 1000 / rate
    return waited + t_inf <= slo and t_inf <= batch * 1000 / rate


def duty_cycle(
    t_gpu: float, slo: float, rate: float, batch: int, transfer: float, exposed: float, buffer: float
) -> bool:
    """Nexus: a cycle D executes one batch and collects at most the next; the shortest cycle is t_inf."""
    t_inf = buffer * (t_gpu + transfer)
    cycle = t_inf
    return rate * cycle / 1000 <= batch and cycle + t_inf <= slo


DEFINITIONS: dict[SloRule, Callable[[float, float, float, int, float, float, float], bool]] = {
    SloRule.HALF_SLO: half_slo,
    SloRule.ASSEMBLY: assembly,
    SloRule.DUTY_CYCLE: duty_cycle,
}

slos = st.floats(1.0, 500.0)
rates = st.floats(1.0, 5000.0)
batches = st.integers(1, 64)
transfers = st.floats(0.0, 20.0)
fractions = st.floats(0.0, 1.0)
buffers = st.floats(1.0, 2.0)


@pytest.mark.parametrize("rule", ANALYTIC)
@given(slos, rates, batches, transfers, fractions, buffers)
def test_the_budget_is_the_threshold_of_the_definition(
    rule: SloRule, slo: float, rate: float, batch: int, transfer: float, fraction: float, buffer: float
) -> None:
    holds, exposed = DEFINITIONS[rule], fraction * transfer
    tau = float(latency_budget_ms(rule, slo, rate, batch, transfer, exposed, buffer))
    tolerance = 1e-9 * (slo + abs(tau))

    if tau > tolerance:
        assert holds(tau - tolerance, slo, rate, batch, transfer, exposed, buffer)
    if tau > -tolerance:
        assert not holds(tau + 2 * tolerance, slo, rate, batch, transfer, exposed, buffer)
    else:
        assert not holds(0.0, slo, rate, batch, transfer, exposed, buffer)


@pytest.mark.parametrize("rule", FOR_ALL_SHARES)
def test_arrays_broadcast_and_agree_with_scalars(rule: SloRule) -> None:
    slo, rate = np.array([[10.0], [40.0]]), np.array([50.0, 200.0, 400.0])
    batch, transfer, exposed = np.array([1, 2, 4]), np.array([0.1, 0.2, 0.4]), np.array([0.05, 0.1, 0.2])

    budgets = latency_budget_ms(rule, slo, rate, batch, transfer, exposed, 1.1)

    assert budgets.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            scalar = latency_budget_ms(rule, slo[i, 0], rate[j], int(batch[j]), transfer[j], exposed[j], 1.1)
            assert float(scalar) == budgets[i, j]


@pytest.mark.parametrize("rule", [SloRule.HALF_SLO, SloRule.DUTY_CYCLE])
@given(slos, rates, rates, batches, transfers, fractions)
def test_a_higher_rate_never_gets_a_larger_budget(
    rule: SloRule, slo: float, rate: float, other: float, batch: int, transfer: float, fraction: float
) -> None:
    low, high = (
        latency_budget_ms(rule, slo, rate_rps, batch, transfer, fraction * transfer)
        for rate_rps in sorted((rate, other))
    )

    assert high <= low


@given(slos, st.lists(rates, min_size=3, max_size=3), batches, transfers)
def test_under_assembly_the_budget_rises_and_then_falls_with_the_rate(
    slo: float, three: list[float], batch: int, transfer: float
) -> None:
    """At low rates the assembly of a batch limits it, at high rates the next batch: there is no dip in between."""
    low, middle, high = latency_budget_ms(SloRule.ASSEMBLY, slo, np.sort(three), batch, transfer, transfer)

    assert middle >= min(low, high)


# --- p99 ---


@pytest.mark.parametrize(
    ("slo_ms", "rate_rps", "batch"),
    [(40.0, 100.0, 1), (40.0, 200.0, 4), (25.0, 600.0, 8), (60.0, 50.0, 2), (15.0, 900.0, 4), (40.0, 5.0, 4)],
)
def test_under_p99_the_simulated_percentile_meets_the_slo_up_to_the_budget(
    slo_ms: float, rate_rps: float, batch: int
) -> None:
    tau = float(latency_budget_ms(SloRule.P99, slo_ms, rate_rps, batch, 1.0, 0.4, 1.1))
    service_ms = 1.1 * (tau + 1.0)
    tolerance = 2 * P99_TOLERANCE * slo_ms

    assert tau > 0
    assert p99_latency_ms(batch, service_ms - tolerance, slo_ms / 2, rate_rps) <= slo_ms
    for above in (tolerance, 0.01 * slo_ms, 0.1 * slo_ms, slo_ms):
        assert p99_latency_ms(batch, service_ms + above, slo_ms / 2, rate_rps) > slo_ms


@pytest.mark.parametrize(("slo_ms", "rate_rps", "batch"), [(40.0, 100.0, 1), (40.0, 200.0, 4), (60.0, 50.0, 2)])
def test_the_p99_budget_holds_on_an_independent_simulation(slo_ms: float, rate_rps: float, batch: int) -> None:
    service_ms = float(latency_budget_ms(SloRule.P99, slo_ms, rate_rps, batch, 0.0, 0.0))
    random, now, arrivals_ms = Random(13), 0.0, []
    for _ in range(40_000):
        now += random.expovariate(rate_rps) * 1000
        arrivals_ms.append(now)

    p99_ms = percentile_99(served_latencies_ms(arrivals_ms, batch, service_ms, slo_ms / 2))

    assert p99_ms == pytest.approx(slo_ms, rel=0.06)  # two samples of the same process


def test_a_lone_request_is_served_within_half_the_slo_under_p99() -> None:
    """At a very low rate every batch waits its full timeout, half the SLO; the other half is for the execution."""
    assert latency_budget_ms(SloRule.P99, 40.0, 0.01, 4, 0.0, 0.0) == pytest.approx(20.0, abs=1e-3)
    assert latency_budget_ms(SloRule.P99, 40.0, 0.01, 1, 0.0, 0.0) == pytest.approx(40.0, abs=1e-3)


@given(st.floats(5.0, 100.0), st.floats(1.0, 2000.0), st.integers(1, 16), st.integers(1, 16))
@settings(max_examples=25)
def test_p99_budgets_lie_between_zero_and_the_slo_and_keep_up(
    slo_ms: float, rate_rps: float, batch: int, other: int
) -> None:
    budget = float(latency_budget_ms(SloRule.P99, slo_ms, rate_rps, batch, 0.0, 0.0))

    assert 0.0 <= budget <= slo_ms
    if rate_rps * budget > 0.0:  # a stable queue serves all arrivals, except a few at the end of the sample
        assert rate_rps * budget / 1000 <= batch * 1.02
