"""Latency budgets of the rule ``attainment``: monotonicity, equality with a scan, and their bounds."""

import math
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.attainment_budget import (
    BRACKET_GROWTH,
    BRACKET_STEPS,
    GAMMA_STRIDE,
    attainment_budgets_ms,
    bracketed_budgets_ms,
    least_meeting_share,
)
from instances.attainment_grid import STEPS, grid_index, grid_ms
from instances.attainment_terms import AttainmentTerms
from instances.catalogue import gpu_type
from instances.least_shares import least_shares, within_budgets
from instances.slot_times import batch_times
from instances.spare_shares import spend_spare_shares, throughput_rps
from instances.tables import Tables, gpu_tables
from instances.view import View
from tests.instances.missed_fractions import late, missed
from tests.instances.reference import TOY

TERMS = AttainmentTerms(0.99, 1.0)
V100 = gpu_tables(gpu_type("v100"), "igniter")

MODELS = tuple(
    gpu_tables(gpu_type(gpu), model)
    for gpu, model in (("v100", "igniter"), ("t4", "hybrid"), ("a100", "igniter"), ("h100-sxm", "inss"))
)

RATIOS = st.sampled_from((1e-9, 1e-5, 1e-3, 0.02, 0.5)).map(lambda more: 1.0 + more)


@given(
    tables=st.sampled_from(MODELS),
    model=st.integers(0, 3),
    batch=st.sampled_from((1, 2, 3, 4, 6, 9, 16, 32, 64)),
    part=st.floats(0.05, 1.0),
    load=st.floats(0.01, 1.2),
    patience=st.floats(0.0, 1.0),
    attainment=st.floats(0.5, 0.9999),
    dropping=st.booleans(),
    ratio=RATIOS,
)
def test_budgets_rise_with_the_slo_and_fall_with_rate_attainment_and_share(
    tables: Tables,
    model: int,
    batch: int,
    part: float,
    load: float,
    patience: float,
    attainment: float,
    dropping: bool,
    ratio: float,
) -> None:
    """Monotonicity is exact, for SLOs from a millisecond to 1e300."""
    batch = min(batch, int(tables.max_batch[model]))
    share = tables.permitted[math.ceil(part * len(tables.permitted)) - 1]
    alone_ms = float(tables.scheduling_ms[model] + tables.active_ms[model, batch, share])
    longest = 1e300 if patience > 0.98 else 30.0 * alone_ms
    slo_ms = max(1.0, 0.8 * alone_ms) * (longest / alone_ms) ** (patience**2)
    rate_rps = 1000.0 * batch / alone_ms * load

    def budgets(slo_ms: float, rate_rps: float, attainment: float) -> np.ndarray:
        return attainment_budgets_ms(tables, model, slo_ms, rate_rps, batch, AttainmentTerms(attainment, 1.0, dropping))

    here = budgets(slo_ms, rate_rps, attainment)

    assert np.all(budgets(slo_ms * ratio, rate_rps, attainment) >= here)
    assert np.all(budgets(slo_ms, rate_rps / ratio, attainment) >= here)
    assert np.all(budgets(slo_ms, rate_rps, max(0.5, 1.0 - (1.0 - attainment) * ratio)) >= here)
    assert np.all(np.diff(here[here > 0.0]) <= 0.0)


def test_a_slo_longer_by_an_eighth_of_a_millisecond_lowers_no_budget() -> None:
    """A grid of multiples of SLO / 1000 would lower more than a quarter of such budgets."""
    random, compared = Random(4), 0
    for _ in range(40):
        model, batch, slo, rate = (
            random.randrange(4),
            random.randint(1, 12),
            random.uniform(8, 90),
            random.uniform(9, 900),
        )
        shorter = attainment_budgets_ms(V100, model, slo, rate, batch, TERMS)
        longer = attainment_budgets_ms(V100, model, slo + 0.13, rate, batch, TERMS)
        assert np.all(longer >= shorter)
        compared += np.sum(shorter > 0.0)
    assert compared > 300


@pytest.mark.parametrize("dropping", [True, False])
@pytest.mark.parametrize("slo_ms", [300e3, 600e3, 1e9, 1e300])
@pytest.mark.parametrize(("rate", "model"), [(900.0, 0), (1.0, 2), (5e-324, 1)])
def test_extreme_slos_and_rates_use_most_of_the_capacity(
    dropping: bool, slo_ms: float, rate: float, model: int
) -> None:
    """A slot uses nearly all of its capacity if its SLO is long, and much of its SLO if its load is low."""
    for cv in (1.0, 2.0):
        terms = AttainmentTerms(0.99, cv, dropping)
        budget_ms = attainment_budgets_ms(V100, model, slo_ms, rate, 16, terms)[20]
        full_load_ms = 16.0 / max(rate / 1000.0, 1e-300)

        assert budget_ms > (0.95 if cv == 1.0 else 0.85) * min(full_load_ms, 0.4 * slo_ms)
        assert budget_ms <= min(1.02 * full_load_ms, slo_ms)


def test_the_time_alone_is_a_possible_budget() -> None:
    """At the smallest share that serves the slot, the budget is the time alone if it is below the next grid point."""
    slo_ms, batch, model = 20.0, 4, 0
    slot = batch_times(V100, model, batch).under_load(slo_ms, 1.0)
    alone_ms = float(slot.alone_ms[batch, 8])
    low, high = 1.0, 1e5
    while high / low > 1.0 + 1e-12:  # the largest rate at which the slot is served alone
        rate = math.sqrt(low * high)
        holds = attainment_budgets_ms(V100, model, slo_ms, rate, batch, TERMS, 8)[8] > 0.0
        low, high = (rate, high) if holds else (low, rate)

    budget_ms = attainment_budgets_ms(V100, model, slo_ms, low, batch, TERMS, 8)[8]

    assert alone_ms <= budget_ms < grid_ms(grid_index(alone_ms) + 1)
    assert budget_ms == alone_ms


def test_budgets_scale_with_the_unit_of_time() -> None:
    """A power of two keeps the grid: half the rate and twice the times give twice the budget."""
    double = V100._replace(
        scheduling_ms=2 * V100.scheduling_ms,
        active_ms=2 * V100.active_ms,
        transfer_ms=2 * V100.transfer_ms,
        exposed_ms=2 * V100.exposed_ms,
    )
    for dropping in (True, False):
        terms = TERMS._replace(dropping=dropping)
        row = attainment_budgets_ms(V100, 1, 30.0, 400.0, 9, terms)
        assert np.array_equal(attainment_budgets_ms(double, 1, 60.0, 200.0, 9, terms), 2 * row)


def test_the_grid_is_fine_and_exact() -> None:
    for time_ms in (1e-3, 0.7, 1.0, 3.999, 4.0, 1e5, 1e300):
        index = grid_index(time_ms)
        assert grid_ms(index) <= time_ms < grid_ms(index + 1)
        assert grid_ms(index + 1) / grid_ms(index) <= 1.001
        assert grid_index(grid_ms(index)) == index
        assert grid_ms(index + STEPS) == 2.0 * grid_ms(index)


def scanned(model: int, slo: float, rate: float, batch: int, share: int, dropping: bool) -> float:
    """Return the largest grid point, or the time alone, at which the rule holds, by a linear scan."""
    slot, best = batch_times(V100, model, batch).under_load(slo, rate), -math.inf
    alone_ms, index = slot.alone_ms[batch, share], grid_index(slot.alone_ms[batch, share])
    while True:
        time = max(alone_ms, grid_ms(index))
        gpu = slot.alone_ms[1:, share] + (time - alone_ms)
        result, busy = gpu + slot.transfer_ms[1:], gpu + slot.exposed_ms[1:]
        if (missed if dropping else late)(rate / 1000, slo, result.tolist(), busy.tolist()) > 1.0 - 0.99:
            return best
        best, index = time, index + 1


@pytest.mark.parametrize("dropping", [True, False])
def test_budgets_are_those_of_a_scan_at_every_share_and_fall_with_it(dropping: bool) -> None:
    terms = TERMS._replace(dropping=dropping)
    for model, slo, rate, batch in ((0, 15.0, 500.0, 4), (2, 40.0, 200.0, 6)):
        row = attainment_budgets_ms(V100, model, slo, rate, batch, terms)
        possible = np.flatnonzero(row > 0.0)

        assert np.all(np.diff(row[possible]) <= 0.0)
        for share in (3, possible[0], possible[len(possible) // 2], 40):
            assert row[share] == scanned(model, slo, rate, batch, int(share), dropping)
            single = attainment_budgets_ms(V100, model, slo, rate, batch, terms, int(share))
            assert single[share] == row[share]


@pytest.mark.parametrize("dropping", [True, False])
def test_bounds_on_budgets_hold_and_are_tight_at_small_shares(dropping: bool) -> None:
    random, terms, tight, loose = Random(3), TERMS._replace(dropping=dropping), 0, 0
    for _ in range(25):
        model, slo, rate, batch = (
            random.randrange(4),
            random.uniform(15, 60),
            random.uniform(20, 300),
            random.randint(1, 10),
        )
        lower_rate_ms = None
        for part in (0.4, 0.5, 0.9, 1.0):
            row = attainment_budgets_ms(V100, model, slo, rate * part, batch, terms)
            least, most = bracketed_budgets_ms(V100, model, slo, rate * part, batch, terms, lower_rate_ms)
            assert np.all(least <= row)
            assert np.all(row <= most)
            smallest = np.argmax(row > 0.0)
            for share in (smallest, math.ceil(smallest * BRACKET_GROWTH)) if 0 < smallest < 30 else ():
                assert most[share] / least[share] < 1.0 + BRACKET_STEPS / STEPS
                tight += 1
            loose += np.any(least < most)
            lower_rate_ms = most
    assert tight > 50
    assert loose > 10


def test_dropping_raises_budgets_and_an_overloaded_server_has_none_without_it() -> None:
    for model, slo, rate, batch in ((0, 15.0, 500.0, 4), (2, 40.0, 200.0, 6), (1, 30.0, 400.0, 9)):
        both_terms = (TERMS, TERMS._replace(dropping=False))
        dropping, serving = (attainment_budgets_ms(V100, model, slo, rate, batch, terms) for terms in both_terms)
        assert np.all(serving <= dropping)
        assert np.any(serving < dropping)
        slot = batch_times(V100, model, batch).under_load(slo, rate)
        assert np.all(batch / (serving[serving > 0.0] + slot.exposed_ms[batch]) > rate / 1000.0)


def test_times_of_partial_batches_are_monotone() -> None:
    """Otherwise a longer SLO could lower a budget, or a larger share could raise one."""
    tables = MODELS[3]
    raised = 0
    for model in range(4):
        slot = batch_times(tables, model, 32).under_load(30.0, 100.0)
        alone_ms, sizes = slot.alone_ms[1:, tables.permitted], np.arange(1, 33)[:, None]
        modelled_ms = tables.scheduling_ms[model] + tables.active_ms[model, 1:33][:, tables.permitted]
        assert np.all(alone_ms >= modelled_ms - 1e-12)
        assert np.array_equal(alone_ms[-1], modelled_ms[-1])
        assert np.all(np.diff(alone_ms, axis=0) >= 0.0)
        assert np.all(np.diff(alone_ms / sizes, axis=0) <= 1e-12)
        assert np.all(np.diff(alone_ms[-1] - alone_ms, axis=1) <= 1e-12)
        raised += np.sum(alone_ms > modelled_ms + 1e-9)
    assert raised > 0


def test_the_target_the_buffer_and_burstiness_shrink_budgets() -> None:
    workload = Workload("w", "resnet50", 30.0, 300.0)

    def budgets(**changes: object) -> np.ndarray:
        pool = (GpuPool(gpu_type("v100"), None),)
        problem = Instance("p", Objective.COST, SloRule.ATTAINMENT, "igniter", pool, (workload,), **changes)
        view = View.of(problem, gpu_type("v100"))
        assert view.budgets_at_ms(0, 5, 300.0, 20) == view.budgets_ms(0, 5)[20]
        return view.budgets_ms(0, [5, 6])

    usual = budgets()
    assert usual.shape == (2, 41)
    assert budgets(attainment=0.999)[0, 40] < usual[0, 40] < budgets(attainment=0.9)[0, 40]
    assert budgets(latency_buffer=1.1)[0, 40] == pytest.approx(usual[0, 40] / 1.1)
    assert budgets(arrivals="gamma:1")[0, 40] == usual[0, 40]
    assert budgets(arrivals="gamma:2")[0, 40] < usual[0, 40] < budgets(arrivals="gamma:0.5")[0, 40]


def test_unprofiled_batches_forbidden_shares_and_overload_have_no_budget() -> None:
    coarse = V100._replace(permitted=np.array([10, 40]))

    assert np.all(attainment_budgets_ms(V100, 0, 20.0, 100.0, 33, TERMS) == -np.inf)
    assert np.flatnonzero(attainment_budgets_ms(coarse, 0, 20.0, 100.0, 2, TERMS) > 0.0).tolist() == [10, 40]
    assert np.all(attainment_budgets_ms(coarse, 0, 20.0, 100.0, 2, TERMS, 20) == -np.inf)
    for cv in (1.0, 2.0):
        assert np.all(attainment_budgets_ms(V100, 2, 20.0, 5000.0, 2, TERMS._replace(cv=cv)) == -np.inf)


@pytest.mark.parametrize("dropping", [True, False])
def test_gamma_arrivals_have_a_budget_at_every_share(dropping: bool) -> None:
    terms = AttainmentTerms(0.99, 2.0, dropping)
    row = attainment_budgets_ms(V100, 1, 30.0, 100.0, 3, terms)
    possible = np.flatnonzero(row > 0.0)

    assert len(set(row[possible])) > 4
    assert np.all(np.diff(row[possible]) <= 0.0)
    for share in (possible[0], 20, 33):
        assert attainment_budgets_ms(V100, 1, 30.0, 100.0, 3, terms, int(share))[share] == row[share]
    on_grid = row[possible[5:]]
    assert all(grid_index(budget) % GAMMA_STRIDE == 0 and grid_ms(grid_index(budget)) == budget for budget in on_grid)


def test_a_thinned_stream_is_closer_to_poisson() -> None:
    assert AttainmentTerms(0.99, 3.0).thinned(0.25).cv == pytest.approx(math.sqrt(0.25 * 9 + 0.75))
    assert AttainmentTerms(0.99, 1.0).thinned(0.25).cv == 1.0


# --- Kernels with budgets by share ---


def test_least_and_spare_shares_obey_budgets_by_share(subtests: pytest.Subtests) -> None:
    """All shares of two residents are tried, with budgets that fall as the share grows."""
    for seed in range(40):
        with subtests.test(seed=seed):
            random = np.random.default_rng(seed)
            tables = gpu_tables(TOY, "igniter")
            model, batch = np.array([0, 1]), random.integers(1, 4, 2)
            start = random.uniform(2.0, 16.0, 2)
            budget = start[:, None] * (1.0 - random.uniform(0.0, 0.05) * np.arange(11))
            feasible = [
                shares
                for shares in product(range(1, 11), repeat=2)
                if sum(shares) <= 10 and within_budgets(tables, model, batch, budget, np.array(shares))
            ]
            units = np.zeros(2, dtype=np.int64)

            assert least_shares(tables, model, batch, budget, units) == bool(feasible)
            if feasible:
                assert units.tolist() == [min(shares[i] for shares in feasible) for i in range(2)]
                value, proven = spend_spare_shares(tables, model, batch, budget, units, 10_000)
                assert proven
                assert tuple(units.tolist()) in feasible
                assert value == pytest.approx(
                    max(throughput_rps(tables, model, batch, np.array(shares)) for shares in feasible)
                )


@pytest.mark.parametrize("terms", [TERMS, TERMS._replace(dropping=False), TERMS._replace(cv=1.5)])
def test_the_least_meeting_share_is_the_first_one_with_a_budget(terms: AttainmentTerms) -> None:
    random, found = Random(5), 0
    for _ in range(6):
        slot = random.randrange(4), random.uniform(10, 60), random.uniform(20, 600), random.randint(1, 12)
        budgets_ms = attainment_budgets_ms(V100, *slot, terms)
        with_budget = (budgets_ms[V100.permitted] > 0.0).tolist()
        first = with_budget.index(True) if any(with_budget) else len(with_budget)
        model, slo_ms, rate_rps, batch = slot
        query = V100.permitted, batch_times(V100, model, batch), slo_ms, rate_rps, terms
        assert least_meeting_share(*query) == first
        low, high = max(0, first - random.randrange(3)), first - 1 + random.randrange(3)
        assert least_meeting_share(*query, (low, min(high, len(with_budget) - 1))) == min(first, max(low, high + 1))
        found += any(with_budget)
    assert found > 2
