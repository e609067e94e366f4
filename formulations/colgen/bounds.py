"""Certified bounds from any duals and a bound on the worth of every pattern (Farley, Lagrange)."""

import math

import numpy as np

from instances import Instance
from instances.arrays import Floats

SAFETY = 1e-9
"""Relative room for the rounding of the sums behind a bound."""


def cost_bound(
    workload_dual: Floats,
    copies: Floats,
    best_worth: Floats,
    price: Floats,
    count: Floats,
    least: Floats | float = 0.0,
) -> float:
    """Lower bound on the cost of covering every workload.

    For any factor f > 0 the duals ``f pi`` with ``sigma_t = max(0, f v_t - price_t)`` on the pools are feasible, so
    ``f sum(pi) - sum(count_t sigma_t)`` bounds the cost; it is concave and piecewise linear in f, with its corners
    where a type's ``f v_t`` meets its price. Types without a limit admit no ``sigma``. A GPU that has to be used costs
    what its price exceeds ``f v_t`` by on top.

    Parameters
    ----------
    workload_dual
        ``pi``, shape (classes,); negative ones count as 0.
    copies
        Workloads of each class.
    best_worth
        ``v_t``: no pattern of type t has a larger sum of duals, shape (types,).
    price, count
        Of each type; ``inf`` for as many as needed.
    least
        GPUs of each type that have to be used.
    """
    total = math.fsum(np.maximum(workload_dual, 0.0) * copies)
    unlimited = np.isinf(count)
    corners = [p / v for p, v in zip(price, best_worth, strict=True) if 0.0 < v < math.inf]
    most = min(
        (p / v for p, v in zip(price[unlimited], best_worth[unlimited], strict=True) if v > 0.0), default=math.inf
    )
    if math.isinf(float(best_worth.max(initial=0.0))):
        return 0.0
    best = 0.0
    for factor in corners:
        if factor > most:
            continue
        sigma = np.maximum(0.0, factor * best_worth - price)
        limited = math.fsum(c * s for c, s in zip(count, sigma, strict=True) if s > 0.0 and not math.isinf(c))
        idle = math.fsum(least * np.maximum(0.0, price - factor * best_worth))
        best = max(best, factor * total - limited + idle)
    return best * (1.0 - SAFETY)


def value_bound(workload_dual: Floats, copies: Floats, best_worth: Floats, count: Floats) -> float:
    """Upper bound on what a bounded pool can serve: Lagrangian, for any duals of the coverage rows.

    Parameters
    ----------
    workload_dual
        ``rho``, what a pattern is charged for holding a workload of each class; at least 0 unless every workload must
        be placed.
    copies, count
        Workloads of each class, GPUs of each type.
    best_worth
        No pattern of type t is worth more than ``v_t`` after those charges.
    """
    if math.isinf(float(best_worth.max(initial=0.0))):
        return math.inf
    terms = [*(workload_dual * copies), *(c * max(0.0, v) for c, v in zip(count, best_worth, strict=True))]
    return math.fsum(terms) + SAFETY * math.fsum(abs(term) for term in terms)


def most_served(instance: Instance) -> float:
    """Upper bound on what any pool can serve: all that arrives, in requests per second."""
    return math.fsum(workload.rate_rps for workload in instance.workloads) * (1.0 + SAFETY)
