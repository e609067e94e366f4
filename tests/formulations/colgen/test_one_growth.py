"""Merged tables, in which one demand stands for L2 and DRAM: they never overestimate a time, and pricing may use them.

Times are exact for the models whose growths in L2 and DRAM have the same ratio.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.clock import now
from formulations.colgen.interference_boxes import one_growth
from formulations.colgen.spatial.axes import Axes, axes_of
from formulations.colgen.spatial.boxes import Boxes, LeastDemands
from formulations.colgen.spatial.choices import Choices, all_choices
from formulations.cpsat import CpSat
from heuristics.baselines.local_search import LocalSearch
from heuristics.baselines.random_fit import RandomFit
from instances import GpuPool, GpuType, Instance, Objective, SloRule, Workload
from instances.configurations import rates_of
from instances.interference import gpu_time_ms
from instances.one_gpu import Resident, fit_gpu
from instances.tables import Tables, gpu_tables
from instances.view import View
from tests.frozen import frozen, frozen_type
from tests.soak import first

A100 = frozen_type("a100-inss")
TABLES = gpu_tables(A100, "inss")
SOLVABLE_S = 120.0
"""Time limit of a run: many times what any of these instances takes."""

growths = st.lists(st.sampled_from((0.0, 0.0, 0.001, 0.004, 0.02)) | st.floats(1e-6, 0.05), min_size=8, max_size=8)


def grown(alpha_l2: list[float], alpha_dram: list[float]) -> Tables:
    """Return the A100's tables with these growths of the eight models per percent of L2 and of DRAM."""
    return TABLES._replace(alpha_l2=np.array(alpha_l2), alpha_dram=np.array(alpha_dram))


def times_ms(tables: Tables, model: int, others: list[tuple[int, int, int]]) -> float:
    """Return the time of a batch of 8 on half the GPU beside ``others``, each (model, batch, share)."""
    l2 = sum(float(tables.l2_pct[other]) for other in others)
    dram = sum(float(tables.dram_pct[other]) for other in others)
    return float(gpu_time_ms(tables, model, 8, 27, 1 + len(others), l2, dram, 0.0))


neighbours = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 32), st.integers(1, 54)), min_size=1, max_size=4)


@given(growths, growths, neighbours)
def test_merged_times_are_never_longer_and_equal_for_exact_models(
    alpha_l2: list[float], alpha_dram: list[float], others: list[tuple[int, int, int]]
) -> None:
    tables = grown(alpha_l2, alpha_dram)
    merged, exact = one_growth(tables)

    for model in range(len(alpha_l2)):
        merged_ms, true_ms = times_ms(merged, model, others), times_ms(tables, model, others)
        assert merged_ms <= true_ms * (1 + 1e-12)
        if exact[model]:
            assert merged_ms == pytest.approx(true_ms, rel=1e-12)


@given(growths, st.floats(0.01, 100.0))
def test_one_ratio_is_exact_for_all_models(alpha_l2: list[float], ratio: float) -> None:
    assert one_growth(grown(alpha_l2, [ratio * alpha for alpha in alpha_l2])).exact.all()
    assert one_growth(grown([0.0] * 8, alpha_l2)).exact.all()


@given(growths)
def test_without_growth_in_dram_nothing_changes(alpha_l2: list[float]) -> None:
    tables = grown(alpha_l2, [0.0] * 8)

    merged, exact = one_growth(tables)

    assert exact.all()
    assert merged.l2_pct is tables.l2_pct
    assert merged.alpha_l2 is tables.alpha_l2


def test_a_model_whose_ratio_differs_is_not_exact() -> None:
    merged, exact = one_growth(grown([0.01] * 7 + [0.0], [0.01] * 7 + [0.02]))

    assert exact.tolist() == [True] * 7 + [False]
    assert merged.alpha_l2[:7] == pytest.approx(np.full(7, 0.02))
    assert merged.alpha_l2[7] == 0.0


# --- Pricing with merged tables ---


def draw_gpu(random: Random, models: int) -> GpuType:
    """Return the A100 with few models up to batch 6, whose growths have one ratio in common or different ratios."""
    common_pair = [(random.choice((0.002, 0.01)), random.choice((0.005, 0.02)))]
    pairs = common_pair if random.random() < 0.4 else [*common_pair, (0.0, 0.01), (0.01, 0.0), (0.005, 0.02)]
    chosen = {
        name: replace(A100.models[name], max_batch=6, inss=random.choice(pairs))
        for name in random.sample(list(A100.models), models)
    }
    return replace(A100, name="drawn", models=chosen)


def draw(seed: int, objective: Objective, gpus: int | None, count: int) -> Instance:
    """Return an instance of ``count`` workloads that take up to about half a GPU each."""
    random = Random(f"{objective} {seed}")
    gpu = draw_gpu(random, 3)
    tables, workloads = gpu_tables(gpu, "inss"), []
    for number in range(count):
        row, batch, units = random.randrange(3), random.randint(1, 6), random.randint(4, 30)
        time_ms = float(tables.active_ms[row, batch, units] + tables.transfer_ms[row, batch]) * random.uniform(1.2, 1.8)
        slo_ms, rate_rps = 2.4 * time_ms * random.uniform(1.0, 1.5), 900.0 * batch / time_ms
        workloads.append(Workload(f"w{number}", list(gpu.models)[row], round(slo_ms, 1), round(rate_rps, 1)))
    rule = random.choice((SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE))
    return Instance("drawn", objective, rule, "inss", (GpuPool(gpu, gpus),), tuple(workloads))


def tight_gpus(view: View, choices: Choices) -> Iterator[list[tuple[int, int, int]]]:
    """Yield every GPU with both workloads at their least shares, as (workload, batch, share) of each."""
    rates = view.rate_rps.tolist()
    options = [
        [(w, int(b)) for b in choices.batch[choices.option[choices.first[w]] : choices.option[choices.first[w + 1]]]]
        for w in range(len(rates))
    ]
    for pairs in product(*options):
        gpu = fit_gpu(view, [Resident(w, b, rates[w]) for w, b in pairs])
        if gpu is not None:
            yield [(w, b, gpulet.share_units) for (w, b), gpulet in zip(pairs, gpu.gpulets, strict=True)]


# At seed 33 a GPU would be in no box if the boxes ignored the DRAM demand that the merged tables leave out.
@pytest.mark.parametrize("throttle_per_w", [-0.002, 0.0], ids=["contention and power", "L2 and DRAM"])
@pytest.mark.parametrize("seed", [*range(8), 33])
def test_every_tight_gpu_is_in_a_box_whose_least_shares_are_no_larger(seed: int, throttle_per_w: float) -> None:
    instance = draw(seed, Objective.COST, None, 2)
    view = View.of(instance, instance.gpus[0].type)
    # Demands rise steeply with the share, and the power is capped. So boxes are left out whose demands the workloads
    # cannot reach. DRAM slows down only some of the models.
    steep = np.broadcast_to(0.8 * np.arange(A100.share_units + 1.0), view.tables.l2_pct.shape).copy()
    tables = view.tables._replace(
        l2_pct=steep,
        dram_pct=0.4 * view.tables.dram_pct,
        power_w=steep,
        alpha_l2=np.full(3, 0.01),
        alpha_dram=np.array([0.0, 0.05, 0.05 * (seed % 2)]),
        idle_power_w=5.0,
        max_power_w=30.0,
        throttle_per_w=throttle_per_w,
    )
    view = replace(view, tables=tables)
    choices = all_choices(view, np.arange(2), np.full(2, -1), [rates_of(instance, w) for w in range(2)])
    axes = axes_of(tables)
    assert axes.by_dram == (throttle_per_w == 0.0)
    boxes, fewer_boxes = Boxes(axes, choices), Boxes(axes, choices, deadline=now() + 1e-4)
    assert fewer_boxes.count < boxes.count
    for least in (boxes.least, fewer_boxes.least):
        assert_tight_gpus_are_in_boxes(view, axes, choices, least)


def assert_tight_gpus_are_in_boxes(view: View, axes: Axes, choices: Choices, least: LeastDemands) -> None:
    tested_gpus = 0
    for residents in tight_gpus(view, choices):
        entries = [(int(view.model[w]), b, u) for w, b, u in residents]
        l2 = sum(float(axes.tables.l2_pct[entry]) for entry in entries)
        power = sum(float(axes.tables.power_w[entry]) for entry in entries)
        n, _, l2_low, l2_high, power_low, power_high = least.box.T
        boxes_of_gpu = np.flatnonzero(
            (n == len(residents))
            & (l2_low <= l2 * (1 + 1e-9))
            & (l2 <= l2_high * (1 + 1e-9))
            & (power_low <= power * (1 + 1e-9))
            & (power <= power_high * (1 + 1e-9))
        )
        assert len(boxes_of_gpu) > 0
        for w, _, u in residents:
            assert np.all(least.units[boxes_of_gpu, choices.first[w]] <= u)
        tested_gpus += 1
    assert tested_gpus > 0


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT])
@pytest.mark.parametrize("seed", first(2, range(5)))
def test_column_generation_agrees_with_the_assignment_model(seed: int, objective: Objective) -> None:
    cost = objective is Objective.COST
    instance = draw(seed, objective, None if cost else 2, 5 if cost else 3)

    schedulers = (ColGen(), CpSat())
    outcomes = [scheduler.schedule(instance, Run(deadline=time.monotonic() + SOLVABLE_S)) for scheduler in schedulers]

    values = []
    for outcome in outcomes:
        assert outcome.status is Status.OPTIMAL
        assert outcome.plan is not None
        verdict = judge(outcome.plan, instance)
        assert verdict.feasible
        values.append(verdict.value)
    assert values[0] == pytest.approx(values[1], rel=1e-8)


# --- The small cluster of InSS ---

SMALL_CLUSTER = frozen("4gpu")


def small_cluster(factors: list[float], objective: Objective) -> Instance:
    """Return the small cluster at multiples of its rates, a factor for each workload."""
    workloads = tuple(
        replace(workload, rate_rps=workload.rate_rps * factor)
        for workload, factor in zip(SMALL_CLUSTER.workloads, factors, strict=True)
    )
    return replace(SMALL_CLUSTER, objective=objective, workloads=workloads)


@settings(max_examples=2)
@given(st.lists(st.floats(1.2, 3.0), min_size=10, max_size=10))
def test_no_plan_for_ten_workloads_serves_more_than_the_optimum(factors: list[float]) -> None:
    instance = small_cluster(factors, Objective.GOODPUT)

    outcome = ColGen().schedule(instance, Run(deadline=time.monotonic() + SOLVABLE_S))

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert judge(outcome.plan, instance).value == pytest.approx(outcome.bound.value, rel=1e-8)
    for heuristic in (LocalSearch(), RandomFit()):
        plan = heuristic.schedule(instance, Run(deadline=time.monotonic() + 0.5)).plan
        assert plan is not None
        verdict = judge(plan, instance)
        assert verdict.feasible
        assert verdict.value is not None
        assert verdict.value <= outcome.bound.value * (1 + 1e-9)


def test_the_most_throughput_of_the_small_cluster_is_proven() -> None:
    outcome = ColGen().schedule(SMALL_CLUSTER, Run(deadline=time.monotonic() + SOLVABLE_S))

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    verdict = judge(outcome.plan, SMALL_CLUSTER)
    assert verdict.feasible
    local_plan = LocalSearch().schedule(SMALL_CLUSTER, Run(deadline=time.monotonic() + 1.0)).plan
    assert local_plan is not None
    local = judge(local_plan, SMALL_CLUSTER)
    assert verdict.value is not None
    assert local.value is not None
    assert verdict.value >= local.value * (1 - 1e-9)


def test_without_time_the_bound_on_goodput_is_the_sum_of_the_rates() -> None:
    instance = small_cluster([0.1] * 10, Objective.GOODPUT)

    outcome = ColGen().schedule(instance, Run(deadline=time.monotonic()))

    assert outcome.bound is not None
    assert outcome.bound.value == pytest.approx(sum(w.rate_rps for w in instance.workloads), rel=1e-8)
