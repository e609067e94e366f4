"""Last straw: a service whose lower rate or longer SLO saves a GPU, proposed by duals, confirmed by solving again."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from bench.fleet.solving import solved_here
from bench.judging.judge import judge
from instances import Instance, Plan, Workload

MOST_CANDIDATES = 3
"""Most services that are tried."""

RATES, SLOS = (0.75, 0.9), (1.5, 1.25)
"""Factors on a service's rate, or else on its SLO, from strong to mild."""

_LEAST_SOLVE_S = 5.0


@dataclass(frozen=True, slots=True)
class Relaxed:
    """An instance in which one service asks for less.

    Attributes
    ----------
    words
        What the service gives up.
    instance
        The instance.
    """

    words: str
    instance: Instance


def candidates(instance: Instance, price: Mapping[str, float]) -> list[Workload]:
    """Return the services with the largest duals, the largest first."""
    dearest = sorted(instance.workloads, key=lambda workload: -price.get(workload.id, 0.0))
    return dearest[:MOST_CANDIDATES]


def relaxed(instance: Instance, service: Workload) -> list[list[Relaxed]]:
    """Return the changes of a service's rate and of its SLO, each from strong to mild."""
    fewer, later = [], []
    for factor in RATES:
        less = replace(service, rate_rps=service.rate_rps * factor)
        words = f"{service.id} at {less.rate_rps:.5g} instead of {service.rate_rps:.5g} req/s"
        fewer.append(Relaxed(words, _with(instance, less)))
    for factor in SLOS:
        slower = replace(service, slo_ms=service.slo_ms * factor)
        words = f"{service.id} within {slower.slo_ms:g} instead of {service.slo_ms:g} ms"
        later.append(Relaxed(words, _with(instance, slower)))
    return [fewer, later]


def _with(instance: Instance, changed: Workload) -> Instance:
    workloads = tuple(changed if each.id == changed.id else each for each in instance.workloads)
    return replace(instance, workloads=workloads)


def last_straw(instance: Instance, plan: Plan, seconds: float) -> tuple[str, Plan] | None:
    """Return a change of one of the dearest services that saves a GPU, and the plan with it; ``None`` without one.

    Parameters
    ----------
    instance, plan
        The instance, and its best plan.
    seconds
        Time limit of all solves.
    """
    deadline = time.monotonic() + seconds
    price = solved_here(instance, seconds / 2.0, plan).prices(instance)
    least = judge(plan, instance).cost_per_hour * (1.0 - 1e-9)

    def cheaper(each: Relaxed) -> Plan | None:
        left_s = deadline - time.monotonic()
        if left_s <= 0.0:
            return None
        found = solved_here(each.instance, min(left_s, max(_LEAST_SOLVE_S, left_s / 3.0)), below=least).plan
        verdict = None if found is None else judge(found, each.instance)
        return found if verdict is not None and verdict.feasible and verdict.cost_per_hour < least else None

    for service in candidates(instance, price):
        for strong, mild in relaxed(instance, service):
            if (saving := cheaper(strong)) is not None:
                milder = cheaper(mild)
                return (strong.words, saving) if milder is None else (mild.words, milder)
    return None
