"""``colgen`` for the class ``spatio-temporal``: no plan beats a bound, and the bounds are tight."""

import math
import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Outcome, Run, Scheduler, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.scheduler import SearchedClass
from formulations.colgen.temporal.gpulet_positions import SLOTS, Worth
from formulations.colgen.temporal.pricer import TemporalPricer
from formulations.colgen.temporal.turns import CYCLE_STEP
from heuristics.baselines.local_search import LocalSearch
from heuristics.gpulet.best_fit import GreedyBestFit, GuidedSelfTuning
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning
from heuristics.gpulet.gpu_scaling import GpuScaling
from heuristics.gpulet.ideal import Ideal
from heuristics.gpulet.sbp import SquishyBinPacking
from instances import GpuPool, Instance, Objective, Plan, PlanClass, SloRule, Workload
from instances.catalogue import gpu_type
from instances.view import View
from tests.formulations.exhaustive import small_batches
from tests.formulations.turns import contents, draw, twice_each, worth_of
from tests.frozen import frozen, frozen_type
from tests.soak import first

RTX, A100 = frozen_type("rtx2080ti"), frozen_type("a100-inss")
HEURISTICS: tuple[Scheduler, ...] = (
    ElasticPartitioning(),
    SquishyBinPacking(),
    Ideal(tries=200),
    GreedyBestFit(),
    GuidedSelfTuning(),
    GpuScaling(),
    LocalSearch(),
)


def bound_of(instance: Instance, limit_s: float = 60.0, start: Plan | None = None) -> Outcome:
    run = Run(deadline=time.monotonic() + limit_s, start=start)
    return ColGen(plan_class=SearchedClass.SPATIO_TEMPORAL).schedule(instance, run)


def of_any_rate(per_rps: np.ndarray, most_rps: np.ndarray) -> Worth:
    """Return a worth of rates without steps."""
    return Worth(per_rps, most_rps, np.zeros(len(per_rps)), 0.0)


def tiny(seed: int, shares: tuple[int, ...], model: str = "gpulet", size: int = 3) -> Instance:
    """Return an instance on one GPU that permits these shares, in tenths; ``model`` is its performance model."""
    gpu = {"gpulet": RTX, "igniter": replace(gpu_type("v100"), share_units=10), "inss": A100}[model]
    pct = tuple(round(gpu.share_units * units / 10) for units in shares)
    gpu = replace(small_batches(gpu, 3), name="tiny", allowed_shares=pct)
    return draw(Random(seed), gpu, model, size, Objective.SCALE, 1, (0.05, 0.6))


@pytest.mark.parametrize("seed", first(4, range(16)))
def test_the_bound_on_turns_on_a_whole_gpu_is_tight(seed: int) -> None:
    """Without neighbours, the bound relaxes only duty cycles and rates within a range, and second slots of a workload.

    So no plan is worth more than the bound, and the bound is little more than the best plan at slightly longer SLOs.
    """
    instance, random = tiny(seed, (10,)), Random(seed)
    view = View.of(instance, instance.gpus[0].type)
    worth = np.array([random.uniform(0.2, 1.0) for _ in instance.workloads]) / view.rate_rps

    bound = TemporalPricer(view).price(of_any_rate(worth, view.rate_rps)).bound

    assert bound >= max(worth_of(content, worth, view.rate_rps) for content in contents(view, 1))
    with_longer_slos = replace(view, slo_ms=view.slo_ms * (1.0 + CYCLE_STEP))
    relaxed = max(worth_of(content, worth, view.rate_rps) for content in twice_each(with_longer_slos))
    assert bound <= relaxed * (1.0 + CYCLE_STEP) * (1.0 + 1e-6)


@pytest.mark.parametrize("model", ["gpulet", "igniter", "inss"])
@pytest.mark.parametrize("seed", first(1, range(4)))
def test_no_content_of_a_shared_gpu_is_worth_more_than_the_bound(model: str, seed: int) -> None:
    instance, random = tiny(seed, (4, 6), model, size=2), Random(seed)
    view = View.of(instance, instance.gpus[0].type)
    worth = np.array([random.uniform(0.2, 1.0) for _ in instance.workloads]) / view.rate_rps
    every_content = list(contents(view, 2))

    bound = TemporalPricer(view).price(of_any_rate(worth, view.rate_rps)).bound
    scale = bound_of(instance).bound

    assert bound >= max(worth_of(content, worth, view.rate_rps) for content in every_content)
    assert scale is not None
    assert scale.value >= max(min(c.served_rps(w) / view.rate_rps[w] for w in range(2)) for c in every_content)
    for content in random.sample(every_content, min(20, len(every_content))):
        assert judge(Plan("drawn", (content.placed(instance),)), instance).feasible


@pytest.mark.parametrize("model", ["igniter", "inss"])
@pytest.mark.parametrize("seed", first(2, range(6)))
def test_no_gpu_of_up_to_three_gpulets_is_worth_more_than_the_bound(model: str, seed: int) -> None:
    """The gpulets have one slot each."""
    instance, random = tiny(seed, (2, 3, 4), model), Random(seed)
    view = View.of(instance, instance.gpus[0].type)
    worth = np.array([random.uniform(0.2, 1.0) for _ in instance.workloads])

    bound = TemporalPricer(view).price(of_any_rate(worth, np.full(3, np.inf))).bound

    best = max(math.fsum(worth[w] * c.served_rps(w) for w in range(3)) for c in contents(view, 3, most_slots=1))
    assert best <= bound


def test_the_bound_holds_if_the_least_demands_need_a_large_share() -> None:
    """On two units only ``loud`` is quick enough, so its demands are the least there.

    On four units ``calm`` is quick enough, and three of its gpulets do not disturb each other.
    """
    loud = replace(gpu_type("v100").model("vgg19"), name="loud", max_batch=1, l2=(0.0, 30.0), power=(0.0, 150.0))
    calm = replace(loud, name="calm", k=(0.0, 0.0, 300.0, 0.0, 0.0), l2=(0.0, 0.0), power=(0.0, 0.0))
    gpu = replace(gpu_type("v100"), share_units=12, allowed_shares=(2, 4), models={"loud": loud, "calm": calm})
    workloads = (Workload("loud", "loud", 1000.0, 10.0), Workload("calm", "calm", 25.0, 10.0))
    instance = Instance("drawn", Objective.SCALE, SloRule.HALF_SLO, "igniter", (GpuPool(gpu, 1),), workloads)
    view = View.of(instance, gpu)

    bound = TemporalPricer(view).price(of_any_rate(np.array([0.0, 1.0]), np.full(2, np.inf))).bound

    assert bound >= max(c.served_rps(1) for c in contents(view, 3, most_slots=1))


def test_the_bound_on_four_equal_gpulets_is_exact() -> None:
    """The bound relaxes only the neighbours, and here all four gpulets have the same workload and share."""
    gpu = replace(small_batches(gpu_type("v100"), 1), name="quarters", share_units=4, allowed_shares=(1,))
    instance = draw(Random(0), gpu, "igniter", 1, Objective.SCALE, 1, (0.5, 0.5))
    view = View.of(instance, gpu)
    best = max(c.served_rps(0) for c in contents(view, 4))

    priced = TemporalPricer(view).price(of_any_rate(np.ones(1), np.array([np.inf])))

    assert priced.bound == pytest.approx(best, rel=1e-6)
    assert sum(slot.rate_rps for slot in priced.patterns[-1].residents) == pytest.approx(best, rel=1e-6)


# Whole instances ----------------------------------------------------------------------------------------------------


@pytest.mark.soak
@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    model=st.sampled_from(["igniter", "inss", "gpulet"]),
    objective=st.sampled_from([Objective.COST, Objective.SCALE, Objective.GOODPUT]),
    limit_s=st.sampled_from([0.05, 0.3]),
)
def test_no_heuristic_beats_the_bound(seed: int, model: str, objective: Objective, limit_s: float) -> None:
    """The bound holds even if the search has little time."""
    random = Random(seed)
    gpu = {"gpulet": RTX, "igniter": gpu_type("v100"), "inss": A100}[model]
    instance = draw(random, gpu, model, random.randint(1, 4), objective, random.randint(1, 3), (0.03, 1.0))

    outcome = bound_of(instance, limit_s)

    for scheduler in HEURISTICS:
        if objective not in scheduler.objectives:
            continue
        plan = scheduler.schedule(instance, Run(deadline=time.monotonic() + 0.2)).plan
        if plan is None or not applies(plan, model):
            continue
        verdict = judge(plan, instance)
        if verdict.feasible:
            assert verdict.value is not None
            assert outcome.status is not Status.INFEASIBLE
            assert outcome.bound is None or not_beaten(outcome.bound.value, verdict.value, objective)


def applies(plan: Plan, model: str) -> bool:
    """Return whether the bound covers a plan: by its slots per gpulet, and under ``gpulet`` its gpulets per GPU."""
    slots = max(len(gpulet.slots) for gpu in plan.gpus for gpulet in gpu.gpulets)
    return slots <= SLOTS and (model != "gpulet" or all(len(gpu.gpulets) <= 2 for gpu in plan.gpus))


def not_beaten(bound: float, value: float, objective: Objective) -> bool:
    return value >= bound if objective.minimised else value <= bound


def gap_on(name: str, work: int) -> float:
    """Return the relative gap of the outcome. Its plan must be as good as that of ``ideal``, at one of two seeds."""
    instance = frozen(name)
    ideal = Ideal(tries=1000).schedule(instance, Run()).plan
    assert ideal is not None
    ideal_value = judge(ideal, instance).value
    assert ideal_value is not None
    for seed in range(2):
        run = Run(deadline=time.monotonic() + 600.0, work_limit=work, seed=seed)
        outcome = ColGen(plan_class=SearchedClass.SPATIO_TEMPORAL).schedule(instance, run)
        assert outcome.plan is not None
        value = judge(outcome.plan, instance).value
        assert value is not None
        if value >= ideal_value * (1.0 - 1e-6):
            break
    assert value >= ideal_value * (1.0 - 1e-6)
    assert outcome.bound is not None
    assert outcome.bound.certified
    assert outcome.bound.plan_class is PlanClass.SPATIO_TEMPORAL
    assert outcome.bound.slots_per_gpulet == SLOTS
    assert outcome.bound.allowed_shares is None
    assert outcome.bound.value >= value * (1.0 - 1e-9)
    return outcome.bound.value / value - 1.0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gpulet-scen2", marks=pytest.mark.soak),
        pytest.param("gpulet-long-only", marks=pytest.mark.soak),
        pytest.param("gpulet-scen3", marks=pytest.mark.soak),
        pytest.param("gpulet-traffic", marks=pytest.mark.soak),
    ],
)
def test_gpulets_instances_have_a_small_gap(name: str) -> None:
    assert gap_on(name, 2_500_000) <= 0.02


@pytest.mark.soak
@pytest.mark.parametrize("name", ["gpulet-scen1", "gpulet-scen4", "gpulet-equal", "gpulet-short-skew", "gpulet-game"])
def test_gpulets_larger_instances_have_a_gap_of_at_most_ten_percent(name: str) -> None:
    assert gap_on(name, 6_000_000) <= 0.1


def test_the_bound_of_one_workload_on_two_gpus_is_twice_that_of_one_gpu() -> None:
    """The GPUs permit only gpulets of the whole GPU, and the workload fills both."""
    instance = frozen("gpulet-scen2")
    instance = replace(
        instance,
        workloads=instance.workloads[:1],
        gpus=(GpuPool(replace(RTX, name="whole", allowed_shares=(RTX.share_units,)), 2),),
    )
    view = View.of(instance, instance.gpus[0].type)
    per_gpu = max(c.served_rps(0) for c in contents(view, 1) if len(c.gpulets[0][1]) == 1)

    outcome = bound_of(instance)

    assert outcome.bound is not None
    assert outcome.bound.value == pytest.approx(2.0 * per_gpu / view.rate_rps[0], rel=1e-6)


def test_a_start_plan_is_not_made_worse() -> None:
    instance = frozen("gpulet-traffic")
    start = ElasticPartitioning().schedule(instance, Run()).plan

    outcome = bound_of(instance, start=start)

    assert start is not None
    assert outcome.plan is not None
    assert judge(outcome.plan, instance).value >= judge(start, instance).value


# Instances without a plan or a bound --------------------------------------------------------------------------------


def test_without_time_there_is_no_bound() -> None:
    instance = frozen("gpulet-traffic")

    outcome = bound_of(instance, limit_s=0.0)

    assert outcome.status is Status.UNKNOWN
    assert outcome.bound is None


def test_a_pool_that_is_too_small_is_infeasible() -> None:
    instance = frozen("gpulet-traffic")

    outcome = bound_of(replace(instance.scaled(6.0), objective=Objective.COST))

    assert outcome.status is Status.INFEASIBLE
    assert "too few" in outcome.reason


def test_a_workload_that_no_gpu_serves_is_infeasible_and_named() -> None:
    instance = frozen("gpulet-traffic")
    hurried = (replace(instance.workloads[0], slo_ms=0.5), *instance.workloads[1:])

    outcome = bound_of(replace(instance, objective=Objective.COST, workloads=hurried))

    assert outcome.status is Status.INFEASIBLE
    assert hurried[0].id in outcome.reason


def test_an_instance_without_workloads_is_optimal() -> None:
    instance = frozen("gpulet-traffic")

    assert bound_of(replace(instance, workloads=())).status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"slo_rule": SloRule.P99}, "p99"),
        ({"gpus": (GpuPool(RTX),)}, "number of GPUs"),
    ],
)
def test_an_unsupported_instance_is_unknown_with_a_reason(change: dict[str, object], reason: str) -> None:
    instance = frozen("gpulet-traffic")

    outcome = bound_of(replace(instance, **change))  # type: ignore[arg-type]

    assert outcome.status is Status.UNKNOWN
    assert outcome.bound is None
    assert reason in outcome.reason
