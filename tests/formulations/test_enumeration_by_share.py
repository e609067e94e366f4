"""Enumeration of every content of a GPU where budgets depend on the share: answers known otherwise."""

from dataclasses import replace

import pytest

from bench.judging.judge import judge
from instances import PART_STEPS, GpuPool, Objective, PlanClass, Workload
from tests.formulations.by_share import CHEAP, FEW, GAPS, contents, draw, least_cost, one, oversized, plan_of, value


def test_a_workload_that_needs_little_more_than_a_whole_gpu_is_split() -> None:
    instance = one("vgg19", 500.0)
    alone = max(cover[0] for _, cover in contents(replace(instance, objective=Objective.GOODPUT), FEW))
    assert PART_STEPS / 2 < alone < PART_STEPS

    plan = least_cost(instance, {0})

    assert oversized(instance) == {0}
    assert value(plan, instance) == 2 * FEW.price_per_hour
    assert plan.plan_class is PlanClass.SPLIT
    assert sorted(round(PART_STEPS * slot.rate_rps / 500.0) for _, _, slot in plan.slots()) == [
        PART_STEPS - alone,
        alone,
    ]


def test_three_workloads_above_half_a_gpu_share_two_gpus_if_they_are_split() -> None:
    workloads = tuple(Workload(f"w{i}", "resnet50", 40.0, 600.0) for i in range(3))
    instance = replace(one("resnet50", 1.0), workloads=workloads, gpus=(GpuPool(FEW, 3),))

    whole, split = least_cost(instance), least_cost(instance, range(3), twice=True)

    assert value(whole, instance) == 3 * FEW.price_per_hour
    assert value(split, instance) == 2 * FEW.price_per_hour
    served = {w.id: sum(s.rate_rps for _, _, s in split.slots() if s.workload == w.id) for w in workloads}
    assert served == pytest.approx({w.id: 600.0 for w in workloads})


@pytest.mark.parametrize("twice", [False, True])
def test_slots_serve_what_the_judge_permits_and_no_twentieth_more(twice: bool) -> None:
    """One GPU is the whole pool, and about forty of its contents are tested under goodput."""
    instance = replace(draw(1, Objective.GOODPUT, 2), gpus=(GpuPool(CHEAP, 1),))
    split = range(2)
    all_contents = list(contents(instance, CHEAP, split, twice))

    has_workload_twice = [len({w for (w, _, _), _ in content}) < len(content) for content, _ in all_contents]
    assert any(has_workload_twice) == twice
    for content, cover in all_contents[:: len(all_contents) // 40]:
        if max(cover) < PART_STEPS:
            assert judge(plan_of(instance, [(0, content)], split), instance).violations == ()
            for number, (slot, part) in enumerate(content):
                too_much = (*content[:number], (slot, part + 1), *content[number + 1 :])
                violations = judge(plan_of(instance, [(0, too_much)], split), instance).violations
                assert [violation.kind for violation in violations] == ["latency"]


def test_only_permitted_shares_are_tried() -> None:
    instance = replace(one("alexnet", 50.0), gpus=(GpuPool(GAPS),))

    shares = {units for content, _ in contents(instance, GAPS) for (_, _, units), _ in content}

    assert shares
    assert shares <= set(GAPS.allowed_shares or ())


@pytest.mark.parametrize("seed", range(3))
def test_a_wider_class_is_never_worse(seed: int) -> None:
    instance = replace(draw(seed, Objective.COST, 3), gpus=(GpuPool(FEW),))
    large, all_workloads = oversized(instance), range(len(instance.workloads))

    costs = [
        value(least_cost(instance, split, twice), instance)
        for split, twice in ((large, False), (large, True), (all_workloads, False), (all_workloads, True))
    ]

    assert costs[0] >= costs[1] >= costs[3]
    assert costs[0] >= costs[2] >= costs[3]
