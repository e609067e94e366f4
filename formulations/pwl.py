"""The scheduler ``pwl``: the compact model with its nonlinear relations made piecewise linear, solved by HiGHS.

The model is that of ``formulations.compact``, read there:

- a workload on GPU j is ``v = 1``; its time is ``t_gpu (1 - slowdown) >= t_sch + k_act (1 + alpha_cache others_l2)``
  within its budget; shares and memory of a GPU add up to at most what it has;
- ``k_act(b, r)`` and ``ability(b, r) = 1000 b / k_act``, which L2 demand and power are linear in, become linear on the
  triangles of a grid over batch and share; the products with ``others_l2`` and ``slowdown`` become their convex
  envelopes.

Interpolation makes it neither a relaxation nor a restriction: its bound is one of the model only, and may well be
above the cost or below the throughput of the best plan. It is returned as not certified and never makes a plan optimal.
Nor need its plan hold, so only who is where with which batch is taken from it, and repaired where the one-GPU kernel
says no. With ``certified`` every triangle is moved by its largest error at the whole batches and shares in it; then no
plan is cut off and the bound is one of the true problem.

The statistics tell how far the model is off: ``pwl_error_max_NAME`` and ``pwl_error_mean_NAME`` are the largest and
the mean relative error of a relation, ``k_act`` and ``ability`` over all batches and shares, the products
(``cache_ms``, ``dram_ms``, ``lost_ms``) over their ranges and relative to the largest product.

It does not solve ``capacity``: its objective would be an interpolated throughput, whose error the search would
maximise.

The search starts from first fit (or the plan handed over) and asks the model for better plans only.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bench.api import Outcome, Run
from formulations.compact.build import build
from formulations.compact.highs import solve
from formulations.compact.model import CompactModel
from formulations.compact.piecewise import linearise, statistics_of
from formulations.compact.repair import repair
from formulations.compact.search import Search
from instances import Instance, Objective
from instances.suites import suite

RESERVE_S, RESERVE_PART = 0.5, 0.1
"""Seconds kept for the solver's overrun and for the repair, and the part of the time left that they are at most."""


@dataclass(frozen=True, slots=True)
class Pwl:
    """Piecewise linearisation of the compact model.

    Attributes
    ----------
    pieces
        Cells along each axis of a grid, at least 1; a cell of batch and share is two triangles.
    certified
        Move every triangle by its largest error, so that the bound holds for the true problem.
    """

    name: ClassVar[str] = "pwl"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.GOODPUT})
    left_out: ClassVar[Mapping[Objective, str]] = {
        Objective.CAPACITY: "its objective would be an interpolated throughput, whose error the search would maximise"
    }

    pieces: int = 3
    certified: bool = False

    def __post_init__(self) -> None:
        if self.pieces < 1:
            raise ValueError("pieces: expected at least 1")

    def warm(self) -> None:
        """Import Pyomo and HiGHS and load the compiled kernels."""
        for instance in suite("smoke").build():
            if instance.objective is Objective.COST:
                self.schedule(instance, Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Solve the linearised model and repair what it finds."""
        search = Search.of(instance, run)
        if isinstance(search, Outcome):
            return search
        limit, gpus = search.better_than, search.gpus()
        if not any(gpus):
            # A better plan could afford no GPU at all.
            return search.outcome(search.bound(limit, math.inf, certified=True))
        if reason := search.too_large(gpus):
            return search.outcome(None, reason)

        model = build(search.problem, gpus)
        model.require(limit)
        search.statistics |= statistics_of(linearise(model, self.pieces, self.certified))
        answer = solve(model.pyomo, run, min(RESERVE_S, RESERVE_PART * run.remaining_s))
        search.statistics["nodes"] = answer.nodes
        bound = search.bound(limit, answer.bound, self.certified)
        if bound is not None:
            run.report(bound=bound)
        if answer.solved:
            self._take(search, model)
        reason = ""
        if search.plan is None:
            reason = "the linearised model has no plan" if answer.infeasible else "out of time"
            if answer.solved:
                reason = "the plan of the linearised model does not hold, and could not be repaired"
        return search.outcome(bound, reason, trusted=self.certified, infeasible=answer.infeasible and self.certified)

    @staticmethod
    def _take(search: Search, model: "CompactModel") -> None:
        """Make a plan of the model's solution."""
        groups = model.groups(lambda variable: float(variable.value))
        search.statistics["gpus_repaired"] = float(sum(search.problem.fits(group) is None for group in groups))
        repaired = repair(search.problem, groups)
        if repaired is not None:
            search.statistics["model_plan_better"] = float(search.accept(repaired))
