"""Bootstrap intervals of a mean, for the uncertainty from the choice of instances."""

import numpy as np
from numpy.typing import ArrayLike

_RESAMPLES = 2000
_SEED = 0
"""Seed of the samples: the same values give the same interval, and so the same figure."""


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of the mean; ``None`` for fewer than two values.

    The method draws 2,000 samples of n values from the n ``values``, with replacement, and takes their means. The
    interval contains the middle ``confidence`` of the means (B. Efron, "Bootstrap methods: another look at the
    jackknife", Annals of Statistics 7, 1979). The values must be independent: one per instance, not one per seed. The
    interval never exceeds the range of the values, and is too narrow for fewer than about ten.

    Parameters
    ----------
    values
        One per instance; an unsolved instance has its penalty gap and is not left out.
    confidence
        Between 0 and 1.
    """
    from scipy.stats import bootstrap

    found = np.asarray(values, dtype=float)
    if len(found) < 2:
        return None
    if (found == found[0]).all():
        return float(found[0]), float(found[0])
    interval = bootstrap(
        (found,),
        np.mean,
        confidence_level=confidence,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return float(interval.low), float(interval.high)
