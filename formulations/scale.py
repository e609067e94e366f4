"""Bisection over the scales of objective ``scale``, shared by ``colgen`` and ``cpsat``."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.api import Bound, Outcome, ProofNode, Run, Status
from formulations.problem import TOO_FEW, WHOLE
from instances import SCALE_STEP, Instance, Plan, SloRule
from instances.attainment_terms import POISSON
from instances.view import View

HALVINGS = 40
"""Least number of halvings of the first grid scale before every scale may count as infeasible."""

TRICKLE_RPS = 1e-6
"""Rate at which requests never meet.

If a scale at which no workload exceeds this rate is infeasible, every scale is infeasible.
"""

MOST_SCALES = 1e300
"""Largest number of a scale, so that it fits into a floating-point number even if all rates are tiny."""


@dataclass
class ScaleBisection:
    """State of a bisection over the scales on the grid, numbered from 1.

    The bound is the smallest scale on the grid that is proven infeasible. No plan reaches it, but plans above the last
    feasible grid point and below the bound may exist.

    Attributes
    ----------
    fits
        Largest scale known to be feasible; 0 while none is.
    fails
        Smallest scale known to be infeasible; ``None`` while none is.
    plan
        Plan of scale ``fits``, or of a scale below the grid.
    reason, proof
        Why scale ``fails`` is infeasible, and the proof if there is one.
    doubt
        Why the claim that ``fails`` is infeasible does not count.
    """

    instance: Instance
    run: Run
    fits: int = 0
    fails: int | None = None
    plan: Plan | None = None
    reason: str = f"{TOO_FEW}, {WHOLE}"
    statistics: dict[str, float] = field(default_factory=dict)
    proof: Sequence[ProofNode] = ()
    doubt: str = ""
    _never_fits: bool = False

    @property
    def decided(self) -> bool:
        """Whether no scale is left between ``fits`` and ``fails``."""
        return self.fails is not None and self.fails - self.fits == 1

    def bound(self) -> Bound | None:
        """Return the bound; ``None`` if no scale is known to be infeasible."""
        # Under p99 and gamma arrivals, budgets are sampled: a rate above the workload's rate may have a larger budget.
        # Such rates are not tried, so the bound is not certified.
        sampled = self.instance.slo_rule is SloRule.P99 or self.instance.arrivals != POISSON
        certified = not sampled and not self.doubt
        return None if self.fails is None else Bound(self.fails * SCALE_STEP, certified)

    def accept(self, scale: int, plan: Plan) -> None:
        """Record and report a plan of a larger scale."""
        self.fits, self.plan = scale, plan
        self.run.report(plan=plan)

    def exclude(self, scale: int, reason: str = "", proof: Sequence[ProofNode] = ()) -> None:
        """Record and report that a scale is infeasible; ``proof`` shows that its plans cost more than the pool."""
        self.fails, self.reason, self.proof = scale, reason or self.reason, proof
        self.run.report(bound=self.bound())

    def look_below_the_grid(self, decide: Callable[[float], Outcome]) -> None:
        """Look for a plan below the first scale of the grid, if that scale is infeasible.

        ``decide`` returns a plan at a multiple of the rates, or the status ``infeasible`` if there is none. The search
        bisects the number of halvings of the first scale until one halving separates the infeasible and the feasible
        multiples.
        """
        if self.fits > 0 or not self.decided:
            return
        fails, halvings, is_trickle = 0, *_halvings(self.instance)
        fits = halvings
        while fits - fails > 1 or self.plan is None:
            outcome = decide(SCALE_STEP / 2.0**halvings)
            if outcome.plan is not None:
                fits, self.plan = halvings, outcome.plan
                self.run.report(plan=self.plan)
            elif outcome.status is Status.INFEASIBLE:
                fails = halvings
                self._never_fits = self.plan is None and is_trickle
            if outcome.plan is None and (self.plan is None or outcome.status is not Status.INFEASIBLE):
                return
            halvings = (fits + fails) // 2

    def outcome(self, late: str) -> Outcome:
        """Return the outcome; ``late`` is the reason if nothing was decided in time."""
        if self.plan is not None:
            status = Status.OPTIMAL if self.decided and self.fits > 0 and not self.doubt else Status.FEASIBLE
            reason = self.doubt if self.fits > 0 else self._below_the_grid(self.plan)
            return Outcome(status, self.plan, self.bound(), self.statistics, reason, self.proof)
        status = Status.INFEASIBLE if self._never_fits and not self.doubt else Status.UNKNOWN
        reason = self.doubt or (self.reason if self.decided else late)
        return Outcome(status, None, self.bound(), self.statistics, reason, self.proof)

    def _below_the_grid(self, plan: Plan) -> str:
        """Return the reason of the outcome for a plan whose scale is below the grid."""
        position_of = self.instance.workload_index
        scale = min(
            slot.rate_rps / self.instance.workloads[position_of[slot.workload]].rate_rps for _, _, slot in plan.slots()
        )
        return f"a scale of {scale:g} is feasible; the grid of scales starts at {SCALE_STEP:g}, which is not"


def _halvings(instance: Instance) -> tuple[int, bool]:
    """Return the largest number of halvings of the first scale, and whether no rate then exceeds ``TRICKLE_RPS``.

    No rate becomes less than the smallest normal float.
    """
    log2_rates = [math.log2(w.rate_rps) + math.log2(SCALE_STEP) for w in instance.workloads]
    needed_halvings = math.ceil(max(log2_rates, default=0.0) - math.log2(TRICKLE_RPS))
    most_halvings = math.floor(min(log2_rates, default=0.0) - math.log2(sys.float_info.min))
    halvings = max(1, min(max(HALVINGS, needed_halvings), most_halvings))
    return halvings, halvings >= needed_halvings


def impossible_scale(instance: Instance) -> int:
    """Return a scale at which, for some workload, more requests arrive than any batch on one GPU can serve."""
    impossible = math.inf
    for w, workload in enumerate(instance.workloads):
        most_rps = 0.0
        for pool in instance.gpus:
            view = View.of(instance, pool.type)
            model = int(view.model[w])
            batch = np.arange(1, int(view.tables.max_batch[model]) + 1)
            least_ms = view.tables.scheduling_ms[model] + view.tables.active_ms[model, batch, 1:].min(axis=1)
            most_rps = max(most_rps, float((1000.0 * batch / least_ms).max()))
        impossible = min(impossible, most_rps / instance.latency_buffer / workload.rate_rps)
    # The finite sample of p99 may end before a slowly growing queue violates the SLO (hence 1.1). Under
    # ``attainment``, some requests may be dropped.
    impossible *= 1.1 / instance.attainment / SCALE_STEP
    return math.ceil(min(impossible, MOST_SCALES)) + 1
