"""Instances at the edge of feasibility, and their least cost by brute force.

Memory is full, latencies are at the last bit of a budget, shares add up to the whole GPU, and prices and workloads are
equal. Brute force tries every content of a GPU, and the judge decides whether it is feasible.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import combinations, product
from random import Random

import numpy as np

from bench.judging.judge import judge
from instances import Gpulet, GpuPool, GpuType, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from instances.catalogue import gpu_type
from instances.tables import gpu_tables
from instances.tolerance import TOLERANCE
from tests.formulations.exhaustive import small_batches

MOST_BATCH = 2
"""Largest batch of every model, so that brute force stays quick."""

RULES = (SloRule.HALF_SLO, SloRule.DUTY_CYCLE)
"""SLO rules of the instances; under ``assembly``, brute force would have to try higher rates as well."""


@dataclass(frozen=True)
class Content:
    """Residents of a GPU by position, with the batch and the share of each."""

    members: tuple[int, ...]
    batches: tuple[int, ...]
    units: tuple[int, ...]


def placed(instance: Instance, gpu: GpuType, content: Content) -> PlacedGpu:
    gpulets = []
    for w, batch, units in zip(content.members, content.batches, content.units, strict=True):
        workload = instance.workloads[w]
        gpulets.append(Gpulet(units, (Slot(workload.id, batch, workload.rate_rps),)))
    return PlacedGpu(gpu.name, tuple(gpulets))


def feasible(instance: Instance, gpu: GpuType, content: Content) -> bool:
    """Return whether the judge accepts the GPU as a plan for its own residents."""
    of_residents = replace(
        instance,
        workloads=tuple(instance.workloads[w] for w in content.members),
        gpus=tuple(pool for pool in instance.gpus if pool.type is gpu),
    )
    return judge(Plan(instance.name, (placed(instance, gpu, content),)), of_residents).feasible


def contents(gpu: GpuType, members: tuple[int, ...]) -> Iterator[Content]:
    """Yield every choice of batches and shares for these residents whose shares fit on the GPU."""
    shares = range(1, gpu.share_units + 1)
    for units in product(shares, repeat=len(members)):
        if sum(units) <= gpu.share_units:
            for batches in product(range(1, MOST_BATCH + 1), repeat=len(members)):
                yield Content(members, batches, units)


def least_cost(instance: Instance) -> float | None:
    """Return the cost of the cheapest plan that the judge accepts, or ``None`` if it accepts none."""

    @cache
    def fits(pool: int, members: tuple[int, ...]) -> bool:
        gpu = instance.gpus[pool].type
        if len(members) > gpu_tables(gpu, instance.performance_model).most_residents:
            return False
        if members and not all(fits(pool, subset) for subset in combinations(members, len(members) - 1)):
            return False
        return any(feasible(instance, gpu, content) for content in contents(gpu, members))

    @cache
    def least(unplaced: tuple[int, ...], free: tuple[int, ...]) -> float:
        """Return the least price of GPUs for the ``unplaced`` workloads, from ``free`` GPUs of each type."""
        if not unplaced:
            return 0.0
        least_price = float("inf")
        for pool, count in enumerate(free):
            for size in range(len(unplaced)) if count else ():
                for others in combinations(unplaced[1:], size):
                    members = (unplaced[0], *others)
                    if fits(pool, members):
                        still_unplaced = tuple(w for w in unplaced if w not in members)
                        fewer = (*free[:pool], count - 1, *free[pool + 1 :])
                        price = instance.gpus[pool].type.price_per_hour + least(still_unplaced, fewer)
                        least_price = min(least_price, price)
        return least_price

    workloads = tuple(range(len(instance.workloads)))
    cost = least(workloads, tuple(len(workloads) if pool.count is None else pool.count for pool in instance.gpus))
    return None if cost == float("inf") else cost


def on_the_edge(random: Random) -> Instance:
    """Draw an instance whose memory, or an SLO or rate, is changed so that one content of a GPU is just feasible."""
    model = random.choice(("igniter", "inss", "hybrid", "gpulet"))
    base = small_batches(replace(gpu_type(random.choice(("v100", "t4"))), share_units=random.randint(3, 5)), MOST_BATCH)
    names = random.sample(sorted(base.models), 3)
    memory = {name: Decimal(random.randint(3001, 9999)) / 10 ** random.randint(0, 2) for name in names}
    per_item = {name: Decimal(random.randint(1, 999)) / 10 ** random.randint(1, 3) for name in names}
    models = {
        name: replace(base.models[name], memory_base_mib=float(memory[name]), memory_per_item_mib=float(per_item[name]))
        for name in names
    }
    base = replace(base, name="edge", models=models)
    count = random.randint(2, 4)
    chosen = [random.choice(names) for _ in range(count)]
    content = Content(tuple(range(count)), tuple(random.randint(1, 2) for _ in chosen), _shares(random, base, count))
    workloads = tuple(
        Workload(f"w{n}", name, random.uniform(40.0, 200.0), random.uniform(1.0, 40.0)) for n, name in enumerate(chosen)
    )
    if random.random() < 0.3:  # equal workloads
        workloads = (workloads[0], *(replace(workloads[0], id=w.id) for w in workloads[1:2]), *workloads[2:])
    rule, buffer = random.choice(RULES), random.choice((1.0, 1.0, 1.1))
    memory_of_content = sum(
        (memory[w.model] + per_item[w.model] * b for w, b in zip(workloads, content.batches, strict=True)), Decimal(0)
    )
    if random.random() < 0.5:
        base = replace(base, memory_mib=float(memory_of_content))
    pools = [GpuPool(base, random.choice((None, 1, 2)))]
    if random.random() < 0.4:  # equal prices
        pools.append(GpuPool(replace(base, name="twin", memory_mib=base.memory_mib * random.choice((1.0, 2.0))), 2))
    drawn = Instance("edge", Objective.COST, rule, model, tuple(pools), workloads, latency_buffer=buffer)
    if random.random() < 0.8:
        drawn = _at_a_budget(random, drawn, content)
    if random.random() < 0.5:
        drawn = replace(drawn, workloads=drawn.workloads[::-1])
    return drawn


def _shares(random: Random, gpu: GpuType, count: int) -> tuple[int, ...]:
    """Draw shares that add up to the whole GPU where there are enough units."""
    cuts = sorted(random.sample(range(1, gpu.share_units), min(count, gpu.share_units) - 1))
    units = np.diff([0, *cuts, gpu.share_units]).tolist()
    return tuple(units + [1] * (count - len(units)))


def _at_a_budget(random: Random, instance: Instance, content: Content) -> Instance:
    """Change the SLO or the rate of one workload so that ``content`` meets its latency budget up to the last bits."""
    gpu = instance.gpus[0].type
    one_type = replace(instance, gpus=instance.gpus[:1])
    slots = judge(Plan(instance.name, (placed(one_type, gpu, content),)), one_type).slots
    if len(slots) < len(content.members):
        return instance
    position = random.randrange(len(slots))
    slot, workload = slots[position], instance.workloads[position]
    batch = content.batches[position]
    if not slot.t_gpu_ms < 1e6:
        return instance
    # The judge tolerates a relative excess of TOLERANCE, so the edge is at the budget or that much below the latency.
    factor = instance.latency_buffer / (1.0 + random.choice((0.0, TOLERANCE)))
    if random.random() < 0.5:
        rate_rps = _last_bits(random, 1000.0 * batch / (factor * slot.t_inf_ms))
        workload = replace(workload, rate_rps=rate_rps, slo_ms=10.0 * slot.t_inf_ms)
    else:
        slo_ms = _last_bits(random, 2.0 * factor * slot.t_inf_ms)
        workload = replace(workload, slo_ms=slo_ms, rate_rps=min(workload.rate_rps, 300.0 / slot.t_inf_ms))
    before, after = instance.workloads[:position], instance.workloads[position + 1 :]
    return replace(instance, workloads=(*before, workload, *after))


def _last_bits(random: Random, value: float) -> float:
    """Return a float at most three steps above or below ``value``."""
    for _ in range(random.randint(0, 3)):
        value = float(np.nextafter(value, random.choice((0.0, np.inf))))
    return value
