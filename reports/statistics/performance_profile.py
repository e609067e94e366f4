"""Performance profiles: on which part of the problems a solver is within a factor of the best one.

E. D. Dolan and J. J. Moré, "Benchmarking optimization software with performance profiles", Mathematical Programming 91,
2002.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def performance_ratios(costs: ArrayLike) -> Array:
    """Return the performance ratios ``r_ps = t_ps / min_s' t_ps'`` (Dolan and Moré, Sec. 2).

    Parameters
    ----------
    costs
        ``t``, shape (problems, solvers), at least 0: seconds, prices, whatever is better the smaller it is. Infinite
        where a solver did not solve a problem.

    Returns
    -------
    Array
        Of the same shape, from 1 up. A problem that was not solved has the ratio infinity, which is the paper's r_M;
        so have all where no solver solved it. It stays among the problems: leaving it out would flatter everybody.

    Raises
    ------
    ValueError
        If a cost is negative or not a number.
    """
    costs = np.asarray(costs, dtype=float)
    if not (costs >= 0.0).all():
        raise ValueError("costs must be numbers of at least 0")
    best = costs.min(axis=1, keepdims=True)
    # The best is 1 even where it costs nothing or where division would make 0 / 0 of it.
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.where(costs == best, 1.0, costs / best)
    return np.where(np.isfinite(costs), ratios, np.inf)


def performance_profile(ratios: ArrayLike) -> tuple[Array, Array]:
    """Return the profile of one solver as a step function: where it rises, and what it is from there on.

    ``rho_s(tau) = |{p : r_ps <= tau}| / |problems|``: the part of the problems that the solver solves within ``tau``
    times the best solver's cost (Dolan and Moré, eq. 2.1). ``rho_s(1)`` is the part on which it is the best or as good;
    for large ``tau`` it is the part that it solves at all.

    Parameters
    ----------
    ratios
        Of one solver, a column of ``performance_ratios``.

    Returns
    -------
    tau, rho : Array
        Both rise; empty for a solver that solved nothing.
    """
    ratios = np.asarray(ratios, dtype=float)
    tau, counts = np.unique(ratios[np.isfinite(ratios)], return_counts=True)
    return tau, np.cumsum(counts) / max(1, ratios.size)
