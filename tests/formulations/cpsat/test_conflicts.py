"""Conflicts: exactly the smallest sets that brute force cannot fit on one GPU; rounding errs on the safe side."""

import math
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from formulations.cpsat.conflicts import find_conflicts
from formulations.cpsat.integers import (
    DEMAND_RESOLUTION,
    EXACT_LIMIT,
    IntegerConfigurations,
    Weights,
    memory_limit,
)
from instances import GpuPool, GpuType, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from instances.configurations import configurations_on, most_company, rates_of
from instances.view import View
from tests.formulations import exhaustive

V100 = gpu_type("v100")
COARSE = exhaustive.small_batches(replace(V100, name="coarse", share_units=10), 4)
TIGHT = replace(COARSE, name="tight", memory_mib=2500.0)


def draw(seed: int, gpu: GpuType, workloads: int = 5) -> View:
    random = Random(seed)
    asked = exhaustive.draw_workloads(random, gpu, workloads, (0.1, 0.5))
    return View.of(Instance("drawn", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(gpu),), asked), gpu)


def whole_choices(view: View) -> list[IntegerConfigurations]:
    found = configurations_on(view, [rates_of(view.instance, w) for w in range(len(view.instance.workloads))])
    most = most_company(found, view.tables.share_units)[:, -1, -1]
    return [IntegerConfigurations.of(each, most) for each in found]


@pytest.mark.parametrize("gpu", [COARSE, TIGHT], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("seed", range(10))
def test_conflicts_are_the_smallest_sets_that_do_not_fit(seed: int, gpu: GpuType) -> None:
    view = draw(seed, gpu)

    found = find_conflicts(whole_choices(view), gpu.share_units, memory_limit(view.tables), 1000, math.inf)

    fitting = {
        members
        for members in exhaustive.subsets(tuple(range(5)))
        if members and any(exhaustive.fitting_batches(view.instance, gpu, members))
    }
    smallest = {
        members
        for members in exhaustive.subsets(tuple(range(5)))
        if len(members) > 1
        and members not in fitting
        and all(members[:i] + members[i + 1 :] in fitting for i in range(len(members)))
    }
    assert set(found) == smallest
    assert len(found) == len(smallest)


def test_a_limit_leaves_out_larger_sets() -> None:
    view = draw(2, COARSE, workloads=6)
    limits = (COARSE.share_units, memory_limit(view.tables))

    everything = find_conflicts(whole_choices(view), *limits, 1000, math.inf)
    pairs = find_conflicts(whole_choices(view), *limits, 15, math.inf)
    none = find_conflicts(whole_choices(view), *limits, 1000, -math.inf)

    assert pairs == [members for members in everything if len(members) == 2] != everything
    assert none == []


@pytest.mark.parametrize("seed", range(5))
def test_rounding_keeps_what_is_feasible(seed: int) -> None:
    view = draw(seed, COARSE)
    random = np.random.default_rng(seed)
    found = configurations_on(view, [rates_of(view.instance, w) for w in range(5)])
    most = most_company(found, view.tables.share_units)[:, -1, -1]
    for choices in found:
        whole = IntegerConfigurations.of(choices, most)
        for _ in range(50):
            sums = np.array([random.integers(2, 6), *random.uniform(0.0, (40.0, 1e-9, 300.0))])
            in_integers = np.array([sums[0], *np.floor(sums[1:] * DEMAND_RESOLUTION)]).astype(np.int64)
            holds = np.all(choices.conditions[:, :, :4] @ sums <= choices.conditions[:, :, 4], axis=1)
            still = np.all(whole.conditions[:, :, :4] @ in_integers <= whole.conditions[:, :, 4], axis=1)
            assert np.all(still[holds])
            # and by a hair's breadth only
            well_below = choices.conditions[:, :, :4] @ sums <= choices.conditions[:, :, 4] * (1 - 1e-3) - 1e-3
            assert np.all(well_below.all(axis=1) <= still)
            well_above = (choices.conditions[:, :, :4] @ sums > choices.conditions[:, :, 4] + 1e-2).any(axis=1)
            assert not np.any(still & well_above)


def test_weights_are_exact_decimals_where_they_can_be() -> None:
    cents = Weights.of([Fraction("3.06"), Fraction("0.526")], Fraction(100), round_up=False)

    assert cents.exact
    assert cents.value(6 * cents.whole[0]) == 18.36
    assert cents.value(15 * cents.whole[1]) == 7.89


@pytest.mark.parametrize("round_up", [True, False])
def test_weights_that_are_too_fine_err_on_the_optimistic_side(round_up: bool) -> None:
    third = Fraction(repr(1 / 3))

    weights = Weights.of([third], 1000 * third, round_up)

    assert not weights.exact
    assert (weights.whole[0] / weights.scale > third) == round_up
    assert weights.value(weights.whole[0]) == pytest.approx(1 / 3, rel=1000 / EXACT_LIMIT * 10)
