"""Confidence intervals of a mean, and tests of differences between schedulers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from instances.arrays import Floats

ALPHA = 0.05
"""Level of significance."""

_CONFIDENCE = 0.95
_RESAMPLES = 2000
_SEED = 0
"""Seed of the samples: the same values give the same interval, and so the same figure."""


def mean_interval(values: ArrayLike) -> tuple[float, float] | None:
    """Return the 95 % percentile bootstrap interval of the mean; ``None`` for fewer than two values.

    The method draws 2,000 samples of n values from the n ``values``, with replacement, and takes their means. The
    interval contains the middle 95 % of the means (B. Efron, "Bootstrap methods: another look at the
    jackknife", Annals of Statistics 7, 1979). The values must be independent: one per instance, not one per seed. The
    interval never exceeds the range of the values, and is too narrow for fewer than about ten.

    Parameters
    ----------
    values
        One per instance; an unsolved instance has its penalty gap and is not left out.
    """
    # scipy.stats takes a second to import, here as below; most pages and figures do without it.
    from scipy.stats import bootstrap

    found = np.asarray(values, dtype=float)
    if len(found) < 2:
        return None
    if (found == found[0]).all():
        return float(found[0]), float(found[0])
    interval = bootstrap(
        (found,),
        np.mean,
        confidence_level=_CONFIDENCE,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def half_width(values: ArrayLike) -> Floats:
    """Return half the width of the 95 % confidence interval of the mean over the first axis.

    ``t s / sqrt(n)`` with the quantile of Student's distribution of n - 1 degrees of freedom ("The probable error of a
    mean", Biometrika 6, 1908). It holds for any number of independent values close to a normal distribution: one per
    training seed, not one per run. The result for a single value is 0, since its spread is unknown.

    Parameters
    ----------
    values
        Shape (n, ...).
    """
    found = np.asarray(values, dtype=float)
    n = len(found)
    if n < 2:
        return np.zeros(found.shape[1:])
    t = float(stdtrit(n - 1, 0.5 + 0.5 * _CONFIDENCE))
    half: Floats = t * found.std(axis=0, ddof=1) / n**0.5
    return half


@dataclass(frozen=True, slots=True)
class SignedRanks:
    """Result of the signed-rank test.

    Attributes
    ----------
    plus, minus
        ``W+`` and ``W-``: sums of the ranks of positive and of negative differences.
    p
        Two-sided: the probability that the smaller sum is as small or smaller by chance. 1 if no pair differs.
    """

    plus: float
    minus: float
    p: float


def signed_ranks(differences: ArrayLike) -> SignedRanks:
    """Test whether paired differences scatter around 0 (F. Wilcoxon, Biometrics Bulletin 1, 1945).

    Pairs without a difference are left out, as in Wilcoxon's paper. The others are ranked by the size of their
    difference; equal ones share the mean of their ranks. The null hypothesis gives each rank either sign with
    probability 1/2. The p value is exact under it, ties included: all sign patterns are counted. Tables and SciPy's
    exact method assume that there are no ties, and SciPy's approximation that there are many pairs.

    Parameters
    ----------
    differences
        One per pair, ``b - a``; infinite ones are larger than all others.
    """
    from scipy.stats import rankdata

    found = np.asarray(differences, dtype=float)
    found = found[found != 0.0]
    # Doubled mean ranks are whole numbers, so an array can count the sums.
    doubled = np.rint(2.0 * rankdata(np.abs(found))).astype(int)
    plus, total = int(doubled[found > 0.0].sum()), int(doubled.sum())
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    for rank in doubled:  # chance[s]: probability of the sum s of the positive ranks so far
        chance[rank:] = (chance[rank:] + chance[: total + 1 - rank]) / 2.0
        chance[:rank] /= 2.0
    smaller = min(plus, total - plus)
    p = min(1.0, 2.0 * float(chance[: smaller + 1].sum()))
    return SignedRanks(plus / 2.0, (total - plus) / 2.0, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the adjusted p values: rejecting all up to ``alpha`` makes any error with at most that probability.

    With ``p_(1) <= ... <= p_(m)`` it is ``p'_(i) = max over j <= i of min(1, (m - j + 1) p_(j))`` (S. Holm, "A simple
    sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979). It needs no
    independence of the tests, and rejects every hypothesis that Bonferroni's correction rejects.

    The result has the order of ``p_values``.
    """
    adjusted, least = [0.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = least
    return adjusted


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

    ranks: Floats
    friedman: float
    p: float
    critical_difference: float
    groups: tuple[tuple[int, ...], ...]


def rank_schedulers(results: ArrayLike, alpha: float = ALPHA) -> Ranking:
    """Rank schedulers over instances and test the differences.

    The tests are those of Friedman and Nemenyi (J. Demšar, "Statistical comparisons of classifiers over multiple data
    sets", Journal of Machine Learning Research 7, 2006, Sec. 3.2).

    Parameters
    ----------
    results
        Shape (instances, schedulers): the smaller, the better. An unsolved instance has an infinite result, or a gap of
        1: all schedulers that do not solve an instance share its last rank.
    alpha
        Level of significance of the critical difference.

    Raises
    ------
    ValueError
        If there are fewer than two schedulers or fewer than two instances.
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


def _groups(ranks: Floats, difference: float) -> tuple[tuple[int, ...], ...]:
    order = [int(index) for index in np.argsort(ranks, kind="stable")]
    found: list[tuple[int, ...]] = []
    for start, first in enumerate(order):
        group = tuple(index for index in order[start:] if ranks[index] - ranks[first] < difference)
        if len(group) > 1 and not (found and set(group) <= set(found[-1])):
            found.append(group)
    return tuple(found)
