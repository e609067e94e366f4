"""Loop of column generation: the result of a step changes the weight of the stability centre, or refines pricing."""

from collections.abc import Sequence

import numpy as np
import pytest

from bench.api import Run
from formulations.colgen.column_generation import Smoothing, StepResult, generate
from formulations.colgen.restricted_master import Relaxation

EMPTY = Relaxation(0.0, np.zeros(1), np.zeros(1), np.zeros(0))


@pytest.mark.parametrize(
    ("results", "weights", "refined"),
    [
        (["gain", "enough"], [0.8, 0.8], 0),
        (["no gain", "no gain", "enough"], [0.8, 0.4, 0.2], 0),
        (["no gain", "gain", "enough"], [0.8, 0.4, 0.8], 0),
        (["no gain", "no gain", "no gain", "no gain", "enough"], [0.8, 0.4, 0.2, 0.0, 0.0], 1),
        (["coarse", "coarse", "enough"], [0.8, 0.8, 0.8], 2),
        (["no gain", "coarse", "no gain", "enough"], [0.8, 0.4, 0.4, 0.2], 1),
    ],
)
def test_a_step_without_gain_weakens_the_smoothing_and_a_coarse_one_refines_pricing(
    results: Sequence[StepResult], weights: Sequence[float], refined: int
) -> None:
    smoothing, results_left = Smoothing(0.8, weight=0.8), iter(results)
    weights_seen, refinements = [], 0

    def step(relaxation: Relaxation, duals: Relaxation) -> StepResult:
        weights_seen.append(smoothing.weight)
        return next(results_left)

    def refine() -> bool:
        nonlocal refinements
        refinements += 1
        return True

    generate(Run(), smoothing, lambda: EMPTY, step, refine)

    assert weights_seen == pytest.approx(weights)
    assert refinements == refined


def test_the_loop_ends_when_pricing_cannot_be_refined() -> None:
    steps = 0

    def step(relaxation: Relaxation, duals: Relaxation) -> StepResult:
        nonlocal steps
        steps += 1
        return "no gain"

    generate(Run(), Smoothing(0.0), lambda: EMPTY, step, refine=lambda: False)

    assert steps == 1
