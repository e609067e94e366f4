"""Properties of every simulation: no request is lost, percentiles are ordered, and the seed determines the result."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bench.plan_simulation import Interference, Settings, Simulated, offered_rps, simulate
from bench.simulation import driver
from bench.simulation.arrivals import Arrivals, Process, Stream
from bench.simulation.trace import Trace
from instances import Instance, Plan
from tests.bench.simulation.agreement import agree, poisson_ms
from tests.bench.simulation.plans import placed, problems

SETTINGS = st.builds(
    Settings,
    arrivals=st.sampled_from(
        [
            Arrivals(),
            Arrivals(Process.CONSTANT),
            Arrivals(Process.GAMMA, 2.0),
            Arrivals(Process.TRACE, trace=Trace("t", np.array([1.0, 5.0, 0.0, 2.0]))),
        ]
    ),
    seconds=st.floats(0.2, 2.0),
    warmup_s=st.floats(0.0, 0.5),
    seed=st.integers(0, 1000),
    interference=st.sampled_from(Interference),
    dropping=st.booleans(),
    noise=st.sampled_from([0.0, 0.2]),
    interval_s=st.sampled_from((None, 0.3, 1.0)),
)
Problem = tuple[Plan, Instance]


def equal_results(one: Simulated, other: Simulated) -> bool:
    """Whether all results but the wall time are equal, with histograms and series."""
    pairs = list(zip((*one.workloads, *one.applications), (*other.workloads, *other.applications), strict=True))
    series = [
        np.array_equal(getattr(one.series, name), getattr(other.series, name))
        for name in ("arrived", "in_time", "late", "dropped")
        if one.series is not None
    ]
    return all(a == b and np.array_equal(a.histogram, b.histogram) for a, b in pairs) and all(series)


@hypothesis_settings(max_examples=150)
@given(problem=problems(), settings=SETTINGS)
def test_requests_are_conserved_and_percentiles_ordered(problem: Problem, settings: Settings) -> None:
    plan, instance = problem
    result = simulate(plan, instance, settings)
    later_stages = {after for served_entity in instance.applications for _, after in served_entity.edges}

    for served_entity in (*result.workloads, *result.applications):
        served = round(served_entity.throughput_rps * settings.seconds)
        in_time = round(served_entity.goodput_rps * settings.seconds)
        assert (
            min(
                served_entity.requests,
                served_entity.late,
                served_entity.dropped,
                served_entity.unfinished,
                served,
                in_time,
            )
            >= 0
        )
        assert served_entity.requests == served + served_entity.dropped + served_entity.unfinished
        assert served == in_time + served_entity.late == served_entity.histogram.sum()
        assert served_entity.violation_rate * served_entity.requests == pytest.approx(
            served_entity.late + served_entity.dropped + served_entity.unfinished
        )
        assert served_entity.drop_rate * served_entity.requests == pytest.approx(
            served_entity.dropped + served_entity.unfinished
        )
        assert served_entity.violation_rate >= served_entity.drop_rate
        quantiles = [
            served_entity.p50_ms,
            served_entity.p90_ms,
            served_entity.p95_ms,
            served_entity.p99_ms,
            served_entity.max_ms,
        ]
        if served:
            assert 0.0 < quantiles[0] <= quantiles[1] <= quantiles[2] <= quantiles[3] <= quantiles[4]  # type: ignore[operator]
            assert served_entity.mean_ms is None or served_entity.mean_ms <= served_entity.max_ms * (1 + 1e-12)  # type: ignore[operator]
        else:
            assert quantiles == [None] * 5
        assert served_entity.mean_queue is None or served_entity.mean_queue >= 0.0
        if settings.arrivals.process is Process.CONSTANT and served_entity.id not in later_stages:
            assert served_entity.requests == pytest.approx(served_entity.offered_rps * settings.seconds, abs=1.0 + 1e-6)
    assert result.requests == sum(served_entity.requests for served_entity in result.workloads)
    if settings.dropping and settings.interference is Interference.STATIC and settings.noise == 0.0:
        assert all(
            served_entity.late == 0 for served_entity in result.workloads
        )  # without noise, static times are the planned ones, so served requests are in time


@hypothesis_settings(max_examples=60)
@given(problem=problems(), settings=SETTINGS)
def test_the_intervals_of_a_series_add_up_to_the_totals(problem: Problem, settings: Settings) -> None:
    settings = replace(settings, interval_s=0.3)
    result = simulate(*problem, settings)
    assert result.series is not None

    for w, workload in enumerate(result.workloads):
        in_time, late, dropped = (getattr(result.series, name)[:, w] for name in ("in_time", "late", "dropped"))
        assert in_time.sum() == round(workload.goodput_rps * settings.seconds)
        assert (late.sum(), dropped.sum()) == (workload.late, workload.dropped)
        assert result.series.arrived[:, w].sum() == workload.requests
        assert np.all(result.series.arrived[:, w] >= in_time + late + dropped)


@hypothesis_settings(max_examples=60)
@given(problem=problems(), settings=SETTINGS)
def test_the_same_seed_gives_the_same_result(problem: Problem, settings: Settings) -> None:
    assert equal_results(simulate(*problem, settings), simulate(*problem, settings))


@hypothesis_settings(max_examples=60)
@given(problem=problems(), settings=SETTINGS, requests=st.sampled_from([1, 7, 100, 10**9]))
def test_results_do_not_depend_on_the_size_of_windows(problem: Problem, settings: Settings, requests: int) -> None:
    expected = simulate(*problem, settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "REQUESTS_AT_ONCE", requests)
        assert equal_results(simulate(*problem, settings), expected)


@hypothesis_settings(max_examples=40)
@given(one=problems(), settings=SETTINGS)
def test_measuring_by_interval_changes_nothing_else(one: Problem, settings: Settings) -> None:
    with_series, without = (simulate(*one, replace(settings, interval_s=interval_s)) for interval_s in (0.3, None))

    assert without.series is None
    assert equal_results(without, with_series)


@hypothesis_settings(max_examples=40)
@given(problem=problems(), seed=st.integers(0, 1000), dropping=st.booleans(), dynamic=st.booleans())
def test_any_plan_agrees_with_simpy(problem: Problem, seed: int, dropping: bool, dynamic: bool) -> None:
    plan, instance = problem
    offered = offered_rps(plan, instance)
    stages = {stage for application in instance.applications for stage in application.stages}
    rates = {w.id: offered[w.id] for w in instance.workloads if w.id not in stages} | {
        application.id: min(offered[stage] for stage in application.stages) for application in instance.applications
    }
    arrivals = {name: poisson_ms(rate, 1.5, seed + k) for k, (name, rate) in enumerate(rates.items())}
    kind = Interference.DYNAMIC if dynamic else Interference.STATIC

    agree(plan, instance, arrivals, Settings(seconds=0.8, warmup_s=0.2, dropping=dropping, interference=kind))


@hypothesis_settings(max_examples=30)
@given(data=st.data(), problem=problems(), seed=st.integers(0, 100))
def test_different_plans_see_the_same_requests(data: st.DataObject, problem: Problem, seed: int) -> None:
    """Common random numbers: arrivals depend on the seed and the workload's name and rate, not on the plan."""
    plan, instance = problem
    other = replace(plan, gpus=tuple(data.draw(st.lists(placed(instance), max_size=3))))
    later_stages = {after for application in instance.applications for _, after in application.edges}
    settings = Settings(seconds=1.0, warmup_s=0.3, seed=seed)

    first, second = (simulate(each, instance, settings) for each in (plan, other))

    for a, b in zip((*first.workloads, *first.applications), (*second.workloads, *second.applications), strict=True):
        assert a.requests == b.requests or a.id in later_stages


def test_arrivals_of_different_seeds_differ() -> None:
    def arrivals(seed: int) -> list[float]:
        return Stream(Arrivals(), 100.0, seed, "w").until(1000.0).tolist()

    assert len({tuple(arrivals(seed)) for seed in range(20)}) == 20
