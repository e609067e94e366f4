"""Performance profiles: fraction of the problems on which a solver is within a factor of the best one.

E. D. Dolan and J. J. Moré, "Benchmarking optimization software with performance profiles", Mathematical Programming 91,
2002.
"""

import numpy as np
from numpy.typing import ArrayLike

from instances.arrays import Floats


def performance_ratios(costs: ArrayLike) -> Floats:
    """Return the performance ratios ``r_ps = t_ps / min_s' t_ps'`` (Dolan and Moré, Sec. 2).

    Parameters
    ----------
    costs
        ``t``, shape (problems, solvers), at least 0: seconds, prices or other costs, the smaller the better. Infinite
        for an unsolved problem.

    Returns
    -------
    Floats
        Ratios of the same shape, at least 1. The ratio of an unsolved problem is infinity, the paper's r_M. A problem
        that no solver solved counts, too: all of its ratios are infinite.

    Raises
    ------
    ValueError
        If a cost is negative or not a number.
    """
    costs = np.asarray(costs, dtype=float)
    if not (costs >= 0.0).all():
        raise ValueError("costs must be numbers of at least 0")
    best = costs.min(axis=1, keepdims=True)
    # The best ratio is 1 even if the cost is 0, where the division is 0 / 0.
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.where(costs == best, 1.0, costs / best)
    return np.where(np.isfinite(costs), ratios, np.inf)


def performance_profile(ratios: ArrayLike) -> tuple[Floats, Floats]:
    """Return the profile of one solver as a step function: positions of the steps, and the values from each step on.

    ``rho_s(tau) = |{p : r_ps <= tau}| / |problems|``: the fraction of the problems that the solver solves within
    ``tau`` times the best solver's cost (Dolan and Moré, eq. 2.1). ``rho_s(1)`` is the fraction of
    problems on which no solver is better. For large ``tau``, ``rho_s(tau)`` is the fraction that the solver solves.

    Parameters
    ----------
    ratios
        Ratios of one solver, a column of ``performance_ratios``.

    Returns
    -------
    tau, rho : Floats
        Both ascending; empty for a solver without a solved problem.
    """
    ratios = np.asarray(ratios, dtype=float)
    tau, counts = np.unique(ratios[np.isfinite(ratios)], return_counts=True)
    return tau, np.cumsum(counts) / max(1, ratios.size)
