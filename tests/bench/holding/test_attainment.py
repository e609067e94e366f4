"""Statistics of the test whether a plan holds, on made-up series of ten simulations."""

from collections.abc import Sequence

import numpy as np
import pytest

from bench.holding.attainment import Spread, counts_of, longer_factor, margin_of, workload_attainments
from bench.holding.verdict import Holding, WorkloadAttainment, with_overloads
from bench.holding.windows import BLOCKS, SIMULATIONS
from bench.simulation.load import Overload
from bench.simulation.result import Series

REQUESTS = 30_000
"""Requests of a workload in a block."""

BACKLOG_IN_EVERY_SECOND = [number % 2 == 1 for number in range(SIMULATIONS)]
LEVEL = 0.025  # probability of calling a workload late that is not


def series(missed: np.ndarray, requests: int = REQUESTS) -> list[Series]:
    """Return simulations with these missed fractions, an array of shape (simulations, blocks, workloads)."""
    arrived = np.full(missed.shape[1:], requests)
    names = tuple("abc"[: missed.shape[2]])
    simulations = []
    for fractions in missed:
        missed_requests = np.rint(arrived * fractions).astype(np.int64)
        simulations.append(
            Series(names, 30.0, arrived, arrived - missed_requests, 0 * missed_requests, missed_requests)
        )
    return simulations


def noisy(*missed: float, spread: float = 0.1) -> np.ndarray:
    """Return fractions for independent blocks that vary around those given for each workload."""
    factors = 1.0 + spread * np.random.default_rng(0).standard_normal((SIMULATIONS, BLOCKS, len(missed)))
    return np.clip(np.array(missed) * factors, 0.0, 1.0)


def result(
    simulated: Sequence[Series], backlog: Sequence[bool] = BACKLOG_IN_EVERY_SECOND, spread: Spread = Spread.STATIONARY
) -> list[WorkloadAttainment]:
    counts = counts_of(simulated, backlog)
    return workload_attainments(simulated[0].workloads, counts, SIMULATIONS * 300.0, spread, 0.01, LEVEL)


def test_a_workload_is_late_if_it_misses_clearly_more_than_allowed() -> None:
    at_target, above = result(series(noisy(0.01, 0.0115)))

    assert (at_target.late, above.late) == (False, True)
    assert above.attainment == pytest.approx(0.9885, abs=2e-4)
    assert above.requests == SIMULATIONS * BLOCKS * REQUESTS
    assert above.measured_rps == pytest.approx(REQUESTS / 30.0)


def test_misses_in_clusters_are_weaker_evidence() -> None:
    clustered = np.zeros((SIMULATIONS, BLOCKS, 1))
    clustered[:, 3] = 0.115 * np.linspace(0.5, 1.5, SIMULATIONS)[:, None]
    (in_clusters,), (steady,) = result(series(clustered), [False] * SIMULATIONS), result(series(noisy(0.0115)))

    assert not in_clusters.late
    assert in_clusters.attainment == pytest.approx(steady.attainment, abs=1e-4)
    assert in_clusters.standard_error > 20 * steady.standard_error
    assert in_clusters.unclear  # it cannot exclude that 1.5 % are missed


def test_equal_blocks_of_a_simulation_are_not_independent() -> None:
    """Half of the simulations miss 2.2 %, the others 0.2 %: a hundred blocks, but only ten independent values."""
    alike = np.repeat(np.array([0.002, 0.022] * 5)[:, None, None], BLOCKS, axis=1)
    mixed = np.random.default_rng(1).permuted(alike.reshape(-1)).reshape(alike.shape)
    (by_simulation,), (shuffled,) = (result(series(each), [False] * SIMULATIONS) for each in (alike, mixed))

    assert by_simulation.attainment == pytest.approx(shuffled.attainment)
    assert by_simulation.standard_error == pytest.approx(0.01 / 3.0, rel=1e-3)  # the standard deviation is 0.0105
    assert shuffled.standard_error == pytest.approx(0.001, rel=0.01)


def test_few_requests_cannot_tell_and_many_can() -> None:
    """A workload without a miss: 6,000 requests would not show 1.5 %, a million would."""
    silent = np.zeros((SIMULATIONS, BLOCKS, 1))
    (few,), (many,) = result(series(silent, 60)), result(series(silent, 10_000))

    assert few.unclear
    assert few.detectable > 0.02
    assert not many.unclear
    assert 0.01 < many.detectable < 0.0115
    assert not few.late
    assert not many.late


@pytest.mark.parametrize("detectable", [0.02, 0.05])
def test_the_factor_gives_the_time_at_which_the_test_can_tell(detectable: float) -> None:
    """With the factor times as many requests, the detectable fraction is the allowed one plus the margin."""
    silent = np.zeros((SIMULATIONS, BLOCKS, 1))
    requests = next(n for n in range(20, 10_000) if result(series(silent, n))[0].detectable < detectable)
    (before,) = result(series(silent, requests))
    (after,) = result(series(silent, round(requests * longer_factor(before.detectable, 0.01))))

    assert after.detectable == pytest.approx(0.015, rel=0.005)


def test_the_margin_is_half_a_point_or_half_the_allowed_fraction() -> None:
    assert margin_of(0.05) == margin_of(0.01) == 0.005
    assert margin_of(0.001) == 0.0005


@pytest.mark.parametrize(
    ("idle", "backlog", "late", "unclear"),
    [
        pytest.param(0.0, 0.03, False, True, id="between the starts"),
        pytest.param(0.02, 0.08, True, False, id="late from both starts"),
        pytest.param(0.0, 0.004, False, False, id="in time from both starts"),
    ],
)
def test_simulations_from_idle_and_from_a_backlog_bound_the_steady_state(
    idle: float, backlog: float, late: bool, unclear: bool
) -> None:
    missed = noisy(1.0)
    missed[::2] *= idle
    missed[1::2] *= backlog
    (attainment,) = result(series(missed))

    assert (attainment.late, attainment.unclear) == (late, unclear)


def test_a_peak_of_the_trace_is_no_noise() -> None:
    """One tenth of the trace misses 15 %: every simulation shows it, so the workload is late."""
    peak = 0.0005 * (1.0 + noisy(0.0))
    peak[:, 6] = 0.15 * np.random.default_rng(2).uniform(0.9, 1.1, (SIMULATIONS, 1))
    (whole,), (alike,) = (result(series(peak), spread=each) for each in (Spread.WHOLE_TRACE, Spread.STATIONARY))

    assert whole.late
    assert alike.standard_error > 5.0 * whole.standard_error


def test_each_part_of_a_trace_is_one_measurement() -> None:
    one_part = np.zeros((SIMULATIONS, BLOCKS, 1))
    one_part[4] = 0.2
    (attainment,) = result(series(one_part), spread=Spread.TRACE_PARTS)

    assert attainment.attainment == pytest.approx(0.98)
    assert not attainment.late  # only one of ten parts has misses, which may be chance
    assert attainment.unclear


def holding_of(*workloads: WorkloadAttainment) -> Holding:
    return Holding(0.99, True, 300.0, workloads)


def workload(name: str, attainment: float, late: bool, unclear: bool, requests: int = 1000) -> WorkloadAttainment:
    return WorkloadAttainment(name, requests, 3000.0, attainment, 0.0, 0.02 if unclear else 0.012, late, unclear)


def test_a_plan_holds_only_if_no_workload_is_late_or_unclear() -> None:
    good, late, unclear = (workload(name, 0.995, name == "l", name == "u") for name in "glu")

    assert holding_of(good).holds is True
    assert holding_of(good, unclear).holds is None
    assert holding_of(good, unclear, late).holds is False
    assert holding_of(good, unclear).detectable == 0.02
    assert holding_of().holds is True


def test_the_pooled_attainment_counts_requests_by_their_rate() -> None:
    """A longer simulation of a rare workload does not count more than its rate."""
    frequent, rare = workload("f", 0.9885, False, False, 100_000), workload("r", 1.0, False, False)
    longer = WorkloadAttainment("r", 100_000, 300_000.0, 1.0, 0.0, 0.012, False, False)

    assert holding_of(frequent, rare).attainment == pytest.approx(holding_of(frequent, longer).attainment)
    assert holding_of(frequent, longer).holds is False


def test_the_load_alone_makes_a_workload_late() -> None:
    attainments = [workload(name, attainment, False, name == "a") for name, attainment in (("a", 1.0), ("b", 0.97))]

    overload = Overload(("a",), 1.25, 0.2)
    one_workload = with_overloads(attainments, [overload], 0.01)
    assert [(one.late, one.unclear, one.load) for one in one_workload] == [(True, False, 1.25), (False, False, None)]
    assert one_workload[0].attainment == pytest.approx(0.8)
    shared = with_overloads(attainments, [Overload(("a", "b"), 1.25, 0.2)], 0.01)
    assert [one.load for one in shared] == [None, 1.25]  # an overload of both is counted for the worse one
    barely = with_overloads(attainments, [Overload(("a",), 1.005, 0.005)], 0.01)
    assert not any(one.late for one in barely)


@pytest.mark.parametrize(("standard_error", "holds"), [(0.002, True), (0.0005, False)])
def test_a_pooled_attainment_slightly_below_the_target_may_be_chance(standard_error: float, holds: bool) -> None:
    """The pooled attainment is 0.2 points below the target, which is one or four standard errors."""
    attainment = WorkloadAttainment("a", 200_000, 3000.0, 0.898, standard_error, 0.102, late=False, unclear=False)
    holding = Holding(0.9, False, 300.0, (attainment,))
    assert holding.standard_error == pytest.approx(standard_error)
    assert holding.holds is holds
