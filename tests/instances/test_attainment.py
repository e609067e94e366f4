"""Missed fractions under the rule ``attainment``: the Markov chains against theory, simulation and finer grids."""

import math
from itertools import product
from random import Random

import numpy as np
import pytest

from instances.queueing import missed_fraction_of_sample
from tests.instances.missed_fractions import late, missed

ARRIVALS = np.cumsum(np.random.default_rng(0).standard_exponential(200_000))


def m_d_1_waits_at_most(x: float, rate: float, service: float) -> float:
    """Return the probability of waiting at most ``x`` in M/D/1 (Erlang 1909)."""
    terms = [rate * (k * service - x) for k in range(int(x / service) + 1)]
    return (1 - rate * service) * math.fsum(z**k / math.factorial(k) * math.exp(-z) for k, z in enumerate(terms))


@pytest.mark.parametrize(("load", "patience"), list(product([0.3, 0.6, 0.8, 0.95], [0.4, 1.0, 2.5, 4.2])))
def test_batches_of_one_form_an_m_d_1_queue_with_impatience(load: float, patience: float) -> None:
    """Requests that would wait too long do not enter: P = (1 - rho) W / (1 - rho W), W = P(wait > patience)."""
    waits_longer = 1.0 - m_d_1_waits_at_most(patience, load, 1.0)
    lost = (1 - load) * waits_longer / (1 - load * waits_longer)

    assert missed(load, patience + 1.0, [1.0], [1.0]) == pytest.approx(lost, rel=0.02, abs=1e-5)
    assert missed(load, patience + 1.0, [1.0], [1.0], nodes=600) == pytest.approx(lost, rel=5e-4, abs=1e-6)


def test_without_patience_the_missed_fraction_is_erlangs_loss() -> None:
    """A request that arrives during a batch is lost: M/G/1/1, for any batch size."""
    for rate in (0.2, 0.9, 3.0):
        assert missed(rate, 1.0, [1.0], [1.0]) == pytest.approx(rate / (1 + rate), rel=1e-9)


@pytest.mark.parametrize("load", [1.5, 2.2, 4.4])
def test_an_overloaded_server_misses_what_exceeds_its_capacity(load: float) -> None:
    """Long queues are almost never empty, so rounding errors must not decide how often they are."""
    assert missed(load, 100.0, [1.0], [1.0]) == pytest.approx(1 - 1 / load, rel=1e-9)
    assert missed(2 * load, 100.0, [0.9, 1.0], [0.9, 1.0]) == pytest.approx(1 - 1 / load, rel=1e-9)


def test_no_request_is_missed_at_tiny_load_and_all_if_full_batches_are_late() -> None:
    assert missed(1e-6, 1.0, [0.3, 0.4], [0.3, 0.4]) == pytest.approx(0.0, abs=1e-9)
    assert missed(0.1, 1.0, [0.5, 1.01], [0.5, 1.01]) == 1.0


def slots(count: int, seed: int, largest_batch: int = 16) -> list[tuple[float, list[float], list[float]]]:
    """Return random slots for an SLO of 1: rate, result and busy times; times per request fall with the batch."""
    random, drawn = Random(seed), []
    for _ in range(count):
        batch, large = random.randint(1, largest_batch), random.uniform(0.2, 0.8)
        small = random.uniform(large / batch, large)
        transfer, hidden = random.uniform(0.0, 0.1), random.uniform(0.0, 1.0)
        gpu = [small + (large - small) * k / max(1, batch - 1) for k in range(batch)]
        result = [t + transfer * (k + 1) / batch for k, t in enumerate(gpu)]
        busy = [t + hidden * transfer * (k + 1) / batch for k, t in enumerate(gpu)]
        drawn.append((random.uniform(0.1, 1.05) * batch / busy[-1], result, busy))
    return drawn


def sampled(rate: float, result: list[float], busy: list[float], dropping: bool) -> tuple[float, float]:
    """Return the missed fraction of 200,000 simulated requests with an SLO of 1, and its standard error (50 blocks)."""
    batch, at, free, position = len(result), ARRIVALS / rate, 0.0, 0
    lost = np.zeros(len(at))
    while position < len(at) - batch:
        now = max(free, at[position])
        while True:
            waiting = min(int(np.searchsorted(at[position : position + batch], now, side="right")), batch)
            if not dropping or waiting == 0 or now + result[waiting - 1] - at[position] <= 1.0:
                break
            lost[position] = 1.0
            position += 1
        if waiting > 0:
            lost[position : position + waiting] = now + result[waiting - 1] - at[position : position + waiting] > 1.0
            free, position = now + busy[waiting - 1], position + waiting
    blocks = lost[: len(lost) // 50 * 50].reshape(50, -1).mean(axis=1)
    return float(blocks.mean()), float(blocks.std(ddof=1) / math.sqrt(50))


@pytest.mark.parametrize("dropping", [True, False])
def test_the_chain_and_the_sampled_fraction_agree_with_a_simulation(dropping: bool) -> None:
    for rate, result, busy in slots(8, 1):
        if not dropping and rate * busy[-1] / len(busy) > 0.9:
            continue
        fraction, error = sampled(rate, result, busy, dropping)
        exact = (missed if dropping else late)(rate, 1.0, result, busy)

        assert exact == pytest.approx(fraction, abs=4 * error + 2e-4)

        result_of, busy_of = (np.array([0.0, *times]) * rate for times in (result, busy))
        of_sample = missed_fraction_of_sample(ARRIVALS, rate, len(result), result_of, busy_of, dropping, 1.0)

        assert fraction - 2 * error <= of_sample <= fraction + 6 * error + 1e-4


def test_the_numerical_error_is_on_the_safe_side_and_small() -> None:
    errors = []
    for rate, result, busy in slots(150, 3, largest_batch=64):
        fine = missed(rate, 1.0, result, busy, nodes=900)
        if 1e-3 < fine < 0.05:
            errors.append(missed(rate, 1.0, result, busy) / fine - 1.0)

    assert len(errors) > 20
    assert min(errors) > -1e-6
    assert max(errors) < 0.02
    assert np.mean(errors) < 0.004
