"""Holm's correction of the p values of several tests."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the adjusted p values: rejecting all up to ``alpha`` makes any error with at most that probability.

    With ``p_(1) <= ... <= p_(m)`` it is ``p'_(i) = max over j <= i of min(1, (m - j + 1) p_(j))`` (S. Holm, "A simple
    sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979). It needs no
    independence of the tests, and rejects every hypothesis that Bonferroni's correction rejects.

    Parameters
    ----------
    p_values
        p values of all tests, in any order; the result has the same order.
    """
    adjusted, least = [0.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = least
    return adjusted
