"""Diving: many weights at once where time is short."""

import time
from dataclasses import replace

import numpy as np
import pytest

from bench.api import Run
from formulations.colgen import solution
from formulations.colgen.solution import _apart, dive
from formulations.colgen.spatial.generation import CostGeneration
from instances import Objective
from instances.generate import generate


def generated(size: int, seed: int) -> CostGeneration:
    """Patterns of an instance, with the linear relaxation solved."""
    generation = CostGeneration(generate("igniter-mix", size, seed, Objective.COST), Run())
    generation.solve(lambda: False)
    return generation


def test_columns_fixed_together_share_no_class() -> None:
    generation = generated(20, 0)
    part = generation.master.relax().weight % 1.0

    for most in (1, 3, 100):
        chosen = _apart(generation, part, most)
        classes = [
            {int(generation.class_of[w]) for w, _, _ in generation.master.patterns[column].members} for column in chosen
        ]
        assert len(chosen) <= most
        assert sum(map(len, classes)) == len(set().union(*classes))
        assert part[chosen[0]] == part.max() if chosen else part.max() < 1.0 - solution.SURE
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
    priced = generation.price_at
    monkeypatch.setattr(generation, "price_at", lambda *terms: steps.append(1) or priced(*terms))
    generation.run = replace(generation.run, deadline=now + 10.0)

    counts = dive(generation)

    assert counts is not None
    assert len(steps) < 10
    covered = np.zeros(len(generation.copies))
    for column, count in counts.items():
        for w, _, _ in generation.master.patterns[column].members:
            covered[generation.class_of[w]] += count
    assert np.all(covered >= generation.copies)
