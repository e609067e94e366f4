"""``cpsat``: the papers' answers, agreement with trying everything, honest bounds, and manners of a scheduler."""

import subprocess
import sys
import time
from dataclasses import replace
from random import Random

import pytest

from bench.api import Bound, Status
from formulations.cpsat import CpSat
from instances import SCALE_STEP, GpuPool, GpuType, Objective, Workload
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

# --- Answers known from the papers ---


def test_three_workloads_of_igniters_table_1_need_one_gpu() -> None:
    (instance,) = suite("igniter-3").build()

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == 3.06
    assert outcome.bound == Bound(3.06, certified=True)


def test_igniters_twelve_workloads_need_six_gpus() -> None:
    (instance,) = suite("igniter-12").build()
    reports = Reports()

    outcome = solve(instance, reports)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == 18.36
    assert outcome.bound == Bound(18.36, certified=True)
    assert reports.bounds[0].value == pytest.approx(5 * 3.06)  # by volume; the sixth takes a search
    assert outcome.statistics["conflicts"] > 0


# --- Agreement with trying everything ---


@pytest.mark.parametrize("shortcuts", [True, False])
def test_the_least_cost(shortcuts: bool, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    if not shortcuts:
        without_shortcuts(monkeypatch)
    for seed in range(60):
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


@pytest.mark.parametrize("seed", range(20))
def test_the_most_goodput(seed: int) -> None:
    instance, reports = draw(seed, Objective.GOODPUT), Reports()
    optimum = exhaustive.most_goodput(instance)

    outcome = solve(instance, reports)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == pytest.approx(optimum, rel=1e-9)
    assert outcome.bound == Bound(value(outcome.plan, instance), certified=True)
    check_reports(reports, instance, optimum)


@pytest.mark.parametrize("seed", range(40, 52))
def test_groups_that_fit_in_integers_only_are_forbidden(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_workloads_that_are_alike_share_the_work(rate_rps: float, gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five alike, of which two, three or five fit on a GPU: the order among them loses no plan."""
    without_shortcuts(monkeypatch)
    alike = tuple(Workload(f"w{i}", "resnet50", 40.0, rate_rps) for i in range(5))
    instance = instance_of(alike, GpuPool(V100))

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == pytest.approx(3.06 * gpus)


# --- What cannot be solved, and what may be left out ---


def test_an_oversized_workload_is_named() -> None:
    workloads = (Workload("fine", "alexnet", 20.0, 100.0), Workload("huge", "vgg19", 30.0, 5000.0))

    outcome = solve(instance_of(workloads, GpuPool(V100)))

    assert outcome.status is Status.INFEASIBLE
    assert outcome.plan is None
    assert (
        outcome.reason
        == "huge: no GPU of the pool alone serves 5000 req/s of vgg19 within 30 ms, and plans here split no workload"
    )


def test_goodput_serves_an_oversized_workload_in_part_and_leaves_out_a_hopeless_one() -> None:
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


def test_goodput_without_gpus_is_nothing() -> None:
    workloads = (Workload("w", "alexnet", 20.0, 100.0),)
    instance = instance_of(workloads, GpuPool(V100, 0), objective=Objective.GOODPUT)

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == 0.0


@pytest.mark.parametrize("objective", sorted(CpSat.objectives))
def test_nothing_to_serve(objective: Objective) -> None:
    instance = instance_of((), GpuPool(V100, 1), objective=objective)

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == 0.0


def test_a_catalogue_that_breaks_the_premises_is_not_solved() -> None:
    small = replace(TOY.models["small"], alpha_cache=-0.1)
    helpful = replace(TOY, name="helpful", models={"small": small})

    outcome = solve(instance_of((Workload("w", "small", 50.0, 10.0),), GpuPool(helpful)))

    assert outcome.status is Status.UNKNOWN
    assert outcome.reason.startswith("helpful: least shares")


# --- Manners ---


@pytest.mark.parametrize("objective", sorted(CpSat.objectives))
@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_stopped_early_the_bound_still_holds(objective: Objective, seconds: float) -> None:
    for seed in range(60, 64):
        instance, reports = draw(seed, objective), Reports()
        optimum = {
            Objective.COST: exhaustive.least_cost,
            Objective.CAPACITY: exhaustive.most_capacity,
            Objective.GOODPUT: exhaustive.most_goodput,
            Objective.SCALE: lambda i: exhaustive.largest_scale(i, SCALE_STEP),
        }[objective](instance)
        assert optimum is not None

        outcome = solve(instance, reports, deadline=time.monotonic() + seconds)

        assert outcome.status in (Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN)
        assert outcome.bound is not None
        check_reports(reports, instance, optimum)
        if outcome.plan is not None:
            value(outcome.plan, instance)


def test_a_plan_to_start_from_is_the_first_incumbent() -> None:
    (instance,) = suite("igniter-12").build()
    best = solve(instance).plan
    reports = Reports()

    outcome = solve(instance, reports, start=best, deadline=time.monotonic())

    assert best is not None
    assert [value(plan, instance) for plan in reports.plans] == [18.36]
    groups = [{slot.workload for gpulet in gpu.gpulets for slot in gpulet.slots} for gpu in best.gpus]
    assert outcome.plan is not None
    assert [{s.workload for gpulet in gpu.gpulets for s in gpulet.slots} for gpu in outcome.plan.gpus] == groups


@pytest.mark.parametrize("objective", sorted(CpSat.objectives))
def test_a_start_that_does_not_fit_does_no_harm(objective: Objective) -> None:
    """Every workload of the plan is squeezed onto one GPU, one of a type that the pool does not have."""
    instance = draw(71, objective)
    honest = solve(instance)
    assert honest.plan is not None
    gpulets = tuple(gpulet for gpu in honest.plan.gpus for gpulet in gpu.gpulets)
    first = honest.plan.gpus[0]
    crammed = replace(honest.plan, gpus=(replace(first, gpulets=gpulets), replace(first, type="other")))

    outcome = solve(instance, start=crammed)

    assert outcome.status is honest.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == value(honest.plan, instance)


def test_a_start_below_the_lowest_rate_is_left_out() -> None:
    instance = draw(72, Objective.GOODPUT)
    best = solve(instance).plan
    assert best is not None
    trickle = tuple(
        replace(gpu, gpulets=tuple(replace(g, slots=(replace(g.slots[0], rate_rps=1e-3),)) for g in gpu.gpulets))
        for gpu in best.gpus
    )

    outcome = solve(instance, start=replace(best, gpus=trickle))

    assert value(outcome.plan, instance) == value(best, instance)


def test_a_good_start_helps_goodput_and_scale() -> None:
    for objective in (Objective.GOODPUT, Objective.SCALE):
        instance = draw(72, objective)
        best = solve(instance).plan
        reports = Reports()

        solve(instance, reports, start=best, deadline=time.monotonic())

        assert max(value(plan, instance) for plan in reports.plans) == value(best, instance)


@pytest.mark.parametrize("objective", sorted(CpSat.objectives))
def test_seeds_repeat(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
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


def prices(first: float, second: float) -> tuple[GpuType, GpuType]:
    return replace(COARSE, price_per_hour=first), replace(COARSE, name="second", price_per_hour=second)


def test_prices_too_fine_for_integers_keep_the_bound_below() -> None:
    workloads = exhaustive.draw_workloads(Random(5), COARSE, 4, (0.2, 0.6))
    first, second = prices(1 / 3, 0.1 + 1 / 7)
    instance = instance_of(workloads, GpuPool(first, 2), GpuPool(second, 1))
    optimum = exhaustive.least_cost(instance)
    assert optimum is not None

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.bound.value <= value(outcome.plan, instance)
    assert outcome.bound.value == pytest.approx(optimum, rel=1e-9)
