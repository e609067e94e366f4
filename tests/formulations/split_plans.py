"""Best split plans of tiny instances by trying every content of a GPU, for comparison with column generation.

It is plain Python on top of the one-GPU reference. A slot may have any batch and share, and a workload any number of
slots on one GPU. Each slot serves the largest rate at which its rule holds. The rate is found by bisection; under
``assembly``, where a batch may also fill too slowly, by trying many rates. Of a content only the parts of the workloads
that it covers matter, so contents that cover no more than another are dropped.
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
"""Number of GPUs that suffices for every instance of ``tiny``."""

RATES = 200
"""Number of rates that are tried under ``assembly``."""

HALVINGS = 50
"""Bisection steps for a rate."""

Cover = tuple[float, ...]
"""Part of each workload that is served."""

SlotChoice = tuple[int, int, int]
"""Workload, batch and share of a slot."""


def tiny(seed: int, objective: Objective) -> Instance:
    """Return an instance of one to three workloads that need up to two GPUs each, on one or two types."""
    random = Random(seed)
    # Each workload is drawn for a part of a GPU. Some then need more than a whole GPU, because their rates are raised.
    drawn = draw_workloads(random, TINY, 1 + seed % 3, (0.2, 0.9))
    workloads = [replace(w, rate_rps=round(w.rate_rps * random.choice((0.5, 0.8, 1.7)), 1)) for w in drawn]
    if random.random() < 0.2:
        workloads[-1] = replace(workloads[0], id=workloads[-1].id)
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
        tuple(workloads),
        latency_buffer=random.choice((1.0, 1.1)),
    )


def part_served(instance: Instance, gpu: GpuType, workload: int, batch: int, time_ms: float) -> float:
    """Return the largest part of its workload's rate, at most all of it, at which a slot's rule holds."""
    whole_rps = instance.workloads[workload].rate_rps

    def holds(part: float) -> bool:
        return time_ms <= budget_ms(instance, gpu, workload, batch, part * whole_rps)

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


def contents(instance: Instance, gpu: GpuType) -> Iterator[tuple[tuple[SlotChoice, ...], Cover]]:
    """Yield every content of one GPU whose slots all serve something, and what it covers."""
    models = [gpu.models[workload.model] for workload in instance.workloads]
    slots = [
        (w, batch, units)
        for w, model in enumerate(models)
        for batch, units in product(range(1, model.max_batch + 1), permitted(gpu))
    ]

    def extend(first: int, chosen: tuple[SlotChoice, ...], free: int) -> Iterator[tuple[tuple[SlotChoice, ...], Cover]]:
        for number in range(first, len(slots)):
            _, _, units = slots[number]
            if units > free:
                continue
            longer = (*chosen, slots[number])
            tenants = [Tenant(models[w], batch, inf) for w, batch, _ in longer]
            if sum(t.model.memory_mib(t.batch) for t in tenants) > gpu.memory_mib:
                continue
            times = gpu_times_ms(gpu, tenants, [share for _, _, share in longer])
            parts = [part_served(instance, gpu, w, b, t) for (w, b, _), t in zip(longer, times, strict=True)]
            if min(parts) > 0.0:  # otherwise a slot serves nothing, and more slots would only slow it down
                covered = [0.0] * len(models)
                for (w, _, _), part in zip(longer, parts, strict=True):
                    covered[w] = min(1.0, covered[w] + part)
                yield longer, tuple(covered)
                yield from extend(number, longer, free - units)

    yield from extend(0, (), gpu.share_units)


def undominated(covers: set[Cover]) -> set[Cover]:
    """Return the covers that no other cover reaches or exceeds in every workload."""
    best: list[Cover] = []
    for cover in sorted(covers, key=sum, reverse=True):
        if not any(all(a >= b for a, b in zip(other, cover, strict=True)) for other in best):
            best.append(cover)
    return set(best)


def reachable(instance: Instance, most_gpus: int) -> Iterator[tuple[float, set[Cover]]]:
    """Yield the price of every choice of at most ``most_gpus`` GPUs, and what these GPUs can cover."""
    nothing = (0.0,) * len(instance.workloads)
    one_gpu = [undominated({cover for _, cover in contents(instance, p.type)} | {nothing}) for p in instance.gpus]
    covers_of: dict[tuple[int, ...], set[Cover]] = {(0,) * len(one_gpu): {nothing}}  # by number of GPUs of each type
    counts = [range((most_gpus if p.count is None else min(p.count, most_gpus)) + 1) for p in instance.gpus]
    for used in sorted(product(*counts), key=sum):
        if sum(used) > most_gpus:
            continue
        if any(used):
            t = next(t for t, n in enumerate(used) if n)
            without_one = covers_of[(*used[:t], used[t] - 1, *used[t + 1 :])]
            covers_of[used] = undominated(
                {
                    tuple(min(1.0, a + b) for a, b in zip(cover, added, strict=True))
                    for cover in without_one
                    for added in one_gpu[t]
                }
            )
        yield sum(n * p.type.price_per_hour for n, p in zip(used, instance.gpus, strict=True)), covers_of[used]


def least_cost(instance: Instance, most_gpus: int) -> float | None:
    """Return the least price of at most ``most_gpus`` GPUs that serve all workloads, or ``None`` if none do."""
    prices = [
        price for price, covers in reachable(instance, most_gpus) if any(min(cover) >= 1.0 - 1e-9 for cover in covers)
    ]
    return min(prices, default=None)


def most_goodput(instance: Instance) -> float:
    """Return the most requests per second served on a bounded pool."""
    rates = [workload.rate_rps for workload in instance.workloads]
    gpu_count = sum(pool.count or 0 for pool in instance.gpus)
    return max(
        sum(part * rate for part, rate in zip(cover, rates, strict=True))
        for _, covers in reachable(instance, gpu_count)
        for cover in covers
    )
