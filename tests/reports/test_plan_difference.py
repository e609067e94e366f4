"""Difference between two plans, in sentences."""

from instances import Plan, spatial_gpu
from instances.suites import suite
from reports.plan_difference import plan_difference

(THREE,) = suite("igniter-3").build()


def plan(*gpus):
    return Plan(THREE.name, tuple(spatial_gpu("v100", [(name, units, 2, 1.0) for name, units in gpu]) for gpu in gpus))


def test_gpus_shares_and_places_are_told_by_size_of_the_difference():
    own, best = plan([("W1", 10), ("W2", 20)], [("W3", 30)]), plan([("W1", 10), ("W2", 12), ("W3", 16)])
    assert plan_difference(own, best, THREE, named_workloads=2) == [
        "GPUs: 2 v100 instead of 1 v100",
        "allocated: 150 % of a GPU instead of 95 %",
        "W3: 75 % at batch 2 alone instead of 40 % at batch 2 beside W1, W2",
        "W2: 50 % at batch 2 beside W1 instead of 30 % at batch 2 beside W1, W3",
        "and 1 more workloads differ",
    ]


def test_equal_plans_on_other_gpus_of_the_type_do_not_differ():
    one, other = plan([("W1", 10)], [("W2", 20)]), plan([("W2", 20)], [("W1", 10)])
    assert plan_difference(one, other, THREE) == ["the plans place every workload alike"]


def test_a_workload_that_is_not_placed_is_told():
    assert "W2: not placed instead of 50 % at batch 2 alone" in plan_difference(
        plan([("W1", 10)]), plan([("W1", 10)], [("W2", 20)]), THREE
    )
