import time

import pytest

from bench.api import Run, Status
from formulations.colgen import ColGen
from instances import Objective
from instances.generate import generate


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT, Objective.SCALE])
def test_a_time_that_is_over_is_no_error_and_proves_nothing(objective):
    instance = generate("overload-mix", 12, 1, objective, gpus=4)
    outcome = ColGen().schedule(instance, Run(deadline=time.monotonic() - 1.0))
    assert outcome.status is Status.UNKNOWN
    assert outcome.plan is None
    assert outcome.bound is None
