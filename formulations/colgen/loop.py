"""The loop of column generation, the same for every plan class."""

from collections.abc import Callable
from enum import Enum

from bench.api import Run
from formulations.colgen.restricted_master import Relaxation
from formulations.colgen.smoothing import Smoothing


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

    After a step without gain the smoothing is weakened. Where the duals were already the master's own, pricing is
    refined instead.

    Parameters
    ----------
    run
        Limits of the run.
    smoothing
        Smoothing of the duals; ``step`` sets its stability centre.
    relax
        Solves the master's relaxation.
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
