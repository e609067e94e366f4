"""gpulet's scenario sets: every choice of rates once, and evenly drawn samples of them."""

import numpy as np
import pytest

from instances.suites import SCENARIO_SUITES

SCENARIOS = {name: chosen.build() for name, chosen in SCENARIO_SUITES.items()}


@pytest.mark.parametrize(
    ("name", "count", "rates_rps"),
    [("gpulet-1023", 4**5 - 1, {0.0, 200.0, 400.0, 600.0}), ("gpulet-19682", 3**9 - 1, {0.0, 100.0, 200.0})],
)
def test_scenario_sets_have_every_choice_of_rates_once(name: str, count: int, rates_rps: set[float]) -> None:
    found = SCENARIOS[name]

    assert len(found) == len(np.unique(found.rates_rps, axis=0)) == count
    assert set(np.unique(found.rates_rps)) == rates_rps
    assert found.rates_rps.any(axis=1).all()
    assert found.rates_rps.shape[1] == len(found.base.workloads)


@pytest.mark.parametrize(("sample", "whole"), [("gpulet-93", "gpulet-1023"), ("gpulet-1790", "gpulet-19682")])
def test_samples_of_scenario_sets_have_each_rate_of_each_model_about_equally_often(sample: str, whole: str) -> None:
    found, every = SCENARIOS[sample], SCENARIOS[whole]

    assert {tuple(rates) for rates in found.rates_rps} <= {tuple(rates) for rates in every.rates_rps}
    assert len(found) == int(sample.rpartition("-")[2])
    for column in found.rates_rps.T:
        counts = np.unique(column, return_counts=True)[1]
        assert counts.max() - counts.min() <= 3


def test_scenarios_leave_out_what_nobody_asks_for() -> None:
    found = SCENARIOS["gpulet-1023"]
    first, fifth, last = (found.scenario(index) for index in (0, 4, 1022))

    assert [(w.id, w.slo_ms, w.rate_rps) for w in first.workloads] == [("vgg16", 130.0, 200.0)]
    assert [(w.id, w.slo_ms, w.rate_rps) for w in fifth.workloads] == [
        ("ssd-mobilenet", 136.0, 200.0),
        ("vgg16", 130.0, 200.0),
    ]
    assert [w.rate_rps for w in last.workloads] == [600.0] * 5
    assert (first.name, last.name) == ("gpulet-1023#0", "gpulet-1023#1022")
    assert last.gpus[0] is found.base.gpus[0]


def test_a_scenario_set_is_the_same_every_time() -> None:
    for name, found in SCENARIOS.items():
        again = SCENARIO_SUITES[name].build()
        assert again.base.fingerprint == found.base.fingerprint
        assert np.array_equal(again.rates_rps, found.rates_rps)
