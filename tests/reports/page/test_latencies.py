"""Distributions of latencies from the histograms of a run."""

import json

import numpy as np
import pytest

from bench.simulation.histogram import compact, counts_of
from reports.page.latencies import FRACTIONS, RATIOS, distributions, ids_and_slos_ms


def served(latencies, requests, slo_ms=10.0, name="w"):
    return {
        "id": name,
        "slo_ms": slo_ms,
        "requests": requests,
        "max_ms": max(latencies, default=None),
        "violation_rate": 0.25,
        "histogram": compact(counts_of(np.array(latencies))),
    }


def simulation(*workloads, applications=()):
    return {"workloads": list(workloads), "applications": list(applications)}


def test_quantiles_agree_with_the_latencies():
    latencies = np.random.default_rng(0).lognormal(2.0, 0.5, 4000)
    ((late, *found, fraction, longest),) = distributions(simulation(served(latencies, 4000)))["workloads"]
    assert (late, fraction, longest) == (0.25, 1.0, pytest.approx(latencies.max(), rel=0.01))
    assert found == pytest.approx(np.quantile(latencies, FRACTIONS), rel=0.07)  # bins are 6.3 % wide


def test_dropped_requests_never_arrive():
    ((_, *found, fraction, longest),) = distributions(simulation(served([5.0] * 80, 100)))["workloads"]
    assert (fraction, longest) == (0.8, 5.0)
    known = dict(zip(FRACTIONS, found, strict=True))
    assert known[0.75] == pytest.approx(5.0, rel=0.07)
    assert known[0.9] is None
    assert distributions(simulation(served([5.0] * 80, 100)))["in_time"][-1] == 0.8


def test_all_workloads_together_are_told_by_their_slos():
    found = distributions(simulation(served([5.0] * 30, 30), served([40.0] * 10, 10, slo_ms=20.0)))["in_time"]
    at = dict(zip(RATIOS, found, strict=True))
    assert {fraction for ratio, fraction in at.items() if ratio < 0.4} == {0.0}
    assert {fraction for ratio, fraction in at.items() if 0.6 < ratio < 1.8} == {0.75}
    assert found[-1] == 1.0
    assert found == sorted(found)


def test_requests_of_applications_are_not_counted_twice():
    workload, application = served([5.0] * 10, 10), served([50.0] * 10, 10, name="app")
    alone, both = (distributions(simulation(workload, applications=apps)) for apps in ([], [application]))
    assert alone["in_time"] == both["in_time"]
    assert len(both["workloads"]) == 2
    assert ids_and_slos_ms(simulation(workload, applications=[application])) == [("w", 10.0), ("app", 10.0)]


def test_nothing_served_is_no_latency():
    found = distributions(simulation(served([], 10)))
    assert found["workloads"] == [[0.25, *[None] * len(FRACTIONS), 0.0, None]]
    assert set(found["in_time"]) == {0.0}


def test_nothing_asked_for_is_no_latency():
    assert set(distributions(simulation(served([], 0)))["in_time"]) == {0.0}


@pytest.mark.parametrize("slo_ms", [0.0, 1e-320, 1.7e308])
@pytest.mark.parametrize("lower_ms", [1e-320, 1e-300, 1.0, 1.7e308])
def test_extreme_numbers_neither_warn_nor_overflow(lower_ms, slo_ms):
    extreme = {
        "id": "w",
        "slo_ms": slo_ms,
        "requests": 2**63 - 1,
        "max_ms": 1.7e308,
        "violation_rate": 0.0,
        "histogram": {"lower_ms": [lower_ms], "requests": [2**63 - 1]},
    }
    with np.errstate(all="raise", under="ignore"):
        found = distributions(simulation(extreme, {**extreme, "max_ms": 1e-320}, served([5.0] * 10, 10)))
    json.dumps(found, allow_nan=False)
