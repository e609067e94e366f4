"""Packings of workloads on GPUs by ruin and recreate, with the choices of the pricers."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from bench.api import Run
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.clock import clocked, now
from formulations.colgen.solution import ColumnGeneration, Solution
from formulations.colgen.spatial.packing import Packer, pack
from formulations.colgen.spatial.problem import SpatialProblem, served_by_none
from instances import GpuPool, Instance, Objective, SloRule
from instances.generate import generate
from instances.one_gpu import Pattern
from instances.suites import suite
from tests.formulations.colgen.coarse import V100

HETERO = {instance.name: instance for instance in suite("hetero").build()}


def packings(problem: SpatialProblem, work: int, seed: int = 0) -> list[list[Pattern]]:
    """Return the packings found within a work limit, each better than the one before."""
    with clocked(Run(work_limit=work)) as run:
        return list(Packer(problem, seed).packings(run.deadline, stalled=500))


def value_of(packing: list[Pattern], instance: Instance, problem: SpatialProblem) -> float:
    """Return the value that the judge gives to a packing, which fits in the pool."""
    assert problem.in_pool(packing)
    realised = problem.realise(packing)
    assert realised is not None
    verdict = judge(realised[1], instance)
    assert verdict.violations == ()
    assert verdict.value is not None
    return verdict.value


def test_packings_cost_less_and_less_and_are_the_same_at_the_same_work() -> None:
    """The pool of four types is so tight that workloads at fixed batches do not fit."""
    instance = HETERO["hetero-4-60-pool"]
    problem = SpatialProblem(instance)

    successive = packings(problem, 60_000)

    assert all(problem.complete(packing) for packing in successive)
    values = [value_of(packing, instance, problem) for packing in successive]
    assert len(values) > 1
    assert all(after < before for before, after in pairwise(values))
    assert values[-1] <= 26.3
    assert packings(problem, 60_000) == successive
    assert packings(problem, 1)[0] == successive[0]


def test_packings_serve_more_and_more_requests() -> None:
    instance = generate("overload-mix", 12, 1, Objective.GOODPUT, gpus=4)
    problem = SpatialProblem(instance)

    values = [value_of(packing, instance, problem) for packing in packings(problem, 30_000)]

    assert len(values) > 1
    assert all(after > before for before, after in pairwise(values))
    optimum = ColGen().schedule(instance, Run()).bound
    assert optimum is not None
    assert 0.97 * optimum.value <= values[-1] <= optimum.value * (1.0 + 1e-9)


def test_parts_of_a_workload_are_on_different_gpus() -> None:
    drawn = generate("igniter-mix", 5, 3, Objective.COST)
    large = tuple(replace(w, rate_rps=3.0 * w.rate_rps) for w in drawn.workloads)
    pool = (GpuPool(replace(V100, share_units=10)),)
    instance = replace(drawn, slo_rule=SloRule.ATTAINMENT, gpus=pool, workloads=large)
    divisible = served_by_none(instance)
    assert divisible
    problem = SpatialProblem(instance, math.inf, divisible)

    *_, last = packings(problem, 20_000)

    assert problem.complete(last)
    for pattern in last:
        assert len({resident.workload for resident in pattern.residents}) == len(pattern.residents)
    value_of(last, instance, problem)


def test_the_search_goes_on_from_the_incumbent_and_its_gpus_are_columns() -> None:
    instance = HETERO["hetero-3-40"]
    problem = SpatialProblem(instance)
    with clocked(Run(work_limit=100_000)) as run:
        solution = Solution(ColumnGeneration(problem, run), (), 0.5)
        solution.use_known_plans()
        first, columns = solution.value, len(solution.generation.master.patterns)
        problem.packer = Packer(problem, 1)  # a new packer, without a packing
        began = now()

        pack(problem, solution)

        assert now() > began
    assert problem.packer.value <= first
    assert solution.value <= first
    assert len(solution.generation.master.patterns) >= columns
    with pytest.raises(StopIteration):
        next(problem.packer.packings(now(), stalled=0))
