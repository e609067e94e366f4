"""Contents of GPUs whose slots may take turns: the rates they serve, their improvement, and complete lists of them."""

import math
import time
from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run
from bench.judging.judge import judge
from formulations.colgen.column_generation import best_factor, cost_bound
from formulations.colgen.temporal.closing import _listed, _threshold, can_list
from formulations.colgen.temporal.contents import (
    GpuContents,
    contents_of,
    improve,
    pattern_of,
    pattern_of_contents,
    serve,
    worth_of,
)
from formulations.colgen.temporal.enumeration import (
    UndominatedList,
    empty_gpu_list,
    empty_list,
    insert_undominated,
    list_gpulets,
)
from formulations.colgen.temporal.every_content import contents_worth_at_least
from formulations.colgen.temporal.generation import TemporalGeneration
from formulations.colgen.temporal.gpulet_positions import SLOTS, Worth, all_times_ms
from formulations.colgen.temporal.pricer import TemporalPricer
from formulations.colgen.temporal.search import PlanSearch
from instances import Gpulet, Instance, Objective, PlacedGpu, Plan, PlanClass, SloRule, Slot
from instances.arrays import Floats
from instances.one_gpu import Pattern
from instances.view import View
from tests.formulations import turns

Vector = tuple[float, ...]


def small(seed: int, objective: Objective = Objective.SCALE) -> tuple[Instance, TemporalPricer]:
    instance = turns.drawn_for(PlanClass.SPATIO_TEMPORAL, objective, seed)
    return instance, TemporalPricer(View.of(instance, instance.gpus[0].type))


def any_content(random: Random, pricer: TemporalPricer, most_slots: int = SLOTS) -> Pattern:
    """Return random gpulets and slots within the share units and the number of gpulets, perhaps infeasible."""
    tables, gpulets, left = pricer.tables, [], pricer.tables.share_units
    slots = turns.all_slots(pricer.view)
    while len(gpulets) < tables.most_residents:
        fits = [int(units) for units in tables.permitted if units <= left]
        if not fits or (gpulets and random.random() < 0.3):
            break
        units = random.choice(fits)
        left -= units
        gpulets.append((units, random.choices(slots, k=random.randint(1, most_slots))))
    return pattern_of(0, gpulets)


def plain(pattern: Pattern) -> tuple[tuple[int, turns.Slots], ...]:
    """Return the gpulets of a pattern with slots (workload, batch)."""
    return tuple((units, tuple((slot.workload, slot.batch) for slot in slots)) for units, slots in pattern.gpulets)


def any_worth(random: Random, pricer: TemporalPricer) -> Worth:
    """Return a random worth: some workloads may be worth nothing, and rates may be limited or have steps."""
    rate_rps = pricer.view.rate_rps
    worth = np.array([random.choice([0.0, random.uniform(0.1, 1.0)]) for _ in rate_rps])
    most = random.choice([1.0, 3.0, math.inf])
    step = random.choice([0.0, 0.05]) if most == 1.0 else 0.0
    throughput = random.choice([0.0, 1.0]) if math.isinf(most) else 0.0
    return Worth(worth / rate_rps, most * rate_rps, step * rate_rps, throughput)


def planned(instance: Instance, content: Pattern, buffer: GpuContents, rates_rps: Floats) -> Plan:
    """Return the plan of one GPU whose slots have these rates, shape (gpulets, 3)."""
    gpulets = []
    for g, (units, slots) in enumerate(plain(content)):
        planned_slots = tuple(
            Slot(instance.workloads[w].id, b, float(rates_rps[g, s])) for s, (w, b) in enumerate(slots)
        )
        gpulets.append(Gpulet(units, planned_slots, float(buffer.cycle_ms[g]) if len(slots) > 1 else None))
    return Plan(instance.name, (PlacedGpu(instance.gpus[0].type.name, tuple(gpulets)),))


# --- What slots serve ---


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_slots_serve_what_the_judge_permits_and_no_more(seed: int) -> None:
    random = Random(seed)
    instance, pricer = small(seed)
    content = any_content(random, pricer)
    buffer = contents_of(content)

    feasible = serve(pricer.demand, buffer)

    expected = turns.served(pricer.view, plain(content))
    assert feasible == (expected is not None)
    if expected is None:
        return
    rates, least = buffer.rate_rps, buffer.least_rps
    for g, (_, slots) in enumerate(content.gpulets):
        assert rates[g, : len(slots)] == pytest.approx(expected.rates_rps[g], rel=1e-8)
        assert least[g, : len(slots)] == pytest.approx(expected.least_rps[g], rel=1e-8)
        assert buffer.throughput_rps[g, : len(slots)] == pytest.approx(expected.throughputs_rps[g], rel=1e-8)
    for permitted in (rates, np.where(least > 0.0, least, rates)):
        verdict = judge(planned(instance, content, buffer, permitted), instance)
        assert verdict.feasible, verdict.violations
    for g, (_, slots) in enumerate(content.gpulets):
        for s in range(len(slots)):
            changed = rates.copy()
            changed[g, s] *= 1.0001
            assert not judge(planned(instance, content, buffer, changed), instance).feasible
            if least[g, s] > 0.0:
                changed[g, s] = least[g, s] * 0.9999
                assert not judge(planned(instance, content, buffer, changed), instance).feasible


def test_random_contents_have_every_kind_of_slot() -> None:
    """Each rule has slots in turn and single slots, and under ``assembly`` some slots have least rates."""
    seen = set()
    for seed in range(200):
        instance, pricer = small(seed)
        content = any_content(Random(seed), pricer)
        buffer = contents_of(content)
        if serve(pricer.demand, buffer):
            seen |= {(instance.slo_rule, len(slots) > 1) for _, slots in content.gpulets}
            seen |= {(instance.slo_rule, "waits")} if buffer.least_rps.any() else set()
    rules = (SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE)
    assert seen == {*((rule, turn) for rule in rules for turn in (False, True)), (SloRule.ASSEMBLY, "waits")}


# --- Improvement ---


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_improvement_never_lowers_the_worth_and_keeps_every_limit(seed: int) -> None:
    random = Random(seed)
    _, pricer = small(seed)
    most_slots = random.choice([1, SLOTS])
    worth, start = any_worth(random, pricer), any_content(random, pricer, most_slots)
    room = int(pricer.tables.share_units // pricer.tables.permitted[0])
    buffer = contents_of(start, min(pricer.tables.most_residents, room))
    before = worth_of(pricer.demand, worth, contents_of(start))

    value = improve(pricer.demand, worth, buffer, most_slots)

    assert value >= max(before, 0.0)
    after = pattern_of_contents(0, buffer)
    assert all(len(slots) <= most_slots for _, slots in after.gpulets)
    if not after.gpulets:
        return
    assert worth_of(pricer.demand, worth, contents_of(after)) == pytest.approx(value, rel=1e-12)
    assert turns.served(pricer.view, plain(after)) is not None
    assert sum(units for units, _ in after.gpulets) <= pricer.tables.share_units
    assert {units for units, _ in after.gpulets} <= set(pricer.tables.permitted.tolist())


# --- Lists ---


def undominated(vectors: Iterable[Vector]) -> set[Vector]:
    """Return the vectors that no other vector reaches or exceeds in every entry."""
    distinct = set(vectors)

    def is_dominated(vector: Vector) -> bool:
        others = (other for other in distinct if other != vector)
        return any(all(a >= b for a, b in zip(other, vector, strict=True)) for other in others)

    return {vector for vector in distinct if not is_dominated(vector)}


def what_counts(instance: Instance, pricer: TemporalPricer, worth: Worth, content: Pattern) -> Vector:
    """Return the rates, least rates and throughput of a content, as ``UndominatedList.amounts`` has them."""
    buffer = contents_of(content)
    assert serve(pricer.demand, buffer)
    served, least = np.zeros(len(instance.workloads)), np.zeros(len(instance.workloads))
    for g, (_, slots) in enumerate(content.gpulets):
        for s, (w, _, _) in enumerate(slots):
            rate, step = buffer.rate_rps[g, s], worth.step_rps[w]
            served[w] += math.floor(rate / step + 1e-9) * step if step else rate
            least[w] += buffer.least_rps[g, s]
    total = worth.throughput * math.fsum(buffer.throughput_rps[buffer.workload >= 0])
    return tuple(np.round([*np.minimum(served, worth.most_rps), *-least, total], 7).tolist())


def listed_steps(listed: UndominatedList) -> list[Vector]:
    return [tuple(row) for row in listed.amounts[: int(listed.size[0])].tolist()]


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3, st.integers(0, 9)), max_size=30))
def test_a_list_keeps_the_undominated_entries(entries: list[tuple[int, int, int, int]]) -> None:
    """The worth of an entry is at least that of each entry that it dominates."""
    listed = empty_list(30, 3, 1)
    for *steps, worth in entries:
        assert insert_undominated(listed, np.array(steps, dtype=float), float(worth), np.zeros(1, dtype=np.int64))

    rows = listed_steps(listed)
    assert len(rows) == len(set(rows))
    assert set(rows) == undominated(tuple(steps) for *steps, _ in entries)
    for *steps, worth in entries:
        dominating = [k for k, row in enumerate(rows) if all(a >= b for a, b in zip(row, steps, strict=True))]
        assert max(listed.worth[dominating]) >= worth


def test_inserting_into_a_full_list_fails_unless_the_entry_is_dominated() -> None:
    listed, content = empty_list(1, 2, 1), np.zeros(1, dtype=np.int64)
    assert insert_undominated(listed, np.array([0.0, 2.0]), 1.0, content)
    assert insert_undominated(listed, np.array([0.0, 1.0]), 1.0, content)
    assert not insert_undominated(listed, np.array([1.0, 0.0]), 1.0, content)


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_all_gpulets_of_a_position_are_listed(seed: int) -> None:
    random = Random(seed)
    _, pricer = small(seed)
    view, demand, workloads = pricer.view, pricer.demand, range(len(pricer.view.rate_rps))
    position = random.choice(pricer.adjacency.positions)
    most = random.choice([1.0, 3.0])
    grid = Worth(np.array([random.uniform(0.1, 1.0) for _ in workloads]), most * view.rate_rps, 0.1 * view.rate_rps, 0)
    times_ms, periods_ms, _ = all_times_ms(pricer.tables, demand, position)

    def steps(slots: turns.Slots) -> tuple[Vector, float] | None:
        """Return the rates in steps, and the worth, at the least times of the position; ``None`` if infeasible."""
        if len(slots) == 1:
            ((w, b),) = slots
            if times_ms[demand.model[w], b] > demand.longest_ms[w, b]:
                return None
            cycle_ms = periods_ms[demand.model[w], b]
        else:
            cycle_ms = sum(times_ms[demand.model[w], b] for w, b in slots)
            if any(cycle_ms + times_ms[demand.model[w], b] > demand.slo_ms[w] for w, b in slots):
                return None
        rates = [min(grid.most_rps[w], 1000.0 * sum(b for v, b in slots if v == w) / cycle_ms) for w in workloads]
        counted = tuple(math.ceil(rates[w] / grid.step_rps[w] - 1e-9) for w in workloads)
        return counted, float(np.array(rates) @ grid.per_rps)

    all_choices = turns.choices_of_slots(view, SLOTS)
    feasible = [counted for slots in all_choices if (counted := steps(slots)) is not None]
    least = random.choice([0.0, 0.5, 0.9]) * max((worth for _, worth in feasible), default=0.0)
    listed = empty_gpu_list(2_000, len(workloads))

    assert list_gpulets(pricer.tables, demand, position, grid, least, True, listed)

    rows = set(listed_steps(listed))
    assert rows <= {counted for counted, _ in feasible}
    assert rows == undominated(rows)
    for counted, worth in feasible:
        if worth >= least:
            assert any(all(a >= b for a, b in zip(row, counted, strict=True)) for row in rows)


@settings(max_examples=12)
@given(st.integers(0, 10**6))
def test_all_contents_worth_enough_are_tried(seed: int) -> None:
    """Contents with workloads that are worth nothing are tried too, because a plan must serve these workloads."""
    random = Random(seed)
    instance, pricer = small(seed)
    worth = any_worth(random, pricer)

    every_content = [pattern_of(0, content.gpulets) for content in turns.contents(pricer.view, 2)]
    value = {content: worth_of(pricer.demand, worth, contents_of(content)) for content in every_content}
    at_least = random.choice([0.3, 0.7, 0.95]) * max(value.values(), default=0.0)

    tried = contents_worth_at_least(pricer, worth, at_least)

    if tried is None:  # too many
        return
    expected = [content for content in every_content if value[content] >= at_least]
    tried_amounts, expected_amounts = (
        {what_counts(instance, pricer, worth, content) for content in contents} for contents in (tried, expected)
    )
    assert undominated(tried_amounts) == undominated(expected_amounts)


# --- Contents of better plans ---


@given(
    st.lists(
        st.tuples(st.floats(0.1, 9.0), st.just(0.0) | st.floats(0.01, 5.0), st.sampled_from([1.0, 3.0, math.inf])),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.floats(-0.5, 9.0), min_size=1, max_size=5),
)
def test_the_factor_on_the_duals_gives_the_bound_on_the_cost(
    types: list[tuple[float, float, float]], duals: list[float]
) -> None:
    price, best, count = (np.array(column) for column in zip(*types, strict=True))
    dual = np.array(duals)

    factor, bound = best_factor(dual, np.ones(len(dual)), best, price, count)

    assert bound == pytest.approx(cost_bound(dual, np.ones(len(dual)), best, price, count), rel=1e-6, abs=1e-6)
    surplus = np.maximum(0.0, factor * best - price)
    paid = [c * s for c, s in zip(count, surplus, strict=True) if s > 1e-6]
    assert bound == pytest.approx(factor * np.maximum(dual, 0.0).sum() - math.fsum(paid), rel=1e-6, abs=1e-6)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from([Objective.COST, Objective.GOODPUT, Objective.SCALE]))
def test_every_gpu_of_a_better_plan_is_listed(seed: int, objective: Objective) -> None:
    """The lists take the duals of the bound, and the least worths that follow from the value of a known plan."""
    instance, _ = small(seed, objective)
    random, rate_rps = Random(seed), np.array([workload.rate_rps for workload in instance.workloads])
    value = turns.optimum(instance, PlanClass.SPATIO_TEMPORAL)
    if not value:
        return
    generation = TemporalGeneration(instance, Run(deadline=time.monotonic() + 60.0))
    generation.solve(lambda: None)
    search = PlanSearch(generation)
    search.plan = Plan(instance.name, ())
    search.value = value * (random.choice([2.0, 3.0]) if generation.minimised else random.choice([0.7, 0.95]))
    better = better_contents(instance, search.value)

    threshold = _threshold(search)

    assert better
    assert threshold is not None
    assert not threshold.excluded
    worth = generation.worth_at(threshold.dual)
    grid = worth._replace(step_rps=0.1 * rate_rps)
    listed = _listed(search, grid, float(threshold.least[0])) if can_list(generation) else None
    exact = contents_worth_at_least(generation.pricers[0], worth, float(threshold.least[0]))
    assert (listed is not None) == can_list(generation)
    tried = [what_counts(instance, generation.pricers[0], worth, content) for content in exact or ()]
    for content in better:
        served = np.minimum([content.served_rps(w) for w in range(len(rate_rps))], worth.most_rps)
        if listed is not None:
            enough = listed.amounts[: int(listed.size[0])] * grid.step_rps >= served * (1.0 - 1e-6)
            assert enough.all(axis=1).any()
        counts = what_counts(instance, generation.pricers[0], worth, pattern_of(0, content.gpulets))
        assert exact is None or any(all(a >= b - 1e-6 for a, b in zip(row, counts, strict=True)) for row in tried)


def better_contents(instance: Instance, value: float) -> list[turns.Content]:
    """Return the undominated contents of all plans that are better than ``value``."""
    plans, minimised = turns.plans(instance, PlanClass.SPATIO_TEMPORAL), instance.objective.minimised
    better: set[int] = set()
    for chosen, values in zip(plans.chosen, plans.values, strict=True):
        is_better = values < value * (1.0 - 1e-9) if minimised else values > value * (1.0 + 1e-9)
        better |= set(chosen[:, is_better].ravel().tolist())
    return [plans.contents[k] for k in sorted(better)]
