"""Histograms of latencies: percentiles are within 0.8 % of those of any samples."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.simulation.histogram import BINS, FILE_BITS, bin_of, compact, counts_of, edges_ms, quantile_ms

LOWEST_EDGE_MS, HIGHEST_EDGE_MS = float(edges_ms(0, 0)[0]), float(edges_ms(BINS - 1, BINS - 1)[-1])


def histogram_of(samples_ms: np.ndarray) -> np.ndarray:
    return np.bincount([bin_of(ms) for ms in samples_ms], minlength=BINS)


def order_statistic(samples_ms: np.ndarray, fraction: float) -> float:
    """Return the smallest sample such that at least ``fraction`` of the samples are not larger."""
    return float(np.quantile(samples_ms, fraction, method="inverted_cdf"))


@pytest.mark.parametrize(
    "samples_ms",
    [
        pytest.param(np.random.default_rng(1).exponential(20.0, 5000), id="exponential"),
        pytest.param(np.random.default_rng(2).lognormal(4.0, 2.0, 5000), id="over many octaves"),
        pytest.param(np.random.default_rng(3).uniform(15.9, 16.1, 5000), id="around an octave's edge"),
        pytest.param(np.full(17, 12.3), id="all the same"),
        pytest.param(np.array([7.0]), id="a single one"),
        pytest.param(np.array([1.0, 1000.0]), id="two far apart"),
    ],
)
def test_quantiles_are_within_a_bin_of_the_samples(samples_ms: np.ndarray) -> None:
    fractions = [0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]

    quantiles_ms = [quantile_ms(histogram_of(samples_ms), fraction, float(samples_ms.max())) for fraction in fractions]

    assert quantiles_ms == pytest.approx([order_statistic(samples_ms, fraction) for fraction in fractions], rel=0.008)


@given(
    samples=st.lists(st.floats(0.01, 1e5), min_size=1, max_size=200),
    fraction=st.floats(1e-6, 1.0),
)
def test_quantiles_of_any_samples_are_within_a_bin(samples: list[float], fraction: float) -> None:
    samples_ms = np.array(samples)

    quantile = quantile_ms(histogram_of(samples_ms), fraction, max(samples))

    assert quantile is not None
    assert quantile <= max(samples)
    exact = sorted(samples)[max(0, math.ceil(fraction * len(samples) - 1e-9) - 1)]
    assert quantile == pytest.approx(exact, rel=0.008)


@given(samples=st.lists(st.floats(1e-5, 1e8), min_size=1, max_size=100))
def test_quantiles_rise_with_the_fraction(samples: list[float]) -> None:
    counts = histogram_of(np.array(samples))

    quantiles_ms = [quantile_ms(counts, fraction, max(samples)) for fraction in np.linspace(0.01, 1.0, 100)]

    assert quantiles_ms == sorted(quantiles_ms)


@given(st.floats(LOWEST_EDGE_MS, HIGHEST_EDGE_MS, exclude_max=True))
def test_a_latency_lies_within_the_edges_of_its_bin(latency_ms: float) -> None:
    bin_number = bin_of(latency_ms)
    low, high = edges_ms(bin_number, bin_number)

    assert low <= latency_ms < high
    assert high / low <= 1.0 + 1.0 / 128.0


def test_edges_belong_to_the_bin_above() -> None:
    edges = edges_ms(0, BINS - 1)

    assert len(edges) == BINS + 1
    assert [bin_of(edge) for edge in edges[:-1]] == list(range(BINS))
    assert [bin_of(math.nextafter(edge, 0.0)) for edge in edges[1:]] == list(range(BINS))


@pytest.mark.parametrize("tiny", [0.0, -1.0, 5e-324, LOWEST_EDGE_MS / 2])
def test_latencies_below_the_range_are_in_the_first_bin(tiny: float) -> None:
    assert bin_of(tiny) == 0


@pytest.mark.parametrize("huge", [HIGHEST_EDGE_MS, 1e300, math.inf])
def test_latencies_above_the_range_are_in_the_last_bin(huge: float) -> None:
    assert bin_of(huge) == BINS - 1


def test_the_range_is_from_a_microsecond_to_hours() -> None:
    assert LOWEST_EDGE_MS <= 1e-3
    assert HIGHEST_EDGE_MS >= 4 * 3_600_000.0


def test_an_empty_histogram_has_no_quantile() -> None:
    assert quantile_ms(np.zeros(BINS, dtype=np.int64), 0.5, 0.0) is None


def test_no_quantile_is_above_the_maximum() -> None:
    samples_ms = np.full(100, float(edges_ms(1000, 1000)[0]))

    assert quantile_ms(histogram_of(samples_ms), 0.99, samples_ms[0]) == samples_ms[0]


def test_compact_histograms_have_every_count_in_coarser_bins() -> None:
    samples_ms = np.random.default_rng(4).lognormal(2.0, 1.0, 1000)

    compacted = compact(histogram_of(samples_ms))

    assert sum(compacted["requests"]) == 1000
    assert min(compacted["requests"]) > 0
    for low, count in zip(compacted["lower_ms"], compacted["requests"], strict=True):
        width = 2.0 ** math.floor(math.log2(low * (1 + 1e-9))) / 2**FILE_BITS
        assert np.sum((samples_ms >= low - 1e-6) & (samples_ms < low + width - 1e-6)) == pytest.approx(count, abs=1)


@given(st.lists(st.floats(-1.0, HIGHEST_EDGE_MS * 2.0), max_size=50))
def test_counts_of_an_array_are_those_of_single_latencies(latencies_ms: list[float]) -> None:
    assert np.array_equal(counts_of(np.array(latencies_ms)), histogram_of(np.array(latencies_ms)))
