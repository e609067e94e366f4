"""Piecewise linear model: its functions and their errors, and the plans and bounds of ``pwl``."""

import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bench.api import Outcome, Run, Status, refusal
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.compact.build import build
from formulations.compact.highs import solve
from formulations.compact.options import Option, options_of, problem_of
from formulations.compact.piecewise import (
    envelope_error,
    grid_error,
    inside,
    interpolated,
    linearise,
    triangulate,
    varying_axes,
)
from formulations.compact.repair import repair
from formulations.problem import Problem
from formulations.pwl import Pwl
from instances import GpuPool, Instance, Objective, Plan, SloRule
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.one_gpu import Pattern, Resident
from instances.suites import suite
from tests.formulations.compact_values import assign
from tests.formulations.exhaustive import least_cost
from tests.soak import first

COARSE = replace(gpu_type("v100"), share_units=8)
SMALL = replace(COARSE, name="small", share_units=5, price_per_hour=1.7)
RULES = [SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE]
OBJECTIVES = [Objective.COST, Objective.GOODPUT]


def tiny(objective: Objective, seed: int, *pools: GpuPool) -> Instance:
    """Return a small instance; without ``pools`` on ``COARSE`` GPUs, two of them under ``goodput``."""
    if objective is Objective.COST:
        drawn = generate("igniter-mix", 4, seed, objective)
        return replace(drawn, gpus=pools or (GpuPool(COARSE),), slo_rule=RULES[seed % 3])
    drawn = generate("overload-mix", 3, seed, objective)
    return replace(drawn, gpus=pools or (GpuPool(COARSE, 2),), slo_rule=RULES[seed % 3])


def optimum(instance: Instance) -> float:
    """Return the best value: by brute force, or under ``goodput``, where that takes minutes, by ``colgen``."""
    if instance.objective is Objective.COST:
        best = least_cost(instance)
        assert best is not None
        return best
    outcome = ColGen().schedule(instance, Run())
    assert outcome.status is Status.OPTIMAL
    return accepted(outcome, instance)


def accepted(outcome: Outcome, instance: Instance) -> float:
    """Return the value of the outcome's plan, which the judge must accept."""
    assert outcome.plan is not None, outcome.reason
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible, verdict.violations
    assert verdict.value is not None
    return verdict.value


# --- The functions ---


def options() -> list[Option]:
    """Return the options of six workloads on V100s."""
    instance = generate("igniter-mix", 6, 1)
    return options_of(problem_of(instance, narrow=False).offers)


@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
def test_every_configuration_is_in_a_simplex_and_no_certified_plane_is_above_the_function(pieces: int) -> None:
    for option in options():
        points = np.stack([option.configurations.batch, option.configurations.units], axis=1)
        k1, k2, k3, k4, k5 = option.dnn.k

        def k_act(b: float, r: float, k: tuple[float, ...] = (k1, k2, k3, k4, k5)) -> float:
            return (k[0] * b * b + k[1] * b + k[2]) / (2.5 * r + k[3]) + k[4]

        covered = np.zeros(len(points), dtype=bool)
        for simplex, coefficients in interpolated(k_act, points, pieces, certified=True):
            is_inside = inside(simplex, points)
            plane = coefficients[0] + points[is_inside][:, varying_axes(simplex)] @ coefficients[1:]
            error = option.active_ms[is_inside] - plane
            assert error.min() >= 0.0
            assert error.min() <= 1e-5  # the plane is as high as it may be
            covered |= is_inside
        assert covered.all()


def test_interpolation_equals_the_function_at_the_corners_and_is_above_it_between_them() -> None:
    option = options()[0]
    points = np.stack([option.configurations.batch, option.configurations.units], axis=1)

    planes = interpolated(lambda b, r: b / r, points, 2, certified=False)

    for simplex, (constant, *slopes) in planes:
        for b, r in simplex:
            assert constant + np.dot(slopes, (b, r)) == pytest.approx(b / r)
    # 1 / r is convex: a chord overestimates it, so interpolation is no bound.
    above = [
        constant + np.dot(slopes, point) > point[0] / point[1] * (1.0 + 1e-6)
        for simplex, (constant, *slopes) in planes
        for point in points[inside(simplex, points)]
    ]
    assert any(above)


@pytest.mark.parametrize(
    ("points", "corners"),
    [([[3, 5]], {1}), ([[3, 5], [3, 6], [3, 9]], {2}), ([[2, 4], [7, 4]], {2}), ([[1, 1], [2, 2]], {3})],
)
def test_a_range_of_one_value_makes_points_and_segments(points: list[list[int]], corners: set[int]) -> None:
    assert {len(simplex) for simplex in triangulate(np.array(points), 2)} == corners


# --- Errors ---


def test_the_error_of_a_chord_is_its_largest_and_mean_over_the_grid() -> None:
    points = np.array([[1, 7], [4, 7]])
    planes = interpolated(lambda x, _: x * x, points, 1, certified=False)

    error = grid_error(lambda x, _: x * x, points, planes)

    # The chord from (1, 1) to (4, 16) is 5 x - 4: 6 for 4, 11 for 9.
    assert error.largest == pytest.approx(6 / 4 - 1)
    assert error.mean == pytest.approx((0 + 6 / 4 - 1 + 11 / 9 - 1 + 0) / 4)
    assert error.points == 4


def test_errors_fall_with_the_number_of_pieces_and_are_larger_for_certified_functions() -> None:
    option = options()[0]
    points = np.stack([option.configurations.batch, option.configurations.units], axis=1)
    k1, k2, k3, k4, k5 = option.dnn.k

    def k_act(b: float, r: float) -> float:
        return (k1 * b * b + k2 * b + k3) / (2.5 * r + k4) + k5

    plain = [grid_error(k_act, points, interpolated(k_act, points, pieces, False)) for pieces in (1, 2, 4, 8)]
    certified = grid_error(k_act, points, interpolated(k_act, points, 2, True))

    assert [error.largest for error in plain] == sorted((error.largest for error in plain), reverse=True)
    assert [error.mean for error in plain] == sorted((error.mean for error in plain), reverse=True)
    assert certified.largest > plain[1].largest
    assert 0.0 < plain[3].mean < plain[3].largest < 0.5


def test_the_error_of_an_envelope_is_that_on_a_fine_grid() -> None:
    x, y = np.meshgrid(np.linspace(2.0, 5.0, 301), np.linspace(1.0, 4.0, 301))
    below = np.maximum(2.0 * y + 1.0 * x - 2.0, 5.0 * y + 4.0 * x - 20.0)
    gap = (x * y - below) / 20.0

    error = envelope_error((2.0, 5.0), (1.0, 4.0))

    assert error.largest == pytest.approx(gap.max(), rel=1e-6)
    assert error.mean == pytest.approx(gap.mean(), rel=1e-2)
    assert envelope_error((2.0, 5.0), (0.0, 0.0)).largest == 0.0


def test_the_statistics_of_a_run_have_the_errors_of_its_model() -> None:
    outcome = Pwl(pieces=2).schedule(tiny(Objective.GOODPUT, 1), Run())

    for name in ("k_act", "ability", "cache_ms", "lost_ms"):
        assert 0.0 <= outcome.statistics[f"pwl_error_mean_{name}"] <= outcome.statistics[f"pwl_error_max_{name}"]
    assert outcome.statistics["pwl_error_max_k_act"] > 0.0


def test_capacity_is_left_out_with_the_reason() -> None:
    instance = replace(tiny(Objective.GOODPUT, 0), objective=Objective.CAPACITY)

    reason = refusal(Pwl(), instance)

    assert reason is not None
    assert reason.startswith("does not solve capacity (its objective would be an interpolated throughput")
    assert reason.endswith("; it solves cost, goodput")


# --- The certified model is a relaxation ---


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_certified_model_cuts_off_no_plan(objective: Objective) -> None:
    random = Random(objective)
    tried = 0
    for seed in range(30):
        instance = tiny(objective, seed)
        problem = problem_of(instance, narrow=False)
        patterns = random_patterns(random, problem)
        if patterns is None:
            continue
        model = build(problem, [3])
        linearise(model, 2, certified=True)
        assign(model, problem.plan(patterns))
        m = model.pyomo
        for variable in (m.v, m.r, m.b, *([m.at_step] if objective is Objective.GOODPUT else [])):
            variable.fix()

        assert solve(m, Run()).solved
        tried += 1
    assert tried >= 5


def random_patterns(random: Random, problem: Problem) -> list[Pattern] | None:
    """Place every workload on one of three GPUs in one of its configurations; return ``None`` if they do not fit."""
    residents_of_gpu: dict[int, list[Resident]] = {}
    for w, choices in enumerate(problem.offers[0].configurations):
        row = random.randrange(choices.size)
        resident = Resident(w, int(choices.batch[row]), float(choices.rate_rps[row]))
        residents_of_gpu.setdefault(random.randrange(3), []).append(resident)
    patterns = [Pattern.of(0, tuple(residents)) for residents in residents_of_gpu.values()]
    return patterns if all(problem.fit(pattern) is not None for pattern in patterns) else None


# --- The scheduler ---


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", first(2, range(4)))
def test_plans_are_feasible_and_only_the_certified_model_has_certified_bounds(objective: Objective, seed: int) -> None:
    instance = tiny(objective, seed)
    best = optimum(instance)

    plain = Pwl(pieces=2).schedule(instance, Run())
    certified = Pwl(pieces=2, certified=True).schedule(instance, Run())

    for outcome in (plain, certified):
        _check_not_better(accepted(outcome, instance), best, objective)
    if "nodes" in plain.statistics:  # a model was needed
        assert plain.status is Status.FEASIBLE
        assert plain.bound is None or not plain.bound.certified
    assert certified.bound is not None
    assert certified.bound.certified
    _check_not_better(best, certified.bound.value, objective)
    if certified.status is Status.OPTIMAL:
        assert accepted(certified, instance) == pytest.approx(best, rel=1e-5)


def _check_not_better(value: float, limit: float, objective: Objective) -> None:
    """Check that a value is no better than ``limit``, apart from rounding."""
    if objective.minimised:
        assert value >= limit * (1.0 - 1e-9)
    else:
        assert value <= limit * (1.0 + 1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_plans_and_bounds_are_valid_on_two_gpu_types(seed: int) -> None:
    instance = tiny(Objective.COST, seed, GpuPool(COARSE, 2), GpuPool(SMALL))
    best = optimum(instance)

    outcome = Pwl(pieces=2, certified=True).schedule(instance, Run())

    assert accepted(outcome, instance) >= best * (1.0 - 1e-9)
    assert outcome.bound is not None
    assert outcome.bound.value <= best * (1.0 + 1e-9)


def test_three_workloads_of_table_1_share_one_gpu() -> None:
    (instance,) = suite("igniter-3").build()

    outcome = Pwl().schedule(instance, Run())

    assert accepted(outcome, instance) == 3.06
    assert outcome.status is Status.OPTIMAL


def test_the_model_finds_that_plan_without_first_fit() -> None:
    (instance,) = suite("igniter-3").build()
    problem = problem_of(instance)
    model = build(problem, [2])
    linearise(model, 3, certified=False)

    answer = solve(model.pyomo, Run())

    patterns = model.patterns(lambda variable: float(variable.value))
    assert answer.bound == pytest.approx(3.06)
    assert [len(pattern.residents) for pattern in patterns] == [3]
    assert problem.fit(patterns[0]) is not None


def test_an_optimal_start_plan_is_kept() -> None:
    instance = tiny(Objective.GOODPUT, 0)
    best = ColGen().schedule(instance, Run()).plan

    outcome = Pwl(pieces=1, certified=True).schedule(instance, Run(start=best))

    assert accepted(outcome, instance) == pytest.approx(optimum(instance))


def test_every_better_plan_and_the_bound_are_reported() -> None:
    instance = tiny(Objective.GOODPUT, 1)
    values, bounds = [], []

    def listen(plan: object, bound: object) -> None:
        if isinstance(plan, Plan):
            values.append(judge(plan, instance).value or 0.0)
        bounds.append(bound)

    outcome = Pwl(pieces=2, certified=True).schedule(instance, Run(listener=listen))

    assert values == sorted(set(values))
    assert outcome.plan is not None
    assert values[-1] == judge(outcome.plan, instance).value
    assert outcome.bound in bounds


def test_without_time_for_the_model_the_plan_is_that_of_first_fit_and_a_reason_is_given() -> None:
    instance = generate("igniter-mix", 60, 0)

    outcome = Pwl().schedule(instance, Run(deadline=time.monotonic() + 1.0))

    assert accepted(outcome, instance) > 0.0
    assert (outcome.status, outcome.bound) == (Status.FEASIBLE, None)
    assert "no time for the model" in outcome.reason


@pytest.mark.parametrize(("certified", "status"), [(True, Status.INFEASIBLE), (False, Status.UNKNOWN)])
def test_only_the_certified_model_proves_that_a_pool_is_too_small(certified: bool, status: Status) -> None:
    instance = replace(generate("heavy-mix", 5, 0), gpus=(GpuPool(COARSE, 1),))

    outcome = Pwl(pieces=2, certified=certified).schedule(instance, Run())

    assert (outcome.status, outcome.plan) == (status, None)
    assert outcome.reason


def test_the_number_of_pieces_is_checked() -> None:
    with pytest.raises(ValueError, match="pieces is 0; expected at least 1"):
        Pwl(pieces=0)


# --- Repair ---


def test_a_pattern_that_does_not_fit_is_repaired() -> None:
    instance = generate("igniter-mix", 6, 2)
    problem = problem_of(instance)
    all_workloads = Pattern.of(0, tuple(Resident(w, 1, instance.workloads[w].rate_rps) for w in range(6)))
    assert problem.fit(all_workloads) is None

    repaired = repair(problem, [all_workloads])

    assert repaired is not None
    assert all(problem.fit(pattern) is not None for pattern in repaired)
    assert sorted(r.workload for pattern in repaired for r in pattern.residents) == list(range(6))


def test_in_a_pool_that_is_too_small_nothing_is_repaired() -> None:
    instance = replace(generate("heavy-mix", 6, 0), gpus=(GpuPool(COARSE, 1),))

    assert repair(problem_of(instance), []) is None


def test_under_goodput_the_repair_lowers_rates_or_leaves_out_workloads() -> None:
    instance = tiny(Objective.GOODPUT, 3, GpuPool(COARSE, 1))

    repaired = repair(problem_of(instance), [])

    assert repaired is not None
    served = sum(r.rate_rps for pattern in repaired for r in pattern.residents)
    assert 0.0 < served < sum(workload.rate_rps for workload in instance.workloads)
