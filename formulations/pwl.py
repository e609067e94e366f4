"""Scheduler ``pwl``: the compact model with piecewise linear relations, solved by HiGHS.

The model is that of ``formulations.compact``:

- A binary ``v`` places a workload on a GPU. The time ``t_gpu`` of the workload stays within its budget, where ``t_gpu
  (1 - slowdown) >= t_sch + k_act (1 + alpha_cache others_l2)``. Here ``t_sch`` is the scheduling delay, ``k_act`` the
  active time alone, ``others_l2`` the L2 demand of the neighbours, and ``slowdown`` the loss of frequency at high
  power. The shares and the memory of all workloads stay within the GPU's.
- L2 demand and power are linear in ``k_act(b, r)`` and ``ability(b, r) = 1000 b / k_act``. These two become linear on
  the triangles of a grid over batch and share. The products with ``others_l2`` and ``slowdown`` become their convex
  envelopes.

The interpolated model is neither a relaxation nor a restriction. Its bound may exceed the cost, or fall below the
goodput, of the best plan. The bound is therefore returned as not certified and never makes a plan optimal. Its plan
may be infeasible. Only the placement and the batches are read from it, and a placement that the one-GPU kernel rejects
is repaired. With ``certified`` every triangle is shifted by its largest error at the integer batches and shares in it.
Then no plan is cut off and the bound is valid for the true problem.

The statistics ``pwl_error_max_NAME`` and ``pwl_error_mean_NAME`` are the largest and the mean relative error of a
relation. For ``k_act`` and ``ability`` they cover all batches and shares. For the products (``cache_ms``, ``dram_ms``,
``lost_ms``) they cover their ranges, relative to the largest product.

``pwl`` does not solve ``capacity``: the objective would be an interpolated throughput, and the search would maximise
the interpolation error.

The search starts from first fit (or the given start plan) and accepts only better plans from the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bench.api import Outcome, Run
from formulations.compact.repair import repair
from formulations.compact.search import Search, improving_model
from instances import Instance, Objective, Plan
from instances.one_gpu import Pattern
from instances.suites import suite

RESERVE_S = 0.5
"""Largest time reserved for the solver's overrun and the repair, seconds."""

RESERVE_PART = 0.1
"""Largest fraction of the remaining time that is reserved for the overrun and the repair."""


@dataclass(frozen=True, slots=True)
class Pwl:
    """Mixed-integer linear program of the whole problem: piecewise linear relations, solved by HiGHS.

    Attributes
    ----------
    pieces
        Cells along each axis of the grid, at least 1; a cell of batch and share has two triangles.
    certified
        Shift every triangle by its largest error, so that the bound is valid for the true problem.
    """

    name: ClassVar[str] = "pwl"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.GOODPUT})
    left_out: ClassVar[Mapping[Objective, str]] = {
        Objective.CAPACITY: "its objective would be an interpolated throughput, whose error the search would maximise"
    }

    model_formats: ClassVar[frozenset[str]] = frozenset({".lp", ".mps"})

    pieces: int = 3
    certified: bool = False

    def __post_init__(self) -> None:
        if self.pieces < 1:
            raise ValueError(f"pieces is {self.pieces}; expected at least 1")

    def warm(self, objective: Objective) -> None:
        """Import Pyomo and HiGHS and load the compiled kernels."""
        for instance in suite("smoke").build():
            if instance.objective is Objective.COST:
                self.schedule(instance, Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Solve the linearised model and repair its plan."""
        search_and_model = improving_model(instance, run)
        if isinstance(search_and_model, Outcome):
            return search_and_model
        # Pyomo and HiGHS take long to import, so they are imported only if a model is solved.
        from formulations.compact import highs, piecewise

        search, model = search_and_model
        search.statistics |= piecewise.linearise(model, self.pieces, self.certified)
        solver_answer = highs.solve(model.pyomo, run, min(RESERVE_S, RESERVE_PART * run.remaining_s))
        search.statistics["nodes"] = solver_answer.nodes
        bound = search.bound(solver_answer.bound, self.certified)
        if bound is not None:
            run.report(bound=bound)
        if solver_answer.solved:
            self._accept_repaired(search, model.patterns(lambda variable: float(variable.value)))
        reason = ""
        if search.plan is None:
            reason = "the linearised model has no plan" if solver_answer.infeasible else "out of time"
            if solver_answer.solved:
                reason = "the plan of the linearised model is not feasible and could not be repaired"
        return search.outcome(
            bound, reason, trusted=self.certified, infeasible=solver_answer.infeasible and self.certified
        )

    def write_model(self, instance: Instance, file: Path) -> None:
        """Write the piecewise-linear model of an instance; see ``bench.api.Scheduler``."""
        from formulations.compact import export, piecewise

        _, model = export.whole_model(instance)
        piecewise.linearise(model, self.pieces, self.certified)
        export.write(model, file)

    def plan_of_solution(self, instance: Instance, solution: str, where: str) -> tuple[Plan | None, int]:
        """Return the plan of another solver's solution of the written model; see ``bench.api.Scheduler``."""
        from formulations.compact import export

        return export.plan_of(instance, solution, where)

    @staticmethod
    def _accept_repaired(search: Search, patterns: list[Pattern]) -> None:
        """Accept the plan of the model's solution, repaired where its GPUs do not fit, if it is better."""
        search.statistics["gpus_repaired"] = float(sum(search.problem.fit(pattern) is None for pattern in patterns))
        repaired = repair(search.problem, patterns)
        if repaired is not None:
            search.statistics["model_plan_better"] = float(search.accept(repaired))
