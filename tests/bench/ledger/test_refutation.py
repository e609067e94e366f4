"""Refutations: claims of bounds and statuses that a feasible plan in the ledger contradicts."""

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
        defaults = {"status": Status.FEASIBLE, "feasible": True, "plan": PLAN, "plan_class": "spatial"}
        return row(key, **{**defaults, "value": value, **values})

    return make


def witnesses_by_claim(*rows: Row) -> dict[str, str]:
    reaches = {row.key: Reach.of(row.plan) for row in rows if row.plan is not None}
    return {key[0]: refutation.witness.key[0] for key, refutation in refutations(rows, reaches).items()}


def certified(value: float, **scope: Any) -> dict[str, Any]:
    return {"bound": value, "bound_certified": True, "bound_scope": SCOPE | scope}


def test_bound_above_a_feasible_cost_is_refuted_by_the_best_plan(row: Any, planned: Any) -> None:
    liar = row("a", **certified(1e6))
    refutation_of = refutations(
        [liar, planned("b", 3.5), planned("c", 3.06)], dict.fromkeys(("b" * 64, "c" * 64), REACH)
    )
    assert refutation_of.keys() == {liar.key}
    assert str(refutation_of[liar.key]).startswith("mix: the certified bound ≥ 1000000 of ")
    assert "has a feasible plan of value 3.06 (run cccccccc)" in str(refutation_of[liar.key])


def test_a_true_bound_is_not_refuted(row: Any, planned: Any) -> None:
    assert witnesses_by_claim(row("a", **certified(3.06)), planned("b", 3.06), planned("c", 3.06 - 1e-9)) == {}


def test_a_throughput_above_its_bound_refutes_the_bound(row: Any, planned: Any) -> None:
    rows = row("a", objective="throughput", **certified(100.0)), planned("b", 101.0, objective="throughput")
    assert witnesses_by_claim(*rows) == {"a": "b"}


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
def test_a_plan_outside_the_scope_refutes_nothing(row: Any, planned: Any, scope: Any, values: Any) -> None:
    assert witnesses_by_claim(row("a", **certified(10.0, **scope)), planned("b", 3.0, **values)) == {}


def test_an_uncertified_bound_is_not_refuted(row: Any, planned: Any) -> None:
    assert witnesses_by_claim(row("a", bound=10.0, bound_certified=False, bound_scope=SCOPE), planned("b", 3.0)) == {}


def test_infeasible_is_refuted_by_a_feasible_plan_with_the_same_headroom(row: Any, planned: Any) -> None:
    assert witnesses_by_claim(row("a", status=Status.INFEASIBLE), planned("b", 3.0)) == {"a": "b"}
    assert witnesses_by_claim(row("a", status=Status.INFEASIBLE), planned("b", 3.0, headroom=1.2)) == {}


def test_optimal_is_refuted_by_a_better_plan_of_its_class(planned: Any) -> None:
    assert witnesses_by_claim(planned("a", 4.0, status=Status.OPTIMAL), planned("b", 3.0)) == {"a": "b"}
    assert witnesses_by_claim(planned("a", 3.0, status=Status.OPTIMAL), planned("b", 4.0)) == {}
    assert witnesses_by_claim(planned("a", 4.0, status=Status.OPTIMAL), planned("b", 3.0, plan_class="split")) == {}


def test_plans_of_other_instances_refute_nothing(row: Any, planned: Any) -> None:
    assert witnesses_by_claim(row("a", **certified(10.0)), planned("b", 3.0, instance_hash="other")) == {}
