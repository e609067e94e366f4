"""Critical difference of several schedulers over many instances: the tests of Friedman and Nemenyi.

J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning Research 7,
2006, Sec. 3.2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Ranking:
    """Average ranks of k schedulers over N instances, and their significant differences.

    Attributes
    ----------
    ranks
        ``R_j``, from 1 (always the best) to k, in the order given; equal results share the mean of their ranks.
    friedman
        ``chi2_F = 12 N / (k (k + 1)) (sum_j R_j^2 - k (k + 1)^2 / 4)``. It is not corrected for ties, which makes it
        smaller: the test is conservative if many results are equal.
    p
        p value of the hypothesis that all are equal, by Iman and Davenport's
        ``F_F = (N - 1) chi2_F / (N (k - 1) - chi2_F)``,
        which has an F distribution with ``k - 1`` and ``(k - 1)(N - 1)`` degrees of freedom.
    critical_difference
        ``CD = q_alpha sqrt(k (k + 1) / (6 N))``, ``q_alpha`` from the Studentised range over ``sqrt(2)``: average
        ranks that differ by at least this differ significantly; all pairs are tested at once (Nemenyi).
    groups
        Largest sets of schedulers, by index from the best rank on, whose ranks do not differ significantly; sets of one
        are not listed.
    """

    ranks: NDArray[np.float64]
    friedman: float
    p: float
    critical_difference: float
    groups: tuple[tuple[int, ...], ...]


def rank_schedulers(results: ArrayLike, alpha: float = 0.05) -> Ranking:
    """Rank schedulers over instances and test the differences.

    Parameters
    ----------
    results
        Shape (instances, schedulers): the smaller, the better. An unsolved instance has an infinite result, or a gap of
        1: all schedulers that do not solve an instance share its last rank.
    alpha
        Level of significance.

    Raises
    ------
    ValueError
        If there are not two schedulers and two instances.
    """
    from scipy.stats import f as f_distribution
    from scipy.stats import rankdata, studentized_range

    results = np.asarray(results, dtype=float)
    n, k = results.shape
    if n < 2 or k < 2:
        raise ValueError(f"{n} instances and {k} schedulers; ranking needs at least two of each")
    ranks = rankdata(results, axis=1).mean(axis=0)
    friedman = 12.0 * n / (k * (k + 1)) * float((ranks**2).sum() - k * (k + 1) ** 2 / 4.0)
    left = n * (k - 1) - friedman
    # Without a remainder all instances agree, and p is 0.
    p = 0.0 if left <= 1e-9 else float(f_distribution.sf((n - 1) * friedman / left, k - 1, (k - 1) * (n - 1)))
    q = float(studentized_range.ppf(1.0 - alpha, k, np.inf)) / 2.0**0.5
    difference = q * (k * (k + 1) / (6.0 * n)) ** 0.5
    return Ranking(ranks, friedman, p, difference, _groups(ranks, difference))


def _groups(ranks: NDArray[np.float64], difference: float) -> tuple[tuple[int, ...], ...]:
    order = [int(index) for index in np.argsort(ranks, kind="stable")]
    found: list[tuple[int, ...]] = []
    for start, first in enumerate(order):
        group = tuple(index for index in order[start:] if ranks[index] - ranks[first] < difference)
        if len(group) > 1 and not (found and set(group) <= set(found[-1])):
            found.append(group)
    return tuple(found)
