"""Beginning of every hostile plugin."""

from dataclasses import dataclass
from typing import ClassVar

from bench.api import Outcome, Run, Status
from instances import Instance, Objective, Plan, spatial_gpu


def honest_plan(instance: Instance) -> Plan:
    """Every workload on a GPU of its own."""
    gpu = instance.gpus[0].type.name
    return Plan(instance.name, tuple(spatial_gpu(gpu, [(w.id, 40, 2, w.rate_rps)]) for w in instance.workloads))


@dataclass(frozen=True)
class Hostile:
    """A plugin that behaves; subclasses do not.

    Attributes
    ----------
    ENDS
        Terminations that the row may have, and a pattern within its reason.
    """

    ENDS: ClassVar[tuple[str, str]] = ("finished", "")
    name: ClassVar[str] = "hostile"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return Outcome(Status.FEASIBLE, self.attack(instance, run) or honest_plan(instance))

    def attack(self, instance: Instance, run: Run) -> Plan | None:
        """Do something hostile; without a plan, the honest one is returned."""
