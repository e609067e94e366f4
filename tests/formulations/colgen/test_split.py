"""Column generation over split plans against brute force, spatial plans and random split plans."""

import math
import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Bound, Outcome, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.demand import DemandOnGpu, demand_of
from formulations.colgen.scheduler import SearchedClass
from formulations.colgen.split.pricer import SplitPricer
from formulations.colgen.split.slots import part_served
from instances import GpuPool, Instance, Objective, Plan, PlanClass, SloRule, Workload
from instances.catalogue import gpu_type
from instances.costs import next_cost
from instances.generate import generate
from instances.one_gpu import Resident, fit_gpu
from instances.suites import suite
from instances.view import View
from instances.workload_classes import identical_workloads
from tests.formulations import split_plans
from tests.formulations.split_plans import MOST_GPUS, TINY, tiny
from tests.soak import first

V100 = gpu_type("v100")


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compile the kernels before the time limit of a run begins."""
    solve(tiny(0, Objective.COST))


def solve(instance: Instance, limit_s: float = 30.0, plan_class: PlanClass = PlanClass.SPLIT) -> Outcome:
    """Run ``colgen``, and check every plan and bound that it reports."""
    bounds: list[float] = []
    planned: list[float] = []

    def listen(plan: Plan | None, bound: Bound | None) -> None:
        if plan is not None:
            verdict = judge(plan, instance)
            assert verdict.feasible, verdict.violations
            assert verdict.value is not None
            assert plan_class.contains(plan.plan_class)
            served = {w.id: 0.0 for w in instance.workloads}
            for _, _, slot in plan.slots():
                served[slot.workload] += slot.rate_rps
            assert all(served[w.id] <= w.rate_rps * (1 + 1e-9) for w in instance.workloads)
            planned.append(verdict.value)
        if bound is not None:
            assert bound.certified
            assert bound.plan_class is plan_class
            bounds.append(bound.value)

    run = Run(deadline=time.monotonic() + limit_s, listener=listen)
    outcome = ColGen(plan_class=SearchedClass(plan_class)).schedule(instance, run)
    if bounds and planned:
        tolerance = 1e-6 * max(planned)
        if instance.objective.minimised:
            assert max(bounds) <= min(planned) + tolerance
        else:
            assert min(bounds) >= max(planned) - tolerance
    return outcome


def value(outcome: Outcome, instance: Instance) -> float:
    assert outcome.plan is not None
    plan_value = judge(outcome.plan, instance).value
    assert plan_value is not None
    return plan_value


# --- Brute force ---


def least_cost_agrees(seed: int) -> None:
    instance = tiny(seed, Objective.COST)
    optimum = split_plans.least_cost(instance, MOST_GPUS)
    assert optimum is not None

    outcome = solve(instance, 5.0)

    assert outcome.bound is not None
    assert outcome.bound.value <= optimum * (1 + 1e-9)
    # Under ``assembly``, brute force tries only some rates, and a slot of a plan serves its largest rate or the whole
    # rate of its workload.
    if outcome.status is Status.OPTIMAL and instance.slo_rule is not SloRule.ASSEMBLY:
        assert value(outcome, instance) == pytest.approx(optimum, rel=1e-9)


def most_goodput_agrees(seed: int) -> None:
    instance = tiny(seed, Objective.GOODPUT)
    optimum = split_plans.most_goodput(instance)

    outcome = solve(instance, 5.0)

    assert outcome.bound is not None
    assert outcome.bound.value >= optimum * (1 - 1e-9)
    assert value(outcome, instance) <= optimum * (1 + 1e-9)
    if outcome.status is Status.OPTIMAL:
        assert value(outcome, instance) >= optimum * (1 - 1e-7)


@pytest.mark.parametrize("seed", first(4, range(18)))
def test_no_split_plan_is_better_than_the_bound(seed: int) -> None:
    least_cost_agrees(seed)
    most_goodput_agrees(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(18, 200))
def test_no_split_plan_of_many_instances_is_better_than_the_bound(seed: int) -> None:
    least_cost_agrees(seed)
    most_goodput_agrees(seed)


def test_the_tiny_instances_are_of_every_kind() -> None:
    """Some need splitting, some need several slots of a workload on one GPU, and some need neither."""
    whole = [solve(tiny(s, Objective.COST), 5.0, PlanClass.SPATIAL) for s in range(12)]
    crowded = solve(tiny(44, Objective.GOODPUT), 5.0).plan

    assert any(outcome.status is Status.INFEASIBLE for outcome in whole)
    assert any(outcome.status is Status.OPTIMAL for outcome in whole)
    assert crowded is not None
    workloads_by_gpu = [[gpulet.slots[0].workload for gpulet in gpu.gpulets] for gpu in crowded.gpus]
    assert any(len(set(workloads)) < len(workloads) for workloads in workloads_by_gpu)


@settings(max_examples=8)
@given(
    st.integers(0, 100),
    st.lists(st.sampled_from([0.0, 0.2, 0.7, 1.0]), min_size=3, max_size=3),
    st.integers(0, 30),
)
def test_no_content_of_a_gpu_is_worth_more_than_pricing_says(seed: int, drawn: list[float], halved: int) -> None:
    """The bound holds however few regions are halved, also for GPUs with several slots of one workload."""
    instance = tiny(seed, Objective.COST)
    demand, weight = demand_on(instance, 0), np.array(drawn[: len(set(classes(instance)))])
    best = max(
        (worth(demand, classes(instance), weight, cover) for _, cover in split_plans.contents(instance, TINY)),
        default=0,
    )

    first = np.unique(classes(instance), return_index=True)[1]
    priced = SplitPricer(demand, 0, first).price(weight, 0.0, halved, math.inf)

    assert priced.bound >= best - 1e-9
    assert (len(priced.patterns) > 0) == (best > 0.0)


def classes(instance: Instance) -> list[int]:
    """Return the class of each workload."""
    return list(identical_workloads(instance)[2].tolist())


def demand_on(instance: Instance, pool: int) -> DemandOnGpu:
    """Return the demand of the classes of workloads on one GPU type."""
    _, first, copies = np.unique(classes(instance), return_index=True, return_counts=True)
    view = View.of(instance, instance.gpus[pool].type)
    return demand_of(view, first.astype(np.int64), copies.astype(np.float64))


def worth(demand: DemandOnGpu, class_of: list[int], weight: np.ndarray, cover: tuple[float, ...]) -> float:
    """Return the worth of the parts of workloads in ``cover``; no class counts for more than all of its workloads."""
    served = np.zeros(len(weight))
    np.add.at(served, class_of, cover)
    return float(weight @ np.minimum(served, demand.copies))


# --- What a slot serves ---


@settings(max_examples=200)
@given(
    st.integers(0, 500),
    st.integers(1, 3),
    st.floats(0.05, 60.0),
    st.sampled_from([Objective.COST, Objective.GOODPUT]),
)
def test_a_slot_serves_what_its_rule_allows(seed: int, batch: int, time_ms: float, objective: Objective) -> None:
    instance = tiny(seed, objective)
    allowed = split_plans.part_served(instance, TINY, 0, batch, time_ms)

    part = part_served(demand_on(instance, 0), 0, batch, time_ms)

    if objective is Objective.GOODPUT and instance.slo_rule is not SloRule.ASSEMBLY:
        assert part == pytest.approx(allowed, abs=1e-9)
    elif instance.slo_rule is SloRule.ASSEMBLY:
        # Brute force tries only some of the feasible rates, so the kernel may find a larger part.
        assert part >= allowed - 1e-9
    else:
        assert part == pytest.approx(allowed, rel=1e-9)


# --- Against other plans ---


@settings(max_examples=8)
@given(st.integers(0, 1_000), st.sampled_from([Objective.COST, Objective.GOODPUT]))
def test_splitting_never_makes_the_optimum_worse(seed: int, objective: Objective) -> None:
    family = "igniter-mix" if objective is Objective.COST else "overload-mix"
    drawn = generate(family, 3, seed, objective, gpus=None if objective is Objective.COST else 1)
    coarse = replace(V100, name="coarse", share_units=8)
    instance = replace(drawn, gpus=tuple(replace(pool, type=coarse) for pool in drawn.gpus))

    whole = solve(instance, 10.0, PlanClass.SPATIAL)
    split = solve(instance, 10.0)

    assert split.bound is not None
    assert split.plan is not None
    if whole.plan is not None:
        tolerance = 1e-9 * value(whole, instance)
        if objective is Objective.COST:
            assert split.bound.value <= value(whole, instance) + tolerance
            assert value(split, instance) <= value(whole, instance) + tolerance
        else:
            assert split.bound.value >= value(whole, instance) - tolerance
            assert value(split, instance) >= value(whole, instance) - tolerance


@settings(max_examples=8)
@given(st.integers(0, 1_000))
def test_no_random_split_plan_costs_less_than_the_bound(seed: int) -> None:
    """The plan places random parts of workloads by first fit; a bound that is too high may exceed its cost."""
    random = Random(seed)
    instance = replace(generate("igniter-mix", 4, seed, Objective.COST), gpus=(GpuPool(V100, None),))
    view = View.of(instance, V100)
    parts = []
    for w, workload in enumerate(instance.workloads):
        cut = random.choice((1.0, 0.5, random.uniform(0.1, 0.9)))
        parts += [(w, workload.rate_rps * part) for part in (cut, 1.0 - cut) if part > 0.0]
    random.shuffle(parts)
    gpus: list[list[Resident]] = []
    for w, rate in parts:
        candidates = [Resident(w, batch, rate) for batch in range(1, 17)]
        placements = (
            (gpu, resident)
            for gpu in [*gpus, []]
            for resident in candidates
            if fit_gpu(view, [*gpu, resident]) is not None
        )
        first_placement = next(placements, None)
        assert first_placement is not None, "a GPU alone serves any of these workloads"
        gpu, resident = first_placement
        if not gpu:
            gpus.append(gpu)
        gpu.append(resident)
    placed = [fit_gpu(view, gpu) for gpu in gpus]
    plan = Plan(instance.name, tuple(gpu for gpu in placed if gpu is not None))
    verdict = judge(plan, instance)
    assert verdict.feasible
    assert verdict.value is not None

    outcome = solve(instance, 1.0)

    assert outcome.bound is not None
    assert next_cost(outcome.bound.value, instance) <= verdict.value * (1 + 1e-9)


# --- Instances ---


@pytest.fixture(scope="module")
def twelve() -> tuple[Instance, Outcome]:
    """Return iGniter's twelve workloads, and the outcome of ``colgen`` for split plans."""
    (instance,) = suite("igniter-12").build()
    return instance, solve(instance, 60.0)


def test_splitting_saves_one_of_the_six_gpus(twelve: tuple[Instance, Outcome]) -> None:
    """Unsplit workloads need six GPUs, as spatial bounds prove; in parts they fit on five."""
    _, outcome = twelve

    assert outcome.plan is not None
    assert outcome.plan.plan_class is PlanClass.SPLIT
    assert outcome.plan.gpus_used == 5
    assert outcome.status is Status.OPTIMAL


def test_a_workload_too_large_for_any_gpu_is_split() -> None:
    workloads = (Workload("W7", "ssd", 25.0, 900.0), Workload("W8", "ssd", 25.0, 300.0))
    instance = Instance("big", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), workloads)

    assert solve(instance, 10.0, PlanClass.SPATIAL).status is Status.INFEASIBLE
    outcome = solve(instance, 10.0)

    assert outcome.plan is not None
    assert outcome.status is Status.OPTIMAL
    parts = [slot.rate_rps for _, _, slot in outcome.plan.slots() if slot.workload == "W7"]
    assert len(parts) > 1
    assert sum(parts) == pytest.approx(900.0)


def test_an_slo_that_nothing_meets_is_infeasible_and_named() -> None:
    workloads = (Workload("fast", "vgg19", 0.5, 10.0), Workload("easy", "alexnet", 50.0, 10.0))
    instance = Instance("hopeless", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), workloads)

    outcome = solve(instance)

    assert outcome.status is Status.INFEASIBLE
    assert "fast" in outcome.reason


def test_identical_workloads_each_get_their_rate() -> None:
    """A plan must assign each slot to one workload of the class, so that every workload gets its whole rate."""
    workloads = tuple(Workload(f"w{k}", "resnet50", 30.0, 900.0) for k in range(3))
    instance = Instance("copies", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), workloads)

    outcome = solve(instance, 10.0)

    assert outcome.plan is not None
    assert judge(outcome.plan, instance).feasible


def test_a_split_start_plan_is_reported_even_without_time(twelve: tuple[Instance, Outcome]) -> None:
    instance, best = twelve
    reported: list[Plan] = []
    run = Run(deadline=time.monotonic(), start=best.plan, listener=lambda p, _: reported.append(p) if p else None)

    ColGen(plan_class=SearchedClass.SPLIT).schedule(instance, run)

    assert min(plan.gpus_used for plan in reported) == 5


@pytest.mark.parametrize("limit_s", [0.0, 0.05, 0.5])
def test_early_stop_leaves_valid_bounds(limit_s: float) -> None:
    (instance,) = suite("igniter-12").build()

    outcome = solve(instance, limit_s)

    assert outcome.bound is None or outcome.bound.value <= 5 * V100.price_per_hour


@pytest.mark.parametrize("objective", [Objective.CAPACITY, Objective.SCALE])
def test_an_unlimited_pool_is_declined_where_throughput_would_be_infinite(objective: Objective) -> None:
    outcome = solve(replace(generate("igniter-mix", 3, 0, objective, gpus=2), gpus=(GpuPool(V100),)))

    assert outcome.status is Status.UNKNOWN
    assert objective.value in outcome.reason


def test_a_simulated_rule_is_declined() -> None:
    outcome = solve(replace(generate("igniter-mix", 3, 0, Objective.COST), slo_rule=SloRule.P99))

    assert outcome.status is Status.UNKNOWN
    assert "p99" in outcome.reason
