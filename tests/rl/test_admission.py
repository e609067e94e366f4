import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import PART_STEPS
from instances.budget import SloRule, latency_budget_ms
from rl.admission import admitted_rps


def permitted(rate_rps, slo_ms, batch, inference_ms):
    """Return whether the judge's rule permits the rate; without transfers the GPU time is the inference time."""
    return inference_ms <= latency_budget_ms(SloRule.ASSEMBLY, slo_ms, rate_rps, batch, 0.0, 0.0)


@pytest.mark.parametrize(
    ("batch", "inference_ms", "admitted"),
    [
        (1, 5.0, 100.0),  # a capacity of 200 req/s
        (1, 16.0, 60.0),  # a capacity of 62.5 req/s
        (4, 20.0, 100.0),  # the first of a batch waits 30 ms for three more
        (4, 21.0, 0.0),
        (6, 1.0, 0.0),
        (1, 51.0, 0.0),
    ],
)
def test_admitted_rates_are_as_worked_out_by_hand(batch, inference_ms, admitted):
    """The workload has 100 requests/s and an SLO of 50 ms."""
    assert admitted_rps(100.0, 50.0, batch, inference_ms, 1.0) == pytest.approx(admitted)


@given(
    st.floats(1.0, 5000.0),
    st.floats(1.0, 200.0),
    st.integers(1, 32),
    st.floats(0.1, 250.0),
    st.sampled_from([1.0, 1.02, 1.5]),
    st.integers(1, PART_STEPS),
)
def test_the_admitted_rate_is_the_largest_step_that_the_judge_permits(
    rate_rps, slo_ms, batch, inference_ms, headroom, steps
):
    admitted = admitted_rps(rate_rps, slo_ms, batch, inference_ms, headroom, steps)
    slack = 1.0 + 1e-9  # at a limit, either result is accepted
    possible = [
        step
        for step in range(1, steps + 1)
        if permitted(rate_rps * step / steps, slo_ms, batch, inference_ms * headroom)
    ]
    certain = [
        step
        for step in range(1, steps + 1)
        if permitted(rate_rps * step / steps, slo_ms, batch, inference_ms * headroom * slack)
    ]
    assert admitted >= rate_rps * max(certain, default=0) / steps * (1.0 - 1e-12)
    if admitted > 0.0:
        assert permitted(admitted, slo_ms, batch, inference_ms * headroom / slack)
        assert admitted <= rate_rps * (1.0 + 1e-12)
        assert admitted / rate_rps * steps == pytest.approx(round(admitted / rate_rps * steps))
    else:
        assert not certain
    assert bool(possible) >= bool(certain)
