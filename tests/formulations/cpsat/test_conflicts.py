"""Conflicts: exactly the smallest sets that brute force cannot fit on one GPU; rounding excludes no feasible GPU."""

import math
from dataclasses import replace
from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from formulations.cpsat.conflicts import Chains, find_conflicts
from formulations.cpsat.integers import DEMAND_RESOLUTION, EXACT_LIMIT, Weights, whole_conditions
from instances import GpuPool, GpuType, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from instances.configurations import Configurations, rates_of
from instances.dominance import configurations_on, largest_others
from instances.view import View
from tests.formulations import exhaustive

V100 = gpu_type("v100")
COARSE = exhaustive.small_batches(replace(V100, name="coarse", share_units=10), 4)
TIGHT = replace(COARSE, name="tight", memory_mib=2500.0)


def draw(seed: int, gpu: GpuType, workloads: int = 5) -> View:
    random = Random(seed)
    drawn = exhaustive.draw_workloads(random, gpu, workloads, (0.1, 0.5))
    return View.of(Instance("drawn", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(gpu),), drawn), gpu)


def chains(view: View) -> Chains:
    configurations = configurations_on(view, [rates_of(view.instance, w) for w in range(len(view.instance.workloads))])
    return Chains.of(configurations, view.tables, largest_others(configurations, view.tables)[:, -1, -1])


@pytest.mark.parametrize("gpu", [COARSE, TIGHT], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("seed", range(10))
def test_conflicts_are_the_smallest_sets_that_do_not_fit(seed: int, gpu: GpuType) -> None:
    view = draw(seed, gpu)

    conflicts = find_conflicts(chains(view), view.tables, 1000, math.inf)

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
    assert set(conflicts) == smallest
    assert len(conflicts) == len(smallest)


def test_a_limit_leaves_out_larger_sets() -> None:
    """Six workloads have 15 pairs."""
    view = draw(2, COARSE, workloads=6)

    everything = find_conflicts(chains(view), view.tables, 1000, math.inf)
    pairs = find_conflicts(chains(view), view.tables, 15, math.inf)
    none = find_conflicts(chains(view), view.tables, 1000, -math.inf)

    assert pairs == [members for members in everything if len(members) == 2] != everything
    assert none == []


@pytest.mark.parametrize("seed", range(5))
def test_rounding_keeps_what_is_feasible(seed: int) -> None:
    view = draw(seed, COARSE)
    random = np.random.default_rng(seed)
    by_workload = configurations_on(view, [rates_of(view.instance, w) for w in range(5)])
    most_amounts = largest_others(by_workload, view.tables)[:, -1, -1]
    for configurations in by_workload:
        conditions = configurations.conditions(view.tables)
        whole = whole_conditions(configurations, view.tables, most_amounts)
        for _ in range(50):
            sums = np.array([random.integers(2, 6), *random.uniform(0.0, (40.0, 1e-9, 300.0))])
            in_integers = np.array([sums[0], *np.floor(sums[1:] * DEMAND_RESOLUTION)]).astype(np.int64)
            holds = np.all(conditions[:, :, :4] @ sums <= conditions[:, :, 4], axis=1)
            holds_in_integers = np.all(whole[:, :, :4] @ in_integers <= whole[:, :, 4], axis=1)
            assert np.all(holds_in_integers[holds])
            # Sums well below a limit stay feasible, and only sums slightly above it become feasible.
            well_below = conditions[:, :, :4] @ sums <= conditions[:, :, 4] * (1 - 1e-3) - 1e-3
            assert np.all(well_below.all(axis=1) <= holds_in_integers)
            well_above = (conditions[:, :, :4] @ sums > conditions[:, :, 4] + 1e-2).any(axis=1)
            assert not np.any(holds_in_integers & well_above)


@pytest.mark.parametrize("per_resident", [1.0, 0.1, 1.0 / 3.0])
def test_rounding_keeps_sums_that_equal_their_limit(per_resident: float) -> None:
    """Three residents reach the limit exactly; a fourth exceeds it."""
    condition = np.array([[[per_resident, 0.0, 0.0, 0.0, 3.0 * per_resident]]])
    configurations = cast(Configurations, SimpleNamespace(conditions=lambda _tables: condition))

    whole = whole_conditions(configurations, draw(0, COARSE).tables, np.zeros(4))

    assert whole[0, 0, 0] * 3 <= whole[0, 0, 4] < whole[0, 0, 0] * 4


def test_weights_are_exact_decimals_where_they_can_be() -> None:
    cents = Weights.of([Fraction("3.06"), Fraction("0.526")], Fraction(100), round_up=False)

    assert cents.exact
    assert cents.value(6 * cents.whole[0]) == 18.36
    assert cents.value(15 * cents.whole[1]) == 7.89


@pytest.mark.parametrize("round_up", [True, False])
def test_weights_that_are_too_fine_are_rounded_in_the_given_direction(round_up: bool) -> None:
    third = Fraction(repr(1 / 3))

    weights = Weights.of([third], 1000 * third, round_up)

    assert not weights.exact
    assert (weights.whole[0] / weights.scale > third) == round_up
    assert weights.value(weights.whole[0]) == pytest.approx(1 / 3, rel=1000 / EXACT_LIMIT * 10)
