"""gpulet's scenario sets: every combination of rates once, and evenly drawn samples of them."""

import numpy as np
import pytest

from instances.suites import SCENARIO_SUITES

SCENARIOS = {name: suite.build() for name, suite in SCENARIO_SUITES.items()}


@pytest.mark.parametrize(
    ("name", "count", "rates_rps"),
    [("gpulet-1023", 4**5 - 1, {0.0, 200.0, 400.0, 600.0}), ("gpulet-19682", 3**9 - 1, {0.0, 100.0, 200.0})],
)
def test_scenario_sets_hold_every_combination_of_rates_once(name: str, count: int, rates_rps: set[float]) -> None:
    scenarios = SCENARIOS[name]

    assert len(scenarios) == len(np.unique(scenarios.rates_rps, axis=0)) == count
    assert set(np.unique(scenarios.rates_rps)) == rates_rps
    assert scenarios.rates_rps.any(axis=1).all()
    assert scenarios.rates_rps.shape[1] == len(scenarios.base.workloads)


@pytest.mark.parametrize(("sample", "whole"), [("gpulet-93", "gpulet-1023"), ("gpulet-1790", "gpulet-19682")])
def test_samples_hold_each_rate_of_each_model_about_equally_often(sample: str, whole: str) -> None:
    scenarios, all_scenarios = SCENARIOS[sample], SCENARIOS[whole]

    assert {tuple(rates) for rates in scenarios.rates_rps} <= {tuple(rates) for rates in all_scenarios.rates_rps}
    assert len(scenarios) == int(sample.rpartition("-")[2])
    for column in scenarios.rates_rps.T:
        counts = np.unique(column, return_counts=True)[1]
        assert counts.max() - counts.min() <= 3


def test_scenarios_leave_out_models_at_rate_0() -> None:
    scenarios = SCENARIOS["gpulet-1023"]
    first, fifth, last = (scenarios.scenario(index) for index in (0, 4, 1022))

    assert [(w.id, w.slo_ms, w.rate_rps) for w in first.workloads] == [("vgg16", 130.0, 200.0)]
    assert [(w.id, w.slo_ms, w.rate_rps) for w in fifth.workloads] == [
        ("ssd-mobilenet", 136.0, 200.0),
        ("vgg16", 130.0, 200.0),
    ]
    assert [w.rate_rps for w in last.workloads] == [600.0] * 5
    assert (first.name, last.name) == ("gpulet-1023#0", "gpulet-1023#1022")
    assert last.gpus[0] is scenarios.base.gpus[0]


def test_a_scenario_set_is_the_same_every_time() -> None:
    for name, scenarios in SCENARIOS.items():
        rebuilt = SCENARIO_SUITES[name].build()
        assert rebuilt.base.fingerprint == scenarios.base.fingerprint
        assert np.array_equal(rebuilt.rates_rps, scenarios.rates_rps)
