"""The instance of a column generation, its pool and the best bound so far, the same for every plan class."""

import math

import numpy as np

from bench.api import Run
from instances import Instance
from instances.arrays import Floats
from instances.costs import next_cost


class BoundedSearch:
    """The instance, its pool and the best bound so far.

    Parameters
    ----------
    agreement
        Relative difference up to which a throughput or scale and its bound count as equal.

    Attributes
    ----------
    price, count
        Price of each GPU type, and number of its GPUs: ``inf`` without a limit, shape (GPU types,).
    bound
        Bound on the instance's own objective.
    iterations
        Number of pricing rounds so far.
    """

    def __init__(self, instance: Instance, run: Run, agreement: float) -> None:
        self.instance, self.run, self.agreement = instance, run, agreement
        self.price, self.count = prices_and_counts(instance)
        self.bound = -math.inf if self.minimised else math.inf
        self.iterations = 0

    @property
    def minimised(self) -> bool:
        """Whether the instance's own objective is minimised; the restricted master's always is."""
        return self.instance.objective.minimised

    @property
    def pool_price(self) -> float:
        """Price of all GPUs of the pool; infinite if some type has no limit."""
        return sum(
            float(price) * float(count) for price, count in zip(self.price, self.count, strict=True) if price > 0.0
        )

    def impossible(self) -> bool:
        """Return whether the bound proves that no plan exists: a cost above the pool's, or a throughput below zero."""
        return self.bound > self.pool_price * (1.0 + 1e-9) if self.minimised else self.bound < 0.0

    def reaches(self, value: float) -> bool:
        """Return whether the bound, a cost rounded up to the next cost of a plan, proves this value optimal."""
        if self.minimised:
            return value <= next_cost(self.bound, self.instance) * (1.0 + 1e-9)
        return value >= self.bound * (1.0 - self.agreement)

    def better(self, bound: float, than: float) -> bool:
        """Return whether a bound is better than another one."""
        return bound > than if self.minimised else bound < than


def prices_and_counts(instance: Instance) -> tuple[Floats, Floats]:
    """Return the price of each GPU type of the pool, and the number of its GPUs: ``inf`` without a limit."""
    price = np.array([pool.type.price_per_hour for pool in instance.gpus])
    return price, np.array([math.inf if pool.count is None else float(pool.count) for pool in instance.gpus])
