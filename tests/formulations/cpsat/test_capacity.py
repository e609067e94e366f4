"""``cpsat`` under ``capacity``: known answers, agreement with brute force, and bounds of searches cut short."""

import time
from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run, Status
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from formulations.cpsat.capacity.cell import overestimate, throughput_of
from formulations.cpsat.capacity.one_gpu import OneGpu, class_configurations
from instances import GpuPool, GpuType, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.configurations import rates_of
from instances.generate import generate
from instances.view import View
from tests.formulations import exhaustive
from tests.formulations.cpsat.tiny import COARSE, GAPS, Reports, check_reports, instance_of, solve, value
from tests.frozen import frozen_type

V100, A100 = gpu_type("v100"), frozen_type("a100-inss")

# --- Answers of an independent solver ---

WorkloadRow = tuple[str, float, float]
"""Model, SLO in milliseconds and rate in requests per second."""

# GPU type, number of GPUs, workloads, and largest throughput in requests per second
KNOWN: list[tuple[GpuType, int, list[WorkloadRow], float]] = [
    (
        V100,
        1,
        [
            ("vgg19", 43.945, 37.577),
            ("resnet50", 33.872, 167.857),
            ("resnet50", 45.314, 94.928),
            ("ssd", 43.529, 45.265),
        ],
        1122.154225385887,
    ),
    (
        V100,
        2,
        [
            ("vgg19", 17.768, 201.445),
            ("resnet50", 20.445, 496.191),
            ("ssd", 43.017, 28.195),
            ("vgg19", 36.128, 123.816),
        ],
        1800.1946583573156,
    ),
    (
        V100,
        2,
        [
            ("resnet50", 35.763, 279.984),
            ("resnet50", 47.155, 201.645),
            ("vgg19", 38.874, 28.875),
            ("resnet50", 50.265, 186.955),
            ("alexnet", 17.401, 43.062),
        ],
        10450.654867734736,
    ),
    (
        A100,
        1,
        [("resnet18", 20.18, 349.33), ("resnet18", 17.33, 185.05), ("efficientnet", 35.22, 192.65)],
        5171.6736010196555,
    ),
]


@pytest.mark.parametrize(("gpu", "count", "rows", "optimum"), KNOWN)
def test_known_optima_are_proven(gpu: GpuType, count: int, rows: list[WorkloadRow], optimum: float) -> None:
    workloads = tuple(Workload(f"w{i}", *row) for i, row in enumerate(rows))
    instance = instance_of(workloads, GpuPool(gpu, count), objective=Objective.CAPACITY)
    if gpu is A100:
        instance = replace(instance, slo_rule=SloRule.ASSEMBLY, performance_model="inss")
    reports = Reports()

    outcome = solve(instance, reports, deadline=time.monotonic() + 60.0)

    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.bound.value == pytest.approx(optimum, rel=1e-8)
    assert value(outcome.plan, instance) == pytest.approx(optimum, rel=1e-8)
    check_reports(reports, instance, optimum)


# --- Agreement with brute force and with column generation ---


@cache
def drawn(seed: int) -> tuple[Instance, float | None]:
    """Return a tiny instance on one or two GPU types, and its optimum."""
    random = Random(seed)
    # The V100 with few shares, or with gaps between the permitted ones
    gpu = exhaustive.small_batches(random.choice((COARSE, GAPS)), 3)
    workloads = exhaustive.draw_workloads(random, gpu, random.randint(1, 3), (0.1, random.choice((0.3, 0.8))))
    if random.random() < 0.3:
        # Two are identical; at most three, as brute force is slow
        workloads = (*workloads[1:], workloads[0], replace(workloads[0], id="again"))[-3:]
    pools = [GpuPool(gpu, random.choice((1, 2)))]
    if random.random() < 0.4:
        pools.append(GpuPool(exhaustive.slower(gpu, "slow", 1.3, 1.0), 1))
    instance = instance_of(
        workloads,
        *pools,
        objective=Objective.CAPACITY,
        slo_rule=random.choice((SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE)),
        latency_buffer=random.choice((1.0, 1.1)),
    )
    return instance, exhaustive.most_capacity(instance)


@settings(max_examples=25)
@given(st.integers(0, 39))
def test_the_optimum_is_that_of_brute_force_and_column_generation(seed: int) -> None:
    instance, optimum = drawn(seed)
    reports = Reports()

    outcome = solve(instance, reports)
    of_colgen = ColGen().schedule(instance, Run())

    if optimum is None:
        assert outcome.status is of_colgen.status is Status.INFEASIBLE
        assert outcome.reason
        return
    assert outcome.status is of_colgen.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == pytest.approx(optimum, rel=1e-9)
    assert value(outcome.plan, instance) == pytest.approx(value(of_colgen.plan, instance), rel=1e-9)
    assert outcome.bound is not None
    assert outcome.bound.certified
    check_reports(reports, instance, optimum)


# --- Cells: an interval of the configurations of each resident ---


@cache
def hot(seed: int) -> tuple[Instance, View]:
    """Return an instance of three small workloads on a GPU that throttles, and its view."""
    instance = generate("igniter-mix", 3, seed, Objective.CAPACITY, gpus=1).scaled(0.2)
    hardware = V100.hardware
    gpu = replace(V100, name="hot", hardware=replace(hardware, max_power_w=0.7 * hardware.max_power_w))
    return replace(instance, gpus=(GpuPool(gpu, 1),)), View.of(instance, gpu)


def test_no_plan_in_a_cell_is_above_its_overestimate() -> None:
    random, tried = Random(0), 0
    for seed in range(8):
        instance, view = hot(seed)
        offered, _ = class_configurations(view, [rates_of(instance, w) for w in range(3)], [[0], [1], [2]])
        first = offered.first.tolist()
        for _ in range(3000):
            chosen = [random.randrange(begin, end) for begin, end in pairwise(first)]
            total, slack = throughput_of(view.tables, offered, np.array(chosen))
            if slack < 0.0:
                continue
            low = np.array([random.randint(begin, row) for begin, row in zip(first, chosen, strict=False)])
            high = np.array([random.randint(row + 1, end) for row, end in zip(chosen, first[1:], strict=True)])

            bound = overestimate(view.tables, offered, np.arange(3), low, high, np.zeros(3, dtype=np.int64))

            assert bound >= total
            assert (low <= chosen).all()
            assert (chosen < high).all()
            tried += 1
    assert tried >= 100


def test_the_overestimate_of_a_cell_with_one_plan_is_its_throughput() -> None:
    instance, view = hot(0)
    offered, impact = class_configurations(view, [rates_of(instance, w) for w in range(3)], [[0], [1], [2]])
    search = OneGpu.of(view.tables, offered, impact, (0, 1, 2))
    while not search.closed:
        search.search_part(float("inf"))
    chosen = np.array(search.chosen)

    bound = overestimate(view.tables, offered, np.arange(3), chosen.copy(), chosen + 1, np.zeros(3, dtype=np.int64))

    assert bound == pytest.approx(search.value, rel=1e-10)


# --- Limits ---


def test_with_too_many_sets_there_is_a_plan_a_bound_and_a_reason() -> None:
    instance = generate("igniter-mix", 6, 0, Objective.CAPACITY, gpus=4)
    best = CpSat().schedule(instance, Run())
    assert best.status is Status.OPTIMAL
    optimum = value(best.plan, instance)

    outcome = CpSat(gpu_sets=3).schedule(instance, Run())

    assert outcome.status is Status.FEASIBLE
    assert 0.0 < value(outcome.plan, instance) <= optimum
    assert outcome.bound is not None
    assert outcome.bound.certified
    assert outcome.bound.value >= optimum
    assert outcome.reason == "more than 3 sets of workloads may share a GPU (parameter gpu_sets)"


def test_the_number_of_sets_is_checked() -> None:
    with pytest.raises(ValueError, match="gpu_sets is -1; expected at least 0"):
        CpSat(gpu_sets=-1)
