"""Made-up rows of all runs that a figure needs."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from bench.ledger.row import Row, Termination, columns
from bench.max_rate import Climb, with_all_served
from bench.scenarios import pack
from instances import Instance, Plan, ScenarioSet, spatial_gpu
from instances.suites import SCENARIO_SUITES, SUITES
from reports.figure import Figure
from reports.need import Need
from tests.reports.stated import stated

INSTANCES = {instance.name: instance for suite in SUITES.values() for instance in suite.build()}

BLANK = {column.name: None for column in columns()} | {
    "parameters": {},
    "source": "plan",
    "status": "feasible",
    "termination": Termination.FINISHED,
    "violation_details": [],
    "decision_s": 0.01,
    "peak_memory_mb": 200.0,
    "time_limit_s": 10.0,
    "threads": 1,
}


def plan_of(instance: Instance) -> Plan:
    """Return a plan with a GPU for each workload or job."""
    gpu = instance.gpus[0].type
    units = gpu.share_units if instance.jobs else gpu.share_units // 2
    rates = {each.id: each.rate_rps for each in instance.workloads} or {job.id: 1.0 for job in instance.jobs}
    return Plan(instance.name, tuple(spatial_gpu(gpu.name, [(name, units, 2, rate)]) for name, rate in rates.items()))


def simulation_of(instance: Instance, need: Need, late: float) -> dict[str, Any] | None:
    if need.trial.arrivals is None:
        return None
    served = {"requests": 3000, "dropped": 10, "unfinished": 0, "mean_ms": 5.0, "violation_rate": late}
    workloads = [{"id": workload.id, "slo_ms": workload.slo_ms, **served} for workload in instance.workloads]
    return {"arrivals": need.trial.arrivals.label, "workloads": workloads, "applications": []}


def instances_named(need: Need) -> Iterator[Instance]:
    for name in (need.quick or need.instances).split(","):
        yield from SUITES[name].build() if name in SUITES else (INSTANCES[name],)


def rows_of(chosen: Figure) -> list[Row]:
    """Return a row for every run that a figure needs with quick instances; the values differ slightly between rows."""
    keys = count()

    def make(instance: Instance, need: Need, scheduler: str, seed: int, **changes: Any) -> Row:
        number = next(keys)
        worse = 1.0 + need.schedulers.index(scheduler) / 10.0 + number % 3 / 100.0
        late = 0.004 * worse
        bound = {"value": 4.59, "feasible": True, "bound": 4.59, "bound_certified": True}
        values = {
            "key": str(number),
            "instance": instance.name,
            "instance_hash": instance.fingerprint,
            "scheduler": scheduler,
            "parameters": stated(need),
            "seed": seed,
            "headroom": need.trial.headroom,
            "margin": need.trial.margin or None,
            "truth": need.trial.reality,
            "objective": "cost" if instance.objective.minimised else "throughput",
            "value": 6.12 * worse if instance.objective.minimised else 100.0 / worse,
            "feasible": True,
            "violations": 0,
            "gpus_used": 6,
            "cost_per_hour": 18.36 * worse,
            "throughput_rps": 900.0 / worse,
            "fragments_pct": 20.0 * worse,
            "over_capacity_pct": 2.0 * worse,
            "decision_s": 0.002 * worse,
            "sim_goodput_rps": 700.0 / worse,
            "sim_violation_rate": late,
            "sim_drop_rate": late / 4.0,
            "sim_violating": 1,
            **({"holds": False, "late_workloads": 1} if need.trial.check_holds else {}),
            "simulation": simulation_of(instance, need, late),
            "trajectory": [{"t_s": 0.001 * worse, **bound, "value": 9.18}, {"t_s": 0.1 * worse, **bound}],
            "bound": 4.59,
            "bound_certified": True,
            "statistics": {
                f"pwl_error_{which}_{name}": 0.2 * worse * part
                for which, part in (("max", 1.0), ("mean", 0.3))
                for name in ("k_act", "ability")
            },
            "plan": plan_of(instance),
        }
        return Row(**(BLANK | values | changes))

    rows = []
    for need in chosen.needs:
        name = need.quick or need.instances
        for scheduler in need.schedulers:
            if name in SCENARIO_SUITES:
                rows.append(set_row(SCENARIO_SUITES[name].build(), need, scheduler, make))
                continue
            for instance in instances_named(need):
                if need.climb:
                    rows += climb_rows(instance, need, scheduler, make)
                else:
                    rows += [make(instance, need, scheduler, seed) for seed in need.seeds]
    return rows


def set_row(scenarios: ScenarioSet, need: Need, scheduler: str, make: Callable[..., Row]) -> Row:
    accepted = [index % 2 == 0 for index in range(len(scenarios))]
    served = [index % 4 == 0 for index in range(len(scenarios))]
    counts = {"count": len(scenarios), "decided": len(scenarios), "accepted": sum(accepted), "served": sum(served)}
    bits = {"accepted_bits": pack(accepted), "served_bits": pack(served)}
    hashed = {"instance_hash": scenarios.fingerprint, "objective": "scenarios", "scenarios": counts | bits}
    return make(scenarios.base, need, scheduler, 0, **hashed, value=float(sum(served)))


def climb_rows(instance: Instance, need: Need, scheduler: str, make: Callable[..., Row]) -> list[Row]:
    climb = Climb(with_all_served(instance))
    while (multiple := climb.next) is not None:
        changes = {} if multiple < 2.0 else {"plan": None}
        climb.rows[multiple] = make(climb.instance.scaled(multiple), need, scheduler, 0, **changes)
    return list(climb.rows.values())
