"""Tiny instances on GPUs that are cut into MIG instances, and their optima by brute force.

The brute force tries every set of GPUs, every layout and every assignment of MIG instances. It shares no code with the
scheduler ``mig``, the checker of certificates or ``instances.mig.layouts``.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, combinations_with_replacement, product
from random import Random

from instances import (
    GpuPool,
    GpuType,
    Instance,
    MigConfiguration,
    MigProfile,
    MigSlice,
    Objective,
    SloRule,
    Workload,
)
from instances.gpu import ISOLATED
from instances.mig import MIG_TABLE
from tests.instances.reference import INVENTED

# Three positions: 1s anywhere, a 2 at 0 that blocks all of them, or the whole.
SLICES = (MigSlice(1, 1, (0, 1, 2)), MigSlice(2, 3, (0,)), MigSlice(3, 3, (0,)))

# As on an A30: 1s anywhere, 2s at 0 and 2, or the whole.
FOURTHS = (MigSlice(1, 1, (0, 1, 2, 3)), MigSlice(2, 2, (0, 2)), MigSlice(4, 4, (0,)))

# A 1 that begins at one place alone, and a 2 that blocks a position behind it at one of its places
BLOCKED = (MigSlice(1, 1, (2, 3)), MigSlice(2, 3, (0, 2)), MigSlice(3, 4, (0,)))

Kind = tuple[int, int]
"""Kind of MIG instance: position of its GPU type, and its units."""


def tiny_gpu(name: str, price: float, rates: Sequence[Sequence[float]]) -> GpuType:
    """A GPU on which model ``m<i>`` serves ``rates[i]`` requests per second in instances of 1, 2 and 3."""
    models = {
        f"m{model}": tuple(
            MigConfiguration(units, 1, 1, rate, 10.0) for units, rate in enumerate(row, start=1) if rate > 0.0
        )
        for model, row in enumerate(rates)
    }
    return GpuType(name, 3, 1000.0, price, ISOLATED, {}, INVENTED, mig=MigProfile(SLICES, models))


def tiny_instance(pools: Sequence[GpuPool], demands: Sequence[float]) -> Instance:
    workloads = tuple(Workload(f"w{m}", f"m{m}", 20.0, rate) for m, rate in enumerate(demands))
    return Instance("tiny", Objective.COST, SloRule.HALF_SLO, MIG_TABLE, tuple(pools), workloads)


def random_tiny(random: Random, bounded: bool) -> Instance:
    """One or two types of GPU, one to three workloads; anything serves at least a bit in the whole."""
    models = random.randint(1, 3)
    pools = []
    for number in range(random.randint(1, 2)):
        rates = []
        for _ in range(models):
            row = sorted(round(random.uniform(0.0, 20.0), 1) for _ in range(3))
            row[0] *= random.random() < 0.7
            rates.append(row)
        gpu = tiny_gpu(f"tiny{number}", random.choice([1.0, 1.5, 2.0]), rates)
        pools.append(GpuPool(gpu, random.randint(1, 2) if bounded else None))
    return tiny_instance(pools, [round(random.uniform(1.0, 35.0), 1) for _ in range(models)])


def random_processes(random: Random) -> Instance:
    """One or two types of GPU with sizes of their own, up to four workloads, batches and processes to choose from.

    Some configurations are late, some sizes serve no model, some workloads are identical, and some pools are bounded.
    """
    models = [f"m{number}" for number in range(random.randint(1, 3))]
    pools = []
    for number in range(random.randint(1, 2)):
        slices = random.choice((SLICES, FOURTHS, BLOCKED))
        profile = MigProfile(slices, {model: tuple(_configurations(random, slices)) for model in models})
        price = random.choice((1.0, 1.5, 2.0, 2.9, 1 / 3))
        gpu = GpuType(f"cut{number}", 4, 1000.0, price, ISOLATED, {}, INVENTED, mig=profile)
        pools.append(GpuPool(gpu, random.choice((None, 1, 2))))
    workloads = [
        Workload(f"w{n}", random.choice(models), random.choice((30.0, 60.0, 90.0)), round(random.uniform(1.0, 18.0), 1))
        for n in range(random.randint(1, 3))
    ]
    if random.random() < 0.3:
        workloads.append(replace(workloads[0], id="copy"))
    return Instance(
        "cut",
        Objective.COST,
        SloRule.HALF_SLO,
        MIG_TABLE,
        tuple(pools),
        tuple(workloads),
        latency_buffer=random.choice((1.0, 1.1)),
    )


def _configurations(random: Random, slices: Sequence[MigSlice]) -> Iterator[MigConfiguration]:
    for slice_ in slices:
        for batch in range(1, random.randint(0, 2) + 1):
            for processes in range(1, random.randint(1, 2) + 1):
                rate_rps = round(random.uniform(3.0, 9.0) * slice_.units * processes**0.5, 2)
                latency_ms = round(random.uniform(3.0, 15.0) * batch * processes, 1)
                yield MigConfiguration(slice_.units, batch, processes, rate_rps, latency_ms)


# --- Brute force ---


def cheapest(instance: Instance, most: int = 6) -> float | None:
    """Least cost over all sets of at most ``most`` GPUs, each cut in any way, every instance given to anyone."""
    cuts = [(p, layout) for p, pool in enumerate(instance.gpus) for layout in layouts_of(pool.type)]
    sets = [chosen for size in range(most + 1) for chosen in combinations_with_replacement(cuts, size)]
    price = [pool.type.price_per_hour for pool in instance.gpus]
    for chosen in sorted(sets, key=lambda chosen: sum(price[p] for p, _ in chosen)):
        number = Counter(p for p, _ in chosen)
        if any(pool.count is not None and number[p] > pool.count for p, pool in enumerate(instance.gpus)):
            continue
        if servable(instance, Counter((p, units) for p, layout in chosen for units in layout), 0):
            return sum(price[p] for p, _ in chosen)
    return None


def layouts_of(gpu: GpuType) -> list[tuple[int, ...]]:
    """The units of the MIG instances of every layout that no other layout contains."""
    assert gpu.mig is not None
    places = [(start, size) for size in gpu.mig.slices for start in size.starts]
    every = {
        tuple(sorted(size.units for _, size in chosen))
        for number in range(len(places) + 1)
        for chosen in combinations(places, number)
        if placeable(chosen)
    }
    return sorted(
        one for one in every if not any(one != other and not Counter(one) - Counter(other) for other in every)
    )


def placeable(chosen: Sequence[tuple[int, MigSlice]]) -> bool:
    taken = list(chain.from_iterable(range(start, start + size.span) for start, size in chosen))
    return len(taken) == len(set(taken))


def servable(instance: Instance, free: Counter[Kind], workload: int) -> bool:
    if workload == len(instance.workloads):
        return True
    asked = instance.workloads[workload]
    kinds = sorted(free)
    rates = [rate_of(instance, kind, asked) for kind in kinds]
    for numbers in product(*(range(free[kind] + 1 if rate else 1) for kind, rate in zip(kinds, rates, strict=True))):
        served = math.fsum(number * rate for number, rate in zip(numbers, rates, strict=True))
        if served >= asked.rate_rps - 1e-12:
            taken = Counter(dict(zip(kinds, numbers, strict=True)))
            if servable(instance, Counter(free) - taken, workload + 1):
                return True
    return False


def rate_of(instance: Instance, kind: Kind, asked: Workload) -> float:
    """The most that a MIG instance serves of a workload, over all batches and numbers of processes in time."""
    profile = instance.gpus[kind[0]].type.mig
    assert profile is not None
    buffer = instance.latency_buffer
    return max(
        (
            one.throughput_rps / buffer
            for one in profile.models[asked.model]
            if one.units == kind[1] and buffer * one.latency_ms <= asked.slo_ms / 2.0
        ),
        default=0.0,
    )
