"""Schedulers of another distribution: tests of the command line install this file as ``command-line-plugin``."""

import time
from dataclasses import dataclass
from typing import ClassVar

from bench.api import Bound, Outcome, Run, Status
from instances import Instance, Objective, Plan, spatial_gpu


def half_gpu_each(instance: Instance) -> Plan:
    return Plan(instance.name, tuple(spatial_gpu("v100", [(w.id, 40, 4, w.rate_rps)]) for w in instance.workloads))


@dataclass(frozen=True)
class Fails:
    """Fails [bold]at once[/bold]."""

    name: ClassVar[str] = "fails"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        print("[red]about to fail[/red]")
        raise RuntimeError("bad [red]luck[/red]")


@dataclass(frozen=True)
class Bounds:
    """Returns a GPU for each workload, and ``bound`` as a certified bound."""

    name: ClassVar[str] = "bounds"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})
    bound: float = 1.0

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        run.report(half_gpu_each(instance), Bound(self.bound, certified=True))
        return Outcome(Status.FEASIBLE, half_gpu_each(instance), Bound(self.bound, certified=True), {"nodes": 3})


@dataclass(frozen=True)
class Waits:
    """Reports a plan and, except on igniter-3, waits for its deadline."""

    name: ClassVar[str] = "waits"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        run.report(half_gpu_each(instance))
        if instance.name != "igniter-3":
            time.sleep(run.remaining_s)
        return Outcome(Status.FEASIBLE, half_gpu_each(instance))
