"""Choice of the pairs to measure next: those after which the slowdowns of all configurations are known best.

The slowdown of a configuration beside others is modelled as a sum of random effects, those of the hybrid model's fit
(``instances.performance.company_fit.effects_on``). A measured pair shows the sums of its two configurations. The choice
is greedy: given the pairs before it, each pair lowers the sum of the variances of all configurations most. The choice
depends only on which pairs were measured, not on their latencies.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement

import numpy as np

from instances.arrays import Floats
from instances.measurements import Configuration
from instances.performance.company_fit import Effect, effects_on

Pair = tuple[Configuration, Configuration]
"""Two configurations on one GPU."""

DEVIATIONS = (1.0, 0.7, 0.7, 0.7, 0.5, 0.3)
"""Standard deviations of the effects, in their order in ``effects_on``, relative to that of the overall effect."""

NOISE = 0.05
"""Variance of measured slowdowns around their sum of effects: a slowdown also depends on the neighbour."""

DIGITS = 8
"""Decimal digits to which gains are compared."""

ROWS = 25
"""Number of pairs that are chosen by default."""


SHARES_PCT = ((50.0, 50.0), (20.0, 80.0), (80.0, 20.0))
"""Divisions of a GPU between two models."""


def all_pairs(
    batches: Mapping[str, Sequence[int]], shares_pct: Sequence[tuple[float, float]] = SHARES_PCT
) -> list[Pair]:
    """Return the pairs of all models at all of their batches, each model with itself included.

    Parameters
    ----------
    batches
        Batches by model.
    shares_pct
        Divisions of the GPU.
    """
    sides = [(model, batch) for model, sizes in batches.items() for batch in sizes]
    return [
        (Configuration(*first, first_pct), Configuration(*second, second_pct))
        for first_pct, second_pct in shares_pct
        for first, second in combinations_with_replacement(sides, 2)
    ]


def next_pairs(candidates: Sequence[Pair], count: int = ROWS, measured: Sequence[Pair] = ()) -> list[Pair]:
    """Return at most ``count`` of the candidates in the order in which to measure them.

    Of equally good candidates, the first is chosen.

    Parameters
    ----------
    candidates
        Pairs that can be measured; those in ``measured`` are left out.
    measured
        Pairs that are measured already; effects that no candidate has are ignored.
    """
    measured_pairs = {frozenset(pair) for pair in measured}
    pairs = list(dict.fromkeys(candidates))
    if not pairs:
        return []
    measured_rows = [i for i, pair in enumerate(pairs) if frozenset(pair) in measured_pairs]
    effects = dict.fromkeys(effect for pair in pairs for side in pair for effect in effects_on(side))
    columns: dict[Effect, int] = {effect: i for i, effect in enumerate(effects)}
    design = np.array([_design(pair, columns) for pair in pairs]).reshape(-1, 2, len(columns))
    all_sides = np.unique(design.reshape(-1, len(columns)), axis=0)
    covariance = np.eye(len(columns))
    for pair in measured:
        covariance = _after(covariance, _design(pair, columns))
    chosen: list[int] = []
    for _ in range(min(count, len(pairs) - len(measured_rows))):
        shared = design @ covariance
        inverse = np.linalg.inv(shared @ design.transpose(0, 2, 1) + NOISE * np.eye(2))
        spread = shared @ (all_sides.T @ all_sides) @ shared.transpose(0, 2, 1)
        # The gain of a pair is the reduction of the sum of variances, by conditioning of a normal distribution. It is
        # rounded so that gains which differ by rounding errors only become equal.
        gain = np.round(np.einsum("nij,nji->n", inverse, spread), DIGITS)
        gain[measured_rows + chosen] = -np.inf
        chosen.append(int(np.argmax(gain)))
        covariance = _after(covariance, design[chosen[-1]])
    return [pairs[i] for i in chosen]


def _design(pair: Pair, columns: Mapping[Effect, int]) -> Floats:
    """Return the effects on both sides of a pair, each with its deviation, shape (2, effects)."""
    rows = np.zeros((2, len(columns)))
    for row, side in zip(rows, pair, strict=True):
        for effect, deviation in zip(effects_on(side), DEVIATIONS, strict=True):
            if effect in columns:
                row[columns[effect]] = deviation
    return rows


def _after(covariance: Floats, design: Floats) -> Floats:
    """Return the covariance of the effects after a pair with the rows ``design`` of ``_design`` is measured."""
    shared = covariance @ design.T
    return np.asarray(covariance - shared @ np.linalg.inv(design @ shared + NOISE * np.eye(len(design))) @ shared.T)
