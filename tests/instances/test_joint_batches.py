"""Joint choice of batches: feasible plans, and nearly all contents that fit with some batches."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import GpuPool, GpuType, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.configurations import Configurations, lean_configurations
from instances.joint_batches import choose_batches
from instances.least_shares import within_budgets
from instances.view import View
from tests.formulations import exhaustive

SMALL = exhaustive.small_batches(gpu_type("v100"), 6)


def problem(gpu: GpuType, workloads: tuple[Workload, ...], rule: SloRule = SloRule.HALF_SLO) -> Instance:
    return Instance("gpu", Objective.COST, rule, "igniter", (GpuPool(gpu, 1),), workloads)


def choose(instance: Instance) -> tuple[View, Configurations, list[int], list[int], int]:
    """Choose batches for all workloads on one GPU; return the view, the configurations, rows, shares and their sum."""
    view = View.of(instance, instance.gpus[0].type)
    items = np.arange(len(instance.workloads))
    configurations = lean_configurations(view, items, view.rate_rps, batches=100)
    count = len(items)
    rows, units = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    first, end = configurations.first[:-1].copy(), configurations.first[1:].copy()
    assert np.all(first < end)
    total = choose_batches(view.tables, configurations, first, end, count, rows, units)
    return view, configurations, rows.tolist(), units.tolist(), total


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 5), rule=st.sampled_from(list(SloRule)))
def test_chosen_batches_are_feasible_at_the_shares(seed: int, count: int, rule: SloRule) -> None:
    instance = problem(SMALL, exhaustive.draw_workloads(Random(seed), SMALL, count, (0.1, 0.5)), rule)
    view = View.of(instance, SMALL)
    items = np.arange(count)
    if np.any(np.diff(lean_configurations(view, items, view.rate_rps).first) == 0):
        return

    view, configurations, rows, units, total = choose(instance)

    if total < 0:
        return
    assert sum(units) == total <= view.tables.share_units
    model, batch, budget_ms = configurations.model[rows], configurations.batch[rows], configurations.budget_ms[rows]
    assert within_budgets(view.tables, model, batch, budget_ms, np.array(units))
    assert configurations.memory_mib(view.tables)[rows].sum() <= view.tables.memory_limit_mib
    assert configurations.item[rows].tolist() == items.tolist()


def test_contents_that_fit_with_some_batches_are_nearly_all_recognised() -> None:
    fitting, recognised = 0, 0
    for seed in range(120):
        workloads = exhaustive.draw_workloads(Random(seed), SMALL, 3, (0.2, 0.45))
        instance = problem(SMALL, workloads)
        if next(exhaustive.fitting_batches(instance, SMALL, range(3)), None) is None:
            continue
        fitting += 1
        recognised += choose(instance)[4] >= 0

    assert fitting >= 30
    assert recognised >= 0.97 * fitting


def test_batches_of_less_memory_are_chosen_if_memory_is_tight() -> None:
    workloads = tuple(Workload(f"w{n}", "vgg19", 60.0, 60.0) for n in range(2))
    plenty = problem(SMALL, workloads)
    view, configurations, rows, _, total = choose(plenty)
    assert total >= 0
    memory_mib = float(configurations.memory_mib(view.tables)[rows].sum())
    tight = replace(SMALL, memory_mib=memory_mib - 1.0)

    _, tight_configurations, tight_rows, _, tight_total = choose(problem(tight, workloads))

    assert tight_total >= total
    assert float(tight_configurations.memory_mib(view.tables)[tight_rows].sum()) <= memory_mib - 1.0


def test_contents_with_too_much_memory_do_not_fit() -> None:
    workloads = tuple(Workload(f"w{n}", "alexnet", 60.0, 20.0) for n in range(3))
    least_mib = SMALL.models["alexnet"].memory_mib(1)
    small = replace(SMALL, memory_mib=2.5 * least_mib)

    assert choose(problem(small, workloads))[4] == -1
