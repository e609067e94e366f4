"""Parts of column generation that are the same for every plan class: the pool, the loop, the smoothing of the duals."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

import numpy as np

from bench.api import Run
from formulations.colgen.restricted_master import Relaxation
from instances import Instance
from instances.costs import next_cost


class Generation:
    """Instance of a column generation, its pool and the best bound so far.

    Attributes
    ----------
    price, count
        Price of each GPU type, and number of its GPUs: ``inf`` without a limit, shape (GPU types,).
    bound
        Bound on the instance's own objective.
    iterations
        Number of pricing rounds so far.
    """

    agreement: ClassVar[float] = 1e-9
    """Relative difference up to which a throughput or scale and its bound count as equal."""

    def __init__(self, instance: Instance, run: Run) -> None:
        self.instance, self.run = instance, run
        self.price = np.array([pool.type.price_per_hour for pool in instance.gpus])
        self.count = np.array([math.inf if pool.count is None else float(pool.count) for pool in instance.gpus])
        self.bound = -math.inf if self.minimised else math.inf
        self.iterations = 0

    @property
    def minimised(self) -> bool:
        """Whether the instance's own objective is minimised; the restricted master's always is."""
        return self.instance.objective.minimised

    @property
    def pool_price(self) -> float:
        """Price of all GPUs of the pool; infinite if some type has no limit."""
        return math.fsum(price * count for price, count in zip(self.price, self.count, strict=True) if price > 0.0)

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


@dataclass(slots=True)
class Smoothing:
    """Smoothing of the duals towards the stability centre, the duals of the best bound (Wentges).

    Without it the master's own duals oscillate in the first iterations.

    Attributes
    ----------
    initial
        Weight of the centre after ``restore``.
    least
        Weight up to which ``weaken`` drops the centre.
    weight
        Weight of the centre's duals against the master's own.
    """

    initial: float
    least: float = 0.2
    weight: float = 0.0
    stability_centre: Relaxation | None = None

    def restore(self) -> None:
        """Set the weight to its initial value."""
        self.weight = self.initial

    def weaken(self) -> None:
        """Halve the weight; set it to 0 once it is small."""
        self.weight = self.weight / 2.0 if self.weight > self.least else 0.0

    def smoothed(self, relaxation: Relaxation) -> Relaxation:
        """Return a solution of the master with smoothed duals."""
        centre, weight = self.stability_centre, self.weight
        if centre is None or weight == 0.0:
            return relaxation
        return replace(
            relaxation,
            workload_dual=weight * centre.workload_dual + (1.0 - weight) * relaxation.workload_dual,
            pool_dual=weight * centre.pool_dual + (1.0 - weight) * relaxation.pool_dual,
        )


class StepResult(Enum):
    """Result of one step: a column gains at the master's own duals, none does, or the bound is good enough."""

    GAIN = 1
    NO_GAIN = 2
    ENOUGH = 3


def generate(
    run: Run,
    smoothing: Smoothing,
    relax: Callable[[], Relaxation],
    step: Callable[[Relaxation, Relaxation], StepResult],
    refine: Callable[[], bool],
) -> None:
    """Repeat: solve the master, price at smoothed duals, add columns; until the bound suffices or no column gains.

    After a step without gain the smoothing is weakened. If the duals were already the master's own, pricing is refined
    instead.

    Parameters
    ----------
    smoothing
        Smoothing of the duals; ``step`` sets its stability centre.
    step
        Prices at the smoothed duals, its second argument, and adds columns; the first has the master's own duals.
    refine
        Makes pricing more exact; returns whether it could.
    """
    while run.remaining_s > 0.0:
        relaxation = relax()
        match step(relaxation, smoothing.smoothed(relaxation)):
            case StepResult.ENOUGH:
                return
            case StepResult.GAIN:
                smoothing.restore()
            case StepResult.NO_GAIN if smoothing.weight > 0.0:
                smoothing.weaken()
            case StepResult.NO_GAIN:
                if not refine():
                    return
