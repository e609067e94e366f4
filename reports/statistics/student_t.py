"""Student's t interval of a mean of few values, such as the seeds of an agent."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def half_width(values: ArrayLike, confidence: float = 0.95) -> NDArray[np.float64]:
    """Return half the width of the confidence interval of the mean over the first axis.

    ``t s / sqrt(n)`` with the quantile of Student's distribution of n - 1 degrees of freedom ("The probable error of a
    mean", Biometrika 6, 1908). It holds for any number of independent values close to a normal distribution: one per
    training seed, not one per run. The result for a single value is 0, since its spread is unknown.

    Parameters
    ----------
    values
        Shape (n, ...).
    confidence
        Between 0 and 1.
    """
    from scipy.special import stdtrit

    found = np.asarray(values, dtype=float)
    n = len(found)
    if n < 2:
        return np.zeros(found.shape[1:])
    t = float(stdtrit(n - 1, 0.5 + 0.5 * confidence))
    half: NDArray[np.float64] = t * found.std(axis=0, ddof=1) / n**0.5
    return half
