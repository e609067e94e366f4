"""Schedulers that return or report wrong types, or plans that the instance does not permit."""

import math
from dataclasses import replace
from typing import Any, ClassVar

from toy_schedulers import honest_plan

from bench.api import Outcome, Run, Status
from hostile.base import Hostile
from instances import Instance, Plan, spatial_gpu

FEASIBLE = Status.FEASIBLE


class OddOutcome(Hostile):
    """Returns something other than an outcome, or an outcome with parts of wrong types."""

    OUTCOMES: ClassVar[dict[str, tuple[Any, str]]] = {
        "none": (lambda plan: None, "OddOutcome returned a NoneType; expected an Outcome"),
        "text": (lambda plan: "a plan", "OddOutcome returned a str; expected an Outcome"),
        "no-plan": (lambda plan: Outcome(Status.OPTIMAL), 'status is "optimal" but there is no plan'),
        "plan-is-text": (lambda plan: Outcome(FEASIBLE, "a plan"), "plan is a str; expected a Plan"),
        "status-is-text": (lambda plan: Outcome("good", plan), "OddOutcome: status is a str; expected a Status"),
        "gpus-are-text": (
            lambda plan: Outcome(FEASIBLE, replace(plan, gpus=("gpu",))),
            "the plan or bound has no JSON form: AttributeError: 'str' object has no attribute 'type'",
        ),
        "bound-is-a-number": (lambda plan: Outcome(FEASIBLE, plan, 3.0), "bound is a float; expected a Bound"),
        "statistics-are-text": (
            lambda plan: Outcome(FEASIBLE, plan, statistics={"nodes": "many"}),
            "statistics: ValueError: could not convert string to float: 'many'; expected numbers by name",
        ),
        "other-instance": (
            lambda plan: Outcome(FEASIBLE, replace(plan, instance="another")),
            'plan: instance: made for "another"; expected a plan for "..."',
        ),
    }
    ENDS: ClassVar = {how: ("invalid_plan", reason) for how, (_, reason) in OUTCOMES.items()}

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return self.OUTCOMES[self.how][0](honest_plan(instance))  # type: ignore[no-any-return]


class Swallower(Hostile):
    """Reports a wrong type and swallows the exception, as a solver's callback may."""

    ENDS: ClassVar = {"": ("invalid_plan", "report: plan is a str; expected a Plan")}

    def attack(self, instance: Instance, run: Run) -> None:
        try:
            run.report("nonsense")  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001 - swallowing is the attack
            print("swallowed")


class OddPlan(Hostile):
    """Returns a plan with one workload, whose slot has impossible or extreme values."""

    PLANS: ClassVar[dict[str, tuple[int, int, float, int]]] = {  # share, batch, rate, number of GPUs
        "negative-share": (-4, 1, 1.0, 1),
        "huge-share": (2**31 - 1, 1, 1.0, 1),
        "huge-batch": (4, 2**31 - 1, 1.0, 1),
        "huge-rate": (40, 1, 1e7, 1),
        "negative-rate": (40, 1, -1.0, 1),
        "infinite-rate": (40, 1, math.inf, 1),
        "no-rate": (40, 1, math.nan, 1),
        "many-gpus": (40, 1, 1.0, 20_000),
        "other-workload": (40, 1, 1.0, 1),
    }
    NO_JSON = "the message has no JSON form: ValueError: Out of range float values are not JSON compliant..."
    SLOT = "plan: gpus[0].gpulets[0]."
    ENDS: ClassVar = {
        "negative-share": (
            "invalid_plan",
            SLOT + "share_units: is -4; expected a whole number from 1 to 2147483647",
        ),
        "huge-share": ("invalid_plan", SLOT + "share_units: 2147483647; a v100 has 40 share units"),
        "huge-batch": ("finished", ""),
        "huge-rate": ("finished", ""),
        "negative-rate": ("invalid_plan", SLOT + "slots[0].rate_rps: is -1.0; expected a finite number greater than 0"),
        "infinite-rate": ("invalid_plan", NO_JSON),
        "no-rate": ("invalid_plan", NO_JSON),
        "many-gpus": ("finished", ""),
        "other-workload": ("invalid_plan", SLOT + 'slots[0].workload: unknown workload "nobody"; known: ...'),
    }

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        units, batch, rate, gpus = self.PLANS[self.how]
        workload = "nobody" if self.how == "other-workload" else instance.workloads[0].id
        gpu = spatial_gpu(instance.gpus[0].type.name, [(workload, units, batch, rate)])
        return Outcome(FEASIBLE, Plan(instance.name, (gpu,) * gpus))
