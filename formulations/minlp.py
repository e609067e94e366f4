"""The scheduler ``minlp``: the compact model with its nonlinear relations as they are, solved globally by SCIP.

The model is that of ``formulations.compact``: iGniter's equations as printed, batches and shares whole. Pyomo writes it
to a file (.nl) that SCIP reads through PySCIPOpt.

The relations leave a relative room of 1e-6. Stated without it as ``(k_act - k5) (p r + k4) = k1 b^2 + k2 b + k3`` and
``ability k_act = 1000 b``, the pair makes SCIP 10.0 cut off plans: presolve tries out a batch, propagation leaves
``k_act`` an interval about as wide as its tolerance of 1e-9, and no ability is left where sides reach 32,000. Rows of
size 1, one-sided where the model allows it, keep these plans; so does a wider tolerance in SCIP's propagation.

A plan is made of *who is where with which batch* alone, with the least shares (or the best, under ``capacity``) by the
one-GPU kernel, and repaired where that says no.

SCIP computes in floating point, so its bound is not certified. Where it ends its search, column generation tries to
confirm the result in the time that is left. ``optimal`` and ``infeasible`` are claimed only where the certified bound
says the same. Column generation hands over no plan.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen import ColGen
from formulations.compact.build import build
from formulations.compact.repair import repair
from formulations.compact.scip import solve
from formulations.compact.search import Search
from formulations.confirmation import confirm_infeasible, confirm_optimal
from instances import Instance, Objective
from instances.suites import suite

CONFIRM_S, CONFIRM_PART = 10.0, 0.25
"""Seconds kept for the repair and the confirmation, and the part of the time left that they are at most."""


@dataclass(frozen=True, slots=True)
class Minlp:
    """The true problem as a mixed-integer nonlinear program.

    Attributes
    ----------
    continuous_shares
        Let shares be any fraction of a unit: a relaxation, of interest for its bound.
    as_printed
        State the nonlinear relations as equations without room, which SCIP 10.0 is known to answer wrongly.
    """

    name: ClassVar[str] = "minlp"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY, Objective.GOODPUT})
    work_unit: ClassVar[str] = "SCIP nodes"

    continuous_shares: bool = False
    as_printed: bool = False

    def warm(self) -> None:
        """Import Pyomo and the solvers and load the compiled kernels."""
        ColGen().warm()
        for instance in suite("smoke").build():
            if instance.objective is Objective.COST:
                self.schedule(instance, Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Solve the model globally; plans are reported as they are found."""
        search = Search.of(instance, run)
        if isinstance(search, Outcome):
            return search
        limit, gpus = search.better_than, search.gpus()
        if not any(gpus):
            # A better plan could afford no GPU at all.
            return search.outcome(search.bound(limit, math.inf, certified=True))
        if reason := search.too_large(gpus):
            return search.outcome(None, reason)

        model = build(search.problem, gpus, self.continuous_shares)
        model.require(limit)
        if self.as_printed:
            model.state_exactly()
        else:
            model.state_with_room()

        def take(value_of: Callable[[Any], float]) -> None:
            repaired = repair(search.problem, model.groups(value_of))
            if repaired is not None:
                search.accept(repaired)

        answer = solve(model, run, min(CONFIRM_S, CONFIRM_PART * run.remaining_s), take)
        search.statistics["nodes"] = answer.nodes
        bound = search.bound(limit, answer.bound, certified=False)
        if bound is not None:
            run.report(bound=bound)
        if not answer.finished:
            return search.outcome(bound, "" if search.plan is not None else "out of time", trusted=False)
        return _confirmed(search, bound, answer.infeasible)


def _confirmed(search: Search, bound: Bound | None, infeasible: bool) -> Outcome:
    """Return the outcome of a search that SCIP ended, with a claim if column generation confirms it."""
    if search.plan is None:
        if not infeasible:
            return search.outcome(bound, "the solution of SCIP does not hold, and could not be repaired")
        checked = confirm_infeasible(search.instance, search.run)
        reason = (
            checked.reason if checked.confirmed else f"SCIP finds no plan, which nothing confirms: {checked.reason}"
        )
        return search.outcome(None, reason, infeasible=checked.confirmed)
    checked = confirm_optimal(search.instance, search.plan, search.value, search.run)
    if checked.confirmed:
        return replace(search.outcome(checked.bound), status=Status.OPTIMAL)
    claim = f"{bound.value:.6g}" if bound is not None else "optimality"
    return search.outcome(bound, f"SCIP proves {claim}, which nothing confirms: {checked.reason}", trusted=False)
