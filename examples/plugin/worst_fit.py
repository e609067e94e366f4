"""Example of a scheduler in a package of its own: one class, registered by one entry point."""

from dataclasses import dataclass
from typing import ClassVar

from bench.api import Outcome, Run, Status
from instances import Instance, Objective, Plan
from instances.one_gpu import Resident, fit_gpu, warm_kernels
from instances.view import View


@dataclass(frozen=True)
class WorstFit:
    """Worst fit: each workload goes to the feasible GPU with the most free share, or to a new GPU.

    Attributes
    ----------
    decreasing
        Whether workloads are placed in descending order of their least share alone, or in the order of the instance.
    """

    name: ClassVar[str] = "worst-fit"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY})

    decreasing: bool = True

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels before the clock starts."""
        warm_kernels()

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan on GPUs of the first type of the pool."""
        pool = instance.gpus[0]
        view = View.of(instance, pool.type)
        most_gpus = len(instance.workloads) if pool.count is None else pool.count
        waiting = []
        for position, workload in enumerate(instance.workloads):
            alone = least_alone(view, position)
            if alone is None:
                return Outcome(Status.UNKNOWN, reason=f"{workload.id}: no {pool.type.name} meets its SLO")
            waiting.append(alone)
        if self.decreasing:
            waiting.sort(key=lambda alone: -alone[0])

        residents: list[list[Resident]] = []
        units: list[int] = []
        for alone_units, newcomer in waiting:
            if run.remaining_s <= 0.0:
                return Outcome(Status.UNKNOWN, reason="the time limit is reached")
            for g in sorted(range(len(residents)), key=lambda g: units[g]):
                together = fit_gpu(view, [*residents[g], newcomer])
                if together is not None:
                    residents[g].append(newcomer)
                    units[g] = together.share_units
                    break
            else:
                if len(residents) == most_gpus:
                    name = instance.workloads[newcomer.workload].id
                    return Outcome(Status.UNKNOWN, reason=f"{name} does not fit on {most_gpus} {pool.type.name}")
                residents.append([newcomer])
                units.append(alone_units)

        spare = instance.objective is Objective.CAPACITY  # only under this objective, spare shares raise the value
        gpus = [fit_gpu(view, together, spend_spare=spare) for together in residents]
        return Outcome(Status.FEASIBLE, Plan(instance.name, tuple(gpus)), statistics={"gpus": len(gpus)})


def least_alone(view: View, workload: int) -> tuple[int, Resident] | None:
    """Return the least share that serves a workload alone, and its batch; ``None`` if there is none."""
    rate_rps = float(view.rate_rps[workload])
    feasible = []
    for batch in range(1, int(view.tables.max_batch[view.model[workload]]) + 1):
        resident = Resident(workload, batch, rate_rps)
        gpu = fit_gpu(view, [resident])
        if gpu is not None:
            feasible.append((gpu.share_units, resident))
    return min(feasible, key=lambda share_and_resident: share_and_resident[0], default=None)
