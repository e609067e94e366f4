"""Differences between two plans in words."""

from instances import Plan, spatial_gpu
from instances.suites import suite
from reports.plan_difference import plan_difference

(IGNITER_3,) = suite("igniter-3").build()


def plan(*gpus):
    return Plan(
        IGNITER_3.name, tuple(spatial_gpu("v100", [(name, units, 2, 1.0) for name, units in gpu]) for gpu in gpus)
    )


def test_the_largest_differences_are_listed_first():
    plan_, best = plan([("W1", 10), ("W2", 20)], [("W3", 30)]), plan([("W1", 10), ("W2", 12), ("W3", 16)])
    assert plan_difference(plan_, best, IGNITER_3, named_workloads=2) == [
        "GPUs: 2 v100 instead of 1 v100",
        "allocated: 150 % of a GPU instead of 95 %",
        "W3: 75 % at batch 2 alone instead of 40 % at batch 2 beside W1, W2",
        "W2: 50 % at batch 2 beside W1 instead of 30 % at batch 2 beside W1, W3",
        "and 1 more workloads differ",
    ]


def test_equal_plans_on_other_gpus_of_the_type_do_not_differ():
    one, other = plan([("W1", 10)], [("W2", 20)]), plan([("W2", 20)], [("W1", 10)])
    assert plan_difference(one, other, IGNITER_3) == ["the plans place every workload alike"]


def test_a_workload_without_a_slot_is_a_difference():
    assert "W2: not placed instead of 50 % at batch 2 alone" in plan_difference(
        plan([("W1", 10)]), plan([("W1", 10)], [("W2", 20)]), IGNITER_3
    )
