"""Slack as the second objective: against brute force on tiny instances, and in runs whose second phase fails."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product
from random import Random

import pytest
from conftest import TaskFactory
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Outcome, Run, Status
from bench.fleet.answer import slack_line
from bench.fleet.solving import scheduler
from bench.judging.judge import judge
from bench.ledger.row import Row
from bench.repacking import repacked
from bench.runner.runner import run_tasks
from bench.slack import PRECISION, more_slack, slower
from bench.then import Then
from instances import (
    Gpulet,
    GpuPool,
    GpuType,
    InputError,
    Instance,
    Objective,
    PlacedGpu,
    Plan,
    SloRule,
    Slot,
    Workload,
    spatial_gpu,
)
from instances.generate import generate
from instances.view import prepared
from tests.instances.reference import TOY
from tests.soak import first

SMALL_TOY: GpuType = replace(
    TOY, share_units=5, models={name: replace(model, max_batch=3) for name, model in TOY.models.items()}
)
THREE_WORKLOADS_PARTITIONED = (((0, 1, 2),), ((0, 1), (2,)), ((0, 2), (1,)), ((1, 2), (0,)), ((0,), (1,), (2,)))


def tiny(seed: int, rule: SloRule = SloRule.HALF_SLO) -> Instance:
    """Three workloads, each of which fits on a GPU alone."""
    random = Random(seed)
    workloads = tuple(
        Workload(id_, "small", random.uniform(4.5, 12.0), random.uniform(50.0, 250.0))
        if random.random() < 0.5
        else Workload(id_, "large", random.uniform(14.0, 45.0), random.uniform(20.0, 80.0))
        for id_ in "abc"
    )
    return Instance("tiny", Objective.COST, rule, "igniter", (GpuPool(SMALL_TOY),), workloads)


def most_slack_on_one(instance: Instance, members: Sequence[int]) -> float:
    """Return the best minimum slack of these workloads on one GPU, over all shares and batches; -1 if none fits."""
    workloads = tuple(instance.workloads[member] for member in members)
    alone = replace(instance, workloads=workloads)
    best = -1.0
    shares = [units for units in product(range(1, 6), repeat=len(members)) if sum(units) <= SMALL_TOY.share_units]
    for units, batches in product(shares, product((1, 2, 3), repeat=len(members))):
        rows = [(w.id, share, batch, w.rate_rps) for w, share, batch in zip(workloads, units, batches, strict=True)]
        verdict = judge(Plan("tiny", (spatial_gpu("toy", rows),)), alone)
        if verdict.feasible and verdict.least_slack is not None:
            best = max(best, verdict.least_slack)
    return best


def best_of_all_plans(instance: Instance) -> tuple[int, float]:
    """Least number of GPUs of any spatial plan, and the most slack with that number."""
    subsets = [subset for size in (1, 2, 3) for subset in combinations(range(3), size)]
    of_subset = {subset: most_slack_on_one(instance, subset) for subset in subsets}
    by_gpus = [(len(parts), min(of_subset[part] for part in parts)) for parts in THREE_WORKLOADS_PARTITIONED]
    feasible = [(gpus, slack) for gpus, slack in by_gpus if slack >= 0.0]
    gpus = min(gpus for gpus, _ in feasible)
    return gpus, max(slack for number, slack in feasible if number == gpus)


def colgen(instance: Instance, deadline: float = float("inf")) -> Outcome:
    return scheduler("colgen").schedule(prepared(instance), Run(deadline))


@pytest.mark.parametrize("seeds", first(1, (range(3, 6), (*range(3), *range(6, 16)))), ids=str)
def test_no_optimal_plan_has_more_slack(seeds: Sequence[int], subtests: pytest.Subtests) -> None:
    raised, gpu_counts = 0, set()
    for rule, seed in product((SloRule.HALF_SLO, SloRule.ASSEMBLY), seeds):
        with subtests.test(rule=rule, seed=seed):
            problem = tiny(seed, rule)
            gpus, most_slack = best_of_all_plans(problem)
            first = colgen(problem)
            assert first.plan is not None
            before = judge(first.plan, problem)
            assert before.gpus_used == gpus
            assert before.least_slack is not None

            result = more_slack(problem, first.plan, colgen, time.monotonic() + 60.0, proves=True)

            assert result is not None
            assert result.bound is not None
            tolerance = PRECISION * (1.0 + most_slack)
            assert most_slack - tolerance <= result.least_slack <= most_slack + 1e-8
            assert most_slack <= result.bound <= most_slack + 2.0 * tolerance
            after = judge(result.plan, problem)
            assert (after.feasible, after.gpus_used) == (True, gpus)
            assert after.least_slack == result.least_slack
            raised += result.least_slack > before.least_slack + tolerance
            gpu_counts.add(gpus)
    assert raised >= len(seeds)
    assert len(gpu_counts) > 1


def test_repacking_alone_finds_other_optimal_plans(subtests: pytest.Subtests) -> None:
    raised = 0
    for seed in range(5):
        with subtests.test(seed=seed):
            problem = tiny(seed)
            gpus, most_slack = best_of_all_plans(problem)
            first = colgen(problem).plan
            assert first is not None
            before = judge(first, problem)
            assert before.least_slack is not None

            result = more_slack(problem, first, nothing_found, time.monotonic() + 60.0, proves=True)

            assert result is not None
            assert result.bound is None
            assert before.least_slack <= result.least_slack <= most_slack + 1e-8
            assert judge(result.plan, problem).gpus_used == gpus
            raised += result.least_slack >= most_slack - 0.02 * (1.0 + most_slack)
    assert raised >= 4


def nothing_found(instance: Instance, deadline: float) -> Outcome:
    return Outcome(Status.UNKNOWN)


def test_a_repacked_plan_costs_no_more_and_serves_every_slot() -> None:
    problem = generate("igniter-mix", 12, 5)
    first = scheduler("igniter").schedule(prepared(problem), Run()).plan
    assert first is not None
    before = judge(first, problem)
    again = repacked(first, problem, before.cost_per_hour, 100)
    assert again is not None
    after = judge(again, problem)
    assert (before.feasible, after.feasible) == (True, True)
    assert after.cost_per_hour <= before.cost_per_hour
    assert repacked(first, problem, 0.5 * before.cost_per_hour, 100) is None
    assert repacked(first, slower(problem, 1e6), before.cost_per_hour, 100) is None


def test_slots_that_take_turns_are_not_repacked() -> None:
    problem = generate("igniter-mix", 2, 5)
    slots = tuple(Slot(w.id, 1, w.rate_rps) for w in problem.workloads)
    turns = Plan("turns", (PlacedGpu("v100", (Gpulet(20, slots, 10.0),)),))
    assert repacked(turns, problem, 100.0, 100) is None


@pytest.mark.parametrize("by_work", [False, True])
def test_only_without_a_work_limit_a_solve_gets_a_part_of_the_time(by_work: bool) -> None:
    problem, deadlines = tiny(0), []
    first = colgen(problem).plan
    assert first is not None
    deadline = time.monotonic() + 60.0

    def solve(instance: Instance, until: float) -> Outcome:
        deadlines.append(until)
        return Outcome(Status.UNKNOWN)

    more_slack(problem, first, solve, deadline, proves=True, by_work=by_work)

    assert deadlines
    assert {until == deadline for until in deadlines} == {by_work}


@given(st.integers(1, 10), st.integers(0, 10**6), st.sampled_from(["igniter", "ffd++", "local-search"]))
@settings(max_examples=8)
def test_more_slack_never_changes_cost_or_feasibility(size: int, seed: int, name: str) -> None:
    problem = prepared(generate("igniter-mix", size, seed))

    def solve(slower: Instance, deadline: float) -> Outcome:
        return scheduler(name).schedule(prepared(slower), Run(deadline))

    first = solve(problem, float("inf")).plan
    assert first is not None
    before = judge(first, problem)

    result = more_slack(problem, first, solve, time.monotonic() + 0.2, proves=False)

    assert (result is None) == (not before.feasible)
    if result is not None:
        after = judge(result.plan, problem)
        assert after.feasible
        assert after.cost_per_hour == pytest.approx(before.cost_per_hour, rel=1e-9)
        assert after.least_slack == result.least_slack
        assert after.least_slack is not None
        assert before.least_slack is not None
        assert after.least_slack >= before.least_slack
        assert result.bound is None


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: Outcome(Status.UNKNOWN),
        lambda plan: Outcome(Status.FEASIBLE, Plan(plan.instance, (*plan.gpus, *plan.gpus))),
        lambda plan: Outcome(Status.FEASIBLE, Plan(plan.instance, plan.gpus[:1])),
    ],
    ids=["no plan", "a dearer plan", "a plan without some workloads"],
)
def test_answers_that_are_no_better_leave_the_first_plan(
    answer: Callable[[Plan], Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.slack.repacked", lambda *_: None)
    problem = tiny(0)
    first = Plan("tiny", tuple(spatial_gpu("toy", [(w.id, 5, 2, w.rate_rps)]) for w in problem.workloads))
    assert judge(first, problem).feasible

    result = more_slack(problem, first, lambda *_: answer(first), time.monotonic() + 10.0, proves=True)

    assert result is not None
    assert (result.plan, result.bound) == (first, None)


@pytest.mark.parametrize("how", ["ends", "raises", "exits", "hangs", "reports late"])
def test_a_failure_of_the_second_phase_leaves_the_first_answer(make_task: TaskFactory, how: str) -> None:
    plain, row = _rows_without_and_with_slack(make_task, how)
    assert (row.status, row.termination, row.reason) == (Status.OPTIMAL, "finished", "")
    for name in ("bound", "bound_certified", "value", "feasible", "statistics"):
        assert getattr(row, name) == getattr(plain, name)
    assert (plain.then, plain.then_s, plain.then_limit_s) == ("none", None, None)
    assert (row.then, row.then_limit_s) == ("slack", 0.5)
    assert row.then_s is not None
    assert row.then_s < 15.0
    assert row.least_slack is not None
    assert plain.least_slack is not None
    assert row.least_slack >= plain.least_slack
    assert row.key != plain.key


def _rows_without_and_with_slack(make_task: TaskFactory, how: str) -> list[Row]:
    tasks = [make_task("ThenFails", parameters={"how": how}, then=then, then_limit_s=0.5) for then in Then]
    return run_tasks(tasks, None, jobs=2, grace_s=0.3)


def test_only_the_objective_cost_may_have_a_second_one(
    make_task: TaskFactory, make_instance: Callable[..., Instance]
) -> None:
    pool = [{"type": "v100", "count": 1}]
    capacity = make_instance(objective="throughput", throughput_of="capacity", gpus=pool)
    with pytest.raises(InputError, match="then: is slack; expected none, since the objective is not cost"):
        make_task("Honest", capacity, then=Then.SLACK)


def test_the_answer_names_the_bound_of_the_slack_and_its_class(make_row: Callable[..., Row]) -> None:
    problem = tiny(0)
    plan = Plan("tiny", tuple(spatial_gpu("toy", [(w.id, 5, 2, w.rate_rps)]) for w in problem.workloads))
    verdict = judge(plan, problem)
    row = make_row(cost_per_hour=6.0, least_slack_bound=9.0, bound_scope={"plan_class": "spatial"})
    bound = "proven: no plan of this cost in the class spatial leaves more than 900.0 %"
    assert slack_line(verdict, row).endswith(bound)
    assert "proven" not in slack_line(verdict, replace(row, cost_per_hour=5.0))
    assert "proven" not in slack_line(verdict, replace(row, least_slack_bound=None))
