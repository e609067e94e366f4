"""Rows of real plans, judged and simulated in this process, and made-up rows."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any

from bench.api import Run, Scheduler
from bench.evaluation import Trial
from bench.judging.judge import judge
from bench.ledger.bound_scope import Reach
from bench.ledger.row import Row, columns
from bench.ledger.row_schema import to_json
from bench.simulation.arrivals import Arrivals
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning
from heuristics.igniter.igniter import FfdPlus, FfdPlusPlus, IGniter
from instances import Instance
from instances.files import plan_to_json
from instances.suites import suite
from reports.entrants import entrants, facets_of
from reports.page.instance_results import InstanceResults
from tests.row_values import of_classes

HOSTILE = "</script><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"
_SCOPE = {"plan_class": "spatial", "allowed_shares": None, "slots_per_gpulet": 1, "max_batch": None}
BOUND = {"bound": 16.0, "bound_certified": True, "bound_scope": _SCOPE}
(TWELVE,) = suite("igniter-12").build()
(GAME,) = suite("gpulet-game").build()

HOST = {"gpushare_bench": "0.1.0", "python": "3.11.7", "packages": {"numpy": "2.4.6"}, "cpu": "AMD EPYC", "cores": 2}


def run_of(scheduler: Scheduler, instance: Instance, /, **changed: Any) -> Row:
    """Return the row of a scheduler's plan for an instance; ``changed`` replaces values of the row."""
    plan = scheduler.schedule(instance, Run()).plan
    assert plan is not None
    verdict = judge(plan, instance)
    simulation = Trial(arrivals=Arrivals(), seconds=2.0).simulation_json(plan, instance, 0)
    assert simulation is not None
    values = {
        "plan": plan_to_json(plan),
        "plan_class": plan.plan_class,
        "trajectory": [
            {"t_s": 0.01, "value": verdict.value, "feasible": verdict.feasible, "bound": None, "bound_certified": None}
        ],
        "violations": len(verdict.violations),
        "violation_details": [asdict(violation) for violation in verdict.violations],
        "simulation": simulation,
        "sim_violation_rate": simulation["violation_rate"],
        "sim_worst_p99": simulation["worst_p99"],
    }
    verdict_columns = (
        "feasible",
        "value",
        "gpus_used",
        "cost_per_hour",
        "throughput_rps",
        "goodput_rps",
        "utilisation_pct",
        "fragments_pct",
    )
    values |= {name: getattr(verdict, name) for name in verdict_columns}
    return row_of(scheduler.name, instance, **(values | changed))


def row_of(scheduler: str, instance: Instance, /, **given: Any) -> Row:
    """Return the row of a finished run, by default without a plan; ``given`` replaces values of the row."""
    blank: dict[str, Any] = {column.name: None for column in columns()} | {
        "instance": instance.name,
        "instance_hash": instance.fingerprint,
        "scheduler": scheduler,
        "parameters": {scheduler: {}},
        "seed": 0,
        "source": "plan",
        "headroom": 1.0,
        "status": "feasible" if "plan" in given else "unknown",
        "termination": "finished",
        "reason": "",
        "objective": "throughput" if instance.objective in ("capacity", "goodput") else str(instance.objective),
        "throughput_of": str(instance.objective) if instance.objective in ("capacity", "goodput") else None,
        "slo_rule": str(instance.slo_rule),
        "performance_model": instance.performance_model,
        "violation_details": [],
        "decision_s": 0.01,
        "overhead_s": 0.1,
        "wall_s": 0.2,
        "overshoot_s": 0.0,
        "time_limit_s": 10.0,
        "memory_limit_mb": 8192.0,
        "threads": 1,
        "started_at": "2026-11-21T09:54:18.357+00:00",
        "statistics": {},
        "trajectory": [],
        "log_tail": "",
        "provenance": HOST,
    }
    values = {name: to_json(value) for name, value in of_classes(blank | given).items()}
    identity = [instance.fingerprint, scheduler, *map(str, (values["parameters"], values["seed"], values["source"]))]
    return Row.from_json({**values, "key": sha256(repr(identity).encode()).hexdigest()})


def case_of(
    instance: Instance, *rows: Row, suite: str = "s", arrivals: Mapping[str, str] | None = None
) -> InstanceResults:
    """Return the results of an instance in a ledger with these rows."""
    arrivals_by_key = arrivals or {}
    reaches = {row.key: Reach.of(row.plan) for row in rows if row.plan is not None}
    names = entrants(rows, facets_of(rows, arrivals_by_key))
    return InstanceResults(
        instance.name, instance.fingerprint, suite, instance, rows, [], [], reaches, arrivals_by_key, names, "l.sqlite"
    )


def runs_of_every_kind() -> list[tuple[Row, Instance]]:
    """Return rows of every kind with their instances: finished, failed, replayed, hostile, and of a scenario set."""
    igniter = run_of(IGniter(), TWELVE, **BOUND)
    mixes = suite("igniter-scaling").build()[:3]
    hostile = hostile_instance()
    return [
        (igniter, TWELVE),
        (run_of(FfdPlus(), TWELVE), TWELVE),
        (run_of(FfdPlusPlus(), TWELVE), TWELVE),
        (row_of("cpsat", TWELVE, termination="crashed", reason=f"signal 11\u2028{HOSTILE}"), TWELVE),
        (replay_of(igniter), TWELVE),
        *((run_of(scheduler, mix), mix) for mix in mixes for scheduler in (IGniter(), FfdPlusPlus())),
        (run_of(ElasticPartitioning(), GAME), GAME),
        (run_of(IGniter(), hostile, scheduler=HOSTILE, parameters={HOSTILE: {"a": HOSTILE}}), hostile),
        (scenarios_row(), TWELVE),
    ]


def replay_of(row: Row) -> Row:
    """Return the row of a replay of ``row``'s plan in which only the P99 latency of each workload is a tenth longer."""
    assert row.simulation is not None
    workloads = [
        {key: value for key, value in workload.items() if key != "histogram"}
        | {"p99_ms": 1.1 * workload["p99_ms"], "predicted": {"p99_ms": workload["p99_ms"]}}
        for workload in row.simulation["workloads"]
    ]
    values = {**row.simulation, "workloads": workloads, "valid": True, "invalid_reason": None}
    return replace(
        row,
        key="ab" * 32,
        scheduler="replay",
        source="replay",
        parameters={"replay": {"backend": "cpu", "plan": to_json(row.plan)}},
        simulation=values,
    )


def scenarios_row() -> Row:
    times, bits = {"decision_median_s": 0.001, "decision_max_s": 0.002}, {"accepted_bits": "", "served_bits": ""}
    counts = {"count": 1023, "decided": 1023, "accepted": 900, "served": 890, **times, **bits}
    return row_of(
        "sbp", TWELVE, instance="gpulet-1023", instance_hash="cd" * 32, objective="scenarios", scenarios=counts
    )


def hostile_instance() -> Instance:
    workloads = tuple(replace(workload, id=f"{workload.id}{HOSTILE}") for workload in TWELVE.workloads[:3])
    return replace(TWELVE, name=HOSTILE, workloads=workloads)
