"""Schedulers that break every promise of the contract in one way, for the checks to find."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

from bench.api import Bound, Outcome, Run, Status
from instances import Instance, Objective, Plan, spatial_gpu

_counter = itertools.count()


@dataclass(frozen=True)
class Sloppy:
    """Breaks all of them but one: it can be loaded."""

    name: ClassVar[str] = "sloppy"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.SCALE})

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        if instance.objective is Objective.SCALE:
            return Outcome(Status.UNKNOWN)
        if any(workload.id == "never" for workload in instance.workloads):
            return Outcome(Status.INFEASIBLE)
        while len(instance.workloads) > 10:
            pass
        by_values = {(w.model, w.slo_ms): w for w in instance.workloads}  # forgets those that look alike
        instance.workload_index["somebody else"] = 99  # type: ignore[index]
        units = 10 + next(_counter)
        gpus = [spatial_gpu("v100", [(w.id, units, 1, w.rate_rps)]) for w in by_values.values()]
        return Outcome(Status.OPTIMAL, Plan(instance.name, tuple(gpus)), Bound(1e6, certified=True))


@dataclass(frozen=True)
class Misnamed(Sloppy):
    """Is registered under another name."""


@dataclass(frozen=True)
class Aimless(Sloppy):
    """Claims nothing."""

    name: ClassVar[str] = "aimless"
    objectives: ClassVar[frozenset[Objective]] = frozenset()


@dataclass(frozen=True)
class Fails(Sloppy):
    """Raises."""

    name: ClassVar[str] = "fails"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        raise RuntimeError("not today")


@dataclass(frozen=True)
class Dreamer(Sloppy):
    """Makes bold claims of a plan that serves everybody."""

    name: ClassVar[str] = "dreamer"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})
    own_model: ClassVar[bool] = False

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        gpus = [spatial_gpu("v100", [(w.id, 1, 1, w.rate_rps)]) for w in instance.workloads]
        return Outcome(Status.FEASIBLE, Plan(instance.name, tuple(gpus)))


@dataclass(frozen=True)
class Blind(Dreamer):
    """Says that its claims are those of its own model."""

    name: ClassVar[str] = "blind"
    own_model: ClassVar[bool] = True
