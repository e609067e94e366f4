"""The signed-rank test: a published example, SciPy's exact method, all sign patterns of small samples."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from reports.statistics.inference import signed_ranks

DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
"""Darwin's crossed minus self-fertilised maize plants, in eighths of an inch (Fisher, The Design of Experiments)."""

DIFFERENCES = st.lists(st.sampled_from([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, np.inf]), max_size=9)


def test_statistics_of_darwins_maize_are_the_published_ones():
    result = signed_ranks(DARWIN)
    assert (result.plus, result.minus) == (96.0, 24.0)
    assert result.p == pytest.approx(0.0413, abs=5e-5)


def test_six_agreeing_pairs_are_significant_and_fewer_never_are():
    assert signed_ranks([1, 2, 3]).p == 0.25
    assert signed_ranks([1, 2, 3, 4, 5]).p == 2 / 2**5
    assert signed_ranks([1, 2, 3, 4, 5, 6]).p == 2 / 2**6 < 0.05


@pytest.mark.parametrize("differences", [[], [0.0, 0.0]])
def test_without_a_difference_nothing_is_significant(differences):
    assert signed_ranks(differences).p == 1.0


@given(st.sets(st.integers(1, 1000), min_size=1, max_size=40), st.data())
def test_without_ties_p_is_that_of_scipys_exact_method(sizes, data):
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sizes), max_size=len(sizes)))
    differences = [sign * size for sign, size in zip(signs, sorted(sizes), strict=True)]
    exact = wilcoxon(np.array(differences, dtype=float), method="exact")
    result = signed_ranks(differences)
    assert min(result.plus, result.minus) == exact.statistic
    assert result.p == pytest.approx(exact.pvalue)


@given(DIFFERENCES)
def test_with_ties_p_is_the_part_of_sign_patterns_as_extreme(differences):
    sizes = [abs(difference) for difference in differences if difference]
    result = signed_ranks(differences)
    patterns = [
        signed_ranks([sign * size for sign, size in zip(signs, sizes, strict=True)])
        for signs in product((-1, 1), repeat=len(sizes))
    ]
    smaller = min(result.plus, result.minus)
    extreme = sum(pattern.plus <= smaller for pattern in patterns) / len(patterns)
    assert result.p == pytest.approx(min(1.0, 2.0 * extreme))


@given(DIFFERENCES, st.randoms(use_true_random=False))
def test_the_order_of_pairs_and_of_sides_does_not_matter(differences, random):
    result = signed_ranks(differences)
    shuffled = list(differences)
    random.shuffle(shuffled)
    assert signed_ranks(shuffled) == result
    negated = signed_ranks([-difference for difference in differences])
    assert (negated.plus, negated.minus, negated.p) == (result.minus, result.plus, result.p)


def test_many_pairs_agree_with_the_normal_approximation():
    differences = np.random.default_rng(7).normal(0.1, 1.0, 400)
    assert signed_ranks(differences).p == pytest.approx(wilcoxon(differences, method="asymptotic").pvalue, rel=0.01)
