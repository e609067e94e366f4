"""Margins of the published code: rates, batch times and network, with expected values from the authors' files."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run
from bench.judging.judge import judge
from heuristics.gpulet.best_fit import GreedyBestFit
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning
from heuristics.gpulet.ideal import Ideal
from heuristics.gpulet.margins import (
    LATENCY_BUFFER,
    NETWORK_BYTES_PER_S,
    Margins,
    batch_assembly_ms,
    poisson_p99_rps,
    view_with,
)
from heuristics.gpulet.sbp import SbpVariant, SquishyBinPacking
from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.view import View

CODE = Margins.GLET_CODE
V100 = gpu_type("v100")
IMAGE_BYTES = 4 * 3 * 224 * 224
WITH_MARGINS = [
    ElasticPartitioning(margins=CODE),
    ElasticPartitioning(interference=False, margins=CODE),
    GreedyBestFit(interference=True, margins=CODE),
    SquishyBinPacking(margins=CODE),
    SquishyBinPacking(variant=SbpVariant.NEXUS, margins=CODE),
    Ideal(tries=100, margins=CODE),
]


@pytest.mark.parametrize(("rate_rps", "planned_rps"), [(100.0, 125.0), (200.0, 235.0)])
def test_planned_rates_are_those_of_the_authors_code(rate_rps: float, planned_rps: float) -> None:
    """The authors' scheduler plans 125 and 235 req/s for the rates of the scenarios of the ATC paper."""
    assert poisson_p99_rps(rate_rps) == planned_rps


@given(st.floats(0.5, 550.0))
@settings(max_examples=100)
def test_the_planned_rate_is_one_more_than_the_99th_percentile(rate_rps: float) -> None:
    total, term, quantile = math.exp(-rate_rps), math.exp(-rate_rps), 0
    while total < 0.99 * (1.0 - 1e-12):
        quantile += 1
        term *= rate_rps / quantile
        total += term
    assert poisson_p99_rps(rate_rps) == quantile + 1.0


@given(st.floats(0.5, 5000.0), st.floats(0.0, 100.0))
def test_planned_rates_grow_with_the_rates(rate_rps: float, more_rps: float) -> None:
    assert rate_rps < poisson_p99_rps(rate_rps) <= poisson_p99_rps(rate_rps + more_rps) + 1.0


@pytest.mark.parametrize(
    ("model", "input_bytes", "batch", "code_ms"),
    [
        ("lenet", 4 * 28 * 28, 32, 0.4),
        ("bert", 8 * 14, 1, 1.0),
        ("resnet50", IMAGE_BYTES, 1, 1.9 * 0.242238),
        ("vgg16", IMAGE_BYTES, 10, 1.9 * 3.24429),
        ("googlenet", IMAGE_BYTES, 32, 1.9 * 10.9889),
        ("ssd-mobilenet", 4 * 3 * 300 * 300, 16, 2.5 * 9.56877),
        ("ssd-mobilenet", 4 * 3 * 300 * 300, 32, 2.5 * 21.6965),
    ],
)
def test_batch_assembly_times_are_those_of_the_authors_files(
    model: str, input_bytes: int, batch: int, code_ms: float
) -> None:
    assert batch_assembly_ms(model, input_bytes, batch) == pytest.approx(code_ms, rel=0.03)


@given(st.integers(1, 31), st.sampled_from([IMAGE_BYTES, 1_080_000]))
def test_a_larger_batch_takes_longer_to_assemble(batch: int, input_bytes: int) -> None:
    assert batch_assembly_ms("any", input_bytes, batch) < batch_assembly_ms("any", input_bytes, batch + 1)


def problem(rates_rps: list[float], gpus: int = 4, objective: Objective = Objective.COST) -> Instance:
    slos_ms = {"alexnet": 40.0, "resnet50": 120.0, "vgg19": 160.0, "ssd": 200.0}
    workloads = tuple(
        Workload(model, model, slo_ms, rate)
        for (model, slo_ms), rate in zip(slos_ms.items(), rates_rps, strict=True)
        if rate > 0.0
    )
    return Instance("mix", objective, SloRule.DUTY_CYCLE, "igniter", (GpuPool(V100, gpus),), workloads)


def test_a_view_with_margins_has_rates_times_and_network() -> None:
    instance = problem([100.0, 200.0, 0.0, 50.0])
    plain, reserved = View.of(instance, V100), view_with(CODE, instance, V100)

    assert np.all(np.isinf(plain.network_rps))
    assert np.array_equal(view_with(Margins.PRINTED, instance, V100).network_rps, plain.network_rps)
    expected_rps = [NETWORK_BYTES_PER_S / size for size in (IMAGE_BYTES, IMAGE_BYTES, 4 * 3 * 300 * 300)]
    assert reserved.network_rps.tolist() == pytest.approx(expected_rps)
    assert reserved.rate_rps.tolist() == [125.0, 235.0, 68.0]
    assert reserved.instance.latency_buffer == LATENCY_BUFFER
    row = plain.model[1]
    added_ms = reserved.tables.transfer_ms[row, 1:17] - plain.tables.transfer_ms[row, 1:17]
    assert added_ms == pytest.approx([batch_assembly_ms("resnet50", IMAGE_BYTES, b) for b in range(1, 17)])
    assert np.array_equal(reserved.tables.active_ms, plain.tables.active_ms)


@pytest.mark.parametrize("scheduler", WITH_MARGINS, ids=lambda s: f"{s.name}-{getattr(s, 'interference', s)}"[:40])
@given(st.lists(st.sampled_from([0.0, 40.0, 150.0, 400.0, 1200.0]), min_size=4, max_size=4).filter(any))
@settings(max_examples=20)
def test_plans_with_margins_serve_the_rates_within_the_network(
    scheduler: ElasticPartitioning, rates: list[float]
) -> None:
    """With margins a plan serves exactly the rates, and keeps every SLO unless the scheduler is blind."""
    instance = problem(rates)
    plan = scheduler.schedule(instance, Run()).plan
    if plan is None:
        return
    rate_of, model_of = {w.id: w.rate_rps for w in instance.workloads}, instance.model_of
    served = dict.fromkeys(rate_of, 0.0)
    for gpu in plan.gpus:
        used = 0.0
        for slot in (slot for gpulet in gpu.gpulets for slot in gpulet.slots):
            served[slot.workload] += slot.rate_rps
            planned_rps = slot.rate_rps * poisson_p99_rps(rate_of[slot.workload]) / rate_of[slot.workload]
            used += planned_rps * V100.models[model_of[slot.workload]].input_bytes
        assert used <= NETWORK_BYTES_PER_S * (1.0 + 1e-6)
    assert served == pytest.approx(rate_of)
    if getattr(scheduler, "interference", True):
        for buffer in (1.0, LATENCY_BUFFER):
            assert judge(plan, replace(instance, latency_buffer=buffer)).violations == ()


def test_the_scale_is_that_of_the_arriving_rates() -> None:
    instance = problem([100.0, 100.0, 100.0, 50.0], objective=Objective.SCALE)
    printed, reserved = (
        judge(plan, instance).value
        for margins in Margins
        if (plan := ElasticPartitioning(margins=margins).schedule(instance, Run()).plan) is not None
    )
    assert printed is not None
    assert reserved is not None
    assert reserved < printed / LATENCY_BUFFER
