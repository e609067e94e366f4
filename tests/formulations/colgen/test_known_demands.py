"""Least demands of choices on a grid of floors: what they exclude does not fit."""

from random import Random

import numpy as np
import pytest

from formulations.colgen.fitting import least_of_options
from formulations.colgen.spatial.batch_choice import AXES
from formulations.colgen.spatial.known_demands import MOST_POINTS, KnownDemands, floors_of_fit
from formulations.colgen.spatial.pricer import Pricer
from formulations.colgen.spatial.problem import SpatialProblem, served_by_none
from instances.arrays import Floats, Ints
from instances.suites import suite
from tests.soak import first


def fixed_point(pricer: Pricer, chosen: Ints) -> tuple[bool, Floats]:
    """Return whether a set may fit by floors that are not rounded to a grid, and these floors."""
    choices, tables, floors = pricer.choices, pricer.tables, np.zeros(AXES)
    while True:
        least = np.array(
            [
                least_of_options(
                    tables,
                    choices.model[k],
                    choices.option[k],
                    choices.option[k + 1],
                    choices.batch,
                    choices.lower_units,
                    choices.budget_ms,
                    len(chosen),
                    floors[0],
                    floors[2],
                    floors[1],
                )
                for k in chosen
            ]
        ).sum(axis=0)
        if least[0] > tables.share_units:
            return False, floors
        if np.all(least[1:4] <= floors * (1.0 + 1e-9)):
            return True, floors
        floors = np.maximum(floors, least[1:4])


@pytest.mark.parametrize("name", first(2, ["hard-cost-30", "hetero-2-40", "64gpu-cost-hold"]))
def test_what_floors_on_the_grid_exclude_does_not_fit(name: str) -> None:
    instance = next(i for s in ("hard", "hetero", "64gpu", "hold") for i in suite(s).build() if i.name == name)
    pricer = SpatialProblem(instance, np.inf, served_by_none(instance)).pricers[0]
    choices, random, excluded, missed = pricer.choices, Random(0), 0, 0
    for _ in range(1000):
        size = random.randint(1, min(6, pricer.most_residents))
        chosen, floors = np.array(sorted(random.sample(range(len(choices.workload)), size))), np.empty(AXES)
        first, end = choices.option[chosen], choices.option[chosen + 1]
        options = choices.batch, choices.lower_units, choices.budget_ms
        on_grid = floors_of_fit(
            choices.known, pricer.tables, chosen, choices.model[chosen], first, end, *options, floors
        )
        fits, exact_floors = fixed_point(pricer, chosen)
        if fits:
            assert on_grid
            assert np.all(floors <= exact_floors * (1.0 + 1e-9))
        excluded += not on_grid
        missed += on_grid and not fits
    assert 0 < excluded < 1000
    assert missed <= excluded // 5  # the grid decides most


def test_the_grid_is_coarser_for_many_choices() -> None:
    instance = next(i for i in suite("hard").build() if i.name == "hard-cost-30")
    tables = SpatialProblem(instance, np.inf, served_by_none(instance)).pricers[0].tables
    few, many = KnownDemands.of(tables, 30, 8), KnownDemands.of(tables, 100_000, 8)
    assert few.units.shape[2] == MOST_POINTS
    assert many.units.shape[2] < MOST_POINTS
    assert few.step[0] < many.step[0]
