"""The embedded Markov chain of the rule ``attainment`` against theory, simulation and itself; budgets by share."""

import math
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.attainment import missed_fraction, nodes_for
from instances.attainment_budget import (
    BRACKET_GROWTH,
    BRACKET_STEPS,
    STEPS,
    attainment_budgets_ms,
    bracketed_budgets_ms,
    slot_times,
)
from instances.attainment_chain import chain_for
from instances.attainment_terms import AttainmentTerms
from instances.catalogue import gpu_type
from instances.least_shares import least_shares, within_budgets
from instances.queueing import dropped_fraction
from instances.spare_shares import spend_spare_shares, throughput_rps
from instances.tables import gpu_tables
from instances.view import View
from tests.instances.reference import TOY

TERMS = AttainmentTerms(0.99, 1.0, False)
V100 = gpu_tables(gpu_type("v100"), "igniter")
ARRIVALS = np.cumsum(np.random.default_rng(0).standard_exponential(200_000))


def missed(rate: float, slo: float, result: list[float], busy: list[float], timeout: float, nodes: int = 0) -> float:
    """Missed fraction of a slot whose batches of 1, 2, ... take these times."""
    batch = len(result)
    times = np.array([0.0, *result]), np.array([0.0, *busy])
    nodes = nodes or nodes_for(rate, max(0.0, slo - result[-1]), batch)
    return float(missed_fraction(chain_for(batch, nodes), rate, slo, batch, *times, timeout, nodes))


def m_d_1_waits_at_most(x: float, rate: float, service: float) -> float:
    """Distribution of the waiting time in M/D/1 (Erlang 1909)."""
    terms = [rate * (k * service - x) for k in range(int(x / service) + 1)]
    return (1 - rate * service) * math.fsum(z**k / math.factorial(k) * math.exp(-z) for k, z in enumerate(terms))


@pytest.mark.parametrize(("load", "patience"), list(product([0.3, 0.6, 0.8, 0.95], [0.4, 1.0, 2.5, 4.2])))
def test_single_requests_are_m_d_1_with_impatience(load: float, patience: float) -> None:
    """Requests that would wait longer than their patience do not enter: P = (1 - rho) W / (1 - rho W), W = P(wait)."""
    waits_longer = 1.0 - m_d_1_waits_at_most(patience, load, 1.0)
    lost = (1 - load) * waits_longer / (1 - load * waits_longer)

    assert missed(load, patience + 1.0, [1.0], [1.0], 0.3) == pytest.approx(lost, rel=0.02, abs=1e-5)
    assert missed(load, patience + 1.0, [1.0], [1.0], 0.3, nodes=600) == pytest.approx(lost, rel=5e-4, abs=1e-6)


def test_without_patience_it_is_erlangs_loss() -> None:
    """A request that meets a batch is lost: M/G/1/1, any batch size."""
    for rate in (0.2, 0.9, 3.0):
        assert missed(rate, 1.0, [1.0], [1.0], 0.0) == pytest.approx(rate / (1 + rate), rel=1e-9)


@pytest.mark.parametrize("load", [1.5, 2.2, 4.4])
def test_an_overloaded_server_misses_what_exceeds_its_capacity(load: float) -> None:
    """Long queues practically never empty, so rounding must not decide how often they do."""
    assert missed(load, 100.0, [1.0], [1.0], 50.0) == pytest.approx(1 - 1 / load, rel=1e-9)
    assert missed(2 * load, 100.0, [0.9, 1.0], [0.9, 1.0], 50.0) == pytest.approx(1 - 1 / load, rel=1e-9)


def test_nothing_is_missed_at_hardly_any_load_and_all_where_a_full_batch_is_late() -> None:
    assert missed(1e-6, 1.0, [0.3, 0.4], [0.3, 0.4], 0.5) == pytest.approx(0.0, abs=1e-9)
    assert missed(0.1, 1.0, [0.5, 1.01], [0.5, 1.01], 0.0) == 1.0


def slots(count: int, seed: int) -> list[tuple[float, list[float], list[float], float]]:
    """Random slots with an SLO of 1: rate, result and busy times, timeout."""
    random, found = Random(seed), []
    for _ in range(count):
        batch = random.randint(1, 16)
        small, large = sorted((random.uniform(0.05, 0.4), random.uniform(0.2, 0.6)))
        transfer, hidden = random.uniform(0.0, 0.1), random.uniform(0.0, 1.0)
        gpu = [small + (large - small) * k / max(1, batch - 1) for k in range(batch)]
        result = [t + transfer * (k + 1) / batch for k, t in enumerate(gpu)]
        busy = [t + hidden * transfer * (k + 1) / batch for k, t in enumerate(gpu)]
        timeout = 0.0 if random.random() < 0.2 else min(0.5, 1.0 - result[-1])
        found.append((random.uniform(0.3, 1.05) * batch / busy[-1], result, busy, timeout))
    return found


def sampled(rate: float, result: list[float], busy: list[float], timeout: float) -> tuple[float, float]:
    """Dropped fraction of 200,000 requests served one by one, and its standard error from 50 blocks."""
    batch, at, free, place = len(result), ARRIVALS / rate, 0.0, 0
    lost = np.zeros(len(at))
    while place < len(at) - batch:
        now = max(free, min(at[place] + timeout, at[place + batch - 1]))
        while True:
            waiting = min(int(np.searchsorted(at[place : place + batch], now, side="right")), batch)
            if waiting == 0 or now + result[waiting - 1] - at[place] <= 1.0:
                break
            lost[place] = 1.0
            place += 1
        if waiting == 0 or (waiting < batch and at[place] + timeout > now):
            free = now
            continue
        free, place = now + busy[waiting - 1], place + waiting
    blocks = lost[: len(lost) // 50 * 50].reshape(50, -1).mean(axis=1)
    return float(blocks.mean()), float(blocks.std(ddof=1) / math.sqrt(50))


def test_the_chain_and_the_sampled_fraction_are_the_queue_served_one_by_one() -> None:
    for rate, result, busy, timeout in slots(5, 1):
        fraction, error = sampled(rate, result, busy, timeout)

        assert missed(rate, 1.0, result, busy, timeout) == pytest.approx(fraction, abs=4 * error + 2e-4)

        times = np.array([0.0, *result]), np.array([0.0, *busy])

        found = dropped_fraction(ARRIVALS, 1.0 / rate, 1.0, len(result), *times, timeout, 1.0)

        assert fraction <= found <= fraction + 6 * error + 1e-4


def test_the_numerical_error_is_on_the_safe_side_and_below_a_fiftieth_of_a_point() -> None:
    for rate, result, busy, timeout in slots(60, 3):
        fine = missed(rate, 1.0, result, busy, timeout, nodes=400)
        if fine < 0.02:
            assert -1e-9 <= missed(rate, 1.0, result, busy, timeout) - fine < 2e-4


batches, units = st.integers(1, 12), st.integers(4, 40)


@given(st.integers(0, 3), batches, units, st.floats(20.0, 900.0), st.floats(10.0, 60.0), st.floats(0.0, 1.0))
def test_more_is_missed_at_a_longer_time_and_a_higher_rate(
    model: int, batch: int, share: int, rate: float, slo: float, part: float
) -> None:
    def at(time_ms: float, rate_rps: float) -> float:
        slot = slot_times(V100, model, slo, rate_rps, batch)
        gpu = slot.alone_ms[1:, share] + (time_ms - slot.alone_ms[batch, share])
        result, busy = gpu + slot.transfer_ms[1:], gpu + slot.exposed_ms[1:]
        timeout = max(0.0, min(slo / 2, slo - result[-1]))
        return missed(slot.rate_per_ms, slo, result.tolist(), busy.tolist(), timeout)

    alone = float(V100.scheduling_ms[model] + V100.active_ms[model, batch, share])
    time = alone + part * max(0.0, 0.8 * slo - alone)
    here = at(time, rate)

    if here <= 0.02:
        assert at(alone + 0.9 * (time - alone), rate) <= here + 1e-9
        assert at(time, 0.9 * rate) <= here + 1e-9


def scanned(model: int, slo: float, rate: float, batch: int, share: int, immediate: bool) -> float:
    """Largest multiple of SLO / STEPS at which the rule holds, by trying all of them."""
    slot, best = slot_times(V100, model, slo, rate, batch), -math.inf
    alone = slot.alone_ms[batch, share]
    for index in range(math.ceil(alone * STEPS / slo), STEPS + 1):
        gpu = slot.alone_ms[1:, share] + (index * slo / STEPS - alone)
        result, busy = gpu + slot.transfer_ms[1:], gpu + slot.exposed_ms[1:]
        timeout = 0.0 if immediate else max(0.0, min(slo / 2, slo - result[-1]))
        if result[-1] > slo or missed(rate / 1000, slo, result.tolist(), busy.tolist(), timeout) > 0.01:
            break
        best = index * slo / STEPS
    return best


@pytest.mark.parametrize("immediate", [False, True])
def test_budgets_are_those_of_a_scan_at_every_share_and_fall_with_it(immediate: bool) -> None:
    terms = TERMS._replace(immediate=immediate)
    for model, slo, rate, batch in ((0, 15.0, 500.0, 4), (2, 40.0, 200.0, 6), (1, 30.0, 400.0, 9)):
        row = attainment_budgets_ms(V100, model, slo, rate, batch, terms)
        possible = np.flatnonzero(row > 0.0)

        assert np.all(np.diff(row[possible]) <= 0.0)
        for share in (3, possible[0], possible[len(possible) // 2], 40):
            assert row[share] == pytest.approx(scanned(model, slo, rate, batch, int(share), immediate), rel=1e-12)
            one = attainment_budgets_ms(V100, model, slo, rate, batch, terms, int(share))
            assert one[share] == row[share]


@pytest.mark.parametrize("immediate", [False, True])
def test_bounds_on_budgets_hold_and_are_tight_at_small_shares(immediate: bool) -> None:
    random, terms, tight, apart = Random(3), TERMS._replace(immediate=immediate), 0, 0
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
                assert most[share] - least[share] < BRACKET_STEPS * slo / STEPS
                tight += 1
            apart += np.any(least < most)
            lower_rate_ms = most
    assert tight > 50
    assert apart > 10


def test_the_target_and_the_buffer_shrink_budgets() -> None:
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


def test_a_batch_or_a_share_without_figures_has_no_budget() -> None:
    coarse = V100._replace(permitted=np.array([10, 40]))

    assert np.all(attainment_budgets_ms(V100, 0, 20.0, 100.0, 33, TERMS) == -np.inf)
    assert np.flatnonzero(attainment_budgets_ms(coarse, 0, 20.0, 100.0, 2, TERMS) > 0.0).tolist() == [10, 40]
    assert np.all(attainment_budgets_ms(coarse, 0, 20.0, 100.0, 2, TERMS, 20) == -np.inf)
    for cv in (1.0, 2.0):
        assert np.all(attainment_budgets_ms(V100, 2, 20.0, 5000.0, 2, TERMS._replace(cv=cv)) == -np.inf)


def test_gamma_arrivals_have_the_budget_of_the_next_larger_half() -> None:
    row = attainment_budgets_ms(V100, 1, 30.0, 100.0, 3, TERMS._replace(cv=2.0))

    assert row[20] > 0.0
    assert set(row[21:41]) == {row[40]}
    assert set(row[11:21]) == {row[20]}


def test_a_thinned_stream_is_nearer_to_poisson() -> None:
    assert AttainmentTerms(0.99, 3.0, False).thinned(0.25).cv == pytest.approx(math.sqrt(0.25 * 9 + 0.75))
    assert AttainmentTerms(0.99, 1.0, False).thinned(0.25).cv == 1.0


# --- Kernels with budgets by share ---


@pytest.mark.parametrize("seed", range(40))
def test_least_shares_and_spare_shares_under_budgets_by_share(seed: int) -> None:
    """Against all shares of two residents, with budgets that fall as the share grows."""
    random = np.random.default_rng(seed)
    tables = gpu_tables(TOY, "igniter")
    model, batch = np.array([0, 1]), random.integers(1, 4, 2)
    start = random.uniform(2.0, 16.0, 2)
    budget = start[:, None] * (1.0 - random.uniform(0.0, 0.05) * np.arange(11))
    feasible = [
        each
        for each in product(range(1, 11), repeat=2)
        if sum(each) <= 10 and within_budgets(tables, model, batch, budget, np.array(each))
    ]
    found = np.zeros(2, dtype=np.int64)

    assert least_shares(tables, model, batch, budget, found) == bool(feasible)
    if feasible:
        assert found.tolist() == [min(each[i] for each in feasible) for i in range(2)]
        value, proven = spend_spare_shares(tables, model, batch, budget, found, 10_000)
        assert proven
        assert tuple(found.tolist()) in feasible
        assert value == pytest.approx(max(throughput_rps(tables, model, batch, np.array(each)) for each in feasible))
