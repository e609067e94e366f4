"""Last straw: a service whose lower rate or longer SLO saves a GPU, proposed by duals, confirmed by solving again."""

import time
from collections.abc import Mapping
from dataclasses import replace

from bench.fleet.solving import solved_here
from bench.judging.judge import judge
from instances import Instance, Plan, Workload

MOST_CANDIDATES = 3
"""Largest number of services that are tried."""

RATES, SLOS = (0.75, 0.9), (1.5, 1.25)
"""Factors on a service's rate, or else on its SLO, from strong to mild."""

_LEAST_SOLVE_S = 5.0


Relaxation = tuple[str, Instance]
"""Lower rate or longer SLO of one service in words, and the instance with it."""


def candidates(instance: Instance, price: Mapping[str, float]) -> list[Workload]:
    """Return the services with the largest duals, the largest first."""
    dearest = sorted(instance.workloads, key=lambda workload: -price.get(workload.id, 0.0))
    return dearest[:MOST_CANDIDATES]


def relaxed(instance: Instance, service: Workload) -> list[list[Relaxation]]:
    """Return the relaxations of a service's rate and of its SLO, each from strong to mild."""
    fewer, later = [], []
    for factor in RATES:
        less = replace(service, rate_rps=service.rate_rps * factor)
        words = f"{service.id} at {less.rate_rps:.5g} instead of {service.rate_rps:.5g} req/s"
        fewer.append((words, _with(instance, less)))
    for factor in SLOS:
        slower = replace(service, slo_ms=service.slo_ms * factor)
        words = f"{service.id} within {slower.slo_ms:g} instead of {service.slo_ms:g} ms"
        later.append((words, _with(instance, slower)))
    return [fewer, later]


def _with(instance: Instance, changed: Workload) -> Instance:
    workloads = tuple(changed if each.id == changed.id else each for each in instance.workloads)
    return replace(instance, workloads=workloads)


def last_straw(instance: Instance, plan: Plan, seconds: float) -> tuple[str, Plan] | None:
    """Return a relaxation of one of the dearest services that saves a GPU, and its plan; ``None`` without one.

    ``plan`` is the best plan of the instance, and ``seconds`` the time limit of all solves together.
    """
    deadline = time.monotonic() + seconds
    price = solved_here(instance, seconds / 2.0, plan).prices(instance)
    least = judge(plan, instance).cost_per_hour * (1.0 - 1e-9)

    def cheaper(relaxation: Instance) -> Plan | None:
        left_s = deadline - time.monotonic()
        if left_s <= 0.0:
            return None
        found = solved_here(relaxation, min(left_s, max(_LEAST_SOLVE_S, left_s / 3.0)), below=least).plan
        verdict = None if found is None else judge(found, relaxation)
        return found if verdict is not None and verdict.feasible and verdict.cost_per_hour < least else None

    for service in candidates(instance, price):
        for (strong, strong_instance), (mild, mild_instance) in relaxed(instance, service):
            if (saving := cheaper(strong_instance)) is not None:
                milder = cheaper(mild_instance)
                return (strong, saving) if milder is None else (mild, milder)
    return None
