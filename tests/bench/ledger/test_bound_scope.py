"""Properties of plans that decide which bounds apply to them, and the scopes of bounds."""

import json

import pytest

from bench.ledger.bound_scope import Reach, claim_in_words, covers, outside
from bench.ledger.sql import reach_from_sql
from instances import PlanClass
from tests.row_values import plan_of, scope_of

SLOT = {"workload": "w1", "batch": 4, "rate_rps": 50.0}


def gpulet(units, *batches):
    return {"share_units": units, "duty_cycle_ms": None, "slots": [SLOT | {"batch": batch} for batch in batches]}


def plan(*gpus):
    return plan_of({"gpus": [{"type": "v100", "gpulets": list(gpulets)} for gpulets in gpus]})


def parts(*rates_rps):
    return plan(*[[gpulet(10, 4) | {"slots": [SLOT | {"rate_rps": rate}]}] for rate in rates_rps])


def test_the_reach_of_a_plan_is_the_maximum_over_its_gpus():
    second_gpu = gpulet(10, 8) | {"slots": [SLOT | {"workload": "w2", "batch": 8}]}
    reach = Reach.of(plan([gpulet(10, 4), gpulet(4, 1, 2, 3)], [second_gpu]))
    assert reach == Reach(
        frozenset({4, 10}),
        slots_per_gpulet=3,
        max_batch=8,
        gpulets_per_gpu=2,
        split_workloads=frozenset({"w1"}),
        part_steps=4,
        parts_apart=False,
    )


def test_a_plan_without_gpus_has_an_empty_reach():
    assert Reach.of(plan()) == Reach(frozenset(), 0, 0, 0, frozenset(), 1, True)


def test_a_reach_is_unchanged_by_json():
    reach = Reach.of(parts(50.0, 50.0))
    assert reach_from_sql(json.dumps(reach.to_json()), "") == reach


@pytest.mark.parametrize(
    ("rates_rps", "steps"),
    [([7.3], 1), ([7.3, 7.3], 2), ([0.1, 0.2], 3), ([35.0, 65.0], 20), ([1.0, 20.0], None)],
)
def test_parts_are_multiples_of_the_least_step(rates_rps, steps):
    assert Reach.of(parts(*rates_rps)).part_steps == steps


SPLIT = {"plan_class": "split", "allowed_shares": None, "slots_per_gpulet": 1, "max_batch": None}


@pytest.mark.parametrize(
    ("scope", "rates_rps", "covered"),
    [
        (SPLIT, [1.0, 2.0], True),
        (SPLIT | {"part_steps": 20}, [1.0, 3.0], True),
        (SPLIT | {"part_steps": 20}, [1.0, 2.0], False),
        (SPLIT | {"part_steps": 20}, [1.0, 20.0], False),
        (SPLIT | {"split_workloads": ["w1"], "part_steps": 20}, [1.0, 3.0], True),
        (SPLIT | {"split_workloads": ["w2"], "part_steps": 20}, [1.0, 3.0], False),
        (SPLIT | {"split_workloads": ["w2"], "part_steps": 20}, [5.0], True),
    ],
)
def test_a_bound_on_some_sizes_of_parts_covers_plans_with_these_parts(make_row, scope, rates_rps, covered):
    parts_plan = parts(*rates_rps)
    row = make_row(plan_class=PlanClass.SPLIT if len(rates_rps) > 1 else PlanClass.SPATIAL)
    assert covers(scope_of(scope), row, Reach.of(parts_plan)) == covered


@pytest.mark.parametrize(
    ("scope", "headroom", "words"),
    [
        (None, 1.0, "optimal (spatial)"),
        (SPLIT, None, "optimal (split)"),
        (SPLIT | {"plan_class": "spatio-temporal", "slots_per_gpulet": 3}, 1.0, "optimal (spatio-temporal)"),
        (SPLIT | {"split_workloads": ["w1"], "part_steps": 20}, 1.0, "optimal (split of w1)"),
        (SPLIT | {"split_workloads": ["w1", "w2"]}, 1.2, "optimal (split of 2 workloads, headroom 1.2)"),
    ],
)
def test_an_optimum_is_printed_with_its_class(make_row, scope, headroom, words):
    assert claim_in_words(make_row(status="optimal", bound_scope=scope, headroom=headroom)) == words
    assert claim_in_words(make_row(status="feasible", bound_scope=scope, headroom=headroom)) == "feasible"


@pytest.mark.parametrize(
    ("scope", "plan_class", "gpus", "words"),
    [
        ({}, "split", [[gpulet(10, 4)]], None),
        ({"plan_class": "spatial"}, "split", [[gpulet(10, 4)]], "split plans"),
        ({}, "spatio-temporal", [[gpulet(10, 4, 4)]], "spatio-temporal plans"),
        ({"plan_class": "spatio-temporal"}, "spatio-temporal", [[gpulet(10, 4, 4)]], "2 slots on a gpulet"),
        ({}, "split", [[gpulet(3, 4)] * 3], "3 gpulets on a GPU"),
        ({"split_workloads": ["w2"]}, "split", [[gpulet(10, 4)]] * 2, "parts of further workloads"),
        ({"part_steps": 20}, "split", [[gpulet(10, 4)]] * 3, "parts of other sizes"),
        ({"parts_apart": True}, "split", [[gpulet(5, 4)] * 2], "parts of a workload on one GPU"),
        ({"max_batch": 3}, "spatial", [[gpulet(10, 4)]], "larger batches"),
        ({"allowed_shares": [5]}, "spatial", [[gpulet(10, 4)]], "other shares"),
    ],
)
def test_the_first_property_outside_the_scope_is_named(make_row, scope, plan_class, gpus, words):
    row = make_row(plan_class=PlanClass(plan_class), performance_model="gpulet")
    assert outside(scope_of(SPLIT | scope), row, Reach.of(plan(*gpus))) == words
