"""Properties of every simulation: no request is lost, order, and the same seed the same result."""

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


def same(one: Simulated, other: Simulated) -> bool:
    """Whether everything but the wall clock is the same, histograms and series included."""
    pairs = list(zip((*one.workloads, *one.applications), (*other.workloads, *other.applications), strict=True))
    series = [
        np.array_equal(getattr(one.series, name), getattr(other.series, name))
        for name in ("arrived", "in_time", "late", "dropped")
        if one.series is not None
    ]
    return all(a == b and np.array_equal(a.histogram, b.histogram) for a, b in pairs) and all(series)


@hypothesis_settings(max_examples=150)
@given(problem=problems(), settings=SETTINGS)
def test_requests_are_conserved_and_in_order(problem: Problem, settings: Settings) -> None:
    plan, instance = problem
    found = simulate(plan, instance, settings)
    later_stages = {after for one in instance.applications for _, after in one.edges}

    for one in (*found.workloads, *found.applications):
        served = round(one.throughput_rps * settings.seconds)
        in_time = round(one.goodput_rps * settings.seconds)
        assert min(one.requests, one.late, one.dropped, one.unfinished, served, in_time) >= 0
        assert one.requests == served + one.dropped + one.unfinished
        assert served == in_time + one.late == one.histogram.sum()
        assert one.violation_rate * one.requests == pytest.approx(one.late + one.dropped + one.unfinished)
        assert one.drop_rate * one.requests == pytest.approx(one.dropped + one.unfinished)
        assert one.violation_rate >= one.drop_rate
        quantiles = [one.p50_ms, one.p90_ms, one.p95_ms, one.p99_ms, one.max_ms]
        if served:
            assert 0.0 < quantiles[0] <= quantiles[1] <= quantiles[2] <= quantiles[3] <= quantiles[4]  # type: ignore[operator]
            assert one.mean_ms is None or one.mean_ms <= one.max_ms * (1 + 1e-12)  # type: ignore[operator]
        else:
            assert quantiles == [None] * 5
        assert one.mean_queue is None or one.mean_queue >= 0.0
        if settings.arrivals.process is Process.CONSTANT and one.id not in later_stages:
            assert one.requests == pytest.approx(one.offered_rps * settings.seconds, abs=1.0 + 1e-6)
    assert found.requests == sum(one.requests for one in found.workloads)
    if settings.dropping and settings.interference is Interference.STATIC and settings.noise == 0.0:
        assert all(one.late == 0 for one in found.workloads)  # who is served is served as promised


@hypothesis_settings(max_examples=60)
@given(problem=problems(), settings=SETTINGS)
def test_the_intervals_add_up(problem: Problem, settings: Settings) -> None:
    settings = replace(settings, interval_s=0.3)
    found = simulate(*problem, settings)
    assert found.series is not None

    for w, one in enumerate(found.workloads):
        in_time, late, dropped = (getattr(found.series, name)[:, w] for name in ("in_time", "late", "dropped"))
        assert in_time.sum() == round(one.goodput_rps * settings.seconds)
        assert (late.sum(), dropped.sum()) == (one.late, one.dropped)
        assert found.series.arrived[:, w].sum() == one.requests
        assert np.all(found.series.arrived[:, w] >= in_time + late + dropped)


@hypothesis_settings(max_examples=60)
@given(problem=problems(), settings=SETTINGS)
def test_the_same_seed_gives_the_same_result(problem: Problem, settings: Settings) -> None:
    assert same(simulate(*problem, settings), simulate(*problem, settings))


@hypothesis_settings(max_examples=60)
@given(problem=problems(), settings=SETTINGS, requests=st.sampled_from([1, 7, 100, 10**9]))
def test_the_size_of_windows_changes_nothing(problem: Problem, settings: Settings, requests: int) -> None:
    usual = simulate(*problem, settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "REQUESTS_AT_ONCE", requests)
        assert same(simulate(*problem, settings), usual)


@hypothesis_settings(max_examples=40)
@given(one=problems(), settings=SETTINGS)
def test_measuring_by_interval_changes_nothing_else(one: Problem, settings: Settings) -> None:
    with_series, without = (simulate(*one, replace(settings, interval_s=kept)) for kept in (0.3, None))

    assert without.series is None
    assert same(without, with_series)


@hypothesis_settings(max_examples=40)
@given(problem=problems(), seed=st.integers(0, 1000), dropping=st.booleans(), dynamic=st.booleans())
def test_any_plan_agrees_with_simpy(problem: Problem, seed: int, dropping: bool, dynamic: bool) -> None:
    plan, instance = problem
    offered = offered_rps(plan, instance)
    staged = {stage for one in instance.applications for stage in one.stages}
    rates = {w.id: offered[w.id] for w in instance.workloads if w.id not in staged} | {
        one.id: min(offered[stage] for stage in one.stages) for one in instance.applications
    }
    arrivals = {name: poisson_ms(rate, 1.5, seed + k) for k, (name, rate) in enumerate(rates.items())}
    kind = Interference.DYNAMIC if dynamic else Interference.STATIC

    agree(plan, instance, arrivals, Settings(seconds=0.8, warmup_s=0.2, dropping=dropping, interference=kind))


@hypothesis_settings(max_examples=30)
@given(data=st.data(), problem=problems(), seed=st.integers(0, 100))
def test_different_plans_see_the_same_requests(data: st.DataObject, problem: Problem, seed: int) -> None:
    """Common random numbers: what comes depends on the seed and on the workload's name and rate, not on the plan."""
    plan, instance = problem
    other = replace(plan, gpus=tuple(data.draw(st.lists(placed(instance), max_size=3))))
    later_stages = {after for one in instance.applications for _, after in one.edges}
    settings = Settings(seconds=1.0, warmup_s=0.3, seed=seed)

    first, second = (simulate(each, instance, settings) for each in (plan, other))

    for a, b in zip((*first.workloads, *first.applications), (*second.workloads, *second.applications), strict=True):
        assert a.requests == b.requests or a.id in later_stages


def test_other_seeds_differ() -> None:
    def arrivals(seed: int) -> list[float]:
        return Stream(Arrivals(), 100.0, seed, "w").until(1000.0).tolist()

    assert len({tuple(arrivals(seed)) for seed in range(20)}) == 20
