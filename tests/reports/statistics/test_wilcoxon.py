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


def test_darwins_maize():
    found = signed_ranks(DARWIN)
    assert (found.plus, found.minus) == (96.0, 24.0)
    assert found.p == pytest.approx(0.0413, abs=5e-5)


def test_few_pairs_are_never_significant_and_six_agreeing_ones_are():
    assert signed_ranks([1, 2, 3]).p == 0.25
    assert signed_ranks([1, 2, 3, 4, 5]).p == 2 / 2**5
    assert signed_ranks([1, 2, 3, 4, 5, 6]).p == 2 / 2**6 < 0.05


@pytest.mark.parametrize("differences", [[], [0.0, 0.0]])
def test_without_a_difference_nothing_is_significant(differences):
    assert signed_ranks(differences).p == 1.0


@given(st.sets(st.integers(1, 1000), min_size=1, max_size=40), st.data())
def test_without_ties_it_is_scipys_exact_test(sizes, data):
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sizes), max_size=len(sizes)))
    differences = [sign * size for sign, size in zip(signs, sorted(sizes), strict=True)]
    exact = wilcoxon(np.array(differences, dtype=float), method="exact")
    found = signed_ranks(differences)
    assert min(found.plus, found.minus) == exact.statistic
    assert found.p == pytest.approx(exact.pvalue)


@given(DIFFERENCES)
def test_with_ties_p_is_the_part_of_all_sign_patterns_that_are_as_extreme(differences):
    sizes = [abs(each) for each in differences if each]
    found = signed_ranks(differences)
    patterns = [
        signed_ranks([sign * size for sign, size in zip(signs, sizes, strict=True)])
        for signs in product((-1, 1), repeat=len(sizes))
    ]
    smaller = min(found.plus, found.minus)
    extreme = sum(pattern.plus <= smaller for pattern in patterns) / len(patterns)
    assert found.p == pytest.approx(min(1.0, 2.0 * extreme))


@given(DIFFERENCES, st.randoms(use_true_random=False))
def test_neither_order_nor_who_is_first_matters(differences, random):
    found = signed_ranks(differences)
    shuffled = list(differences)
    random.shuffle(shuffled)
    assert signed_ranks(shuffled) == found
    turned = signed_ranks([-each for each in differences])
    assert (turned.plus, turned.minus, turned.p) == (found.minus, found.plus, found.p)


def test_many_pairs_agree_with_the_normal_approximation():
    differences = np.random.default_rng(7).normal(0.1, 1.0, 400)
    assert signed_ranks(differences).p == pytest.approx(wilcoxon(differences, method="asymptotic").pvalue, rel=0.01)
