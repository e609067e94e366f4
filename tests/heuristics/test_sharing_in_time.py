"""Time sharing: the authors' verdicts on their tables, and the nodes that squishy bin packing merges."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run
from heuristics.gpulet.sbp import SbpVariant, SquishyBinPacking, merge, residual
from heuristics.gpulet.state import times_by_batch_ms
from heuristics.gpulet.time_sharing import MOST_MODELS, NEGLIGIBLE_RPS
from instances import Plan
from tests.heuristics import glet
from tests.heuristics.mixes import planned

PUBLISHED = SquishyBinPacking(variant=SbpVariant.GLET_CODE)


def test_time_sharing_decides_every_scenario_as_the_authors_code() -> None:
    """The published C++ code schedules 17 of 128 scenarios of the grid on two GPUs, and 1 of 128 on one."""
    scheduled = Counter[tuple[str, int]]()
    for scenario in glet.SCENARIOS:
        plan = PUBLISHED.schedule(scenario.instance(), Run()).plan
        assert (plan is not None) is ("timesharing_only" in scenario.schedulable), scenario
        scheduled[scenario.group] += plan is not None

    assert (scheduled["grid", 2], scheduled["grid", 1]) == (17, 1)


def test_squishy_bin_packing_schedules_more_than_time_sharing() -> None:
    grid = [scenario.instance() for scenario in glet.SCENARIOS if scenario.group == ("grid", 2)]
    for variant in (SbpVariant.ATC22, SbpVariant.NEXUS):
        sbp = SquishyBinPacking(variant=variant)
        assert sum(sbp.schedule(problem, Run()).plan is not None for problem in grid) > 4 * 17


RATES = st.lists(st.sampled_from([0, 20, 60, 100, 200, 400, 900]), min_size=4, max_size=4).filter(any)


def served_rps(plan: Plan) -> dict[str, float]:
    served = dict.fromkeys((slot.workload for _, _, slot in plan.slots()), 0.0)
    for _, _, slot in plan.slots():
        served[slot.workload] += slot.rate_rps
    return served


@given(RATES, st.integers(1, 8))
@settings(max_examples=60)
def test_plans_of_time_sharing_meet_their_constraints(rates: list[int], gpus: int) -> None:
    problem = glet.serving([float(rate) for rate in rates], gpus)
    plan = PUBLISHED.schedule(problem, Run()).plan
    if plan is None:
        return
    view, gpulets = glet.view_of(problem)
    times_ms = dict(zip([w.id for w in problem.workloads], times_by_batch_ms(view, gpulets, 10), strict=True))
    slo_ms = {w.id: w.slo_ms for w in problem.workloads}

    assert plan.gpus_used <= gpus
    assert served_rps(plan).keys() == {w.id for w in problem.workloads}
    for gpu in plan.gpus:
        (gpulet,) = gpu.gpulets
        assert gpulet.share_units == 10
        assert len(gpulet.slots) <= MOST_MODELS
        if len(gpulet.slots) == 1:
            continue
        assert gpulet.duty_cycle_ms is not None
        busy_ms = sum(times_ms[slot.workload][slot.batch] for slot in gpulet.slots)
        assert busy_ms <= gpulet.duty_cycle_ms
        assert all(busy_ms + gpulet.duty_cycle_ms <= slo_ms[slot.workload] for slot in gpulet.slots)


@given(RATES, st.permutations(range(4)))
@settings(max_examples=40)
def test_time_sharing_on_enough_gpus_needs_no_turns(rates: list[int], order: list[int]) -> None:
    """With a GPU for each part of a rate, only rounding and negligible rates are unserved, in any order."""
    problem = glet.serving([float(rate) for rate in rates], 40)
    shuffled = replace(problem, workloads=tuple(problem.workloads[n] for n in order if n < len(problem.workloads)))
    plan = planned(PUBLISHED, problem)

    assert max(len(gpulet.slots) for gpu in plan.gpus for gpulet in gpu.gpulets) == 1
    for workload in problem.workloads:
        assert served_rps(plan)[workload.id] >= workload.rate_rps - NEGLIGIBLE_RPS - 2
    assert served_rps(planned(PUBLISHED, shuffled)) == served_rps(plan)


def test_the_published_time_sharing_refuses_halves() -> None:
    with pytest.raises(ValueError, match="halves is true; the variant glet-code shares whole GPUs"):
        SquishyBinPacking(halves=True, variant=SbpVariant.GLET_CODE)


@given(st.lists(st.integers(1, 120), min_size=4, max_size=4))
@settings(max_examples=60)
def test_pairs_are_merged_until_none_fits(rates: list[int]) -> None:
    problem = glet.serving([float(rate) for rate in rates], 4)
    view, gpulets = glet.view_of(problem)
    times_ms = times_by_batch_ms(view, gpulets, 10)
    residuals = [residual(times_ms[w], w, problem.workloads[w].slo_ms, float(rate)) for w, rate in enumerate(rates)]
    plan = planned(SquishyBinPacking(), problem)
    groups = [
        {view.instance.workload_index[s.workload] for s in gpulet.slots} for g in plan.gpus for gpulet in g.gpulets
    ]

    assert sorted(w for group in groups for w in group) == [0, 1, 2, 3]
    nodes = [node for node in residuals if node is not None]
    assert len(nodes) == 4
    occupied: dict[tuple[int, int], float] = {}
    for first, second in combinations(range(4), 2):
        node = merge(view, times_ms, nodes[first], nodes[second])
        if node is not None:
            occupied[first, second] = sum(times_ms[w][batch] for w, batch, _ in node.sessions) / node.cycle_ms
    singles = [next(iter(group)) for group in groups if len(group) == 1]
    assert not occupied.keys() & set(combinations(sorted(singles), 2))
    if occupied:
        busiest = max(occupied, key=lambda pair: occupied[pair])
        assert any(set(busiest) <= group for group in groups)
