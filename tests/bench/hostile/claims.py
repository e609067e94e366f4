"""Schedulers that claim what is not so, and schedulers that break their promises to whoever calls them."""

import itertools
import math
from typing import ClassVar

from toy_schedulers import honest_plan

from bench.api import Bound, Outcome, Run, Status
from hostile.base import Hostile
from instances import Instance, Objective, Plan, spatial_gpu

_counter = itertools.count()


class Claim(Hostile):
    """Claims something about the instance, as its bound or its status."""

    BOUNDS: ClassVar = {"million": 1e6, "huge": 1.7e308, "negative-zero": -0.0, "not-a-number": math.nan}
    ENDS = dict.fromkeys((*BOUNDS, "optimal", "infeasible"), ("finished", ""))
    REFUTED = frozenset({"million", "huge", "optimal", "infeasible"})

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        if self.how == "infeasible":
            return Outcome(Status.INFEASIBLE)
        if self.how == "optimal":  # with a GPU for every workload
            return Outcome(Status.OPTIMAL, honest_plan(instance))
        return Outcome(Status.FEASIBLE, honest_plan(instance), Bound(self.BOUNDS[self.how], certified=True))


class Sloppy(Hostile):
    """Breaks all promises but one: it can be loaded."""

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
        by_values = {(w.model, w.slo_ms): w for w in instance.workloads}  # forgets those that look alike
        instance.workload_index["somebody else"] = 99  # type: ignore[index]
        units = 10 + next(_counter)
        gpus = [spatial_gpu("v100", [(w.id, units, 1, w.rate_rps)]) for w in by_values.values()]
        return Outcome(Status.OPTIMAL, Plan(instance.name, tuple(gpus)), Bound(1e6, certified=True))


class Aimless(Hostile):
    """Claims to solve nothing."""

    ENDS: ClassVar = {"": ("skipped", "Aimless does not solve cost; it solves nothing")}
    name: ClassVar[str] = "aimless"
    objectives: ClassVar[frozenset[Objective]] = frozenset()


class Dreamer(Hostile):
    """Makes bold claims of a plan that serves everybody."""

    name: ClassVar[str] = "dreamer"
    own_model: ClassVar[bool] = False

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return Outcome(Status.FEASIBLE, honest_plan(instance, units=1))


class Blind(Dreamer):
    """Says that its claims are those of its own model."""

    name: ClassVar[str] = "blind"
    own_model: ClassVar[bool] = True
