"""The rule ``continuous``: waiting probabilities, loads and budgets, against values worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import GpuPool, SloRule
from instances.catalogue import gpu_type
from instances.continuous import (
    continuous_budget_ms,
    largest_loads,
    places_needed,
)
from instances.instance import instance_of_services
from instances.services import Service
from instances.tolerance import widened
from instances.view import View
from tests.instances.erlang import mean_in_flight, waiting_probability


def test_erlang_c_is_as_worked_out_by_hand() -> None:
    assert waiting_probability(1, 0.3) == pytest.approx(0.3)  # a single place is busy for that fraction of the time
    assert waiting_probability(2, 1.0) == pytest.approx(1 / 3)
    assert waiting_probability(2, 2.0) == 1.0


@given(st.integers(1, 128), st.sampled_from([0.5, 0.05, 0.01, 0.0001]))
def test_the_largest_load_just_meets_the_waiting_probability(places: int, waiting: float) -> None:
    load = float(largest_loads(128, waiting)[places])

    assert waiting_probability(places, load) <= waiting < waiting_probability(places, load * 1.0001 + 1e-9)
    assert largest_loads(128, waiting)[places - 1] < load < places


def test_the_budget_is_the_smaller_of_both_times() -> None:
    load = float(largest_loads(16, 0.01)[16])

    assert continuous_budget_ms(40.0, 1.0, 16, 100, 0.01, 1.0) == 40.0
    assert continuous_budget_ms(40.0, 10.0, 16, 100, 0.01, 1.25) == pytest.approx(load / 1.25)
    assert places_needed(40.0, 10.0, 100, 0.01, 128) == int(np.searchsorted(largest_loads(128, 0.01), 40.0))


def test_requests_in_flight_with_constant_steps_follow_littles_law() -> None:
    steps_ms = np.full(65, 20.0)
    assert mean_in_flight(steps_ms, 5.0, 100) == pytest.approx(5.0 * 100 * 0.020, rel=1e-9)
    assert mean_in_flight(steps_ms, 40.0, 100) == np.inf


def test_requests_in_flight_with_one_place_are_its_utilisation() -> None:
    # one place at load 0.5 is busy half of the time
    assert mean_in_flight(np.array([0.0, 10.0]), 0.5, 100) == pytest.approx(0.5)


@pytest.mark.parametrize("rule", [SloRule.HALF_SLO, SloRule.ATTAINMENT, SloRule.P99])
def test_decode_has_its_own_rule_under_every_slo_rule(rule: SloRule) -> None:
    chat = Service("chat", "llama-7b", 128, 128, 500.0, 50.0)
    instance = instance_of_services("x", [(chat, 4.0)], [GpuPool(gpu_type("a100-llm"))], slo_rule=rule)
    view = View.of(instance, instance.gpus[0].type)
    expected = widened(continuous_budget_ms(50.0, 4.0, 16, 128, 0.01, 1.0))

    budgets = view.budgets_ms(np.array([0, 1]), 16)
    assert np.all(budgets[1] == expected)
    assert view.budgets_at_ms(1, 16, 4.0, 30) == expected
    assert view.budgets_at_ms(0, 2, 4.0, 54) < 450.0
    largest_batch = int(view.tables.max_batch[view.model[1]])
    assert np.all(np.isfinite(view.budgets_ms(1, largest_batch)))
