"""Fixtures of the document's tests: a stand-in for a ledger, and rows for every need of the document."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from bench.api import PlanClass, Run, Scope
from bench.ledger.row import Row, Termination, columns
from bench.ledger.store import Ledger
from bench.max_rate import Climb, with_all_served
from bench.scenarios import pack
from heuristics.igniter.igniter import FfdPlusPlus
from heuristics.mediator.mediator import Mediator
from instances import Instance, Objective, Plan
from instances.suites import SCENARIO_SUITES
from reports.need import Need
from reports.runs import instances_named
from tests.reports.stated import stated

BLANK: dict[str, Any] = {column.name: None for column in columns()} | {
    "status": "optimal",
    "termination": Termination.FINISHED,
    "reason": "",
    "violations": 1,
    "violation_details": [],
    "feasible": True,
    "value": 10.0,
    "gpus_used": 6,
    "cost_per_hour": 18.36,
    "throughput_rps": 1000.0,
    "fragments_pct": 5.0,
    "over_capacity_pct": 2.0,
    "sim_goodput_rps": 990.0,
    "sim_violation_rate": 0.005,
    "sim_drop_rate": 0.001,
    "bound_certified": True,
    "bound_scope": Scope(plan_class=PlanClass.SPATIAL, slots_per_gpulet=3),
    "decision_s": 0.001,
    "time_limit_s": 10.0,
    "started_at": "2026-01-02T03:04:05+00:00",
    "trajectory": [],
    "provenance": {"cpu": "a CPU", "cores": 2, "commit": None, "load_average": 0.5},
}


@dataclass
class RowsAsLedger:
    """Stand-in for a ledger, for the queries of the document."""

    stored_rows: list[Row] = field(default_factory=list)

    def rows(self, scheduler: str | None = None, **_: object) -> list[Row]:
        """Return the rows of a scheduler, or all."""
        return [row for row in self.stored_rows if scheduler in (None, row.scheduler)]

    def contradicted(self) -> list[str]:
        """Return no instances: the values of these rows are made up, so they refute no claim."""
        return []

    def instance_names(self) -> dict[str, str]:
        """Return no instances: these rows are on none of the library's entries."""
        return {}

    @property
    def ledger(self) -> Ledger:
        """This object with the type of a ledger."""
        return cast(Ledger, self)


@pytest.fixture(scope="session")
def hand_made() -> type[RowsAsLedger]:
    """Return the class of the stand-in."""
    return RowsAsLedger


@pytest.fixture(scope="session")
def rows_for() -> Callable[[Need], list[Row]]:
    """Return a function that makes the rows of a need, with real plans on the instances whose plans are used."""
    plans: dict[str, Plan] = {}

    def plan(instance: Instance) -> Plan:
        if instance.name not in plans:
            rule = Mediator() if instance.objective is Objective.COLOCATION else FfdPlusPlus()
            plan_is_used = instance.name.startswith(("igniter-3", "igniter-12", "mediator", "llm-16gpu"))
            found = rule.schedule(instance, Run()).plan if plan_is_used else None
            plans[instance.name] = Plan(instance.name, ()) if found is None else found
        return plans[instance.name]

    def make(need: Need) -> list[Row]:
        return [row for scheduler in need.schedulers for seed in need.seeds for row in rows(need, scheduler, seed)]

    def rows(need: Need, scheduler: str, seed: int) -> Iterator[Row]:
        settings = BLANK | {
            "scheduler": scheduler,
            "seed": seed,
            "parameters": stated(need),
            "headroom": need.trial.headroom,
            "truth": need.trial.reality,
            "time_limit_s": need.time_limit_s or 10.0,
            "work_limit": need.work_limit,
        }
        if need.instances in SCENARIO_SUITES:
            problem = SCENARIO_SUITES[need.instances].build()
            bits = pack([True] * len(problem))
            counts = {"count": len(problem), "decided": len(problem), "accepted": len(problem), "served": 1}
            counted = {**counts, "accepted_bits": bits, "decision_median_s": 1e-3}
            yield row(settings, problem.fingerprint, problem.base.name, scenarios=counted)
            return
        for instance in instances_named(need.instances).values():
            if need.climb:
                yield from climbing(settings, need, with_all_served(instance))
                continue
            simulated = simulation(need, instance)
            results = {"plan": plan(instance), "plan_class": "spatial", "simulation": simulated, "bound": 10.0}
            checked = {"holds": True, "late_workloads": 0} if need.trial.check_holds else {}
            yield row(
                settings, instance.fingerprint, instance.name, objective=str(instance.objective), **results, **checked
            )

    def climbing(settings: dict[str, Any], need: Need, instance: Instance) -> Iterator[Row]:
        climb = Climb(instance)
        while (multiple := climb.next) is not None:
            scaled = instance.scaled(multiple)
            planned: dict[str, Any] = {"plan": Plan(scaled.name, ()), "simulation": simulation(need, scaled)}
            climb_row = row(settings, scaled.fingerprint, scaled.name, **planned if multiple == 1.0 else {})
            climb.rows[multiple] = climb_row
            yield climb_row

    return make


def row(settings: dict[str, Any], fingerprint: str, name: str, **results: Any) -> Row:
    key = f"{fingerprint}{sorted(settings.items(), key=str)}"
    return Row(**settings | results | {"key": key, "instance_hash": fingerprint, "instance": name})


def simulation(need: Need, instance: Instance) -> dict[str, Any] | None:
    if need.trial.arrivals is None:
        return None
    counts = {"requests": 100, "dropped": 0, "unfinished": 0, "mean_ms": 5.0, "violation_rate": 0.005}
    served = [{"id": workload.id, **counts} for workload in instance.workloads]
    return {"arrivals": need.trial.arrivals.label, "workloads": served, "applications": []}
