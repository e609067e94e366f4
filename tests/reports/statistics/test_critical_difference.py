"""Friedman and Nemenyi: Demšar's published example, SciPy, and invariances."""

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


def test_demsars_example():
    found = rank_schedulers(DEMSAR_RANKS)
    assert found.ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert found.friedman == pytest.approx(9.28, abs=5e-3)
    # F_F = 3.69 exceeds the critical value 2.85 of F(3, 39) for 0.05
    assert found.p == pytest.approx(0.0197, abs=2e-4)
    assert found.critical_difference == pytest.approx(1.25, abs=5e-3)
    assert rank_schedulers(DEMSAR_RANKS, alpha=0.10).critical_difference == pytest.approx(1.12, abs=5e-3)


def test_demsars_groups():
    # At 0.05 Nemenyi's test finds nothing; at 0.10 the worst differs from the two best, the second worst from none.
    assert rank_schedulers(DEMSAR_RANKS).groups == ((3, 1, 2, 0),)
    assert rank_schedulers(DEMSAR_RANKS, alpha=0.10).groups == ((3, 1, 2), (2, 0))


def test_demsars_critical_values():
    # Table 5(a): q for 2 to 10 classifiers at 0.05; the difference over sqrt(k (k + 1) / (6 N)) is q.
    published = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
    for k, q in enumerate(published, start=2):
        found = rank_schedulers([range(k), range(k)])
        assert found.critical_difference / (k * (k + 1) / 12.0) ** 0.5 == pytest.approx(q, abs=1.1e-3)


@given(st.integers(2, 12), st.integers(3, 6), st.randoms(use_true_random=False))
def test_without_ties_it_is_scipys_statistic(n, k, random):
    results = [random.sample(range(100), k) for _ in range(n)]
    expected = friedmanchisquare(*np.transpose(results)).statistic
    assert rank_schedulers(results).friedman == pytest.approx(expected, abs=1e-9)


@given(RESULTS, st.randoms(use_true_random=False))
def test_neither_the_order_of_instances_nor_of_schedulers_nor_the_scale_matters(results, random):
    instances, schedulers = list(range(results.shape[0])), list(range(results.shape[1]))
    random.shuffle(instances)
    random.shuffle(schedulers)
    expected, found = rank_schedulers(results), rank_schedulers(results[np.ix_(instances, schedulers)] ** 3)
    assert found.ranks == pytest.approx(expected.ranks[schedulers])
    assert (found.friedman, found.p) == pytest.approx((expected.friedman, expected.p), abs=1e-9)


@given(RESULTS)
def test_ranks_add_up_and_groups_are_what_is_closer_than_the_difference(results):
    found = rank_schedulers(results)
    k = results.shape[1]
    assert found.ranks.sum() == pytest.approx(k * (k + 1) / 2)
    assert 0.0 <= found.p <= 1.0
    together = {pair for group in found.groups for pair in ((a, b) for a in group for b in group if a != b)}
    for a in range(k):
        for b in range(k):
            apart = abs(found.ranks[a] - found.ranks[b])
            if a != b and abs(apart - found.critical_difference) > 1e-9:
                assert ((a, b) in together) == (apart < found.critical_difference)


def test_all_agreeing_is_beyond_doubt_and_all_equal_is_none():
    assert rank_schedulers([[1, 2, 3]] * 10).p == 0.0
    assert rank_schedulers([[1, 1, 1]] * 10).p == 1.0


@pytest.mark.parametrize("shape", [(1, 3), (3, 1)])
def test_one_of_either_cannot_be_ranked(shape):
    with pytest.raises(ValueError, match="ranking needs at least two of each"):
        rank_schedulers(np.zeros(shape))
