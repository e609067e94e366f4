"""Column generation whose deadline has passed before it begins; ``LATE_S`` is the overrun that it otherwise allows."""

import time

import numba
import pytest

from bench.api import Run, Status
from formulations.colgen import ColGen
from formulations.colgen.clock import clocked, now
from formulations.colgen.scheduler import SearchedClass
from formulations.colgen.spatial import boxes
from instances import Objective
from instances.generate import generate


def test_compilation_does_not_count_as_time_if_it_is_left_out():
    def square(x):
        return x * x

    for left_out in (False, True):
        with clocked(Run(deadline=time.monotonic() + 1000.0), without_compilation=left_out) as run:
            began, began_on_clock, left_s = time.monotonic(), now(), run.remaining_s
            numba.njit(square)(3.0)
            passed_s, counted_s = time.monotonic() - began, now() - began_on_clock
            assert left_s - run.remaining_s == pytest.approx(counted_s, abs=passed_s / 10.0)
            assert (counted_s < passed_s / 2.0) == left_out


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT, Objective.SCALE])
def test_after_the_deadline_the_result_is_unknown_and_has_at_most_a_trivial_bound(objective, monkeypatch):
    monkeypatch.setattr(boxes, "LATE_S", 0.0)
    instance = generate("overload-mix", 12, 1, objective, gpus=4)
    outcome = ColGen().schedule(instance, Run(deadline=time.monotonic() - 1.0))
    assert outcome.status is Status.UNKNOWN
    assert outcome.plan is None
    if objective is Objective.GOODPUT:  # no plan serves more requests than arrive
        assert outcome.bound is not None
        assert outcome.bound.value == pytest.approx(sum(w.rate_rps for w in instance.workloads), rel=1e-8)
    else:
        assert outcome.bound is None


def test_after_the_deadline_a_search_for_split_plans_is_unknown(monkeypatch):
    monkeypatch.setattr(boxes, "LATE_S", 0.0)
    instance = generate("igniter-mix", 8, 1, Objective.COST)
    outcome = ColGen(plan_class=SearchedClass.SPLIT).schedule(instance, Run(deadline=time.monotonic() - 1.0))
    assert outcome.status is Status.UNKNOWN
