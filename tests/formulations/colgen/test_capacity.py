"""Pricing of filled GPUs under ``capacity``: the best GPU is found, and no GPU is worth more than the bound."""

import itertools
import math
import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.api import Run, Status
from bench.judging.judge import judge
from formulations.colgen.capacity.pricer import CapacityPricer
from formulations.colgen.capacity.problem import CapacityProblem
from formulations.colgen.scheduler import ColGen
from formulations.colgen.solution import ColumnGeneration
from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.generate import generate
from instances.least_shares import least_shares, within_budgets
from instances.one_gpu import Pattern
from instances.spare_shares import spend_spare_shares, throughput_rps
from instances.view import View
from instances.workload_classes import identical_workloads
from tests.formulations.colgen import coarse
from tests.formulations.exhaustive import small_batches

COARSE = small_batches(coarse.COARSE, 6)


@cache
def drawn(seed: int, size: int = 3) -> tuple[Instance, View, CapacityPricer, dict[tuple[int, ...], float]]:
    """Return an instance, its view and pricer, and the best throughput of every set of workloads that fits on a GPU.

    From seed 8 on, the budgets depend on the share.
    """
    instance = replace(generate("igniter-mix", size, seed, Objective.CAPACITY, gpus=2), gpus=(GpuPool(COARSE, 2),))
    if seed >= 8:
        instance = replace(instance, slo_rule=SloRule.ATTAINMENT)
    view = View.of(instance, COARSE)
    order, copy_of, _ = identical_workloads(instance)
    values = {}
    for count in range(1, size + 1):
        for members in itertools.combinations(range(size), count):
            best = best_of(view, members)
            if best > 0.0:
                values[members] = best
    return instance, view, CapacityPricer(view, 0, order, copy_of), values


def workloads(pattern: Pattern) -> tuple[int, ...]:
    return tuple(slot.workload for slot in pattern.residents)


def best_of(view: View, members: tuple[int, ...]) -> float:
    """Return the most throughput of one set on one GPU over all batches and shares; -inf if it does not fit."""
    best = -math.inf
    index = np.array(members)
    for batches in itertools.product(range(1, 7), repeat=len(members)):
        batch, units = np.array(batches), np.zeros(len(members), dtype=np.int64)
        budget = view.budgets_ms(index, batch)
        if least_shares(view.tables, view.model[index], batch, budget, units):
            total, proven = spend_spare_shares(view.tables, view.model[index], batch, budget, units, 10**7)
            assert proven
            best = max(best, total)
    return best


# Charges for three workloads; negative ones reward a GPU that serves the workload.
charges = st.lists(st.floats(-1500.0, 1500.0), min_size=3, max_size=3)


@settings(max_examples=40)
@given(st.integers(0, 11), charges)
def test_just_above_the_best_gpu_nothing_is_found_and_the_bound_is_the_threshold(
    seed: int, charge: list[float]
) -> None:
    _, _, pricer, values = drawn(seed)
    best = max(value - sum(charge[w] for w in members) for members, value in values.items())
    threshold = best + 1e-6 * (1.0 + abs(best))

    priced = pricer.price(np.array(charge), threshold, 1.0, math.inf)

    assert priced.patterns == []
    assert priced.bound == threshold
    assert not priced.cut_short


@settings(max_examples=40)
@given(st.integers(0, 11), charges)
def test_the_best_gpu_is_found_if_it_is_just_above_the_threshold(seed: int, charge: list[float]) -> None:
    _, view, pricer, values = drawn(seed)
    worth = {members: value - sum(charge[w] for w in members) for members, value in values.items()}
    best = max(worth.values())
    threshold = best - 1e-6 * (1.0 + abs(best))

    priced = pricer.price(np.array(charge), threshold, 1.0, math.inf)

    assert priced.patterns
    assert priced.bound >= best
    for pattern in priced.patterns:
        index, batch, _ = (np.array(column) for column in zip(*pattern.residents, strict=True))
        units = np.array([units for units, _ in pattern.gpulets])
        assert worth[workloads(pattern)] > threshold
        assert within_budgets(view.tables, view.model[index], batch, view.budgets_ms(index, batch), units)
        total = throughput_rps(view.tables, view.model[index], batch, units)
        assert total == pytest.approx(pattern.throughput_rps, rel=1e-12)


@settings(max_examples=30)
@given(st.integers(0, 11), charges, st.floats(0.0, 1.2), st.floats(1.0, 500.0))
def test_the_bound_holds_at_any_threshold_and_resolution(
    seed: int, charge: list[float], fraction: float, resolution: float
) -> None:
    _, _, pricer, values = drawn(seed)
    best = max(value - sum(charge[w] for w in members) for members, value in values.items())

    priced = pricer.price(np.array(charge), fraction * abs(best), resolution, math.inf)

    assert priced.bound >= best * (1.0 - 1e-9)


def test_identical_workloads_are_taken_in_order() -> None:
    identical = tuple(Workload(f"w{i}", "resnet50", 40.0, 100.0) for i in range(3))
    instance = replace(drawn(0)[0], workloads=identical)
    view = View.of(instance, COARSE)
    order, copy_of, _ = identical_workloads(instance)
    pricer = CapacityPricer(view, 0, order, copy_of)
    best = max(best_of(view, tuple(range(count))) + 100.0 * count for count in (1, 2, 3))

    priced = pricer.price(np.full(3, -100.0), best - 1e-3, 1.0, math.inf)

    assert {workloads(pattern) for pattern in priced.patterns} == {(0, 1, 2)}
    assert priced.bound == pytest.approx(best, abs=1e-2)


def test_no_time_means_no_bound() -> None:
    _, _, pricer, _ = drawn(1)

    priced = pricer.price(np.zeros(3), 0.0, 1.0, -math.inf)

    assert (priced.bound, priced.patterns, priced.nodes, priced.cut_short) == (math.inf, [], 0, True)


def check_that_everything_above_a_threshold_is_found(seed: int, charge: list[float], below: float) -> None:
    _, _, pricer, values = drawn(seed)
    worth = {members: value - sum(charge[w] for w in members) for members, value in values.items()}
    threshold = max(worth.values()) - below
    assume(all(abs(value - threshold) > 1e-6 * (1.0 + abs(value)) for value in worth.values()))

    priced = pricer.price(np.array(charge), threshold, 1.0, math.inf, exhaustive=True)

    best: dict[tuple[int, ...], float] = {}
    for pattern in priced.patterns:
        best[workloads(pattern)] = max(best.get(workloads(pattern), 0.0), pattern.throughput_rps)
    assert not priced.cut_short
    assert set(best) == {members for members, value in worth.items() if value > threshold}
    for members, value in best.items():
        assert value == pytest.approx(values[members], rel=1e-12)


@settings(max_examples=8)
@given(st.integers(0, 2), charges, st.floats(0.0, 1500.0))  # few seeds, since ``drawn`` takes a second for each
def test_everything_above_a_threshold_is_found(seed: int, charge: list[float], below: float) -> None:
    check_that_everything_above_a_threshold_is_found(seed, charge, below)


@pytest.mark.soak
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 11), charges, st.floats(0.0, 1500.0))
def test_everything_above_a_threshold_is_found_for_all_seeds(seed: int, charge: list[float], below: float) -> None:
    check_that_everything_above_a_threshold_is_found(seed, charge, below)


@pytest.mark.parametrize("seed", range(8))
def test_small_instances_are_proven(seed: int) -> None:
    instance, _, _, values = drawn(seed, 4)
    distributions = [
        (left, tuple(w for w in range(4) if w not in left))
        for count in range(5)
        for left in itertools.combinations(range(4), count)
    ]
    totals = [values.get(a, -math.inf if a else 0.0) + values.get(b, -math.inf if b else 0.0) for a, b in distributions]

    outcome = ColGen().schedule(instance, Run(time.monotonic() + 60.0))

    if max(totals) < 0.0:
        assert outcome.status is Status.INFEASIBLE
        return
    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert judge(outcome.plan, instance).value == pytest.approx(max(totals))
    assert outcome.bound.value >= max(totals) * (1.0 - 1e-9)


def test_a_pattern_found_again_keeps_the_larger_throughput() -> None:
    instance, _, _, _ = drawn(1, 4)
    generation = ColumnGeneration(CapacityProblem(instance), Run(time.monotonic() + 60.0))
    filled = generation.master.patterns[0]
    better, worse = (replace(filled, throughput_rps=filled.throughput_rps + more) for more in (1.0, -1.0))

    assert generation.add([better]) == 1
    assert generation.add([worse]) == 0

    assert generation.master.costs[0] == -better.throughput_rps
    assert generation.master.patterns[0].throughput_rps == better.throughput_rps


def test_a_plan_has_the_shares_of_its_patterns() -> None:
    instance, _, _, _ = drawn(1, 4)
    generation = ColumnGeneration(CapacityProblem(instance), Run(time.monotonic() + 60.0))
    for pattern in generation.master.patterns:
        realised = generation.problem.realise([pattern])
        assert realised is not None
        (placed,) = realised[1].gpus
        assert [g.share_units for g in placed.gpulets] == [units for units, _ in pattern.gpulets]
