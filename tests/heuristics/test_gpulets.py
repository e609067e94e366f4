"""Gpulets and the steps of their schedulers: against brute force, and against values worked out by hand."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heuristics.gpulet.best_fit import GreedyBestFit, GuidedSelfTuning
from heuristics.gpulet.elastic_partitioning import (
    EfficientShare,
    find_best_fit,
    give,
    max_efficient_partition,
    min_required_partition,
    split,
    temporal_merge,
)
from heuristics.gpulet.ideal import layouts
from heuristics.gpulet.sbp import Rest, SquishyBinPacking, _GpuNode, merge, residual
from heuristics.gpulet.state import ALONE, capacity_rps, duty_cycle_ms, inference_ms, put, settle
from instances import PlanClass
from instances.catalogue import gpu_type
from tests.heuristics import glet
from tests.heuristics.mixes import planned

V100 = gpu_type("v100")


# --- Duty cycles ---


@given(
    st.lists(
        st.tuples(st.sampled_from(range(4)), st.floats(5.0, 900.0)), min_size=1, max_size=3, unique_by=lambda t: t[0]
    ),
    st.sampled_from([2, 4, 5, 6, 8, 10]),
)
@settings(max_examples=60)
def test_duty_cycles_agree_with_brute_force(slots: list[tuple[int, float]], units: int) -> None:
    view, gpulets = glet.view_of(glet.serving([1.0] * 4, 1))
    workload, rates = np.array([w for w, _ in slots]), np.array([rate for _, rate in slots])
    batch = np.zeros(8, dtype=np.int64)

    cycle = duty_cycle_ms(view.tables, gpulets, workload, rates, len(slots), units, ALONE, batch)

    def fits(d: float, margin: float) -> bool:
        sizes = [max(1, math.ceil(rate * d / 1000.0 - 1e-9)) for rate in rates]
        times = [inference_ms(view.tables, gpulets, w, b, units, ALONE) for w, b in zip(workload, sizes, strict=True)]
        in_time = all(d + t <= gpulets.slo_ms[w] * margin for w, t in zip(workload, times, strict=True))
        return in_time and sum(times) <= d * margin

    on_a_grid = [d for d in np.linspace(0.5, 60.0, 1191) if fits(d, 1.0 - 1e-6)]
    if on_a_grid:
        assert cycle > 0.0
    if cycle > 0.0:
        times = [
            inference_ms(view.tables, gpulets, w, int(b), units, ALONE) for w, b in zip(workload, batch, strict=False)
        ]
        assert sum(times) <= cycle
        assert all(cycle + t <= gpulets.slo_ms[w] for w, t in zip(workload, times, strict=True))
        assert all(rate * cycle <= 1000.0 * b * (1 + 1e-9) for rate, b in zip(rates, batch, strict=False))


@given(st.lists(st.floats(5.0, 100_000.0), min_size=2, max_size=4))
@settings(max_examples=60)
def test_uncompiled_duty_cycles_equal_compiled_ones(rates_rps: list[float]) -> None:
    """A batch above the largest one takes an infinite time, which Python, unlike compiled code, cannot round up."""
    view, gpulets = glet.view_of(glet.serving([1.0] * 4, 1))
    slots = (np.arange(len(rates_rps)), np.array(rates_rps), len(rates_rps))
    batch, uncompiled_batch = np.zeros(8, dtype=np.int64), np.zeros(8, dtype=np.int64)
    cycle_ms = duty_cycle_ms(view.tables, gpulets, *slots, 10, ALONE, batch)
    uncompiled_ms = duty_cycle_ms.py_func(view.tables, gpulets, *slots, 10, ALONE, uncompiled_batch)

    assert cycle_ms == pytest.approx(uncompiled_ms, rel=1e-12)
    assert np.array_equal(batch, uncompiled_batch)


def test_capacity_is_the_largest_rate_with_a_cycle() -> None:
    view, gpulets = glet.view_of(glet.serving([1.0] * 4, 1))
    batch = np.zeros(8, dtype=np.int64)
    for w in range(4):
        for units in view.tables.permitted.tolist():
            largest_rps = capacity_rps(view.tables, gpulets, w, units, ALONE)
            for part, possible in [(1.0, True), (0.4, True), (1.001, False)]:
                cycle = duty_cycle_ms(
                    view.tables, gpulets, np.array([w]), np.array([part * largest_rps]), 1, units, ALONE, batch
                )
                assert (cycle > 0.0) is possible
            assert gpulets.alone_rps[w, units] == largest_rps


# --- Steps worked out by hand ---


def test_least_and_most_efficient_shares_are_found() -> None:
    view, gpulets = glet.view_of(glet.serving([1.0] * 4, 1))
    for w in range(4):
        rate = {u: capacity_rps(view.tables, gpulets, w, u, ALONE) for u in view.tables.permitted.tolist()}
        assert list(rate.values()) == sorted(rate.values())
        for fewer, more in pairwise(rate):
            assert min_required_partition(view.tables, gpulets, w, rate[more]) == more
            assert min_required_partition(view.tables, gpulets, w, rate[fewer] * 1.0001) == more
        assert min_required_partition(view.tables, gpulets, w, 2.0 * rate[10]) == 10
        bends = {}
        for a, b, c in zip(rate, list(rate)[1:], list(rate)[2:], strict=False):
            points = [(u / 10, rate[u] / rate[10]) for u in (a, b, c)]
            area = abs(np.linalg.det([[x, y, 1.0] for x, y in points])) / 2
            sides = math.prod(
                math.dist(p, q) for p, q in [(points[0], points[1]), (points[1], points[2]), (points[0], points[2])]
            )
            bends[b] = 4 * area / sides
        assert max_efficient_partition(view, gpulets, w, EfficientShare.KNEE) == max(bends, key=lambda u: bends[u])
        assert max_efficient_partition(view, gpulets, w, EfficientShare.RATE_PER_SHARE) == max(
            rate, key=lambda u: rate[u] / u
        )


def test_the_best_fit_is_the_smallest_sufficient_gpulet() -> None:
    view, gpulets = glet.view_of(glet.serving([1.0] * 4, 4), 4)
    split(view.tables, gpulets, 2, 4)
    split(view.tables, gpulets, 4, 2)
    split(view.tables, gpulets, 6, 5)
    none_excluded = np.zeros(8, dtype=np.bool_)
    assert gpulets.units.tolist() == [10, 0, 4, 6, 2, 8, 5, 5]

    assert [find_best_fit(gpulets, ideal, none_excluded) for ideal in (1, 2, 3, 5, 6, 7, 9)] == [4, 4, 2, 6, 3, 5, 0]
    put(gpulets, 6, 0, 1.0)
    assert find_best_fit(gpulets, 5, none_excluded) == 7
    assert find_best_fit(gpulets, 9, np.array([True] + [False] * 7)) == 5  # no gpulet is large enough: the largest
    assert find_best_fit(gpulets, 1, ~none_excluded) == -1


def test_a_new_workload_takes_turns_or_moves_all_to_the_larger_gpulet() -> None:
    view, gpulets = glet.view_of(glet.serving([100.0, 100.0, 40.0, 20.0], 2), 2)
    split(view.tables, gpulets, 0, 2)
    rest = np.array([100.0, 100.0, 0.0, 0.0])
    assert give(view.tables, gpulets, 0, 0, 100.0, rest)
    assert temporal_merge(view.tables, gpulets, 1, 1, rest)
    assert gpulets.slots.tolist() == [2, 0, 0, 0]
    assert rest.tolist() == [0.0, 0.0, 0.0, 0.0]

    rest[3] = 60.0  # too much for a fifth of the GPU beside the two others
    assert temporal_merge(view.tables, gpulets, 1, 3, rest)
    assert gpulets.slots.tolist() == [0, 3, 0, 0]
    assert gpulets.rate_rps[1, :3].tolist() == [100.0, 100.0, 60.0]

    rest[2] = 5000.0
    assert not temporal_merge(view.tables, gpulets, -1, 2, rest)
    assert rest[2] == 5000.0
    assert gpulets.slots.tolist() == [0, 3, 0, 0]


def test_the_rate_that_a_neighbour_loses_is_served_elsewhere() -> None:
    view, gpulets = glet.view_of(glet.serving([1.0, 1.0, 1.0, 400.0], 1))
    split(view.tables, gpulets, 0, 5)
    rest = np.array([0.0, 0.0, 0.0, 400.0])
    largest_rps = capacity_rps(view.tables, gpulets, 3, 5, ALONE)

    assert give(view.tables, gpulets, 0, 3, largest_rps, rest)
    assert give(view.tables, gpulets, 1, 3, 0.8 * largest_rps, rest)

    assert gpulets.rate_rps[0, 0] < largest_rps
    assert gpulets.rate_rps[:, 0].sum() + rest[3] == pytest.approx(400.0)
    assert settle(view.tables, gpulets, 0)


def test_merging_follows_the_example_of_nexus() -> None:
    """Shen et al., SOSP 2019: rests of 64, 32 and 32 requests/s; A and B share a GPU, C does not fit.

    There B takes 50 ms, which fills the cycle completely; because of rounding it takes slightly less here.
    """
    latency_ms = {"A": {4: 50, 8: 75, 16: 100}, "B": {4: 49.99, 8: 90, 16: 125}, "C": {4: 60, 8: 95, 16: 125}}
    times = []
    for batches in latency_ms.values():
        column = np.full(17, np.inf)
        column[list(batches)] = list(batches.values())
        times.append(column)
    nodes = [residual(times[w], w, slo, rate) for w, (slo, rate) in enumerate([(200, 64), (250, 32), (250, 32)])]
    a, b, c = (node for node in nodes if node is not None)
    view, _ = glet.view_of(glet.serving([1.0] * 3 + [0.0], 1))

    assert [(node.sessions[0][1], round(node.cycle_ms)) for node in (a, b, c)] == [(8, 125), (4, 125), (4, 125)]
    merged = merge(view, times, a, b)
    assert merged == _GpuNode(a.cycle_ms, [(0, 8, 64), (1, 4, 32)])
    assert merge(view, times, a, c) is None


def test_halves_of_a_gpu_have_half_of_its_memory() -> None:
    view, _ = glet.view_of(glet.serving([1.0] * 3 + [0.0], 1))
    times = [np.array([np.inf, 10.0])] * 2
    nodes = [_GpuNode(100.0, [(w, 1, 10.0)]) for w in range(2)]
    memory_mib = np.full_like(view.tables.memory_mib, 1000.0)
    small, large = (
        replace(view, tables=view.tables._replace(memory_mib=memory_mib, memory_limit_mib=limit_mib))
        for limit_mib in (3999.0, 4000.0)
    )

    assert merge(small, times, *nodes) is not None
    assert merge(small, times, *nodes, parts=2) is None
    assert merge(large, times, *nodes, parts=2) is not None


@pytest.mark.parametrize(("collected", "batch", "cycle_ms"), [(Rest.BATCH, 3, 75.0), (Rest.WAIT, 4, 80.0)])
def test_the_batch_of_a_rest_depends_on_how_it_is_collected(collected: Rest, batch: int, cycle_ms: float) -> None:
    """At 40 requests/s, 3 requests arrive in 75 ms; of 4, the first waits 75 ms and the cycle ends after 100 ms."""
    times_ms = np.array([np.inf, 5.0, 10.0, 15.0, 20.0])

    node = residual(times_ms, 0, 100.0, 40.0, collected)

    assert node is not None
    assert node.sessions == [(0, batch, 40.0)]
    assert node.cycle_ms == pytest.approx(cycle_ms)


def test_a_small_rest_has_batches_of_one_in_the_longest_cycle() -> None:
    times_ms = np.array([np.inf, 5.0, 10.0])  # a request comes every 200 ms, later than the SLO

    for collected in Rest:
        node = residual(times_ms, 0, 100.0, 5.0, collected)
        assert node is not None
        assert node.sessions == [(0, 1, 5.0)]
        assert node.cycle_ms == pytest.approx(95.0)


def test_squishy_bin_packing_can_pack_halves_of_gpus() -> None:
    rates, gpus = [200.0, 100.0, 60.0, 40.0], 3
    whole = planned(SquishyBinPacking(), glet.serving(rates, gpus))
    halved = planned(SquishyBinPacking(halves=True), glet.serving(rates, gpus))
    assert {gpulet.share_units for gpu in whole.gpus for gpulet in gpu.gpulets} == {10}
    assert {gpulet.share_units for gpu in halved.gpus for gpulet in gpu.gpulets} == {5}
    assert max(len(gpu.gpulets) for gpu in halved.gpus) == 2
    assert {slot.workload for _, _, slot in halved.slots()} == {slot.workload for _, _, slot in whole.slots()}
    assert sum(slot.rate_rps for _, _, slot in halved.slots()) == pytest.approx(sum(rates))


def test_squishy_bin_packing_never_divides_gpus() -> None:
    plan = planned(SquishyBinPacking(), glet.serving([900.0, 700.0, 300.0, 350.0], 8))

    assert {gpulet.share_units for gpu in plan.gpus for gpulet in gpu.gpulets} == {10}
    assert plan.plan_class is PlanClass.SPATIO_TEMPORAL


def test_spatial_baselines_never_take_turns() -> None:
    problem = glet.serving([200.0, 100.0, 80.0, 60.0], 4)
    greedy, tuned = planned(GreedyBestFit(), problem), planned(GuidedSelfTuning(), problem)

    for plan in (greedy, tuned):
        assert all(
            len(gpulet.slots) == 1 and gpulet.duty_cycle_ms is None for gpu in plan.gpus for gpulet in gpu.gpulets
        )
    assert sum(gpu.share_units for gpu in greedy.gpus) <= sum(gpu.share_units for gpu in tuned.gpus)


def test_two_gpus_have_ten_layouts() -> None:
    view, undivided = glet.view_of(glet.serving([1.0] * 4, 2), 2)

    seen = [tuple(gpulets.units.tolist()) for gpulets in layouts(view, undivided)]

    assert len(seen) == len(set(seen)) == 10
    assert (2, 8, 5, 5) in seen
