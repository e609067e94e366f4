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

    The method draws 2,000 samples of n values from the n ``values``, with replacement, and computes their means. The
    interval contains the middle 95 % of the means (B. Efron, "Bootstrap methods: another look at the
    jackknife", Annals of Statistics 7, 1979). The values must be independent: one per instance, not one per seed. The
    interval never exceeds the range of the values. It is too narrow for fewer than about ten values.

    Parameters
    ----------
    values
        One per instance; an unsolved instance counts with the gap 1.
    """
    # The import of scipy.stats takes a second, and most pages and figures do not need it.
    from scipy.stats import bootstrap

    sample = np.asarray(values, dtype=float)
    if len(sample) < 2:
        return None
    if (sample == sample[0]).all():
        return float(sample[0]), float(sample[0])
    interval = bootstrap(
        (sample,),
        np.mean,
        confidence_level=_CONFIDENCE,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def half_width(values: ArrayLike) -> Floats:
    """Return half the width of the 95 % confidence interval of the mean over the first axis.

    The result is ``t s / sqrt(n)``, where ``t`` is the quantile of Student's distribution with n - 1 degrees of freedom
    ("The probable error of a mean", Biometrika 6, 1908). The values must be independent and close to normally
    distributed: one per training seed, not one per run. The spread of a single value is unknown, and its result is 0.

    Parameters
    ----------
    values
        Shape (n, ...).
    """
    sample = np.asarray(values, dtype=float)
    n = len(sample)
    if n < 2:
        return np.zeros(sample.shape[1:])
    t = float(stdtrit(n - 1, 0.5 + 0.5 * _CONFIDENCE))
    half_widths: Floats = t * sample.std(axis=0, ddof=1) / n**0.5
    return half_widths


@dataclass(frozen=True, slots=True)
class SignedRanks:
    """Result of the signed-rank test.

    Attributes
    ----------
    plus, minus
        ``W+`` and ``W-``: the sums of the ranks of positive and of negative differences.
    p
        Two-sided p value: probability that the smaller sum is at most this small by chance. It is 1 if no pair differs.
    """

    plus: float
    minus: float
    p: float


def signed_ranks(differences: ArrayLike) -> SignedRanks:
    """Test whether paired differences scatter around 0 (F. Wilcoxon, Biometrics Bulletin 1, 1945).

    Pairs without a difference are left out, as in Wilcoxon's paper. The other pairs are ranked by the size of their
    difference; equal differences share the mean of their ranks. The null hypothesis gives each rank either sign with
    probability 1/2. The p value counts all sign patterns, so it is exact under the null hypothesis, even with ties.
    Tables and SciPy's exact method assume no ties. SciPy's approximation assumes many pairs.

    Parameters
    ----------
    differences
        One per pair, ``b - a``; an infinite difference is larger than all finite ones.
    """
    from scipy.stats import rankdata

    nonzero = np.asarray(differences, dtype=float)
    nonzero = nonzero[nonzero != 0.0]
    # Mean ranks can be half-integers; doubled ranks are integers and can index an array of sums.
    doubled_ranks = np.rint(2.0 * rankdata(np.abs(nonzero))).astype(int)
    plus_sum, rank_sum = int(doubled_ranks[nonzero > 0.0].sum()), int(doubled_ranks.sum())
    chance = np.zeros(rank_sum + 1)
    chance[0] = 1.0
    for rank in doubled_ranks:  # chance[s]: probability that the positive ranks so far have the sum s
        chance[rank:] = (chance[rank:] + chance[: rank_sum + 1 - rank]) / 2.0
        chance[:rank] /= 2.0
    smaller_sum = min(plus_sum, rank_sum - plus_sum)
    p = min(1.0, 2.0 * float(chance[: smaller_sum + 1].sum()))
    return SignedRanks(plus_sum / 2.0, (rank_sum - plus_sum) / 2.0, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's method, in the order of ``p_values``.

    If all hypotheses with an adjusted p value of at most ``alpha`` are rejected, the probability of any wrong rejection
    is at most ``alpha``. With ``p_(1) <= ... <= p_(m)``, the adjusted values are
    ``p'_(i) = max over j <= i of min(1, (m - j + 1) p_(j))`` (S. Holm, "A simple sequentially rejective multiple test
    procedure", Scandinavian Journal of Statistics 6, 1979). The tests need not be independent. The method rejects every
    hypothesis that Bonferroni's correction rejects.
    """
    adjusted, running_maximum = [0.0] * len(p_values), 0.0
    for position, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running_maximum = max(running_maximum, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = running_maximum
    return adjusted


@dataclass(frozen=True, slots=True)
class Ranking:
    """Average ranks of k schedulers over N instances, and their significant differences.

    Attributes
    ----------
    ranks
        ``R_j``, from 1 (always the best) to k, in the order of the columns. Equal results share the mean of
        their ranks.
    friedman
        ``chi2_F = 12 N / (k (k + 1)) (sum_j R_j^2 - k (k + 1)^2 / 4)``, without a correction for ties. Ties make it
        smaller, so the test is conservative if many results are equal.
    p
        p value of the hypothesis that all schedulers are equal. The test statistic is Iman and Davenport's
        ``F_F = (N - 1) chi2_F / (N (k - 1) - chi2_F)``, which has an F distribution with ``k - 1`` and
        ``(k - 1)(N - 1)`` degrees of freedom.
    critical_difference
        ``CD = q_alpha sqrt(k (k + 1) / (6 N))``, where ``q_alpha`` is the quantile of the Studentised range divided by
        ``sqrt(2)``. Average ranks that differ by at least ``CD`` differ significantly, in a test of all pairs at once
        (Nemenyi).
    groups
        Largest sets of schedulers whose ranks do not differ significantly, each by the indices of its schedulers, the
        best rank first. Sets of one scheduler are left out.
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
        Shape (instances, schedulers): the smaller, the better. An unsolved instance has an infinite result or a gap of
        1, so all schedulers that do not solve an instance share its last ranks.
    alpha
        Level of significance of the critical difference.

    Raises
    ------
    ValueError
        If there are fewer than two schedulers or fewer than two instances.
    """
    from scipy import stats

    results = np.asarray(results, dtype=float)
    n, k = results.shape
    if n < 2 or k < 2:
        raise ValueError(f"{n} instances and {k} schedulers; ranking needs at least two of each")
    ranks = stats.rankdata(results, axis=1).mean(axis=0)
    friedman = 12.0 * n / (k * (k + 1)) * float((ranks**2).sum() - k * (k + 1) ** 2 / 4.0)
    denominator = n * (k - 1) - friedman
    # The denominator of F_F is 0 if all instances rank the schedulers alike; p is then 0.
    p = 0.0 if denominator <= 1e-9 else float(stats.f.sf((n - 1) * friedman / denominator, k - 1, (k - 1) * (n - 1)))
    q = float(stats.studentized_range.ppf(1.0 - alpha, k, np.inf)) / 2.0**0.5
    critical_difference = q * (k * (k + 1) / (6.0 * n)) ** 0.5
    return Ranking(ranks, friedman, p, critical_difference, _groups(ranks, critical_difference))


def _groups(ranks: Floats, critical_difference: float) -> tuple[tuple[int, ...], ...]:
    """Return ``Ranking.groups``."""
    order = [int(index) for index in np.argsort(ranks, kind="stable")]
    groups: list[tuple[int, ...]] = []
    for start, first in enumerate(order):
        group = tuple(index for index in order[start:] if ranks[index] - ranks[first] < critical_difference)
        if len(group) > 1 and not (groups and set(group) <= set(groups[-1])):
            groups.append(group)
    return tuple(groups)
