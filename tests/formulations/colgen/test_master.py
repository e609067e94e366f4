"""The restricted master."""

import math

import numpy as np
import pytest

from formulations.colgen.restricted_master import Covering, Pattern, RestrictedMaster


def test_a_pattern_found_again_at_a_lower_cost_costs_less() -> None:
    cover = Covering(np.zeros(1, dtype=np.int64), np.ones(1), np.full(1, math.inf), np.full(1, math.inf), 100.0)
    master = RestrictedMaster(cover, threads=1)
    alone = Pattern(0, ((0, 1, 10.0),))

    assert master.add(alone, 5.0, np.ones(1))
    assert not master.add(alone, 5.0, np.ones(1))
    assert not master.add(alone, 6.0, np.ones(1))
    assert master.relax().value == pytest.approx(5.0)
    assert master.add(alone, 3.0, np.ones(1))

    assert master.relax().value == pytest.approx(3.0)
    assert master.costs == [3.0]
    assert master.integer(10.0, 1, 0, None, -math.inf) == ({0: 1}, True)
