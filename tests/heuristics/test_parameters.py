"""Ranges of the schedulers' parameters."""

import time
from collections.abc import Callable

import pytest

from bench.api import Run
from heuristics.baselines.local_search import LocalSearch
from heuristics.baselines.random_fit import RandomFit
from heuristics.baselines.ruin_recreate import RuinRecreate
from heuristics.gpulet.ideal import Ideal
from heuristics.igniter.gslice_plus import GslicePlus
from tests.frozen import frozen


@pytest.mark.parametrize(
    ("make", "least", "below"),
    [
        pytest.param(lambda value: RandomFit(draws=value), 1, 0, id="random.draws"),
        pytest.param(lambda value: LocalSearch(rounds=value), 0, -1, id="local-search.rounds"),
        pytest.param(lambda value: RuinRecreate(rounds=value), 0, -1, id="ruin-recreate.rounds"),
        pytest.param(lambda value: GslicePlus(rounds=value), 0, -3, id="gslice+.rounds"),
        pytest.param(lambda value: GslicePlus(band=value), 0, -0.1, id="gslice+.band"),
        pytest.param(lambda value: Ideal(tries=value), 0, -1, id="ideal.tries"),
    ],
)
def test_values_out_of_range_are_refused(make: Callable[[float], object], least: float, below: float) -> None:
    make(least)
    with pytest.raises(ValueError, match=f"is {below}; expected at least {least}"):
        make(below)


def test_ideal_accepts_huge_numbers_of_tries() -> None:
    instance = frozen("gpulet-scen1")
    assert Ideal(tries=10**30).schedule(instance, Run(time.monotonic() + 1.0, 0)).plan is not None
