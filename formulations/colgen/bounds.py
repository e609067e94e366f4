"""Certified bounds from arbitrary duals and an upper bound on the worth of every pattern (Farley, Lagrange)."""

import math

import numpy as np

from instances import Instance
from instances.arrays import Floats

SAFETY = 1e-9
"""Relative allowance for the rounding of the sums in a bound."""


def cost_bound(
    workload_dual: Floats,
    copies: Floats,
    best_worth: Floats,
    price: Floats,
    count: Floats,
    least: Floats | float = 0.0,
) -> float:
    """Return a lower bound on the cost of covering every workload.

    For any factor f > 0 the duals ``f pi`` with ``sigma_t = max(0, f v_t - price_t)`` on the pools are feasible. So ``f
    sum(pi) - sum(count_t sigma_t)`` bounds the cost. The bound is concave and piecewise linear in f; it breaks where
    ``f v_t`` of a type equals its price. Types without a limit require ``sigma_t = 0``. Each GPU that must be used adds
    ``max(0, price_t - f v_t)``.

    Parameters
    ----------
    workload_dual
        ``pi``, shape (classes,); negative values count as 0.
    copies
        Number of workloads of each class.
    best_worth
        ``v_t``: upper bound on the sum of duals of a pattern of type t, shape (types,).
    price, count, least
        Price of each GPU type, number of its GPUs (``inf`` without a limit), and how many of them must be used.
    """
    return float(best_factor(workload_dual, copies, best_worth, price, count, least)[1] * (1.0 - SAFETY))


def best_factor(
    workload_dual: Floats,
    copies: Floats,
    best_worth: Floats,
    price: Floats,
    count: Floats,
    least: Floats | float = 0.0,
) -> tuple[float, float]:
    """Return the factor on the duals with the best bound on the cost, and that bound before rounding.

    See ``cost_bound`` for the parameters. Both are 0 without a bound.
    """
    total = math.fsum(np.maximum(workload_dual, 0.0) * copies)
    unlimited = np.isinf(count)
    corners = [p / v for p, v in zip(price, best_worth, strict=True) if 0.0 < v < math.inf]
    most = min(
        (p / v for p, v in zip(price[unlimited], best_worth[unlimited], strict=True) if v > 0.0), default=math.inf
    )
    best = (0.0, 0.0)
    if math.isinf(float(best_worth.max(initial=0.0))):
        return best
    for factor in corners:
        if factor > most:
            continue
        sigma = np.maximum(0.0, factor * best_worth - price)
        limited = math.fsum(c * s for c, s in zip(count, sigma, strict=True) if s > 0.0 and not math.isinf(c))
        idle = math.fsum(least * np.maximum(0.0, price - factor * best_worth))
        best = max(best, (float(factor), factor * total - limited + idle), key=lambda each: each[1])
    return best


def value_bound(workload_dual: Floats, copies: Floats, best_worth: Floats, count: Floats) -> float:
    """Return a Lagrangian upper bound on the throughput of a bounded pool, for arbitrary duals of the coverage rows.

    Parameters
    ----------
    workload_dual
        ``rho``: charge on a pattern for each workload of the class; at least 0 unless every workload must be placed.
    copies, count
        Number of workloads of each class, and of GPUs of each type.
    best_worth
        Upper bound ``v_t`` on the worth of a pattern of type t after those charges.
    """
    if math.isinf(float(best_worth.max(initial=0.0))):
        return math.inf
    terms = [*(workload_dual * copies), *(c * max(0.0, v) for c, v in zip(count, best_worth, strict=True))]
    return math.fsum(terms) + SAFETY * math.fsum(abs(term) for term in terms)


def most_served(instance: Instance) -> float:
    """Return an upper bound on the throughput of any pool: the sum of the rates, in requests per second."""
    return math.fsum(workload.rate_rps for workload in instance.workloads) * (1.0 + SAFETY)
