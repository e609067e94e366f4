"""Last straw: a service that saves a GPU at a lower rate or a longer SLO. Duals propose it; a new solve confirms it."""

import time
from collections.abc import Mapping
from dataclasses import replace

from bench.fleet.solving import solved_here
from bench.judging.judge import judge
from instances import Instance, Plan, Workload

MOST_CANDIDATES = 3
"""Largest number of services that are tried."""

RATE_FACTORS = (0.75, 0.9)
"""Factors on the rate of a service, from strong to mild."""

SLO_FACTORS = (1.5, 1.25)
"""Factors on the SLO of a service, from strong to mild."""

_LEAST_SOLVE_S = 5.0
"""Least time limit of a solve, unless less time is left."""


Relaxation = tuple[str, Instance]
"""Lower rate or longer SLO of one service in words, and the instance with it."""


def candidates(instance: Instance, dual: Mapping[str, float]) -> list[Workload]:
    """Return the services with the largest duals, the largest first."""
    by_dual = sorted(instance.workloads, key=lambda workload: -dual.get(workload.id, 0.0))
    return by_dual[:MOST_CANDIDATES]


def relaxed(instance: Instance, service: Workload) -> list[list[Relaxation]]:
    """Return the relaxations of a service's rate and of its SLO, each from strong to mild."""
    rate_relaxations, slo_relaxations = [], []
    for factor in RATE_FACTORS:
        lower_rate = replace(service, rate_rps=service.rate_rps * factor)
        words = f"{service.id} at {lower_rate.rate_rps:.5g} instead of {service.rate_rps:.5g} req/s"
        rate_relaxations.append((words, _with_workload(instance, lower_rate)))
    for factor in SLO_FACTORS:
        longer_slo = replace(service, slo_ms=service.slo_ms * factor)
        words = f"{service.id} within {longer_slo.slo_ms:g} instead of {service.slo_ms:g} ms"
        slo_relaxations.append((words, _with_workload(instance, longer_slo)))
    return [rate_relaxations, slo_relaxations]


def _with_workload(instance: Instance, changed: Workload) -> Instance:
    """Return the instance with one workload changed; the other phase of a language-model service has the same rate."""
    workloads = []
    for workload in instance.workloads:
        if workload.id == changed.id:
            workloads.append(changed)
        elif changed.service is not None and workload.service == changed.service:
            workloads.append(replace(workload, rate_rps=changed.rate_rps))
        else:
            workloads.append(workload)
    return replace(instance, workloads=tuple(workloads))


def last_straw(instance: Instance, plan: Plan, seconds: float) -> tuple[str, Plan] | None:
    """Return a relaxation of a service with a large dual that saves a GPU, and its plan; ``None`` if none is found.

    ``plan`` is the best plan of the instance, and ``seconds`` the time limit of all solves together.
    """
    deadline = time.monotonic() + seconds
    dual = solved_here(instance, seconds / 2.0, plan).workload_duals(instance)
    cost_limit = judge(plan, instance).cost_per_hour * (1.0 - 1e-9)

    def cheaper_plan(relaxed_instance: Instance) -> Plan | None:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0.0:
            return None
        new_plan = solved_here(
            relaxed_instance, min(remaining_s, max(_LEAST_SOLVE_S, remaining_s / 3.0)), below=cost_limit
        ).plan
        verdict = None if new_plan is None else judge(new_plan, relaxed_instance)
        return new_plan if verdict is not None and verdict.feasible and verdict.cost_per_hour < cost_limit else None

    for service in candidates(instance, dual):
        for (strong, strong_instance), (mild, mild_instance) in relaxed(instance, service):
            if (saving := cheaper_plan(strong_instance)) is not None:
                milder = cheaper_plan(mild_instance)
                return (strong, saving) if milder is None else (mild, milder)
    return None
