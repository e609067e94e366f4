"""Random plans whose first workload misses about a wanted fraction of its requests in the steady state."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from bench.plan_simulation import Settings, simulate
from instances import Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Workload, spatial_gpu
from instances.catalogue import gpu_type
from instances.instance import instance_of_services
from instances.misspecification import slowed
from instances.plan import Slot
from instances.services import Service

FRACTIONS = (0.005, 0.008, 0.010, 0.011, 0.015, 0.16)
"""Wanted fractions of missed requests; the last one takes a load of about 1.2."""
V100, A100 = gpu_type("v100"), gpu_type("a100-llm")

PlanAndInstance = tuple[Plan, Instance]
Family = Callable[[float], PlanAndInstance]
"""Function from a factor on the load to a plan and an instance; larger factors make the first workload miss more."""


@dataclass(frozen=True)
class MeasuredProblem:
    """A plan and its instance, the measured fraction that its first workload misses, and its standard error."""

    kind: str
    plan: Plan
    instance: Instance
    missed_fraction: float
    error: float


def log_uniform(random: Random, low: float, high: float) -> float:
    """Return a random number whose logarithm is uniform between those of ``low`` and ``high``."""
    return math.exp(random.uniform(math.log(low), math.log(high)))


def slot_family(random: Random, neighbour: bool) -> Family:
    """One slot, alone or beside another one: SLO 20 ms to 60 s, 2 to 500 req/s, batch 1 to 16."""
    while True:
        rate_rps, slo_ms, batch = (
            log_uniform(random, 2.0, 500.0),
            log_uniform(random, 20.0, 60_000.0),
            random.choice((1, 1, 2, 4, 8, 16)),
        )
        if rate_rps * slo_ms / 1000.0 >= 2.5 * batch:  # a batch fills up within 40 % of the SLO
            break
    names = list(V100.models)
    workloads = [Workload("w", random.choice(names), slo_ms, rate_rps)]
    slots = [("w", 20 if neighbour else 40, batch, rate_rps)]
    if neighbour:
        other_rps = rate_rps * random.uniform(0.3, 0.9)
        workloads.append(Workload("n", workloads[0].model, slo_ms, other_rps))
        slots.append(("n", 20, batch, other_rps))
    pool = (GpuPool(V100, None),)
    asked = Instance("one", Objective.COST, SloRule.ATTAINMENT, "igniter", pool, tuple(workloads))
    plan = Plan("one", (spatial_gpu("v100", slots),))
    alone_ms = float(
        simulate(plan, asked, Settings(seconds=200.0 / rate_rps, warmup_s=0.0, seed=1)).workloads[0].p50_ms or 1.0
    )
    scale = 1000.0 * batch / rate_rps / alone_ms
    return lambda factor: (plan, slowed(asked, factor * scale))


def service_family(random: Random) -> Family:
    """A language-model service with gpulets for prefill and decoding."""
    tokens = random.choice((32, 128, 256)), random.choice((64, 128, 256))
    service = Service("c", "llama-13b", *tokens, log_uniform(random, 500.0, 5_000.0), log_uniform(random, 45.0, 100.0))
    places, batch = random.choice((8, 16, 32)), random.choice((1, 2, 4))
    base_rps = places / (tokens[1] * 0.03)

    def family(factor: float) -> PlanAndInstance:
        rate_rps = base_rps * factor
        slots = (Slot("c/prefill", batch, rate_rps), Slot("c/decode", places, rate_rps))
        gpus = tuple(PlacedGpu("a100-llm", (Gpulet(54, (slot,)),)) for slot in slots)
        return Plan("llm", gpus), instance_of_services(
            "llm", [(service, rate_rps)], [GpuPool(A100)], slo_rule=SloRule.ATTAINMENT, objective=Objective.COST
        )

    return family


def missed_fraction(problem: PlanAndInstance, requests: float, seed: int, backlog: bool = False) -> float:
    """Return the fraction that the first workload misses in a simulation of about ``requests`` of its requests."""
    plan, instance = problem
    seconds = requests / instance.workloads[0].rate_rps
    settings = Settings(seconds=seconds, warmup_s=0.2 * seconds, seed=seed, backlog=backlog)
    return simulate(plan, instance, settings).workloads[0].violation_rate


def proven_fraction(problem: PlanAndInstance) -> float:
    """Return a lower bound on the fraction that the first workload misses in the long run, by its servers' loads."""
    plan, instance = problem
    overloads = simulate(plan, instance, Settings(seconds=1.0, warmup_s=0.0)).overloads
    return max(
        (overload.missed for overload in overloads if instance.workloads[0].id in overload.workloads),
        default=0.0,
    )


def known(random: Random, kind: str, wanted: float) -> MeasuredProblem | None:
    """Return a random problem that misses about ``wanted``; ``None`` if no load between 0.02 and 4 of it does."""
    family = service_family(random) if kind == "service" else slot_family(random, kind == "beside another")
    requests, low, high, seed = (30_000 if kind == "service" else 500_000), 0.02, 4.0, random.randrange(10**6)
    if missed_fraction(family(high), requests, seed) < wanted or missed_fraction(family(low), requests, seed) > wanted:
        return None
    for _ in range(14):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if missed_fraction(family(middle), requests, seed) < wanted else (low, middle)
    problem = family(high)
    long_requests = 1_200_000 if kind == "service" else 3_000_000
    runs = [missed_fraction(problem, long_requests, 100 + number, number % 2 == 1) for number in range(6)]
    # At loads near 1 / 0.99, the bound by the loads is more precise than the simulations.
    measured = max(float(np.mean(runs)), proven_fraction(problem))
    return MeasuredProblem(kind, *problem, measured, float(np.std(runs, ddof=1)) / math.sqrt(len(runs)))
