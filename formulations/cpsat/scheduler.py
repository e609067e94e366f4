"""Scheduler ``cpsat``: the compact assignment model, solved exactly by OR-Tools' CP-SAT."""

from dataclasses import dataclass, replace
from typing import ClassVar

from bench.api import Bound, Outcome, Run, Status
from instances import GpuPool, Instance, Objective, Plan
from instances.dominance import why_not_exact
from instances.suites import suite
from instances.view import View


@dataclass(frozen=True, slots=True)
class CpSat:
    """Assignment model in CP-SAT: every workload on one GPU at one (batch, share, rate), with linear time conditions.

    Coefficients are rounded towards a relaxation, so bounds are valid for the true problem. The one-GPU kernel checks
    every solution, and patterns that fit only in the rounded model are forbidden. Under ``capacity`` throughput depends
    on the neighbours, so CP-SAT chooses among sets of workloads instead; see ``formulations.cpsat.capacity``.

    Under the rule ``attainment`` and ``cost``, a workload that no single GPU serves is served in parts on different
    GPUs. Parts are multiples of 5 % of its rate, and ``optimal`` means optimal among such plans. Under gamma arrivals
    such an instance is not solved (``unknown``): budgets are sampled, and a smaller part may have a smaller budget.

    Attributes
    ----------
    conflict_sets
        Largest number of workload sets tested on each GPU type for conflict cuts.
    gpu_sets
        Largest number of workload sets listed on each GPU type under ``capacity``. If more sets may share a GPU, the
        plan is that of first fit, and the bound ignores interference.
    """

    name: ClassVar[str] = "cpsat"
    objectives: ClassVar[frozenset[Objective]] = frozenset(
        {Objective.COST, Objective.CAPACITY, Objective.GOODPUT, Objective.SCALE}
    )

    work_unit: ClassVar[str] = "CP-SAT's deterministic seconds"

    conflict_sets: int = 30_000
    gpu_sets: int = 20_000

    def __post_init__(self) -> None:
        for name in ("conflict_sets", "gpu_sets"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 0")

    def warm(self, objective: Objective) -> None:
        """Import the solver and load the compiled kernels."""
        # OR-Tools takes a second to import, so listing the schedulers does not import it.
        from formulations.cpsat.search import build_once

        for instance in suite("igniter-3").build():
            self.schedule(instance, Run())
            self.schedule(
                replace(instance, objective=Objective.CAPACITY, gpus=(GpuPool(instance.gpus[0].type, 1),)), Run()
            )
            build_once(instance, self.conflict_sets)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Solve ``instance``; report incumbents and bounds as they are found."""
        for pool in instance.gpus:
            if reason := why_not_exact(View.of(instance, pool.type).tables):
                return Outcome(Status.UNKNOWN, reason=f"{pool.type.name}: {reason}")
        if not instance.workloads:
            return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, certified=True))
        from formulations.cpsat.search import solved

        return solved(instance, run, self.conflict_sets, self.gpu_sets)
