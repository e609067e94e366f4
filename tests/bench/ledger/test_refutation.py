"""Claims that a feasible plan in the ledger contradicts are found and not used."""

from collections.abc import Callable
from typing import Any

import pytest

from bench.api import Status
from bench.ledger.bound_scope import Reach
from bench.ledger.refutation import refutations
from bench.ledger.row import Row
from tests.row_values import plan_of

MakeRow = Callable[..., Row]

SCOPE = {"plan_class": "spatial", "allowed_shares": None, "slots_per_gpulet": 1, "max_batch": None}
PLAN = plan_of(
    {
        "gpus": [
            {
                "type": "v100",
                "gpulets": [{"share_units": 20, "slots": [{"workload": "w1", "batch": 4, "rate_rps": 50.0}]}],
            }
        ]
    }
)
REACH = Reach.of(PLAN)


@pytest.fixture
def row(make_row: MakeRow) -> Callable[..., Row]:
    def make(key: str, **values: Any) -> Row:
        return make_row(**{"key": key * 64, "headroom": 1.0, "objective": "cost", **values})

    return make


@pytest.fixture
def planned(row: Callable[..., Row]) -> Callable[..., Row]:
    def make(key: str, value: float, **values: Any) -> Row:
        told = {"status": Status.FEASIBLE, "feasible": True, "plan": PLAN, "plan_class": "spatial"}
        return row(key, **{**told, "value": value, **values})

    return make


def refuted(*rows: Row) -> dict[str, str]:
    reaches = {each.key: Reach.of(each.plan) for each in rows if each.plan is not None}
    return {key[0]: told.witness.key[0] for key, told in refutations(rows, reaches).items()}


def certified(value: float, **scope: Any) -> dict[str, Any]:
    return {"bound": value, "bound_certified": True, "bound_scope": SCOPE | scope}


def test_bound_above_a_feasible_cost_is_refuted_by_the_best_plan(row: Any, planned: Any) -> None:
    liar = row("a", **certified(1e6))
    found = refutations([liar, planned("b", 3.5), planned("c", 3.06)], dict.fromkeys(("b" * 64, "c" * 64), REACH))
    assert found.keys() == {liar.key}
    assert str(found[liar.key]).startswith("mix: the certified bound ≥ 1000000 of ")
    assert "has a feasible plan of value 3.06 (run cccccccc)" in str(found[liar.key])


def test_true_bound_stands(row: Any, planned: Any) -> None:
    assert refuted(row("a", **certified(3.06)), planned("b", 3.06), planned("c", 3.06 - 1e-9)) == {}


def test_rate_beyond_a_bound_on_throughput_refutes_it(row: Any, planned: Any) -> None:
    rows = row("a", objective="throughput", **certified(100.0)), planned("b", 101.0, objective="throughput")
    assert refuted(*rows) == {"a": "b"}


@pytest.mark.parametrize(
    ("scope", "values"),
    [
        ({}, {"plan_class": "split"}),
        ({"allowed_shares": [10]}, {}),
        ({"max_batch": 2}, {}),
        ({}, {"feasible": False}),
        ({}, {"truth": "hybrid"}),
    ],
)
def test_plan_outside_the_scope_refutes_nothing(row: Any, planned: Any, scope: Any, values: Any) -> None:
    assert refuted(row("a", **certified(10.0, **scope)), planned("b", 3.0, **values)) == {}


def test_uncertified_bound_claims_nothing(row: Any, planned: Any) -> None:
    assert refuted(row("a", bound=10.0, bound_certified=False, bound_scope=SCOPE), planned("b", 3.0)) == {}


def test_infeasible_beside_a_feasible_plan_of_the_same_headroom(row: Any, planned: Any) -> None:
    assert refuted(row("a", status=Status.INFEASIBLE), planned("b", 3.0)) == {"a": "b"}
    assert refuted(row("a", status=Status.INFEASIBLE), planned("b", 3.0, headroom=1.2)) == {}


def test_optimal_beside_a_better_plan(planned: Any) -> None:
    assert refuted(planned("a", 4.0, status=Status.OPTIMAL), planned("b", 3.0)) == {"a": "b"}
    assert refuted(planned("a", 3.0, status=Status.OPTIMAL), planned("b", 4.0)) == {}
    assert refuted(planned("a", 4.0, status=Status.OPTIMAL), planned("b", 3.0, plan_class="split")) == {}


def test_plans_of_other_instances_refute_nothing(row: Any, planned: Any) -> None:
    assert refuted(row("a", **certified(10.0)), planned("b", 3.0, instance_hash="other")) == {}
