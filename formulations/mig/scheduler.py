"""Scheduler ``mig``: exact plans of GPUs cut into MIG instances (ParvaGPU's problem), with a certified bound."""

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import ClassVar

from bench.api import Bound, Duals, Outcome, Run, Status
from formulations.mig.bounds import bounds
from formulations.mig.integer_program import solve
from formulations.mig.offers import Offers
from instances import Gpulet, InputError, Instance, Objective, Partition, PlacedGpu, Plan, PlanClass, Slot
from instances.arrays import Floats, Ints
from instances.costs import next_cost
from instances.suites.parvagpu import parvagpu


@dataclass(frozen=True, slots=True)
class Mig:
    """Integer program over MIG layouts at least cost; a workload may be split over MIG instances (class ``split``).

    Duals of the MIG instances give a certified bound, and an integer program over GPU layouts gives the plan. If the
    plan's cost equals the bound, it is proven optimal. Otherwise ``optimal`` is the claim of the integer solver.
    """

    name: ClassVar[str] = "mig"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})
    work_unit: ClassVar[str] = "HiGHS nodes"
    partitions: ClassVar[frozenset[Partition]] = frozenset({Partition.MIG})

    def warm(self, objective: Objective) -> None:
        """Import the solver and run it once."""
        self.schedule(parvagpu()[0], Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Compute the bound from duals, then solve the integer program."""
        if instance.partition is not Partition.MIG:
            raise InputError(
                instance.name, "mig needs GPUs that are cut into MIG instances; those of this pool are not"
            )
        offers = Offers.of(instance)
        for workload, rates in zip(instance.workloads, offers.rate_rps, strict=True):
            if not rates.any():
                reason = f"{workload.id}: no MIG instance runs {workload.model} within {workload.slo_ms / 2:g} ms"
                return Outcome(Status.INFEASIBLE, reason=reason)
        bound: Bound | None = None
        proof: tuple[Duals, ...] = ()
        for value, duals in bounds(instance, offers, run):
            bound, proof = Bound(value, certified=True, plan_class=PlanClass.SPLIT), (duals,)
            run.report(bound=bound)
        target = 0.0 if bound is None else next_cost(bound.value, instance)
        solution = solve(instance, offers, run, target)
        statistics = {"nodes": float(solution.nodes), "layouts": float(len(offers.layouts))}
        if solution.gpus is None:
            status = Status.INFEASIBLE if solution.proven else Status.UNKNOWN
            reason = "the GPUs of the pool do not suffice" if solution.proven else ""
            return Outcome(status, None, bound, statistics, reason, proof)
        plan = _plan(instance, offers, solution.gpus, solution.used)
        status = Status.OPTIMAL if solution.proven else Status.FEASIBLE
        return Outcome(status, plan, bound, statistics, proof=proof)


def _plan(instance: Instance, offers: Offers, gpus: Ints, used: Ints) -> Plan:
    """Assign the MIG instances of the GPUs to the workloads; leave out superfluous MIG instances and empty GPUs."""
    slots_of_kind: dict[tuple[int, int], deque[tuple[Slot, int]]] = defaultdict(deque)
    for w, workload in enumerate(instance.workloads):
        needed = _needed(used[w], offers.rate_rps[w], workload.rate_rps)
        # Every MIG instance serves the same fraction of its largest rate.
        fraction = workload.rate_rps / float(needed @ offers.rate_rps[w])
        for kind, best in enumerate(offers.best[w]):
            if best is not None:
                slot = Slot(workload.id, best.batch, fraction * float(offers.rate_rps[w, kind]))
                slots_of_kind[offers.kinds[kind]] += [(slot, best.processes)] * int(needed[kind])
    placed = []
    for (pool, layout), gpu_count in zip(offers.layouts, gpus, strict=True):
        for _ in range(gpu_count):
            gpulets = []
            for units, start in layout:
                if slots_of_kind[pool, units]:
                    slot, processes = slots_of_kind[pool, units].popleft()
                    gpulets.append(Gpulet(units, (slot,), start=start, processes=processes))
            if gpulets:
                placed.append(PlacedGpu(instance.gpus[pool].type.name, tuple(gpulets)))
    return Plan(instance.name, tuple(placed))


def _needed(numbers: Ints, rate_rps: Floats, demand_rps: float) -> Ints:
    """Return ``numbers`` without the MIG instances that the demand does not need, removed from the last kind first."""
    needed = numbers.copy()
    for kind in reversed(range(len(needed))):
        while needed[kind] > 0:
            needed[kind] -= 1
            if needed @ rate_rps < demand_rps:
                needed[kind] += 1
                break
    return needed
