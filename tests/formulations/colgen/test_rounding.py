"""Diving: many weights at once where time is short."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from bench.api import Run
from bench.judging.judge import judge
from formulations.colgen.integer_passes import ALMOST_INTEGER, OpenWeights, dive, without_common_classes
from formulations.colgen.solution import ColumnGeneration
from formulations.colgen.spatial.problem import SpatialProblem
from instances import Objective
from instances.generate import generate


def generated(size: int, seed: int) -> ColumnGeneration:
    """Patterns of an instance, with the linear relaxation solved."""
    generation = ColumnGeneration(SpatialProblem(generate("igniter-mix", size, seed, Objective.COST)), Run())
    generation.solve(lambda: False)
    return generation


def test_columns_fixed_together_share_no_class() -> None:
    generation = generated(20, 0)
    part = generation.master.relax().weight % 1.0

    for most in (1, 3, 100):
        chosen = without_common_classes(generation, part, most)
        classes = [
            {int(generation.problem.class_of[slot.workload]) for slot in generation.master.patterns[column].residents}
            for column in chosen
        ]
        assert len(chosen) <= most
        assert sum(map(len, classes)) == len(set().union(*classes))
        assert part[chosen[0]] == part.max() if chosen else part.max() < 1.0 - ALMOST_INTEGER
        assert list(part[chosen]) == sorted(part[chosen], reverse=True)


@pytest.mark.parametrize("seed", range(3))
def test_a_dive_in_no_time_still_ends_in_a_plan(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock by which each step takes a fifth of the time, there are at most a few steps."""
    generation = generated(20, seed)
    slow = generation.run.deadline
    assert slow == float("inf")
    steps = []
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + len(steps) * 1.0)
    priced = generation.problem.price_patterns
    monkeypatch.setattr(generation.problem, "price_patterns", lambda *terms: steps.append(1) or priced(*terms))
    generation.run = replace(generation.run, deadline=now + 10.0)

    counts = dive(OpenWeights(generation), generation.run)

    assert counts is not None
    assert len(steps) < 10
    counts = generation.own_slots(counts)  # a slot of a workload may stand for one of an easier workload
    covered = np.zeros(len(generation.problem.copies))
    for column, count in counts.items():
        for slot in generation.master.patterns[column].residents:
            covered[generation.problem.class_of[slot.workload]] += count
    assert np.all(covered >= generation.problem.copies)
    realised = generation.realise(counts)
    assert realised is not None
    assert judge(realised[1], generation.instance).feasible


def test_gpus_fixed_later_add_to_those_fixed_before() -> None:
    """A pattern has weight 2, then 5: at least two of its GPUs are fixed, then at least five."""
    weights, fixed = iter([2.0, 5.0]), []
    master = SimpleNamespace(
        relax=lambda: SimpleNamespace(weight=np.array([next(weights)])),
        solved=lambda: True,
        fix=lambda column, count: fixed.append((column, count)),
    )
    problem = SimpleNamespace(diving_tolerance=None)
    undecided = OpenWeights(cast(ColumnGeneration, SimpleNamespace(master=master, problem=problem)))

    open_gpus = [undecided.relax(), undecided.relax()]

    assert open_gpus == [0.0, 0.0]
    assert fixed == [(0, 2.0), (0, 5.0)]
