"""Schedulers with false claims, and schedulers that break their interface."""

import itertools
import math
from typing import ClassVar

from toy_schedulers import honest_plan

from bench.api import Bound, Outcome, Run, Status
from hostile.base import Hostile
from instances import Instance, Objective, Plan, spatial_gpu

_counter = itertools.count()


class Claim(Hostile):
    """Returns a bound or a status that ``how`` names, mostly a false one."""

    BOUNDS: ClassVar = {"million": 1e6, "huge": 1.7e308, "negative-zero": -0.0, "not-a-number": math.nan}
    ENDS = dict.fromkeys((*BOUNDS, "optimal", "infeasible"), ("finished", ""))
    REFUTED = frozenset({"million", "huge", "optimal", "infeasible"})

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        if self.how == "infeasible":
            return Outcome(Status.INFEASIBLE)
        if self.how == "optimal":  # false: the plan has a GPU for every workload
            return Outcome(Status.OPTIMAL, honest_plan(instance))
        return Outcome(Status.FEASIBLE, honest_plan(instance), Bound(self.BOUNDS[self.how], certified=True))


class Sloppy(Hostile):
    """Can be loaded, but breaks every other rule that ``bench check-plugin`` checks, except under cost."""

    REFUTED = frozenset({""})
    name: ClassVar[str] = "sloppy"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.SCALE})

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        if instance.objective is Objective.SCALE:
            return Outcome(Status.UNKNOWN)
        if any(workload.id == "never" for workload in instance.workloads):
            return Outcome(Status.INFEASIBLE)
        while len(instance.workloads) > 10:
            pass
        by_values = {(w.model, w.slo_ms): w for w in instance.workloads}  # loses workloads with the same model and SLO
        instance.workload_index["somebody else"] = 99  # type: ignore[index]
        units = 10 + next(_counter)
        gpus = [spatial_gpu("v100", [(w.id, units, 1, w.rate_rps)]) for w in by_values.values()]
        return Outcome(Status.OPTIMAL, Plan(instance.name, tuple(gpus)), Bound(1e6, certified=True))


class Aimless(Hostile):
    """Has no objectives."""

    ENDS: ClassVar = {"": ("skipped", "Aimless does not solve cost; it solves nothing")}
    name: ClassVar[str] = "aimless"
    objectives: ClassVar[frozenset[Objective]] = frozenset()


class Dreamer(Hostile):
    """Claims that an infeasible plan, with 1 share unit per workload, is feasible."""

    name: ClassVar[str] = "dreamer"
    own_model: ClassVar[bool] = False

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return Outcome(Status.FEASIBLE, honest_plan(instance, units=1))


class Blind(Dreamer):
    """Makes the same claim, and declares that it is by a model of its own."""

    name: ClassVar[str] = "blind"
    own_model: ClassVar[bool] = True
