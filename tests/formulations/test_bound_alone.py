"""Bound of ``minlp`` from the workloads alone: it holds, and is returned if SCIP stops without a bound."""

import math
import time
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from bench.api import Run, Status
from formulations.compact.alone import bound_alone
from formulations.compact.search import Search, SolverAnswer
from formulations.minlp import Minlp
from instances import GpuPool, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from instances.generate import generate
from tests.formulations.exhaustive import draw_workloads, least_cost, most_capacity, most_goodput, small_batches

TINY = small_batches(replace(gpu_type("v100"), name="tiny", share_units=8), 4)
BEST_OF = {Objective.COST: least_cost, Objective.CAPACITY: most_capacity, Objective.GOODPUT: most_goodput}


@pytest.mark.parametrize("objective", BEST_OF)
def test_the_bound_from_the_workloads_alone_holds_for_the_optimum_of_brute_force(objective: Objective) -> None:
    tested = 0
    for seed in range(12):
        random = Random(seed)
        workloads = draw_workloads(random, TINY, random.randint(1, 3), (0.2, 0.9))
        instance = Instance("drawn", objective, SloRule.HALF_SLO, "igniter", (GpuPool(TINY, 2),), workloads)
        best, search = BEST_OF[objective](instance), Search.of(instance, Run())
        if best is None or not isinstance(search, Search):
            continue
        bound, tested = bound_alone(search.problem), tested + 1
        assert bound.certified
        if objective is Objective.COST:
            assert bound.value <= best * (1 + 1e-9)
        else:
            assert bound.value >= best * (1 - 1e-9)
    assert tested >= 4


@pytest.mark.parametrize("objective", [Objective.COST, Objective.CAPACITY])
def test_without_a_bound_of_scip_the_bound_is_that_of_the_workloads_alone(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = generate("igniter-mix", 3, 1, objective)
    instance = replace(drawn, gpus=(GpuPool(replace(drawn.gpus[0].type, share_units=8), 3),))
    no_answer = SolverAnswer(solved=False, finished=False, infeasible=False, bound=None, nodes=0.0)
    monkeypatch.setattr("formulations.compact.scip.solve", lambda *_: no_answer)

    outcome = Minlp().schedule(instance, Run(deadline=time.monotonic() + 60.0))

    assert outcome.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert outcome.bound is not None
    assert outcome.bound.certified
    assert math.isfinite(outcome.bound.value)


@pytest.mark.parametrize("objective", [Objective.CAPACITY, Objective.GOODPUT])
def test_the_bound_is_at_least_the_exact_sum_of_its_terms(objective: Objective) -> None:
    # On ten GPUs, ten identical workloads are worth exactly ten times the best value of one alone.
    drawn = generate("igniter-mix", 1, 1, objective)
    rounded_down = 0
    for step in range(10):
        rate_rps = 0.1 + step / 7.0
        workloads = tuple(replace(drawn.workloads[0], id=f"w{w}", rate_rps=rate_rps) for w in range(10))
        instance = replace(drawn, gpus=(GpuPool(drawn.gpus[0].type, 10),), workloads=workloads)
        search, alone = Search.of(instance, Run()), Search.of(replace(instance, workloads=workloads[:1]), Run())
        assert isinstance(search, Search)
        assert isinstance(alone, Search)
        (configurations,) = (offer.configurations[0] for offer in alone.problem.offers)
        tables, model = alone.problem.offers[0].view.tables, int(alone.problem.offers[0].view.model[0])
        busy_ms = tables.active_ms[model, configurations.batch, configurations.units]
        busy_ms = busy_ms + tables.exposed_ms[model, configurations.batch]
        goodput = objective is Objective.GOODPUT
        values = configurations.rate_rps if goodput else 1000.0 * configurations.batch / busy_ms
        exact = 10 * Fraction(float(values.max()))
        rounded_down += Fraction(sum([float(values.max())] * 10)) < exact
        assert Fraction(bound_alone(search.problem).value) >= exact
    assert rounded_down  # a plain sum of floats would fail
