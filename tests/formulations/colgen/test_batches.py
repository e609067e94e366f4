"""Batches where budgets depend on the share: no optimum is lost by dropping some, or by choosing others in boxes."""

import itertools
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.api import Run, Status
from bench.judging.judge import judge
from formulations.colgen.scheduler import ColGen
from formulations.colgen.spatial import choices as batches_of
from formulations.colgen.spatial.totals import decide
from instances import GpuPool, Instance, Objective, SloRule
from instances.arrays import Floats
from instances.dominance import BatchAndUnits, covers
from instances.generate import generate
from instances.interference import gpu_time_ms
from instances.one_gpu import Resident, fit_gpu
from instances.performance import performance_model_names
from instances.tables import Tables, gpu_tables
from instances.view import View
from tests.formulations.colgen.coarse import V100, pricer_of
from tests.formulations.exhaustive import small_batches
from tests.formulations.test_performance_models import TINY
from tests.instances.reference import TOY
from tests.soak import first

COARSE = small_batches(replace(V100, name="coarse", share_units=10), 8)
HOT = replace(COARSE, name="hot", hardware=replace(V100.hardware, max_power_w=150.0))

TABLES = [gpu_tables(gpu, "igniter") for gpu in (COARSE, HOT, TOY)] + [
    gpu_tables(TINY, name) for name in performance_model_names()
]


# --- One slot in the place of another ---


def times_ms(
    tables: Tables, model: int, slot: BatchAndUnits, count: Floats, l2: Floats, dram: Floats, power: Floats
) -> Floats:
    """Return the GPU times of a slot on GPUs of ``count`` residents, where the other residents have these demands."""
    at = (model, *slot)
    growth = np.where(count > 1, tables.company[at], 1.0)
    growth = growth + tables.alpha_l2[model] * l2 + tables.alpha_dram[model] * dram
    growth = np.maximum(1.0, growth) if tables.pairwise else growth
    excess_w = tables.idle_power_w + power + tables.power_w[at] - tables.max_power_w
    clock = 1.0 + tables.throttle_per_w * np.maximum(0.0, excess_w)
    delay = np.where(count > 1, tables.alpha_sch * count + tables.beta_sch, 0.0)
    work = tables.scheduling_ms[model] + tables.kernels[model] * delay + tables.active_ms[at] * growth
    return np.where(clock > 0.0, work / np.maximum(clock, 1e-12), np.inf)


def beside(tables: Tables, model: int, slot: BatchAndUnits, budget_ms: float, most: int) -> tuple[Floats, ...]:
    """Return (residents, L2, DRAM, power) of neighbours beside which a slot is in time: no neighbour, and many demands.

    Along each of several directions, the demands are 0, the largest at which the slot is in time, and half of these.
    """
    rays = np.array(list(itertools.product((0.0, 0.01, 0.1, 1.0), (0.0, 1.0), (0.0, 0.1, 1.0, 10.0))))
    count, ray = (grid.ravel() for grid in np.meshgrid(np.arange(2, most + 1), np.arange(len(rays))))
    l2, dram, power = (100.0 * rays[ray]).T
    low, high = np.zeros(len(ray)), np.full(len(ray), 100.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        inside = times_ms(tables, model, slot, count, middle * l2, middle * dram, middle * power) <= budget_ms
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    rows = [np.array([[1.0, 0.0, 0.0, 0.0]])]
    rows += [np.column_stack((count, t * l2, t * dram, t * power)) for t in (0.0 * low, 0.5 * low, low)]
    neighbours = np.concatenate(rows).T
    return tuple(neighbours[:, times_ms(tables, model, slot, *neighbours) <= budget_ms])


def drawn_slots(random: Random) -> tuple[Tables, int, BatchAndUnits, BatchAndUnits, float, int]:
    """Return tables, a model, two of its slots, the budget of the second slot, and the largest number of residents."""
    tables = random.choice(TABLES)
    model = random.randrange(len(tables.max_batch))
    largest_batch, shares = int(tables.max_batch[model]), tables.permitted.tolist()
    first, second = ((random.randint(1, largest_batch), random.choice(shares)) for _ in range(2))
    alone_ms = float(tables.scheduling_ms[model] + tables.active_ms[model, second[0], second[1]])
    return tables, model, first, second, alone_ms * random.choice((1.02, 1.2, 2.0, 4.0)), random.randint(1, 5)


def least_covering_ms(
    tables: Tables, model: int, first: BatchAndUnits, second: BatchAndUnits, second_ms: float, most: int
) -> tuple[float, float]:
    """Return the largest budget at which ``first`` does not cover ``second``, and the least at which it does.

    The second budget is infinite if there is none.
    """
    low, high = 0.0, 100.0 * second_ms
    if not covers(tables, model, first, second, high, second_ms, most):
        return high, np.inf
    for _ in range(60):
        middle = (low + high) / 2.0
        if covers(tables, model, first, second, middle, second_ms, most):
            high = middle
        else:
            low = middle
    return low, high


@given(st.integers(0, 10**9))
@settings(max_examples=300)
def test_a_slot_that_covers_another_is_in_time_beside_the_same_neighbours(seed: int) -> None:
    tables, model, first, second, second_ms, most = drawn_slots(Random(seed))
    most = min(most, tables.most_residents)
    _, first_ms = least_covering_ms(tables, model, first, second, second_ms, most)
    assume(first_ms < np.inf)

    assert first[1] <= second[1]
    for demand in (tables.l2_pct, tables.dram_pct, tables.power_w):
        assert demand[model, first[0], first[1]] <= demand[model, second[0], second[1]]
    neighbours = beside(tables, model, second, second_ms, most)
    assert np.all(times_ms(tables, model, first, *neighbours) <= first_ms * (1.0 + 1e-9))


def test_the_least_covering_budget_is_often_as_small_as_it_can_be() -> None:
    """At a budget of 0.1 % less, some neighbours make the slot late.

    The exceptions are slots whose own lower power keeps them in time.
    """
    random, late = Random(1), 0
    for _ in range(400):
        tables, model, first, second, second_ms, most = drawn_slots(random)
        most = min(most, tables.most_residents)
        first_ms, least_ms = least_covering_ms(tables, model, first, second, second_ms, most)
        if least_ms < np.inf:
            neighbours = beside(tables, model, second, second_ms, most)
            late += bool(np.any(times_ms(tables, model, first, *neighbours) > 0.999 * first_ms))

    assert late > 30


def test_the_times_of_these_tests_are_those_of_the_kernel() -> None:
    random = Random(2)
    for _ in range(50):
        tables, model, slot, *_ = drawn_slots(random)
        count, demands = random.randint(1, 2), [random.uniform(0.0, 200.0) for _ in range(3)]
        others = demands if count > 1 else [0.0] * 3
        total_w = others[2] + float(tables.power_w[model, slot[0], slot[1]])
        expected = gpu_time_ms(tables, model, *slot, count, *others[:2], total_w)
        assert times_ms(tables, model, slot, *map(np.array, (count, *others))) == pytest.approx(expected, rel=1e-12)


# --- Plans ---


def under_attainment(seed: int, size: int, objective: Objective, *pools: GpuPool) -> Instance:
    random = Random(seed)
    drawn = generate("igniter-mix", size, seed, objective).scaled(random.choice((0.7, 1.0, 1.3)))
    return replace(drawn, slo_rule=SloRule.ATTAINMENT, gpus=pools, attainment=random.choice((0.9, 0.99)))


def best(instance: Instance) -> float | None:
    """Return the optimum that ``colgen`` proves; ``None`` if no plan exists."""
    outcome = ColGen().schedule(instance, Run())
    assert outcome.status in (Status.OPTIMAL, Status.INFEASIBLE)
    if outcome.plan is None:
        return None
    verdict = judge(outcome.plan, instance)
    assert verdict.violations == ()
    return verdict.value


@pytest.mark.parametrize("seed", first(3, range(8)))
@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT])
def test_the_optimum_needs_no_dropped_batch(objective: Objective, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, whole = Random(seed).choice((COARSE, HOT)), objective is Objective.COST
    instance = under_attainment(seed, 5 if whole else 3, objective, GpuPool(gpu, None if whole else 1))
    fewer_options, value = options(instance), best(instance)

    monkeypatch.setattr(batches_of, "drop_dominated", lambda *_: None)

    assert fewer_options < options(instance)
    assert best(instance) == (None if value is None else pytest.approx(value, rel=1e-9))


def options(instance: Instance) -> int:
    """Return the number of batches, over all workloads, that pricing considers."""
    return len(pricer_of(instance).choices.batch)


# --- Batches in boxes of total demands ---


def test_boxes_of_totals_decide_as_trying_every_batch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory limit falls after each answer, so that the batches of that answer no longer fit."""
    monkeypatch.setattr(batches_of, "drop_dominated", lambda *_: None)
    answers = []
    for seed in range(16):
        instance = under_attainment(seed, 3, Objective.COST, GpuPool(HOT if seed % 2 else COARSE)).scaled(0.7)
        pricer, view = pricer_of(instance), View.of(instance, instance.gpus[0].type)
        choices, chosen = pricer.choices, np.arange(3)
        if len(choices.workload) < 3:
            continue
        members = pricer.workloads[choices.workload].tolist()
        offered = [choices.batch[choices.option[k] : choices.option[k + 1]].tolist() for k in chosen]
        fitting = {
            batches: sum(view.tables.memory_mib[m, b] for m, b in zip(choices.model, batches, strict=True))
            for batches in itertools.product(*offered)
            if fits(view, members, batches)
        }
        batch, limit_mib, decided = np.empty(3, dtype=np.int64), view.tables.memory_limit_mib, 1
        while decided:
            tables = pricer.tables._replace(memory_limit_mib=limit_mib)
            fitting = {batches: memory for batches, memory in fitting.items() if memory <= limit_mib}

            decided, _ = decide(tables, choices, chosen, batch, 0)

            assert decided == bool(fitting)
            answers.append(decided)
            if decided:
                limit_mib = fitting[tuple(batch.tolist())] - 1e-6

    assert answers.count(0) >= 8
    assert answers.count(1) >= 8


def fits(view: View, members: list[int], batches: tuple[int, ...]) -> bool:
    residents = [Resident(w, b, float(view.rate_rps[w])) for w, b in zip(members, batches, strict=True)]
    return fit_gpu(view, residents) is not None
