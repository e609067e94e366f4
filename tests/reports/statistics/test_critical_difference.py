"""Friedman's and Nemenyi's tests: against Demšar's published example and SciPy, and invariances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.stats import friedmanchisquare

from reports.statistics.inference import rank_schedulers

DEMSAR_RANKS = [
    *[(4, 3, 2, 1), (1, 2, 3, 4), (4, 1, 2, 3), (4, 1, 3, 2), (4, 2, 3, 1), (1, 2.5, 4, 2.5), (3, 2, 4, 1)],
    *[(2.5, 2.5, 4, 1), (4, 3, 2, 1), (2.5, 2.5, 2.5, 2.5), (4, 2.5, 1, 2.5), (3, 2, 4, 1), (4, 1, 2, 3), (3, 1, 4, 2)],
]
"""Ranks of four variants of C4.5 on 14 data sets (Demšar 2006, Table 6)."""

RESULTS = arrays(
    float,
    array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=7),
    elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]),
)


def test_statistics_of_demsars_example_are_the_published_ones():
    ranking = rank_schedulers(DEMSAR_RANKS)
    assert ranking.ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert ranking.friedman == pytest.approx(9.28, abs=5e-3)
    # F_F = 3.69 exceeds the critical value 2.85 of F(3, 39) for 0.05
    assert ranking.p == pytest.approx(0.0197, abs=2e-4)
    assert ranking.critical_difference == pytest.approx(1.25, abs=5e-3)
    assert rank_schedulers(DEMSAR_RANKS, alpha=0.10).critical_difference == pytest.approx(1.12, abs=5e-3)


def test_groups_of_demsars_example_are_the_published_ones():
    # At 0.05, Nemenyi's test finds no difference; at 0.10, only the worst differs from the two best.
    assert rank_schedulers(DEMSAR_RANKS).groups == ((3, 1, 2, 0),)
    assert rank_schedulers(DEMSAR_RANKS, alpha=0.10).groups == ((3, 1, 2), (2, 0))


def test_critical_values_are_the_published_ones():
    # Table 5(a): q for 2 to 10 classifiers at 0.05; the difference over sqrt(k (k + 1) / (6 N)) is q.
    published = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
    for k, q in enumerate(published, start=2):
        ranking = rank_schedulers([range(k), range(k)])
        assert ranking.critical_difference / (k * (k + 1) / 12.0) ** 0.5 == pytest.approx(q, abs=1.1e-3)


@given(st.integers(2, 12), st.integers(3, 6), st.randoms(use_true_random=False))
def test_without_ties_friedmans_statistic_is_scipys(n, k, random):
    results = [random.sample(range(100), k) for _ in range(n)]
    expected = friedmanchisquare(*np.transpose(results)).statistic
    assert rank_schedulers(results).friedman == pytest.approx(expected, abs=1e-9)


@given(RESULTS, st.randoms(use_true_random=False))
def test_ranking_ignores_orders_and_scale(results, random):
    instances, schedulers = list(range(results.shape[0])), list(range(results.shape[1]))
    random.shuffle(instances)
    random.shuffle(schedulers)
    expected, ranking = rank_schedulers(results), rank_schedulers(results[np.ix_(instances, schedulers)] ** 3)
    assert ranking.ranks == pytest.approx(expected.ranks[schedulers])
    assert (ranking.friedman, ranking.p) == pytest.approx((expected.friedman, expected.p), abs=1e-9)


@given(RESULTS)
def test_groups_hold_ranks_closer_than_the_critical_difference(results):
    ranking = rank_schedulers(results)
    k = results.shape[1]
    assert ranking.ranks.sum() == pytest.approx(k * (k + 1) / 2)
    assert 0.0 <= ranking.p <= 1.0
    grouped = {pair for group in ranking.groups for pair in ((a, b) for a in group for b in group if a != b)}
    for a in range(k):
        for b in range(k):
            distance = abs(ranking.ranks[a] - ranking.ranks[b])
            if a != b and abs(distance - ranking.critical_difference) > 1e-9:
                assert ((a, b) in grouped) == (distance < ranking.critical_difference)


def test_p_is_0_if_all_agree_and_1_if_all_are_equal():
    assert rank_schedulers([[1, 2, 3]] * 10).p == 0.0
    assert rank_schedulers([[1, 1, 1]] * 10).p == 1.0


@pytest.mark.parametrize("shape", [(1, 3), (3, 1)])
def test_one_instance_or_one_scheduler_cannot_be_ranked(shape):
    with pytest.raises(ValueError, match="ranking needs at least two of each"):
        rank_schedulers(np.zeros(shape))
