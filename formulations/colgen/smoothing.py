"""Smoothing of duals, so that column generation does not oscillate."""

from dataclasses import dataclass, replace

from formulations.colgen.restricted_master import Relaxation


@dataclass(slots=True)
class Smoothing:
    """Smoothing of the duals towards the stability centre, the duals of the best bound (Wentges).

    Far from the end of column generation the master's own duals oscillate.

    Attributes
    ----------
    initial
        Weight of the centre after ``restore``.
    least
        Weight below which the centre no longer counts.
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
        """Halve the weight."""
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
