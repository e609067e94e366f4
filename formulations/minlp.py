"""The scheduler ``minlp``: the compact model as it is, solved globally by SCIP.

The model is that of ``formulations.compact``: every equation of iGniter's as printed, batches and shares whole. Pyomo
writes it to a file (.nl) that SCIP reads, through PySCIPOpt, which is an optional dependency.

SCIP keeps to its rows within a relative 1e-6. A plan is therefore made of *who is where with which batch* alone, with
the least shares (or the best, under ``capacity``) by the one-GPU kernel, and repaired where that says no. The bound is
a global one of the true problem, but comes from floating-point relaxations without a proof: it is not certified.
Under ``capacity`` nothing is called optimal or impossible: there SCIP 10.0 was seen to cut off the best plan.
"""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.api import Outcome, Run, Status
from formulations.compact.repair import repair
from formulations.compact.search import Search
from instances import Instance, Objective

MISSING = "SCIP is not installed; `pip install gpushare-bench[scip]` brings it"

RESERVE_S, RESERVE_PART = 0.5, 0.1
"""Seconds kept for the solver's overrun and for the repair, and the part of the time left that they are at most."""


@dataclass(frozen=True, slots=True)
class Minlp:
    """The true problem as a mixed-integer nonlinear program.

    Attributes
    ----------
    continuous_shares
        Let shares be any fraction of a unit: a relaxation, of interest for its bound.
    """

    name: ClassVar[str] = "minlp"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY, Objective.GOODPUT})

    continuous_shares: bool = False

    def warm(self) -> None:
        """Import Pyomo and SCIP and load the compiled kernels."""
        from instances.suites import suite

        for instance in suite("smoke").build():
            if instance.objective is Objective.COST:
                self.schedule(instance, Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Solve the model globally; plans are reported as they are found."""
        if importlib.util.find_spec("pyscipopt") is None:
            return Outcome(Status.UNKNOWN, reason=MISSING)
        search = Search.of(instance, run)
        if isinstance(search, Outcome):
            return search
        limit, gpus = search.better_than, search.gpus()
        if not any(gpus):
            # A better plan could afford no GPU at all.
            return search.outcome(search.bound(limit, math.inf, certified=True))
        if reason := search.too_large(gpus):
            return search.outcome(None, reason)
        from formulations.compact.build import build
        from formulations.compact.scip import solve

        model = build(search.problem, gpus, self.continuous_shares)
        model.require(limit)
        model.state_exactly()

        def take(value_of: Callable[[Any], float]) -> None:
            repaired = repair(search.problem, model.groups(value_of))
            if repaired is not None:
                search.accept(repaired)

        answer = solve(model, run, min(RESERVE_S, RESERVE_PART * run.remaining_s), take)
        search.statistics["nodes"] = answer.nodes
        bound = search.bound(limit, answer.bound, certified=False)
        if bound is not None:
            run.report(bound=bound)
        trusted = instance.objective is not Objective.CAPACITY
        infeasible = answer.infeasible and trusted
        reason = "no plan exists" if infeasible else "SCIP finds no plan" if answer.infeasible else "out of time"
        return search.outcome(bound, "" if search.plan is not None else reason, trusted, infeasible)
