"""Distributions of latencies, from the histograms in a run's row."""

import json

import numpy as np
import pytest

from bench.simulation.histogram import compact, counts_of
from reports.page.latencies import FRACTIONS, SLO_MULTIPLES, distributions, ids_and_slos_ms


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
    ((missed, *quantiles, fraction, longest),) = distributions(simulation(served(latencies, 4000)))["workloads"]
    assert (missed, fraction, longest) == (0.25, 1.0, pytest.approx(latencies.max(), rel=0.01))
    assert quantiles == pytest.approx(np.quantile(latencies, FRACTIONS), rel=0.07)  # bins are 6.3 % wide


def test_dropped_requests_have_no_latency():
    ((_, *quantiles, fraction, longest),) = distributions(simulation(served([5.0] * 80, 100)))["workloads"]
    assert (fraction, longest) == (0.8, 5.0)
    quantile_of = dict(zip(FRACTIONS, quantiles, strict=True))
    assert quantile_of[0.75] == pytest.approx(5.0, rel=0.07)
    assert quantile_of[0.9] is None
    assert distributions(simulation(served([5.0] * 80, 100)))["in_time"][-1] == 0.8


def test_latencies_of_all_workloads_are_relative_to_their_slos():
    in_time = distributions(simulation(served([5.0] * 30, 30), served([40.0] * 10, 10, slo_ms=20.0)))["in_time"]
    fraction_at = dict(zip(SLO_MULTIPLES, in_time, strict=True))
    assert {fraction for ratio, fraction in fraction_at.items() if ratio < 0.4} == {0.0}
    assert {fraction for ratio, fraction in fraction_at.items() if 0.6 < ratio < 1.8} == {0.75}
    assert in_time[-1] == 1.0
    assert in_time == sorted(in_time)


def test_requests_of_applications_are_not_counted_twice():
    workload, application = served([5.0] * 10, 10), served([50.0] * 10, 10, name="app")
    without_application, with_application = (
        distributions(simulation(workload, applications=apps)) for apps in ([], [application])
    )
    assert without_application["in_time"] == with_application["in_time"]
    assert len(with_application["workloads"]) == 2
    assert ids_and_slos_ms(simulation(workload, applications=[application])) == [("w", 10.0), ("app", 10.0)]


def test_without_served_requests_there_are_no_quantiles():
    result = distributions(simulation(served([], 10)))
    assert result["workloads"] == [[0.25, *[None] * len(FRACTIONS), 0.0, None]]
    assert set(result["in_time"]) == {0.0}


def test_without_requests_no_fraction_is_in_time():
    assert set(distributions(simulation(served([], 0)))["in_time"]) == {0.0}


@pytest.mark.parametrize("slo_ms", [0.0, 1e-320, 1.7e308])
@pytest.mark.parametrize("lower_ms", [1e-320, 1e-300, 1.0, 1.7e308])
def test_extreme_numbers_do_not_warn_or_overflow(lower_ms, slo_ms):
    extreme = {
        "id": "w",
        "slo_ms": slo_ms,
        "requests": 2**63 - 1,
        "max_ms": 1.7e308,
        "violation_rate": 0.0,
        "histogram": {"lower_ms": [lower_ms], "requests": [2**63 - 1]},
    }
    with np.errstate(all="raise", under="ignore"):
        result = distributions(simulation(extreme, {**extreme, "max_ms": 1e-320}, served([5.0] * 10, 10)))
    json.dumps(result, allow_nan=False)
