"""Column generation under the SLO rule ``attainment``, against enumeration over the same budgets."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bench.api import Outcome, Run, Status
from bench.judging.judge import judge
from formulations.colgen.clock import clocked
from formulations.colgen.scheduler import ColGen, SearchedClass
from formulations.colgen.solution import ColumnGeneration
from formulations.colgen.spatial.problem import SpatialProblem
from instances import PART_STEPS, GpuPool, Instance, Objective, PlanClass, SloRule, Workload
from instances.dominance import replaceable
from instances.generate import generate
from instances.one_gpu import Resident, fit_gpu
from instances.view import View
from tests.formulations.colgen.coarse import V100
from tests.formulations.enumeration import OneGpu, optimum
from tests.formulations.exhaustive import small_batches

COARSE = small_batches(replace(V100, name="coarse", share_units=10), 8)
CHEAP = replace(COARSE, name="cheap", price_per_hour=2.0, memory_mib=4000.0)


def small(seed: int, size: int, objective: Objective, *pools: GpuPool, **terms: object) -> Instance:
    drawn = generate("igniter-mix", size, seed, objective)
    return replace(drawn, slo_rule=SloRule.ATTAINMENT, gpus=pools or (GpuPool(COARSE),), **terms)


def solved(instance: Instance, plan_class: PlanClass = PlanClass.SPATIAL) -> Outcome:
    outcome = ColGen(plan_class=SearchedClass(plan_class)).schedule(instance, Run())
    if outcome.plan is not None:
        assert judge(outcome.plan, instance).violations == ()
    return outcome


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("pools", [(GpuPool(COARSE),), (GpuPool(COARSE, 1), GpuPool(CHEAP))], ids=["one", "two types"])
def test_the_cost_is_that_of_enumeration(seed: int, pools: tuple[GpuPool, ...]) -> None:
    instance = small(seed, 5, Objective.COST, *pools)
    best = optimum(instance)
    if best is None:  # some workload fits on no single GPU
        return

    outcome = solved(instance)

    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.bound.certified
    assert judge(outcome.plan, instance).value == pytest.approx(best)


@pytest.mark.parametrize("seed", range(3))
def test_the_goodput_is_that_of_enumeration(seed: int) -> None:
    instance = small(seed, 3, Objective.GOODPUT, GpuPool(COARSE, 1))

    outcome = solved(instance)

    assert outcome.status is Status.OPTIMAL
    assert judge(outcome.plan, instance).value == pytest.approx(optimum(instance))


def test_the_next_scale_on_the_grid_is_infeasible() -> None:
    instance = small(1, 3, Objective.SCALE, GpuPool(COARSE, 2))

    outcome = solved(instance)

    assert outcome.status is Status.OPTIMAL
    scale = judge(outcome.plan, instance).value
    gpus = (GpuPool(COARSE, 2),)
    assert optimum(replace(instance.scaled(scale), objective=Objective.COST, gpus=gpus)) is not None
    assert optimum(replace(instance.scaled(scale + 0.005), objective=Objective.COST, gpus=gpus)) is None


@pytest.mark.parametrize("seed", range(8))
def test_a_superfluous_batch_can_be_replaced(seed: int) -> None:
    instance = small(seed, 2, Objective.COST)
    view = View.of(instance, COARSE)
    budgets = np.full((9, 11), -np.inf)
    budgets[1:] = view.budgets_ms(0, np.arange(1, 9))
    model, all_batches = int(view.model[0]), np.arange(9)
    for batch, *others in itertools.chain(
        itertools.permutations(range(1, 9), 2), itertools.permutations(range(1, 9), 3)
    ):
        if replaceable(view.tables, model, batch, budgets, budgets, False, 10, np.isin(all_batches, others)):
            for neighbour_batch in range(1, 9):
                if _fits(view, batch, neighbour_batch):
                    assert any(_fits(view, other, neighbour_batch) for other in others)


def _fits(view: View, batch: int, neighbour_batch: int) -> bool:
    """Return whether the first two workloads fit on one GPU at these batches."""
    residents = [Resident(0, batch, view.rate_rps[0]), Resident(1, neighbour_batch, view.rate_rps[1])]
    return fit_gpu(view, residents) is not None


# --- A workload that no GPU serves whole ---


def partitions(items: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Yield every partition of ``items`` into groups."""
    if not items:
        yield []
        return
    for rest in partitions(items[1:]):
        yield [(items[0],), *rest]
        for n, group in enumerate(rest):
            yield [*rest[:n], (items[0], *group), *rest[n + 1 :]]


def fewest_gpus(instance: Instance) -> int:
    """Return the least number of GPUs that serve workload 0 in steps and the others whole, by trying all partitions."""
    gpu = OneGpu(instance, instance.gpus[0].type)
    rate_rps = instance.workloads[0].rate_rps

    @cache
    def most_steps(members: tuple[int, ...]) -> int | None:
        """Return the most steps of workload 0 beside the members; ``None`` if the members alone do not fit."""
        best = None
        for others in gpu.groups(members):
            best = best or 0
            for step in range(best + 1, PART_STEPS):
                batches = range(1, 9)
                parts = [Resident(0, b, rate_rps * step / PART_STEPS) for b in batches]
                if all(fit_gpu(gpu.view, (*others, part)) is None for part in parts):
                    break
                best = step
        return best

    alone = most_steps(())
    assert alone
    gpu_counts = []
    for partition in partitions(tuple(range(1, len(instance.workloads)))):
        steps = [most_steps(tuple(sorted(members))) for members in partition]
        if None not in steps:
            missing = max(0, PART_STEPS - sum(step for step in steps if step))
            gpu_counts.append(len(partition) + math.ceil(missing / alone))
    return min(gpu_counts)


@pytest.mark.parametrize("seed", range(1, 7))
def test_an_oversized_workload_is_served_in_parts(seed: int) -> None:
    drawn = small(seed, 3, Objective.COST)
    large = Workload("large", "vgg19", 35.0, 440.0 + 60.0 * seed)
    instance = replace(drawn, workloads=(large, *drawn.workloads))
    assert optimum(instance) is None

    outcome = solved(instance)

    assert outcome.plan is not None
    assert outcome.plan.plan_class is PlanClass.SPLIT
    assert outcome.plan.gpus_used == fewest_gpus(instance)
    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.bound.plan_class is PlanClass.SPLIT
    assert (outcome.bound.split_workloads, outcome.bound.part_steps) == (("large",), PART_STEPS)
    parts = [slot.rate_rps / large.rate_rps for _, _, slot in outcome.plan.slots() if slot.workload == "large"]
    assert sum(parts) == pytest.approx(1.0)
    assert all(abs(PART_STEPS * part - round(PART_STEPS * part)) < 1e-9 for part in parts)


def test_two_equal_oversized_workloads_are_each_served() -> None:
    large = [Workload(name, "vgg19", 35.0, 500.0) for name in ("a", "b")]
    others = small(4, 2, Objective.COST)
    instance = replace(others, workloads=(*large, *others.workloads))

    outcome = solved(instance)

    assert outcome.status is Status.OPTIMAL
    for name in ("a", "b"):
        assert sum(s.rate_rps for _, _, s in outcome.plan.slots() if s.workload == name) == pytest.approx(500.0)


def test_spatio_temporal_plans_are_declined_with_a_reason() -> None:
    outcome = ColGen(plan_class=SearchedClass.SPATIO_TEMPORAL).schedule(small(0, 3, Objective.COST), Run())

    assert outcome.status is Status.UNKNOWN
    assert outcome.reason == "no bound on spatio-temporal plans is known for cost under attainment"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT])
def test_splitting_never_worsens_the_optimum(seed: int, objective: Objective) -> None:
    instance = small(seed, 2, objective, GpuPool(COARSE, 2))

    whole = solved(instance)
    split = solved(instance, PlanClass.SPLIT)

    assert split.bound is not None
    assert (split.bound.plan_class, split.bound.split_workloads) == (PlanClass.SPLIT, None)
    assert split.bound.part_steps == (PART_STEPS if objective is Objective.COST else None)
    assert {whole.status, split.status} == {Status.OPTIMAL}
    sign = 1.0 if objective.minimised else -1.0
    assert sign * judge(split.plan, instance).value <= sign * judge(whole.plan, instance).value + 1e-9


def test_a_search_that_is_cut_short_is_repeated_until_its_bound_is_proven() -> None:
    problem = SpatialProblem(small(3, 12, Objective.COST, GpuPool(V100)))
    with clocked(Run(work_limit=1_000_000)) as run:
        generation = ColumnGeneration(problem, run)
        generation.solve(lambda: False)
        best = generation.relaxed()
        # At lower duals no pattern gains.
        duals = replace(best, workload_dual=0.97 * best.workload_dual)
        few_nodes = 20
        short = problem.price_patterns(duals, 0.0, few_nodes, run.deadline)
        repeated = problem.price_harder(short, duals, 0.0, few_nodes, run, most_nodes=10**6)
        not_repeated = problem.price_harder(short, duals, 0.0, few_nodes, run, most_nodes=-1)

    threshold = problem.threshold(0, duals, 0.0)
    assert [result.patterns for result in short] == [[]]
    assert short[0].bound > threshold
    assert repeated[0].bound == threshold
    assert repeated[0].nodes > short[0].nodes
    assert not_repeated == short
