"""Dives: they fix many columns at once if time is short."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from bench.api import Run
from bench.judging.judge import judge
from formulations.colgen.integer_passes import (
    ALMOST_INTEGER,
    OpenWeights,
    dive,
    dive_at_random,
    without_common_classes,
)
from formulations.colgen.solution import ColumnGeneration, Solution
from formulations.colgen.spatial.problem import SpatialProblem
from instances import Objective
from instances.costs import next_cost
from instances.generate import generate


def generated(size: int, seed: int) -> ColumnGeneration:
    """Return a column generation that has solved the linear relaxation of a generated instance."""
    generation = ColumnGeneration(SpatialProblem(generate("igniter-mix", size, seed, Objective.COST)), Run())
    generation.solve(lambda: False)
    return generation


def test_columns_fixed_together_share_no_class() -> None:
    generation = generated(20, 0)
    part = generation.master.relax().weight % 1.0

    for most_columns in (1, 3, 100):
        chosen = without_common_classes(generation, part, most_columns)
        classes = [
            {int(generation.problem.class_of[slot.workload]) for slot in generation.master.patterns[column].residents}
            for column in chosen
        ]
        assert len(chosen) <= most_columns
        assert sum(map(len, classes)) == len(set().union(*classes))
        if chosen:
            assert part[chosen[0]] == part.max()
        else:
            assert part.max() < 1.0 - ALMOST_INTEGER
        assert list(part[chosen]) == sorted(part[chosen], reverse=True)


@pytest.mark.parametrize("seed", range(3))
def test_a_dive_with_little_time_ends_in_a_plan_after_few_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the clock of this test, each call of pricing takes one of the ten seconds."""
    generation = generated(20, seed)
    assert generation.run.deadline == float("inf")
    steps = []
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + len(steps) * 1.0)
    price_patterns = generation.problem.price_patterns
    monkeypatch.setattr(
        generation.problem, "price_patterns", lambda *arguments: steps.append(1) or price_patterns(*arguments)
    )
    generation.run = replace(generation.run, deadline=now + 10.0)

    counts = dive(OpenWeights(generation), generation.run)

    assert counts is not None
    assert len(steps) < 10
    counts = generation.own_slots(counts)  # so far, a slot of a workload may count for an easier workload
    covered = np.zeros(len(generation.problem.copies))
    for column, count in counts.items():
        for slot in generation.master.patterns[column].residents:
            covered[generation.problem.class_of[slot.workload]] += count
    assert np.all(covered >= generation.problem.copies)
    realised = generation.realise(counts)
    assert realised is not None
    assert judge(realised[1], generation.instance).feasible


def test_a_later_step_raises_the_number_of_fixed_gpus() -> None:
    """A pattern has weight 2 in the first step and 5 in the second, so two of its GPUs are fixed, and then five."""
    weights, fixed = iter([2.0, 5.0]), []
    master = SimpleNamespace(
        relax=lambda: SimpleNamespace(value=0.0, weight=np.array([next(weights)])),
        solved=lambda: True,
        fix=lambda column, count: fixed.append((column, count)),
    )
    problem = SimpleNamespace(diving_tolerance=None)
    undecided = OpenWeights(cast(ColumnGeneration, SimpleNamespace(master=master, problem=problem)))

    open_gpus = [undecided.relax(), undecided.relax()]

    assert open_gpus == [0.0, 0.0]
    assert fixed == [(0, 2.0), (0, 5.0)]


@pytest.mark.parametrize("seed", range(3))
def test_a_random_dive_ends_once_its_relaxation_costs_more_than_the_plan_may(seed: int) -> None:
    generation = generated(20, seed)
    assert generation.relaxation is not None
    least_cost, random = next_cost(generation.relaxation.value, generation.instance), np.random.default_rng(seed)

    for most_cost in (least_cost - 0.1, least_cost + 3.06, np.inf):
        undecided = OpenWeights(generation, random, most_cost)
        counts = dive(undecided, generation.run)
        undecided.release()

        assert counts is None or most_cost >= least_cost
        realised = None if counts is None else generation.realise(generation.own_slots(counts))
        assert realised is None or realised[0] <= most_cost
        assert counts is not None or np.isfinite(most_cost)


@pytest.mark.parametrize("seed", range(2))
def test_random_dives_keep_the_best_plan_and_the_limit_on_patterns(seed: int) -> None:
    generation = generated(20, seed)
    solution = Solution(generation, (), 0.5)
    solution.use_known_plans()
    before, limit = solution.value, generation.problem.patterns_per_call

    dive_at_random(solution)

    assert solution.plan is not None
    assert solution.value <= before
    assert judge(solution.plan, generation.instance).feasible
    assert generation.bound <= solution.value * (1.0 + 1e-9)
    assert generation.problem.patterns_per_call == limit
