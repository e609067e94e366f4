"""The best split plans of tiny instances by trying every content of a GPU: what column generation must agree with.

Plain Python on top of the one-GPU reference. A slot may have any batch and share, a workload any number of slots on one
GPU; each serves the largest rate at which its rule holds, found by halving (``assembly``, where a batch may also fill
too slowly, by trying many rates). What a GPU covers of each workload is all that matters then, and only the contents
that no other covers as much as are kept.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf
from random import Random

from instances import GpuPool, GpuType, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from tests.formulations.exhaustive import STEPS, budget_ms, draw_workloads, slower, small_batches
from tests.instances.reference import Tenant, gpu_times_ms, permitted

TINY = small_batches(replace(gpu_type("v100"), name="tiny", share_units=5), 3)
RULES = (SloRule.HALF_SLO, SloRule.DUTY_CYCLE, SloRule.ASSEMBLY)
MOST_GPUS = 4

RATES = 200
"""Rates that are tried under ``assembly``."""

HALVINGS = 50

Cover = tuple[float, ...]
"""Part of each workload that is served."""

Seat = tuple[int, int, int]
"""Workload, batch and share of a slot."""


def tiny(seed: int, objective: Objective) -> Instance:
    """One to three workloads that need up to two GPUs each, on one or two types."""
    random = Random(seed)
    # Each workload is drawn for a part of a GPU, and some then ask for more than all of one.
    drawn = draw_workloads(random, TINY, 1 + seed % 3, (0.2, 0.9))
    asked = [replace(w, rate_rps=round(w.rate_rps * random.choice((0.5, 0.8, 1.7)), 1)) for w in drawn]
    if random.random() < 0.2:
        asked[-1] = replace(asked[0], id=asked[-1].id)
    pools = [GpuPool(TINY, 2 if objective is Objective.GOODPUT else None)]
    if random.random() < 0.3:
        slow = slower(TINY, "slow", 1.3, 2.2)
        pools.append(GpuPool(slow, 1))
    return Instance(
        f"tiny-{seed}",
        objective,
        RULES[seed // 3 % 3],
        "igniter",
        tuple(pools),
        tuple(asked),
        latency_buffer=random.choice((1.0, 1.1)),
    )


def part_served(instance: Instance, gpu: GpuType, workload: int, batch: int, time_ms: float) -> float:
    """Largest part of its workload's rate, at most all of it, at which a slot's rule holds."""
    asked = instance.workloads[workload].rate_rps

    def holds(part: float) -> bool:
        return time_ms <= budget_ms(instance, gpu, workload, batch, part * asked)

    if instance.objective is Objective.GOODPUT:
        return next((step / STEPS for step in range(STEPS, 0, -1) if holds(step / STEPS)), 0.0)
    if instance.slo_rule is SloRule.ASSEMBLY:
        return next((step / RATES for step in range(RATES, 0, -1) if holds(step / RATES)), 0.0)
    low, high = 0.0, 1.0
    if holds(high):
        return 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def contents(instance: Instance, gpu: GpuType) -> Iterator[tuple[tuple[Seat, ...], Cover]]:
    """Every content of one GPU whose slots all serve something, and what it covers."""
    models = [gpu.models[workload.model] for workload in instance.workloads]
    seats = [
        (w, batch, units)
        for w, model in enumerate(models)
        for batch, units in product(range(1, model.max_batch + 1), permitted(gpu))
    ]

    def extend(first: int, group: tuple[Seat, ...], free: int) -> Iterator[tuple[tuple[Seat, ...], Cover]]:
        for number in range(first, len(seats)):
            if seats[number][2] > free:
                continue
            longer = (*group, seats[number])
            tenants = [Tenant(models[w], batch, inf) for w, batch, _ in longer]
            if sum(t.model.memory_mib(t.batch) for t in tenants) > gpu.memory_mib:
                continue
            times = gpu_times_ms(gpu, tenants, [units for _, _, units in longer])
            parts = [part_served(instance, gpu, w, b, t) for (w, b, _), t in zip(longer, times, strict=True)]
            if min(parts) > 0.0:  # others would only slow it down further
                covered = [0.0] * len(models)
                for (w, _, _), part in zip(longer, parts, strict=True):
                    covered[w] = min(1.0, covered[w] + part)
                yield longer, tuple(covered)
                yield from extend(number, longer, free - seats[number][2])

    yield from extend(0, (), gpu.share_units)


def undominated(covers: set[Cover]) -> set[Cover]:
    kept: list[Cover] = []
    for cover in sorted(covers, key=sum, reverse=True):
        if not any(all(a >= b for a, b in zip(other, cover, strict=True)) for other in kept):
            kept.append(cover)
    return set(kept)


def reachable(instance: Instance, most_gpus: int) -> Iterator[tuple[float, set[Cover]]]:
    """Coverable parts by number of GPUs of each type, up to a total number, with the price."""
    nobody = (0.0,) * len(instance.workloads)
    of_type = [undominated({cover for _, cover in contents(instance, p.type)} | {nobody}) for p in instance.gpus]
    known: dict[tuple[int, ...], set[Cover]] = {(0,) * len(of_type): {nobody}}
    counts = [range((most_gpus if p.count is None else min(p.count, most_gpus)) + 1) for p in instance.gpus]
    for used in sorted(product(*counts), key=sum):
        if sum(used) > most_gpus:
            continue
        if any(used):
            t = next(t for t, n in enumerate(used) if n)
            before = known[(*used[:t], used[t] - 1, *used[t + 1 :])]
            known[used] = undominated(
                {
                    tuple(min(1.0, a + b) for a, b in zip(one, other, strict=True))
                    for one in before
                    for other in of_type[t]
                }
            )
        yield sum(n * p.type.price_per_hour for n, p in zip(used, instance.gpus, strict=True)), known[used]


def least_cost(instance: Instance, most_gpus: int) -> float | None:
    """Least price of at most so many GPUs that serve everything, or None."""
    enough = [
        price
        for price, covers in reachable(instance, most_gpus)
        if any(all(part >= 1.0 - 1e-9 for part in cover) for cover in covers)
    ]
    return min(enough, default=None)


def most_goodput(instance: Instance) -> float:
    """Most requests per second served on the pool."""
    rates = [workload.rate_rps for workload in instance.workloads]
    most = sum(pool.count or 0 for pool in instance.gpus)
    return max(
        sum(part * rate for part, rate in zip(cover, rates, strict=True))
        for _, covers in reachable(instance, most)
        for cover in covers
    )
