"""Loop of column generation and smoothing of its duals, the same for every plan class."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from bench.api import Run
from formulations.colgen.restricted_master import Relaxation


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
