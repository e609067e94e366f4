"""``cpsat``: the papers' answers, agreement with brute force, limits, start plans, seeds and threads."""

import subprocess
import sys
import time
from dataclasses import replace
from random import Random

import pytest

from bench.api import Bound, Status
from formulations.cpsat import CpSat
from instances import SCALE_STEP, GpuPool, GpuType, Objective, Plan, Workload
from instances.suites import suite
from tests.formulations import exhaustive
from tests.formulations.cpsat.tiny import (
    COARSE,
    V100,
    Reports,
    check_reports,
    draw,
    instance_of,
    round_coarsely,
    solve,
    value,
    without_shortcuts,
)
from tests.instances.reference import TOY
from tests.soak import first

# --- Answers known from the papers ---


def test_three_workloads_of_igniters_table_1_need_one_gpu() -> None:
    (instance,) = suite("igniter-3").build()

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == 3.06
    assert outcome.bound == Bound(3.06, certified=True)


@pytest.mark.soak
def test_igniters_twelve_workloads_need_six_gpus() -> None:
    (instance,) = suite("igniter-12").build()
    reports = Reports()

    outcome = solve(instance, reports)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == 18.36
    assert outcome.bound == Bound(18.36, certified=True)
    assert reports.bounds[0].value == pytest.approx(5 * 3.06)  # the bound by volume; only a search proves the sixth
    assert outcome.statistics["conflicts"] > 0


# --- Agreement with brute force ---


@pytest.mark.parametrize("shortcuts", [True, False])
def test_the_least_cost_is_that_of_brute_force(
    shortcuts: bool, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    if not shortcuts:
        without_shortcuts(monkeypatch)
    for seed in range(30):
        with subtests.test(seed=seed):
            check_least_cost(seed)


def check_least_cost(seed: int) -> None:
    instance, reports = draw(seed, Objective.COST), Reports()
    optimum = exhaustive.least_cost(instance)

    outcome = solve(instance, reports)

    if optimum is None:
        assert outcome.status is Status.INFEASIBLE
        assert outcome.reason
    else:
        assert outcome.status is Status.OPTIMAL
        assert value(outcome.plan, instance) == pytest.approx(optimum, abs=1e-9)
        assert outcome.bound == Bound(value(outcome.plan, instance), certified=True)
        check_reports(reports, instance, optimum)


@pytest.mark.parametrize("seed", first(7, range(20)))
def test_the_most_goodput_is_that_of_brute_force(seed: int) -> None:
    instance, reports = draw(seed, Objective.GOODPUT), Reports()
    optimum = exhaustive.most_goodput(instance)

    outcome = solve(instance, reports)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == pytest.approx(optimum, rel=1e-9)
    assert outcome.bound == Bound(value(outcome.plan, instance), certified=True)
    check_reports(reports, instance, optimum)


@pytest.mark.parametrize("seed", first(2, range(40, 52)))
def test_patterns_that_fit_in_integers_only_are_forbidden(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    without_shortcuts(monkeypatch)
    round_coarsely(monkeypatch)
    instance, reports = draw(seed, Objective.COST), Reports()
    optimum = exhaustive.least_cost(instance)

    outcome = solve(instance, reports)

    assert outcome.status is (Status.INFEASIBLE if optimum is None else Status.OPTIMAL)
    if optimum is not None:
        assert value(outcome.plan, instance) == pytest.approx(optimum, abs=1e-9)
        check_reports(reports, instance, optimum)


@pytest.mark.parametrize("seed", range(20, 24))
def test_lower_rates_are_tried_where_higher_ones_fit_in_integers_only(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_coarsely(monkeypatch)
    instance = draw(seed, Objective.GOODPUT)

    assert value(solve(instance).plan, instance) == pytest.approx(exhaustive.most_goodput(instance), rel=1e-9)


def test_coarse_rounding_does_cause_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    without_shortcuts(monkeypatch)
    round_coarsely(monkeypatch)

    restarts = [solve(draw(seed, Objective.COST)).statistics.get("restarts", 0.0) for seed in range(40, 52)]

    assert sum(restarts) > 0


@pytest.mark.parametrize(("rate_rps", "gpus"), [(500.0, 3), (300.0, 2), (120.0, 1)])
def test_symmetry_breaking_among_identical_workloads_loses_no_optimum(
    rate_rps: float, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the five workloads two, three or five fit on a GPU, depending on the rate."""
    without_shortcuts(monkeypatch)
    identical = tuple(Workload(f"w{i}", "resnet50", 40.0, rate_rps) for i in range(5))
    instance = instance_of(identical, GpuPool(V100))

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == pytest.approx(3.06 * gpus)


# --- Workloads that cannot be served ---


def test_an_oversized_workload_is_named() -> None:
    workloads = (Workload("fine", "alexnet", 20.0, 100.0), Workload("huge", "vgg19", 30.0, 5000.0))

    outcome = solve(instance_of(workloads, GpuPool(V100)))

    assert outcome.status is Status.INFEASIBLE
    assert outcome.plan is None
    assert (
        outcome.reason
        == "huge: no GPU of the pool alone serves 5000 req/s of vgg19 within 30 ms, and plans here split no workload"
    )


def test_goodput_serves_an_oversized_workload_in_part_and_leaves_out_one_that_no_gpu_serves() -> None:
    workloads = (Workload("huge", "vgg19", 30.0, 5000.0), Workload("hopeless", "vgg19", 1.0, 100.0))
    instance = instance_of(workloads, GpuPool(V100, 1), objective=Objective.GOODPUT)

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert [slot.workload for _, _, slot in outcome.plan.slots()] == ["huge"]
    assert 0 < value(outcome.plan, instance) < 5000


@pytest.mark.parametrize("count", [0, 1])
def test_a_pool_that_is_too_small_is_infeasible(count: int) -> None:
    workloads = tuple(Workload(f"w{i}", "vgg19", 30.0, 400.0) for i in range(2))

    outcome = solve(instance_of(workloads, GpuPool(V100, count)))

    assert outcome.status is Status.INFEASIBLE
    assert outcome.reason


def test_without_gpus_the_goodput_is_zero() -> None:
    workloads = (Workload("w", "alexnet", 20.0, 100.0),)
    instance = instance_of(workloads, GpuPool(V100, 0), objective=Objective.GOODPUT)

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == 0.0


@pytest.mark.parametrize("objective", sorted(CpSat.objectives))
def test_an_instance_without_workloads_is_optimal(objective: Objective) -> None:
    instance = instance_of((), GpuPool(V100, 1), objective=objective)

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == 0.0


def test_a_gpu_type_on_which_neighbours_help_is_not_solved() -> None:
    small = replace(TOY.models["small"], alpha_cache=-0.1)  # L2 demand of neighbours shortens the active time
    helpful = replace(TOY, name="helpful", models={"small": small})

    outcome = solve(instance_of((Workload("w", "small", 50.0, 10.0),), GpuPool(helpful)))

    assert outcome.status is Status.UNKNOWN
    assert outcome.reason.startswith("helpful: least shares")


# --- Limits, start plans, seeds and threads ---


@pytest.mark.parametrize("objective", sorted(CpSat.objectives))
@pytest.mark.parametrize("seconds", first(1, [0.0, 0.05]))
def test_the_bound_holds_if_the_search_is_stopped_early(objective: Objective, seconds: float) -> None:
    for seed in range(60, 64):
        instance, reports = draw(seed, objective), Reports()
        optimum = {
            Objective.COST: exhaustive.least_cost,
            Objective.CAPACITY: exhaustive.most_capacity,
            Objective.GOODPUT: exhaustive.most_goodput,
            Objective.SCALE: lambda instance: exhaustive.largest_scale(instance, SCALE_STEP),
        }[objective](instance)
        assert optimum is not None

        outcome = solve(instance, reports, deadline=time.monotonic() + seconds)

        assert outcome.status in (Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN)
        assert outcome.bound is not None
        check_reports(reports, instance, optimum)
        if outcome.plan is not None:
            value(outcome.plan, instance)  # checks that the plan is feasible


def test_a_start_plan_is_the_first_incumbent() -> None:
    (instance,) = suite("igniter-12").build()
    best = solve(instance).plan
    reports = Reports()

    outcome = solve(instance, reports, start=best, deadline=time.monotonic())

    assert best is not None
    assert [value(plan, instance) for plan in reports.plans] == [18.36]
    assert outcome.plan is not None
    assert _workloads_by_gpu(outcome.plan) == _workloads_by_gpu(best)


def _workloads_by_gpu(plan: Plan) -> list[set[str]]:
    return [{slot.workload for gpulet in gpu.gpulets for slot in gpulet.slots} for gpu in plan.gpus]


@pytest.mark.parametrize("objective", sorted(CpSat.objectives))
def test_an_infeasible_start_plan_does_not_change_the_result(objective: Objective) -> None:
    """One GPU of the start plan has all workloads, and the other is of a type that the pool does not have."""
    instance = draw(71, objective)
    without_start = solve(instance)
    assert without_start.plan is not None
    gpulets = tuple(gpulet for gpu in without_start.plan.gpus for gpulet in gpu.gpulets)
    first = without_start.plan.gpus[0]
    infeasible = replace(without_start.plan, gpus=(replace(first, gpulets=gpulets), replace(first, type="other")))

    outcome = solve(instance, start=infeasible)

    assert outcome.status is without_start.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == value(without_start.plan, instance)


def test_a_start_plan_below_the_lowest_rates_does_not_change_the_result() -> None:
    instance = draw(72, Objective.GOODPUT)
    best = solve(instance).plan
    assert best is not None
    tiny_rates = tuple(
        replace(gpu, gpulets=tuple(replace(g, slots=(replace(g.slots[0], rate_rps=1e-3),)) for g in gpu.gpulets))
        for gpu in best.gpus
    )

    outcome = solve(instance, start=replace(best, gpus=tiny_rates))

    assert value(outcome.plan, instance) == value(best, instance)


def test_a_start_plan_is_kept_without_time_under_goodput_and_scale() -> None:
    for objective in (Objective.GOODPUT, Objective.SCALE):
        instance = draw(72, objective)
        best = solve(instance).plan
        reports = Reports()

        solve(instance, reports, start=best, deadline=time.monotonic())

        assert max(value(plan, instance) for plan in reports.plans) == value(best, instance)


@pytest.mark.parametrize("objective", sorted(CpSat.objectives))
def test_the_same_seed_gives_the_same_outcome(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    without_shortcuts(monkeypatch)
    instance = draw(73, objective)

    once, again = solve(instance, seed=7), solve(instance, seed=7)

    assert once == again
    assert once.plan is not None


def test_two_threads_agree_with_one() -> None:
    (instance,) = suite("igniter-12").build()

    assert value(solve(instance, threads=2).plan, instance) == 18.36


def test_importing_the_scheduler_does_not_load_the_solver() -> None:
    program = "import formulations.cpsat, sys; sys.exit('ortools' in sys.modules)"

    subprocess.run([sys.executable, "-c", program], check=True)


def priced_types(first: float, second: float) -> tuple[GpuType, GpuType]:
    """Return two GPU types that differ only in their prices."""
    return replace(COARSE, price_per_hour=first), replace(COARSE, name="second", price_per_hour=second)


def test_prices_too_fine_for_integers_keep_the_bound_below() -> None:
    workloads = exhaustive.draw_workloads(Random(5), COARSE, 4, (0.2, 0.6))
    first, second = priced_types(1 / 3, 0.1 + 1 / 7)
    instance = instance_of(workloads, GpuPool(first, 2), GpuPool(second, 1))
    optimum = exhaustive.least_cost(instance)
    assert optimum is not None

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.bound.value <= value(outcome.plan, instance)
    assert outcome.bound.value == pytest.approx(optimum, rel=1e-9)
