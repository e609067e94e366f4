"""One slot: batches, timeouts and drops, by hand and against the reference simulation with SimPy."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bench.plan_simulation import Settings
from instances import GpuPool, GpuType, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from tests.bench.simulation.agreement import agree, check_same, outcomes, poisson_ms, simulated
from tests.instances.reference import SMALL, TOY

# All times are binary fractions, so that sums are exact: at 40 %, a batch of b takes b + 1.125 ms, and 0.0625 b ms of
# feedback; 0.125 b ms of loading overlap with other batches.
EXACT = replace(SMALL, scheduling_alone_ms=0.125, input_bytes=125_000, output_bytes=62_500)
EXACT_GPU = replace(TOY, models={"small": EXACT, "large": TOY.models["large"]})


def alone(
    batch: int, slo_ms: float, rate_rps: float = 200.0, gpu: GpuType = EXACT_GPU, rule: SloRule = SloRule.HALF_SLO
) -> tuple[Plan, Instance]:
    """Return a plan and an instance with one workload on 40 % of a GPU."""
    workload = Workload("a", "small", slo_ms, rate_rps)
    instance = Instance("one", Objective.COST, rule, "igniter", (GpuPool(gpu, None),), (workload,))
    return Plan("one", (spatial_gpu(gpu.name, [("a", 4, batch, rate_rps)]),)), instance


SECOND = Settings(seconds=1.0, warmup_s=0.0)


@pytest.mark.parametrize("dropping", [True, False], ids=["dropping", "not dropping"])
@pytest.mark.parametrize("rate_rps", [50.0, 400.0, 1200.0])
@pytest.mark.parametrize("batch", [1, 3, 8])
@pytest.mark.parametrize("rule", [SloRule.HALF_SLO, SloRule.DUTY_CYCLE])
def test_agrees_with_simpy_on_poisson_arrivals(batch: int, rate_rps: float, dropping: bool, rule: SloRule) -> None:
    plan, instance = alone(batch, 22.3, rate_rps, rule=rule)
    settings = Settings(seconds=2.0, warmup_s=0.5, dropping=dropping)

    result = agree(plan, instance, {"a": poisson_ms(rate_rps, 3.0, 1)}, settings)

    overloaded = rate_rps > 1000.0 * batch / (batch + 1.125 + 0.0625 * batch)
    assert (result.drop_rate > 0.1) == (overloaded and dropping)
    assert result.violation_rate > 0.1 or not overloaded


@hypothesis_settings(max_examples=150)
@given(
    quarters=st.lists(st.integers(0, 160), min_size=1, max_size=60).map(sorted),
    batch=st.integers(1, 8),
    slo_quarters=st.integers(4, 120),
    dropping=st.booleans(),
)
def test_simultaneous_events_agree_with_simpy(
    quarters: list[int], batch: int, slo_quarters: int, dropping: bool
) -> None:
    """On a grid of quarter milliseconds, arrivals, timeouts and ends of batches often coincide."""
    plan, instance = alone(batch, slo_quarters / 4.0)

    agree(plan, instance, {"a": [k / 4.0 for k in quarters]}, replace(SECOND, dropping=dropping))


def test_every_single_request_agrees_with_simpy() -> None:
    """Each simulation measures one request; the other requests arrive as before."""
    plan, instance = alone(4, 12.3, 900.0)
    arrivals = {"a": poisson_ms(900.0, 0.1, 2)}
    expected = outcomes(plan, instance, arrivals, SECOND)["a"]
    assert len(expected) > 60

    edges = [0.0, *((a + b) / 2 for (a, _), (b, _) in pairwise(expected)), 200.0]
    for (begin, end), one in zip(pairwise(edges), expected, strict=True):
        only = Settings(seconds=(end - begin) / 1000.0, warmup_s=begin / 1000.0)
        result = simulated(plan, instance, arrivals, only).workloads[0]
        assert result.requests == 1
        check_same(result, [one], only)


# A batch of one takes 2.125 ms, of two 3.125 ms; 0.0625 ms of feedback per request follow before the next batch may
# start, and 0.125 ms of loading per request lengthen the latencies to 2.3125 and 3.5 ms. At an SLO of 12 ms, the
@pytest.mark.parametrize(
    ("arrivals", "slo_ms", "expected"),
    [
        pytest.param([5.0], 12.0, [6 + 2.3125], id="a lone request waits for the timeout"),
        pytest.param([5.0, 6.0], 12.0, [1 + 3.5, 3.5], id="a full batch leaves at once"),
        pytest.param([5.0, 11.0], 12.0, [6 + 3.5, 3.5], id="a request that arrives at the timeout joins the batch"),
        pytest.param([5.0, 5.0, 5.0], 12.0, [3.5, 3.5, 6 + 2.3125], id="a third waits for its own timeout"),
        # the first batch ends at 8.125, followed by 0.125 of feedback: the second starts at 8.25
        pytest.param([5.0, 5.0, 5.0, 5.0], 12.0, [3.5, 3.5, 6.75, 6.75], id="the next batch waits for the feedback"),
        # SLO 6: the timeout is 6 - 3.5 = 2.5, less than half the SLO
        pytest.param([5.0], 6.0, [2.5 + 2.3125], id="the timeout leaves time for a full batch"),
    ],
)
def test_latencies_are_those_calculated_by_hand(arrivals: list[float], slo_ms: float, expected: list[float]) -> None:
    plan, instance = alone(2, slo_ms)

    result = agree(plan, instance, {"a": arrivals}, SECOND).workloads[0]

    assert result.mean_ms == sum(expected) / len(expected)
    assert result.max_ms == max(expected)
    assert result.violation_rate == 0.0


def test_requests_that_would_be_late_are_dropped_and_the_others_are_served() -> None:
    """Ten requests arrive at once, in pairs of 3.25 ms: the fourth pair's latency would be 13.25 ms; the SLO is 12."""
    plan, instance = alone(2, 12.0)
    arrivals = {"a": [5.0] * 10}

    result = agree(plan, instance, arrivals, SECOND).workloads[0]
    without_dropping = agree(plan, instance, arrivals, replace(SECOND, dropping=False)).workloads[0]

    assert (result.requests, result.dropped, result.late) == (10, 4, 0)
    assert result.max_ms == 2 * 3.25 + 3.5
    assert (without_dropping.dropped, without_dropping.late) == (0, 4)
    assert without_dropping.max_ms == 4 * 3.25 + 3.5


def test_after_a_drop_a_partial_batch_waits_for_its_timeout() -> None:
    """The second pair is dropped when the server is free at 3.25; the last request waits until its timeout at 3.5."""
    plan, instance = alone(2, 6.0)

    result = agree(plan, instance, {"a": [0.0, 0.0, 0.0, 0.0, 1.0]}, SECOND).workloads[0]

    assert (result.dropped, result.late) == (2, 0)
    assert result.mean_ms == (2 * 3.5 + 2.5 + 2.3125) / 3


def test_a_request_that_arrives_during_a_drop_fills_the_batch() -> None:
    """At 3.25, the third request is dropped; the fourth runs with the fifth, which arrives at that time."""
    plan, instance = alone(2, 6.0)

    result = agree(plan, instance, {"a": [0.0, 0.0, 0.0, 1.0, 3.25]}, SECOND).workloads[0]

    assert (result.dropped, result.late) == (1, 0)
    assert result.mean_ms == (2 * 3.5 + (3.25 + 3.5 - 1.0) + 3.5) / 4
