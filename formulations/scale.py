"""Bisection over the scales of objective ``scale``, shared by ``colgen`` and ``cpsat``."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.api import Bound, Outcome, ProofNode, Run, Status
from formulations.problem import TOO_FEW, WHOLE
from instances import SCALE_STEP, Instance, Plan, SloRule
from instances.attainment_terms import POISSON

UNDECIDED = 200_000
"""Value of ``ScaleBisection.fails`` while no scale is known to be infeasible."""


@dataclass
class ScaleBisection:
    """State of a bisection over the scales on the grid, numbered from 1.

    The bound is the smallest scale on the grid that is proven infeasible. No plan reaches it, but plans above the last
    feasible grid point and below the bound may exist.

    Attributes
    ----------
    fits, fails
        Largest scale known to be feasible, and smallest scale known to be infeasible.
    plan
        Plan of scale ``fits``.
    reason, proof
        Why scale ``fails`` is infeasible, and the proof if there is one.
    """

    instance: Instance
    run: Run
    fits: int = 0
    fails: int = UNDECIDED
    plan: Plan | None = None
    reason: str = f"{TOO_FEW}, {WHOLE}"
    statistics: dict[str, float] = field(default_factory=dict)
    proof: Sequence[ProofNode] = ()

    @property
    def decided(self) -> bool:
        """Whether no scale is left between ``fits`` and ``fails``."""
        return self.fails - self.fits == 1

    def bound(self) -> Bound | None:
        """Return the bound; ``None`` if no scale is known to be infeasible."""
        # Under p99 and gamma arrivals, budgets are sampled: a rate above the workload's own may have a larger one. Such
        # rates are not tried, so the bound is not certified.
        certified = self.instance.slo_rule is not SloRule.P99 and self.instance.arrivals == POISSON
        return None if self.fails == UNDECIDED else Bound(self.fails * SCALE_STEP, certified)

    def accept(self, scale: int, plan: Plan) -> None:
        """Record and report a plan of a larger scale."""
        self.fits, self.plan = scale, plan
        self.run.report(plan=plan)

    def exclude(self, scale: int, reason: str = "", proof: Sequence[ProofNode] = ()) -> None:
        """Record and report that a scale is infeasible; the proof shows that serving it costs more than the pool."""
        self.fails, self.reason, self.proof = scale, reason or self.reason, proof
        self.run.report(bound=self.bound())

    def outcome(self, late: str) -> Outcome:
        """Return the outcome; ``late`` is the reason if nothing was decided in time."""
        if self.plan is not None:
            status = Status.OPTIMAL if self.decided else Status.FEASIBLE
            return Outcome(status, self.plan, self.bound(), self.statistics, proof=self.proof)
        status = Status.INFEASIBLE if self.decided else Status.UNKNOWN
        reason = self.reason if self.decided else late
        return Outcome(status, None, self.bound(), self.statistics, reason, self.proof)
