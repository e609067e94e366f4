"""One slot: batches, timeouts and drops, worked by hand and against a SimPy model."""

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

# Binary fractions, so that who comes when a batch starts really comes then: at 40 % a batch of b takes b + 1.125 ms,
# 0.0625 b of feedback and, hidden by other batches, 0.125 b of loading.
EXACT = replace(SMALL, scheduling_alone_ms=0.125, input_bytes=125_000, output_bytes=62_500)
CLOCKWORK = replace(TOY, models={"small": EXACT, "large": TOY.models["large"]})


def alone(
    batch: int, slo_ms: float, rate_rps: float = 200.0, gpu: GpuType = CLOCKWORK, rule: SloRule = SloRule.HALF_SLO
) -> tuple[Plan, Instance]:
    """A workload on 40 % of a GPU of its own."""
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

    found = agree(plan, instance, {"a": poisson_ms(rate_rps, 3.0, 1)}, settings)

    overloaded = rate_rps > 1000.0 * batch / (batch + 1.125 + 0.0625 * batch)
    assert (found.drop_rate > 0.1) == (overloaded and dropping)
    assert found.violation_rate > 0.1 or not overloaded


@hypothesis_settings(max_examples=150)
@given(
    quarters=st.lists(st.integers(0, 160), min_size=1, max_size=60).map(sorted),
    batch=st.integers(1, 8),
    slo_quarters=st.integers(4, 120),
    dropping=st.booleans(),
)
def test_agrees_with_simpy_when_everything_happens_at_once(
    quarters: list[int], batch: int, slo_quarters: int, dropping: bool
) -> None:
    """Arrivals, timeouts and ends of batches on a grid fall on the same instant again and again."""
    plan, instance = alone(batch, slo_quarters / 4.0)

    agree(plan, instance, {"a": [k / 4.0 for k in quarters]}, replace(SECOND, dropping=dropping))


def test_every_single_request_agrees_with_simpy() -> None:
    """Measured one by one: what the others do before and after is the same."""
    plan, instance = alone(4, 12.3, 900.0)
    arrivals = {"a": poisson_ms(900.0, 0.1, 2)}
    expected = outcomes(plan, instance, arrivals, SECOND)["a"]
    assert len(expected) > 60

    edges = [0.0, *((a + b) / 2 for (a, _), (b, _) in pairwise(expected)), 200.0]
    for (begin, end), one in zip(pairwise(edges), expected, strict=True):
        only = Settings(seconds=(end - begin) / 1000.0, warmup_s=begin / 1000.0)
        found = simulated(plan, instance, arrivals, only).workloads[0]
        assert found.requests == 1
        check_same(found, [one], only)


# A batch of one takes 2.125 ms, of two 3.125 ms; feedback 0.0625 ms per request follows before the next may start, and
# loading 0.125 ms per request is on top. Both together promise 2.3125 and 3.5 ms; SLO 12: the timeout is 6 ms.
@pytest.mark.parametrize(
    ("arrivals", "slo_ms", "expected"),
    [
        pytest.param([5.0], 12.0, [6 + 2.3125], id="a lone request waits for the timeout"),
        pytest.param([5.0, 6.0], 12.0, [1 + 3.5, 3.5], id="a full batch leaves at once"),
        pytest.param([5.0, 11.0], 12.0, [6 + 3.5, 3.5], id="who comes at the timeout is on board"),
        pytest.param([5.0, 5.0, 5.0], 12.0, [3.5, 3.5, 6 + 2.3125], id="a third waits for its own timeout"),
        # the first batch ends at 8.125 with 0.125 of feedback behind it: the second starts at 8.25
        pytest.param([5.0, 5.0, 5.0, 5.0], 12.0, [3.5, 3.5, 6.75, 6.75], id="the next batch waits for the feedback"),
        # SLO 6: alone the timeout is 6 - 3.5 = 2.5, less than half the SLO
        pytest.param([5.0], 6.0, [2.5 + 2.3125], id="it leaves early enough for a full batch to be in time"),
    ],
)
def test_latencies_worked_by_hand(arrivals: list[float], slo_ms: float, expected: list[float]) -> None:
    plan, instance = alone(2, slo_ms)

    found = agree(plan, instance, {"a": arrivals}, SECOND).workloads[0]

    assert found.mean_ms == sum(expected) / len(expected)
    assert found.max_ms == max(expected)
    assert found.violation_rate == 0.0


def test_who_cannot_be_in_time_is_dropped_and_the_others_are_served() -> None:
    """Ten at once in batches of two, 3.25 ms each: the fourth pair would end at 13.25, too late for an SLO of 12."""
    plan, instance = alone(2, 12.0)
    arrivals = {"a": [5.0] * 10}

    found = agree(plan, instance, arrivals, SECOND).workloads[0]
    patient = agree(plan, instance, arrivals, replace(SECOND, dropping=False)).workloads[0]

    assert (found.requests, found.dropped, found.late) == (10, 4, 0)
    assert found.max_ms == 2 * 3.25 + 3.5
    assert (patient.dropped, patient.late) == (0, 4)
    assert patient.max_ms == 4 * 3.25 + 3.5


def test_those_left_after_a_drop_wait_for_company_again() -> None:
    """The pair before is hopeless when the server comes free, at 3.25; the last has time until 3.5, and takes it."""
    plan, instance = alone(2, 6.0)

    found = agree(plan, instance, {"a": [0.0, 0.0, 0.0, 0.0, 1.0]}, SECOND).workloads[0]

    assert (found.dropped, found.late) == (2, 0)
    assert found.mean_ms == (2 * 3.5 + 2.5 + 2.3125) / 3


def test_who_comes_as_another_is_dropped_takes_the_place() -> None:
    """At 3.25 the third is hopeless; the fourth leaves with the fifth, who comes then."""
    plan, instance = alone(2, 6.0)

    found = agree(plan, instance, {"a": [0.0, 0.0, 0.0, 1.0, 3.25]}, SECOND).workloads[0]

    assert (found.dropped, found.late) == (1, 0)
    assert found.mean_ms == (2 * 3.5 + (3.25 + 3.5 - 1.0) + 3.5) / 4
