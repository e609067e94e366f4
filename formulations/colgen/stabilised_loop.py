"""Loop of column generation with duals that are smoothed towards those of the best bound."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from bench.api import Run
from formulations.colgen.restricted_master import Relaxation

StepResult = Literal["gain", "no gain", "coarse", "enough"]
"""Result of a step.

``gain`` and ``no gain`` tell whether a column gains at the master's own duals. ``coarse`` means that none does because
the tolerance of pricing is too large, and ``enough`` that the bound is good enough.
"""


@dataclass(slots=True)
class Smoothing:
    """Smoothing of the duals towards the stability centre, the duals of the best bound (Wentges).

    Without it the master's own duals oscillate in the first iterations.

    Attributes
    ----------
    initial, weight
        Weight of the centre's duals against the master's own: after a gain, and now. Without gain it is halved.
    least
        Least positive weight: the weight after it is 0.
    """

    initial: float
    least: float = 0.2
    weight: float = 0.0
    stability_centre: Relaxation | None = None

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


def generate(
    run: Run,
    smoothing: Smoothing,
    relax: Callable[[], Relaxation],
    step: Callable[[Relaxation, Relaxation], StepResult],
    refine: Callable[[], bool],
) -> None:
    """Repeat: solve the master, price at smoothed duals, add columns; until the bound suffices or no column gains.

    A step without gain weakens the smoothing. If the duals were already the master's own, or pricing was too coarse,
    pricing is refined instead.

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
            case "enough":
                return
            case "gain":
                smoothing.weight = smoothing.initial
            case "no gain" if smoothing.weight > 0.0:
                smoothing.weight = smoothing.weight / 2.0 if smoothing.weight > smoothing.least else 0.0
            case "no gain" | "coarse":
                if not refine():
                    return
