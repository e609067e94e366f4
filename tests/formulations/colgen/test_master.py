"""Restricted master: patterns that are found again, and relaxations after the deadline."""

import math
import time

import numpy as np
import pytest

from bench.api import Run
from formulations.colgen.clock import clocked
from formulations.colgen.restricted_master import Covering, RestrictedMaster
from instances.one_gpu import Pattern


def test_a_pattern_found_again_at_a_lower_cost_costs_less() -> None:
    cover = Covering(np.ones(1), np.full(1, math.inf), np.full(1, math.inf), 100.0)
    master = RestrictedMaster(cover, threads=1)
    alone = Pattern(0, ((0, 1, 10.0),))

    assert master.add(alone, 5.0, np.ones(1))
    assert not master.add(alone, 5.0, np.ones(1))
    assert not master.add(alone, 6.0, np.ones(1))
    assert master.relax().value == pytest.approx(5.0)
    assert master.add(alone, 3.0, np.ones(1))

    assert master.relax().value == pytest.approx(3.0)
    assert master.costs == [3.0]
    assert master.integer(10.0, 0, None, -math.inf) == ({0: 1}, True)


def test_a_relaxation_is_not_solved_beyond_the_deadline() -> None:
    random = np.random.default_rng(0)
    cover = Covering(np.ones(60), np.full(60, math.inf), np.full(1, math.inf), 100.0)
    master = RestrictedMaster(cover, threads=1)
    for column in range(400):
        amounts = (random.random(60) < 0.1).astype(np.float64)
        master.add(Pattern(0, ((column, 1, 1.0),)), 1.0 + random.random(), amounts)

    with clocked(Run(deadline=time.monotonic() - 1.0)):
        late = master.relax()
    assert not master.solved()
    assert (late.workload_dual.shape, late.weight.shape) == ((60,), (400,))

    with clocked(Run(deadline=time.monotonic() + 600.0)):
        master.relax()
    assert master.solved()
