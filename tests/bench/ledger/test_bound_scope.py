"""Tests of the plan properties that decide which bounds apply."""

from bench.ledger.bound_scope import Reach

SLOT = {"workload": "w1", "batch": 4, "rate_rps": 50.0}


def gpulet(units, *batches):
    return {"share_units": units, "duty_cycle_ms": None, "slots": [SLOT | {"batch": batch} for batch in batches]}


def plan(*gpus):
    return {"version": 1, "instance": "mix", "gpus": [{"type": "v100", "gpulets": list(gpulets)} for gpulets in gpus]}


def test_reach_is_the_most_of_everything():
    found = Reach.of(plan([gpulet(10, 4), gpulet(4, 1, 2, 3)], [gpulet(10, 8)]))
    assert found == Reach(frozenset({4, 10}), slots_per_gpulet=3, max_batch=8, gpulets_per_gpu=2)


def test_a_plan_without_gpus_uses_nothing():
    assert Reach.of(plan()) == Reach(frozenset(), 0, 0, 0)


def test_json_form_round_trips():
    found = Reach.of(plan([gpulet(10, 4)]))
    assert Reach.from_json(found.to_json()) == found
