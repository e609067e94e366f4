"""Tests of the plan properties that decide which bounds apply."""

import pytest

from bench.ledger.bound_scope import Reach, covers
from instances import PlanClass

SLOT = {"workload": "w1", "batch": 4, "rate_rps": 50.0}


def gpulet(units, *batches):
    return {"share_units": units, "duty_cycle_ms": None, "slots": [SLOT | {"batch": batch} for batch in batches]}


def plan(*gpus):
    return {"version": 1, "instance": "mix", "gpus": [{"type": "v100", "gpulets": list(gpulets)} for gpulets in gpus]}


def parts(*rates_rps):
    return plan(*[[gpulet(10, 4) | {"slots": [SLOT | {"rate_rps": rate}]}] for rate in rates_rps])


def test_reach_is_the_most_of_everything():
    apart = gpulet(10, 8) | {"slots": [SLOT | {"workload": "w2", "batch": 8}]}
    found = Reach.of(plan([gpulet(10, 4), gpulet(4, 1, 2, 3)], [apart]))
    assert found == Reach(
        frozenset({4, 10}),
        slots_per_gpulet=3,
        max_batch=8,
        gpulets_per_gpu=2,
        split_workloads=frozenset({"w1"}),
        part_steps=4,
        parts_apart=False,
    )


def test_a_plan_without_gpus_uses_nothing():
    assert Reach.of(plan()) == Reach(frozenset(), 0, 0, 0, frozenset(), 1, True)


def test_json_form_round_trips():
    found = Reach.of(parts(50.0, 50.0))
    assert Reach.from_json(found.to_json()) == found


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
def test_a_bound_for_some_parts_holds_for_plans_of_these_parts(make_row, scope, rates_rps, covered):
    found = parts(*rates_rps)
    row = make_row(plan_class=PlanClass.SPLIT if len(rates_rps) > 1 else PlanClass.SPATIAL)
    assert covers(scope, row, Reach.of(found)) == covered
