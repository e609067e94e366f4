"""Scheduler ``minlp``: the compact model with its nonlinear relations, solved globally by SCIP.

The model is that of ``formulations.compact``: iGniter's equations as printed, with integer batches and shares. Pyomo
writes it to a file (.nl) that SCIP reads through PySCIPOpt.

Every nonlinear relation has a relative tolerance of 1e-6. Without it, SCIP 10.0 cuts off feasible plans. The relations
``(k_act - k5) (p r + k4) = k1 b^2 + k2 b + k3`` and ``ability k_act = 1000 b`` share ``k_act``. When presolve probes a
batch, propagation narrows ``k_act`` to an interval about as wide as SCIP's tolerance of 1e-9. Where the sides of the
relations reach 32,000, no value of ``ability`` is left. These plans stay feasible if the rows are scaled to size 1 and,
where the model allows it, have only one side. A wider tolerance in SCIP's propagation keeps them, too.

Only the placement and the batches are read from SCIP's solution. The one-GPU kernel sets the least shares (under
``capacity`` the best shares), and a placement that it rejects is repaired.

Where active times are tables (every performance model but iGniter's), the growth beside neighbours is split over the
pairs of batch and share, which makes its product with the active time linear (``formulations.compact.tables``). A chord
bounds the throughput of each pair from above. Under ``capacity`` every plan, also the first one, is improved by moves
of single workloads (``formulations.compact.improve``). If SCIP stops before it has a bound, the bound is that of the
workloads alone, which is certified.

SCIP computes in floating point, so its bound is not certified. If SCIP finishes its search, column generation tries to
confirm the result in the remaining time. The status is ``optimal`` or ``infeasible`` only if the certified bound
confirms it. No plan is taken from column generation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen import ColGen
from formulations.compact.alone import bound_alone
from formulations.compact.repair import repair
from formulations.compact.search import Search, improving_model
from formulations.confirmation import confirm, reserved_s
from instances import Instance, Objective
from instances.suites import suite


@dataclass(frozen=True, slots=True)
class Minlp:
    """Mixed-integer nonlinear program (MINLP) of the whole problem, solved globally by SCIP.

    Attributes
    ----------
    continuous_shares
        Let shares be fractional: a relaxation, used for its bound.
    as_printed
        State the nonlinear relations as equations without tolerance. SCIP 10.0 is known to answer these wrongly.
    """

    name: ClassVar[str] = "minlp"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY, Objective.GOODPUT})
    work_unit: ClassVar[str] = "SCIP nodes"

    model_formats: ClassVar[frozenset[str]] = frozenset({".nl"})

    continuous_shares: bool = False
    as_printed: bool = False

    def warm(self, objective: Objective) -> None:
        """Import Pyomo and the solvers and load the compiled kernels."""
        ColGen().warm(objective)
        for instance in suite("smoke").build():
            if instance.objective is Objective.COST:
                self.schedule(instance, Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Solve the model globally and report each better plan."""
        search_and_model = improving_model(instance, run, self.continuous_shares)
        if isinstance(search_and_model, Outcome):
            return search_and_model
        # SCIP takes long to import, so it is imported only if a model is solved.
        from formulations.compact import scip

        search, model = search_and_model
        model.state_relations(exact=self.as_printed)

        def accept_solution(value_of: Callable[[Any], float]) -> None:
            repaired = repair(search.problem, model.patterns(value_of))
            if repaired is not None:
                search.accept(repaired)

        solver_answer = scip.solve(model, run, reserved_s(run), accept_solution)
        search.statistics["nodes"] = solver_answer.nodes
        bound = search.bound(solver_answer.bound, certified=False)
        if bound is None and not solver_answer.finished:
            bound = bound_alone(search.problem)
        if bound is not None:
            run.report(bound=bound)
        if not solver_answer.finished:
            reason = solver_answer.refusal or ("" if search.plan is not None else "out of time")
            return search.outcome(bound, reason, trusted=False)
        return confirmed(search, bound, solver_answer.infeasible)

    def write_model(self, instance: Instance, file: Path) -> None:
        """Write the nonlinear model of an instance; see ``bench.api.Scheduler``."""
        from formulations.compact import export

        _, model = export.whole_model(instance, self.continuous_shares)
        model.state_relations(exact=self.as_printed)
        export.write(model, file)


def confirmed(search: Search, bound: Bound | None, infeasible: bool) -> Outcome:
    """Return the outcome of a search that SCIP finished; it claims a proof only if column generation confirms it.

    Parameters
    ----------
    bound
        SCIP's bound.
    infeasible
        Whether SCIP claims that no plan exists.
    """
    if search.plan is None and not infeasible:
        return search.outcome(bound, "SCIP's solution is not feasible and could not be repaired")
    confirmation = confirm(search.instance, search.run, search.plan, search.value)
    if search.plan is None:
        if confirmation.agrees:
            return search.outcome(None, confirmation.reason, infeasible=True)
        return search.outcome(None, f"SCIP finds no plan, but this is not confirmed: {confirmation.reason}")
    if confirmation.agrees and confirmation.bound is not None:
        return replace(search.outcome(confirmation.bound), status=Status.OPTIMAL)
    claimed = f"{bound.value:.6g}" if bound is not None else "optimality"
    return search.outcome(
        bound, f"SCIP proves {claimed}, but this is not confirmed: {confirmation.reason}", trusted=False
    )
