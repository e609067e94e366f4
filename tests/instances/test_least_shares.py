"""Least shares on one GPU: against values worked out by hand, Alg. 2 in plain Python and exhaustive search."""

from collections import Counter
from dataclasses import replace
from itertools import permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import GpuPool, GpuType, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.least_shares import (
    least_share_within,
    least_shares,
    premises_satisfied,
    raise_to_feasible,
    within_budgets,
)
from instances.one_gpu import Resident, fit_gpu
from instances.tables import gpu_tables
from instances.view import View
from tests.instances import reference
from tests.instances.reference import LARGE, SMALL, TOY, Tenant

V100 = gpu_type("v100")
COARSE = replace(V100, name="coarse", share_units=10)
GAPS = replace(V100, name="gaps", share_units=20, allowed_shares=(1, 3, 4, 8, 9, 15))
HOT = replace(COARSE, name="hot", hardware=replace(V100.hardware, max_power_w=150.0))


def arrays(gpu: GpuType, tenants: list[Tenant]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = list(gpu.models)
    return (
        np.array([rows.index(t.model.name) for t in tenants], dtype=np.int64),
        np.array([t.batch for t in tenants], dtype=np.int64),
        np.array([[t.budget_ms] for t in tenants]).reshape(-1, 1),
    )


def shares(gpu: GpuType, tenants: list[Tenant]) -> list[int] | None:
    """Return the shares of the compiled kernel, or None if the tenants do not fit."""
    units = np.zeros(len(tenants), dtype=np.int64)
    fit = least_shares(gpu_tables(gpu, "igniter"), *arrays(gpu, tenants), units)
    return units.tolist() if fit else None


# SMALL x 1 takes 0.1 + 40 / r + 1 ms at r percent: 5.1 at 10 %, 3.1 at 20 %, 2.1 at 40 %, 1.5 at 100 %.
@pytest.mark.parametrize(
    ("budget_ms", "units"),
    [(5.11, 1), (5.09, 2), (3.11, 2), (2.11, 4), (1.51, 10), (1.49, 11), (0.0, 11), (-np.inf, 11)],
)
def test_least_share_alone_is_as_worked_out_by_hand(budget_ms: float, units: int) -> None:
    assert least_share_within(gpu_tables(TOY, "igniter"), 0, 1, np.full((1, 1), budget_ms), 0) == units


# The pair of test_interference.py: at 40 % each they take 2.4 and 11.6 ms.
@pytest.mark.parametrize(
    ("small_ms", "large_ms", "units"),
    [
        pytest.param(2.41, 11.61, [4, 4], id="just fits at 40 % each"),
        pytest.param(2.39, 11.75, [5, 4], id="one unit more for the small one"),
        # At 50 % LARGE x 2 takes 8.4 ms and demands 2 + 40 * 2 / 8.4 of L2: SMALL is slowed down by 1.5 % more
        pytest.param(2.41, 11.59, [5, 5], id="a larger neighbour costs the small one a unit as well"),
        pytest.param(2.6, 8.7, [4, 6], id="six units for the large one, and still the small one has room"),
        pytest.param(2.11, 7.54, None, id="40 and 60 % suffice alone, not together"),
        pytest.param(1.4, 90.0, None, id="one is too slow even alone"),
    ],
)
def test_least_shares_of_a_pair_are_as_worked_out_by_hand(
    small_ms: float, large_ms: float, units: list[int] | None
) -> None:
    assert shares(TOY, [Tenant(SMALL, 1, small_ms), Tenant(LARGE, 2, large_ms)]) == units


@pytest.mark.parametrize("gpu", [TOY, V100, COARSE, GAPS, HOT], ids=lambda gpu: gpu.name)
def test_kernel_agrees_with_algorithm_2_in_plain_python(gpu: GpuType) -> None:
    roomy = replace(gpu, memory_mib=1e9)  # the reference ignores memory
    random = Random(3)
    seen: Counter[bool] = Counter()
    for case in range(400):
        tenants = reference.draw_tenants(random, gpu, 1 + case % 5)
        expected = reference.least_fixed_point(gpu, tenants)

        assert shares(roomy, tenants) == expected, tenants
        seen[expected is None] += 1
    assert min(seen.values()) > 40


@pytest.mark.parametrize("gpu", [TOY, COARSE, GAPS, HOT], ids=lambda gpu: gpu.name)
def test_shares_are_componentwise_least_among_all_feasible_ones(gpu: GpuType) -> None:
    random = Random(4)
    seen: Counter[bool] = Counter()
    for case in range(200):
        tenants = reference.draw_tenants(random, gpu, 1 + case % 3)
        feasible = reference.feasible_vectors(gpu, tenants)
        units = shares(gpu, tenants)

        seen[units is None] += 1
        if units is None:
            assert feasible == [], tenants
        else:
            assert tuple(units) in feasible, tenants
            assert units == [min(column) for column in zip(*feasible, strict=True)], tenants
    assert min(seen.values()) > 20


def test_the_order_of_the_residents_does_not_matter() -> None:
    random = Random(5)
    fits = 0
    for _ in range(40):
        tenants = reference.draw_tenants(random, V100, 4)
        units = shares(V100, tenants)
        for order in permutations(range(4)):
            permuted = shares(V100, [tenants[i] for i in order])
            assert permuted == (None if units is None else [units[i] for i in order])
        fits += units is not None
    assert 5 < fits < 35


def test_fewer_residents_need_no_more_each() -> None:
    random = Random(6)
    fits = 0
    for _ in range(100):
        tenants = reference.draw_tenants(random, V100, 3)
        all_units = shares(V100, tenants)
        if all_units is None:
            continue
        fits += 1
        for removed in range(3):
            rest = shares(V100, tenants[:removed] + tenants[removed + 1 :])
            assert rest is not None
            assert all(a <= b for a, b in zip(rest, all_units[:removed] + all_units[removed + 1 :], strict=True))
    assert fits > 20


@given(st.integers(0, 10), st.integers(0, 10))
def test_raising_from_any_shares_below_the_least_finds_them(small: int, large: int) -> None:
    tables, tenants = gpu_tables(TOY, "igniter"), [Tenant(SMALL, 1, 2.41), Tenant(LARGE, 2, 11.59)]
    units = np.array([1 + small % 5, 1 + large % 5])  # the least are 5 and 5

    assert raise_to_feasible(tables, *arrays(TOY, tenants), units, 2)
    assert units.tolist() == [5, 5]


def test_raising_leaves_feasible_shares_and_reads_only_the_first() -> None:
    tables, tenants = gpu_tables(TOY, "igniter"), [Tenant(SMALL, 1, 2.41), Tenant(LARGE, 2, 11.61), Tenant(LARGE, 8, 0)]
    units = np.array([5, 5, 9])

    assert raise_to_feasible(tables, *arrays(TOY, tenants), units, 2)
    assert units.tolist() == [5, 5, 9]


def test_shares_that_start_beyond_the_gpu_do_not_fit() -> None:
    tenants = [Tenant(SMALL, 1, 100.0), Tenant(SMALL, 1, 100.0)]

    assert not raise_to_feasible(gpu_tables(TOY, "igniter"), *arrays(TOY, tenants), np.array([6, 5]), 2)


# Two SMALL at batch b hold 2 (500 + 100 b) MiB
@pytest.mark.parametrize(("memory_mib", "fit"), [(2000.0, True), (1999.9, False)])
def test_residents_must_fit_into_memory(memory_mib: float, fit: bool) -> None:
    tenants = [Tenant(SMALL, 5, 1000.0), Tenant(SMALL, 5, 1000.0)]

    assert (shares(replace(TOY, memory_mib=memory_mib), tenants) is not None) == fit


def test_only_permitted_shares_are_chosen() -> None:
    gpu = replace(TOY, name="toy with gaps", allowed_shares=(2, 5))

    assert shares(gpu, [Tenant(SMALL, 1, 5.2)]) == [2]  # one unit would suffice
    assert shares(gpu, [Tenant(SMALL, 1, 2.5)]) == [5]  # three would suffice
    assert shares(gpu, [Tenant(SMALL, 1, 1.51)]) is None  # the whole GPU would suffice, but is not permitted
    assert shares(gpu, [Tenant(SMALL, 1, 2.39), Tenant(LARGE, 2, 11.61)]) == [5, 5]


@pytest.mark.parametrize(
    ("units", "small_ms", "large_ms", "expected"),
    [
        ([4, 4], 2.41, 11.61, True),
        ([4, 4], 2.39, 11.61, False),
        ([4, 4], 2.41, 11.59, False),
        ([5, 5], 2.41, 11.59, True),
        ([5, 6], 100.0, 100.0, False),  # 110 %
    ],
)
def test_within_budgets_takes_the_shares_as_they_are(
    units: list[int], small_ms: float, large_ms: float, expected: bool
) -> None:
    tenants = [Tenant(SMALL, 1, small_ms), Tenant(LARGE, 2, large_ms)]

    assert within_budgets(gpu_tables(TOY, "igniter"), *arrays(TOY, tenants), np.array(units)) == expected


# --- The premises, and what happens without them ---


def test_premises_hold_on_the_toy() -> None:
    assert premises_satisfied(gpu_tables(TOY, "igniter"))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"alpha_l2": np.array([0.01, -0.01])}, id="cache growth below zero"),
        pytest.param({"alpha_dram": np.array([-0.01, 0.0])}, id="DRAM growth below zero"),
        pytest.param({"throttle_per_w": 0.001}, id="throttling speeds up"),
        pytest.param({"alpha_sch": -0.001}, id="delay falls with every resident"),
        pytest.param({"alpha_sch": 0.0, "beta_sch": -0.01}, id="delay falls with the second resident"),
        pytest.param({"kernels": np.array([10.0, -1.0])}, id="negative kernels"),
        pytest.param({"power_w": np.full((2, 9, 11), -1.0)}, id="negative demand"),
        pytest.param({"l2_pct": np.full((2, 9, 11), 1.0) * np.arange(11, 0, -1)}, id="demand falls with the share"),
        pytest.param({"active_ms": np.full((2, 9, 11), 1.0) * np.arange(11)}, id="time rises with the share"),
    ],
)
def test_a_broken_premise_is_detected(broken: dict[str, object]) -> None:
    assert not premises_satisfied(gpu_tables(TOY, "igniter")._replace(**broken))


def test_without_the_premise_the_shares_are_not_the_least() -> None:
    # The delay falls by 0.05 ms per kernel beside a neighbour, so that each needs more alone than in the pair.
    gpu = replace(TOY, name="helpful", hardware=replace(TOY.hardware, alpha_sch=0.0, beta_sch=-0.05))
    tenants = [Tenant(SMALL, 1, 1.95), Tenant(SMALL, 1, 1.95)]

    assert not premises_satisfied(gpu_tables(gpu, "igniter"))
    least = [min(column) for column in zip(*reference.feasible_vectors(gpu, tenants), strict=True)]
    assert shares(gpu, tenants) == [5, 5]
    assert least == [4, 4]


# --- One GPU of a plan ---


def view(**workloads: tuple[str, float, float]) -> View:
    toy_workloads = tuple(
        Workload(name, model, slo_ms, rate_rps) for name, (model, slo_ms, rate_rps) in workloads.items()
    )
    return View.of(Instance("toys", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(TOY),), toy_workloads), TOY)


# SMALL x 1 with an upload of 0.1 and a feedback of 0.05 ms: SLO 5.12 leaves 2.41 ms, SLO 24.2 leaves LARGE x 2 11.8 ms.
PAIR = view(a=("small", 5.12, 200.0), b=("large", 24.2, 100.0))


def test_fit_gpu_places_residents_at_their_least_shares() -> None:
    gpu = fit_gpu(PAIR, [Resident(0, 1, 200.0), Resident(1, 2, 100.0)])

    assert gpu is not None
    assert gpu.type == "toy"
    assert [(p.share_units, p.slots[0].workload, p.slots[0].batch, p.slots[0].rate_rps) for p in gpu.gpulets] == [
        (4, "a", 1, 200.0),
        (4, "b", 2, 100.0),
    ]


def test_fit_gpu_returns_none_if_residents_do_not_fit() -> None:
    assert fit_gpu(PAIR, [Resident(0, 1, 200.0)] * 3) is None


def test_fit_gpu_uses_the_budget_of_the_rate_served() -> None:
    fast = view(a=("small", 8.0, 600.0))  # full rate: a batch every 1.67 ms; half of it: every 3.33 ms

    full, half = fit_gpu(fast, [Resident(0, 1, 600.0)]), fit_gpu(fast, [Resident(0, 1, 300.0)])

    # 0.1 + 40 / r + 1 <= 1000 / rate - 0.05
    assert full is not None
    assert half is not None
    assert (full.share_units, half.share_units) == (8, 2)
