"""Wilcoxon's signed-rank test of paired results."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class SignedRanks:
    """Result of the test.

    Attributes
    ----------
    pairs
        Number of pairs with a difference.
    plus, minus
        ``W+`` and ``W-``: sums of the ranks of positive and of negative differences.
    p
        Two-sided: the probability that the smaller sum is as small or smaller by chance. 1 if no pair differs.
    """

    pairs: int
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
    return SignedRanks(len(found), plus / 2.0, (total - plus) / 2.0, p)
