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

# Three positions. Size 1 fits anywhere, size 2 starts at 0 and blocks all positions, and size 3 is the whole GPU.
SLICES = (MigSlice(1, 1, (0, 1, 2)), MigSlice(2, 3, (0,)), MigSlice(3, 3, (0,)))

# Four positions, as on an A30. Size 1 fits anywhere, size 2 starts at 0 or 2, and size 4 is the whole GPU.
FOURTHS = (MigSlice(1, 1, (0, 1, 2, 3)), MigSlice(2, 2, (0, 2)), MigSlice(4, 4, (0,)))

# Four positions. Size 1 starts only at 2 or 3. Size 2 spans three positions, so at start 2 it reaches beyond the end.
BLOCKED = (MigSlice(1, 1, (2, 3)), MigSlice(2, 3, (0, 2)), MigSlice(3, 4, (0,)))

Kind = tuple[int, int]
"""Kind of MIG instance: position of its GPU type, and its units."""


def tiny_gpu(name: str, price: float, rates: Sequence[Sequence[float]]) -> GpuType:
    """Return a GPU type on which model ``m<i>`` serves ``rates[i]`` requests per second in sizes 1, 2 and 3."""
    models = {
        f"m{model}": tuple(
            MigConfiguration(units, 1, 1, rate, 10.0) for units, rate in enumerate(row, start=1) if rate > 0.0
        )
        for model, row in enumerate(rates)
    }
    return GpuType(name, 3, 1000.0, price, ISOLATED, {}, INVENTED, mig=MigProfile(SLICES, models))


def tiny_instance(pools: Sequence[GpuPool], demands: Sequence[float]) -> Instance:
    """Return an instance with a workload of each model ``m<i>`` at the rate ``demands[i]``."""
    workloads = tuple(Workload(f"w{m}", f"m{m}", 20.0, rate) for m, rate in enumerate(demands))
    return Instance("tiny", Objective.COST, SloRule.HALF_SLO, MIG_TABLE, tuple(pools), workloads)


def random_tiny(random: Random, bounded: bool) -> Instance:
    """Return an instance of one to three workloads on one or two GPU types; the whole GPU serves every workload."""
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
    """Return an instance of up to four workloads on one or two GPU types, with several batches and process counts.

    The GPU types differ in their sizes of MIG instances. Some configurations are late, some sizes serve no model, some
    workloads are identical, and some pools are bounded.
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
    """Return the least cost over all sets of at most ``most`` GPUs, layouts and assignments; ``None`` if none fits."""
    cut_gpus = [(p, layout) for p, pool in enumerate(instance.gpus) for layout in layouts_of(pool.type)]
    sets = [chosen for size in range(most + 1) for chosen in combinations_with_replacement(cut_gpus, size)]
    price = [pool.type.price_per_hour for pool in instance.gpus]
    for chosen in sorted(sets, key=lambda chosen: sum(price[p] for p, _ in chosen)):
        gpu_count = Counter(p for p, _ in chosen)
        if any(pool.count is not None and gpu_count[p] > pool.count for p, pool in enumerate(instance.gpus)):
            continue
        if servable(instance, Counter((p, units) for p, layout in chosen for units in layout), 0):
            return sum(price[p] for p, _ in chosen)
    return None


def layouts_of(gpu: GpuType) -> list[tuple[int, ...]]:
    """Return the units of the MIG instances of every layout that no other layout contains."""
    assert gpu.mig is not None
    placements = [(start, size) for size in gpu.mig.slices for start in size.starts]
    layouts = {
        tuple(sorted(size.units for _, size in chosen))
        for number in range(len(placements) + 1)
        for chosen in combinations(placements, number)
        if placeable(chosen)
    }

    def is_contained(layout: tuple[int, ...]) -> bool:
        others = (other for other in layouts if other != layout)
        return any(not Counter(layout) - Counter(other) for other in others)

    return sorted(layout for layout in layouts if not is_contained(layout))


def placeable(chosen: Sequence[tuple[int, MigSlice]]) -> bool:
    """Return whether MIG instances of these starts and sizes do not overlap."""
    taken = list(chain.from_iterable(range(start, start + size.span) for start, size in chosen))
    return len(taken) == len(set(taken))


def servable(instance: Instance, free: Counter[Kind], workload: int) -> bool:
    """Return whether the ``free`` MIG instances can serve the workloads from position ``workload`` on."""
    if workload == len(instance.workloads):
        return True
    kinds = sorted(free)
    rates = [rate_of(instance, kind, instance.workloads[workload]) for kind in kinds]
    for numbers in product(*(range(free[kind] + 1 if rate else 1) for kind, rate in zip(kinds, rates, strict=True))):
        served = math.fsum(number * rate for number, rate in zip(numbers, rates, strict=True))
        if served >= instance.workloads[workload].rate_rps - 1e-12:
            taken = Counter(dict(zip(kinds, numbers, strict=True)))
            if servable(instance, Counter(free) - taken, workload + 1):
                return True
    return False


def rate_of(instance: Instance, kind: Kind, workload: Workload) -> float:
    """Return the largest rate that a MIG instance serves of a workload in time, over all configurations."""
    pool, units = kind
    profile = instance.gpus[pool].type.mig
    assert profile is not None
    buffer = instance.latency_buffer
    return max(
        (
            configuration.throughput_rps / buffer
            for configuration in profile.models[workload.model]
            if configuration.units == units and buffer * configuration.latency_ms <= workload.slo_ms / 2.0
        ),
        default=0.0,
    )
