"""Methods that make column generation fast for many workloads: they change no bound, optimum or list of patterns."""

import time
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from bench.api import Outcome, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen, solution
from formulations.colgen.capacity.problem import CapacityProblem
from formulations.colgen.interference_boxes import completion_table, contenders
from formulations.colgen.solution import ColumnGeneration
from formulations.colgen.spatial.problem import SpatialProblem
from instances import GpuPool, Instance, Objective, SloRule
from instances.generate import generate
from instances.one_gpu import Resident, fit_gpu
from instances.view import View
from instances.workload_classes import easier, matched, nearest
from tests.formulations import exhaustive
from tests.formulations.colgen.coarse import COARSE, V100, pricer_of, small
from tests.soak import first

CHEAP = replace(COARSE, name="cheap", price_per_hour=2.0, memory_mib=4000.0)


def alike(size: int) -> Instance:
    """Return an instance of workloads that differ only in their rates, so each is easier than those after it."""
    drawn = generate("igniter-mix", size, 0)
    workloads = [
        replace(w, model="vgg19", slo_ms=40.0, rate_rps=50.0 + 20.0 * i) for i, w in enumerate(drawn.workloads)
    ]
    return replace(drawn, workloads=tuple(workloads), gpus=(GpuPool(COARSE),))


def solve(instance: Instance) -> Outcome:
    return ColGen().schedule(instance, Run(deadline=time.monotonic() + 60.0))


@pytest.mark.parametrize("pools", [(GpuPool(COARSE),), (GpuPool(COARSE, 2), GpuPool(CHEAP))], ids=["one", "two types"])
@pytest.mark.parametrize("seed", first(3, range(8)))
def test_a_start_from_the_aggregated_master_leads_to_the_optimum(
    seed: int, pools: tuple[GpuPool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solution, "FEWEST_CLASSES", 0)  # otherwise only many classes are aggregated at first
    instance = small(seed, 6, *pools)
    best = exhaustive.least_cost(instance)
    assert best is not None
    generation = ColumnGeneration(SpatialProblem(instance), Run())
    first_values = []
    monkeypatch.setattr(generation, "generate", lambda relax, done: first_values.append(relax().value))

    generation.solve(lambda: False)
    outcome = solve(instance)

    assert len(first_values) == 2
    assert first_values[0] <= first_values[1] + 1e-9, "the aggregated master relaxes the master"
    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.plan is not None
    assert outcome.bound.value <= best + 1e-9
    assert judge(outcome.plan, instance).value == pytest.approx(best)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_whenever_the_work_ends(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solution, "FEWEST_CLASSES", 0)  # otherwise only many classes are aggregated at first
    instance = small(seed, 6)
    best = exhaustive.least_cost(instance)
    assert best is not None
    for work in (100, 1_000, 3_000, 10_000):
        outcome = ColGen().schedule(instance, Run(work_limit=work))
        assert outcome.bound is None or outcome.bound.value <= best + 1e-9
        assert outcome.plan is None or judge(outcome.plan, instance).violations == ()


@pytest.mark.parametrize("rule", [SloRule.HALF_SLO, SloRule.DUTY_CYCLE])
def test_an_easier_workload_needs_no_larger_share(rule: SloRule) -> None:
    instance = replace(generate("igniter-mix", 30, 2), slo_rule=rule)
    view = View.of(instance, V100)
    serves = easier([view], np.arange(30))

    assert serves.any()
    assert not (serves & serves.T).any()
    for a, b in np.argwhere(serves).tolist():
        for batch in (1, 4, 16):
            slot = fit_gpu(view, [Resident(a, batch, float(view.rate_rps[a]))])
            other = fit_gpu(view, [Resident(b, batch, float(view.rate_rps[b]))])
            assert slot is None or (other is not None and other.share_units <= slot.share_units)


def test_exchanges_between_nearest_workloads_reach_every_easier_workload() -> None:
    """``serves[a, b]`` says that b is easier than a; the exchanges are those between nearest workloads."""
    instance = generate("igniter-mix", 60, 1)
    view = View.of(instance, V100)
    serves = easier([view], np.arange(60))
    exchanges = np.zeros_like(serves)
    exchanges[tuple(nearest(serves, view.model).T)] = True

    reached = exchanges
    for _ in range(60):
        reached = reached | (reached @ exchanges)

    assert exchanges.sum() < serves.sum()
    assert np.array_equal(reached, serves)


def test_slots_are_matched_with_as_many_workloads_as_possible() -> None:
    """A slot of workload 0 serves all workloads, of 1 also 2, and of 2 only 2; -1 is a slot without a workload."""
    serves = np.array([[False, True, True], [False, False, True], [False, False, False]])

    assert sorted(matched(serves, np.array([0, 0, 1]), np.arange(3)).tolist()) == [0, 1, 2]
    assert sorted(matched(serves, np.array([1, 1, 2]), np.arange(3)).tolist()) == [-1, 1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_matchings_by_flow_are_possible_and_as_large_as_those_of_an_independent_algorithm(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instances.workload_classes.MOST_PAIRS", 0)
    random = np.random.default_rng(seed)
    serves = np.triu(random.random((8, 8)) < 0.3, 1)
    slots, places = random.integers(0, 8, size=(2, 12))

    served = matched(serves, slots, places)

    possible = (serves | np.eye(8, dtype=bool))[np.ix_(slots, places)]
    used = np.flatnonzero(served >= 0)
    assert possible[used, served[used]].all()
    assert len(set(served[used].tolist())) == len(used)
    assert len(used) == (maximum_bipartite_matching(csr_array(possible)) >= 0).sum()


def test_slots_of_demanding_workloads_serve_easier_ones() -> None:
    """Four slots of the most demanding workload become a plan that serves each workload once."""
    instance = alike(4)
    generation = ColumnGeneration(SpatialProblem(instance), Run())
    hardest = next(c for c, p in enumerate(generation.master.patterns) if [w for w, _, _ in p.residents] == [3])

    counts = generation.own_slots({hardest: 4})
    realised = generation.realise(counts)

    assert realised is not None
    assert judge(realised[1], instance).violations == ()
    assert sorted(slot.workload for _, _, slot in realised[1].slots()) == [w.id for w in instance.workloads]


def test_slots_of_filled_gpus_serve_easier_workloads() -> None:
    instance = replace(alike(4), objective=Objective.CAPACITY, gpus=(GpuPool(COARSE, 4),))
    generation = ColumnGeneration(CapacityProblem(instance), Run(deadline=time.monotonic() + 60.0))
    hardest = next(c for c, p in enumerate(generation.master.patterns) if [w for w, _, _ in p.residents] == [3])

    realised = generation.realise(generation.own_slots({hardest: 4}))

    assert realised is not None
    verdict = judge(realised[1], instance)
    assert verdict.violations == ()
    assert verdict.value >= 4.0 * -generation.master.costs[hardest] * (1.0 - 1e-9)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(-3, 6)), min_size=1, max_size=24),
    st.integers(1, 4),
    st.integers(3, 10),
)
def test_undominated_choices_are_worth_as_much_as_all_choices(
    drawn: list[tuple[int, int, int]], residents: int, capacity: int
) -> None:
    drawn = sorted(drawn, key=lambda choice: choice[0])
    workload = np.array([w for w, _, _ in drawn])
    units = np.array([u for _, u, _ in drawn], dtype=np.int16)
    worth = np.array([float(v) for _, _, v in drawn])
    undominated = np.zeros(len(drawn), dtype=np.int64)

    count = contenders(workload, units, worth, np.argsort(units, kind="stable"), residents, undominated)

    def best(which: np.ndarray) -> np.ndarray:
        distinct, first = np.unique(workload[which], return_index=True)
        table = np.empty((len(distinct) + 1, residents + 1, capacity + 1))
        ends = np.append(first, len(which))
        slots = np.ones(len(which), dtype=np.int64)
        completion_table(ends, slots, units[which], worth[which], True, residents, capacity, table)
        return table[0]

    assert np.array_equal(best(undominated[:count]), best(np.arange(len(drawn))))


@settings(max_examples=15)
@given(st.integers(0, 200), st.lists(st.sampled_from([0.2, 0.5, 1.0]), min_size=5, max_size=5), st.floats(0.1, 2.0))
def test_no_set_above_the_threshold_is_lost_when_boxes_are_halved(
    seed: int, profit: list[float], threshold: float
) -> None:
    instance = small(seed, 5)
    pricer = pricer_of(instance)
    worth = np.array([profit[int(pricer.workloads[w])] for w in pricer.choices.workload])
    expected = {
        members
        for n in range(1, 6)
        for members in combinations(range(5), n)
        if sum(profit[w] for w in members) > threshold + 1e-9
        and any(exhaustive.fitting_batches(instance, COARSE, members))
    }
    pricer.patience, boxes_before = 0, pricer.boxes.count

    for node_limit in (400, 4_000):
        priced = pricer.price(worth, threshold, node_limit, 10**4, 10**5)
        assert priced.bound >= max((sum(profit[w] for w in members) for members in expected), default=0.0) - 1e-9
    if expected:
        assert pricer.boxes.count > boxes_before
    pricer.patience = 10**6
    priced = pricer.price(worth, threshold, 10**6, 10**4, 10**5)

    assert expected <= {tuple(w for w, _, _ in pattern.residents) for pattern in priced.patterns}
    assert not priced.cut_short


def test_a_short_search_halves_boxes_that_a_long_one_searches_whole() -> None:
    instance = generate("igniter-mix", 30, 0)
    counts = []
    for node_limit in (2_000, 20_000):
        pricer = pricer_of(instance)
        before = pricer.boxes.count
        pricer.price(np.ones(len(pricer.choices.workload)), 7.5, node_limit)
        counts.append(pricer.boxes.count - before)

    assert counts[0] > counts[1]
