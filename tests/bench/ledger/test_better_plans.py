"""Plans of wider classes that are better than the optimum of a narrower class."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.ledger.better_plans import better_plans, ledger_better_plans
from bench.ledger.bound_scope import Reach
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import Instance

SLOT = {"workload": "w1", "batch": 4, "rate_rps": 50.0}
PLAN = {"gpus": [{"type": "v100", "gpulets": [{"share_units": 10, "slots": [SLOT]}]}]}


@pytest.fixture
def planned(make_row: Callable[..., Row]) -> Callable[..., Row]:
    def make(key: str, value: float, **values: Any) -> Row:
        defaults = {"status": "feasible", "feasible": True, "plan": PLAN, "plan_class": "split", "headroom": 1.0}
        return make_row(**{"key": key * 64, **defaults, "value": value, **values})

    return make


def found_better(*rows: Row) -> dict[str, tuple[str, str]]:
    reaches = {row.key: Reach.of(row.plan) for row in rows if row.plan is not None}
    return {key[0]: (better.row.key[0], better.outside) for key, better in better_plans(rows, rows, reaches).items()}


def test_the_best_plan_outside_the_class_is_found(planned: Any) -> None:
    optimum = planned("a", 18.5, status="optimal", plan_class="spatial")
    rows = [optimum, planned("b", 17.0), planned("c", 16.4, plan_class="spatio-temporal"), planned("d", 16.4)]
    assert found_better(*rows) == {"a": ("c", "spatio-temporal plans")}


def test_under_a_maximised_objective_a_larger_value_is_better(planned: Any) -> None:
    optimum = planned("a", 10.0, status="optimal", plan_class="spatial", objective="scale")
    assert found_better(optimum, planned("b", 9.0, objective="scale"), planned("c", 11.0, objective="scale")) == {
        "a": ("c", "split plans")
    }


@pytest.mark.parametrize(
    "values",
    [
        {"plan_class": "spatial"},  # a refutation, not a wider class
        {"value": 18.5 - 1e-9},
        {"feasible": False},
        {"truth": "hybrid"},
        {"plan": None},
    ],
)
def test_other_plans_are_not_better(planned: Any, values: dict[str, Any]) -> None:
    assert found_better(planned("a", 18.5, status="optimal"), planned("b", **{"value": 16.4, **values})) == {}


@pytest.mark.parametrize("values", [{"status": "feasible"}, {"feasible": False}, {"truth": "hybrid"}])
def test_only_a_proven_optimum_has_better_plans(planned: Any, values: dict[str, Any]) -> None:
    claim = {"status": "optimal", "plan_class": "spatial"} | values
    assert found_better(planned("a", 18.5, **claim), planned("b", 16.4)) == {}


def test_plans_in_a_ledger_are_compared_with_optima_of_the_same_instance(
    planned: Any, make_instance: Callable[..., Instance], tmp_path: Path
) -> None:
    mix, other = make_instance(), make_instance("other")
    optimum = planned("a", 18.5, status="optimal", plan_class="spatial", instance_hash=mix.fingerprint)
    with Ledger(tmp_path / "ledger", create=True) as ledger:
        ledger.add(optimum, mix)
        ledger.add(planned("b", 15.0, instance_hash=other.fingerprint), other)
        assert ledger_better_plans([optimum], ledger) == {}
        ledger.add(planned("c", 16.4, instance_hash=mix.fingerprint), mix)
        (better,) = ledger_better_plans([optimum], ledger).values()
    assert (better.row.key[0], better.outside) == ("c", "split plans")
