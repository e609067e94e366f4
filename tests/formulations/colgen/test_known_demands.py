"""Least demands of choices on a grid of floors: what they exclude does not fit."""

from random import Random

import numpy as np
import pytest

from formulations.colgen.fitting import may_fit
from formulations.colgen.spatial.known_demands import KnownDemands, floors_of_fit
from formulations.colgen.spatial.problem import SpatialProblem, served_by_none
from instances.suites import suite


@pytest.mark.parametrize("name", ["hard-cost-30", "hetero-2-40", "64gpu-cost-hold"])
def test_what_floors_on_the_grid_exclude_does_not_fit(name: str) -> None:
    instance = next(i for s in ("hard", "hetero", "64gpu", "hold") for i in suite(s).build() if i.name == name)
    pricer = SpatialProblem(instance, np.inf, served_by_none(instance)).pricers[0]
    choices, random, excluded, missed = pricer.choices, Random(0), 0, 0
    for _ in range(4000):
        size = random.randint(1, min(6, pricer.most_residents))
        chosen = np.array(sorted(random.sample(range(len(choices.workload)), size)))
        first, end = choices.option[chosen], choices.option[chosen + 1]
        options = choices.batch, choices.lower_units, choices.budget_ms
        on_grid, *floors = floors_of_fit(
            choices.known, pricer.merged, chosen, choices.model[chosen], first, end, *options
        )
        exact_floors, pick = np.zeros(2), np.empty(size, dtype=np.int64)
        fits = may_fit(pricer.merged, choices.model[chosen], first, end, *options, exact_floors, pick)
        if fits:
            assert on_grid
            assert floors[0] <= exact_floors[0] * (1.0 + 1e-9)
            assert floors[1] <= exact_floors[1] * (1.0 + 1e-9)
        excluded += not on_grid
        missed += on_grid and not fits
    assert 0 < excluded < 4000
    assert missed <= excluded // 5  # the grid decides most


def test_the_grid_is_coarser_for_many_choices() -> None:
    instance = next(i for i in suite("hard").build() if i.name == "hard-cost-30")
    merged = SpatialProblem(instance, np.inf, served_by_none(instance)).pricers[0].merged
    few, many = KnownDemands.of(merged, 30, 8), KnownDemands.of(merged, 100_000, 8)
    assert few.units.shape[2] == 64
    assert many.units.shape[2] < 64
    assert few.contention_step < many.contention_step
