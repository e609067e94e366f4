"""The optimum of tiny instances under budgets by share, by trying every content of a GPU: what exact methods match.

Times are those of the one-GPU reference (of the kernel, under models other than iGniter's); budgets are those of the
instance. A content is any set of slots, each of any batch and share that the GPU permits: no share is left out because
a smaller one holds, no batch because another is better. A slot serves the largest part of its workload's rate at which
its budget holds, in twentieths: budgets fall with the rate, so it may also serve less. After that only the parts matter
that a GPU covers, and of those only the ones that no other content covers as well.

``split`` names the workloads that several slots may serve in parts; the others have one slot. With ``twice`` a split
workload may have several slots on one GPU.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import fsum, inf
from random import Random

import numpy as np

from bench.judging.judge import judge
from instances import PART_STEPS, GpuPool, GpuType, Instance, Objective, Plan, SloRule, Workload
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.interference import gpu_times_ms
from instances.plan import spatial_gpu
from instances.view import View
from tests.formulations.exhaustive import best_partition, small_batches
from tests.instances import reference
from tests.instances.reference import Tenant, permitted

V100 = gpu_type("v100")
FEW = replace(small_batches(V100, 4), name="few", share_units=6)
GAPS = replace(small_batches(V100, 3), name="gaps", share_units=20, allowed_shares=(3, 5, 8, 10, 12, 15, 20))
CHEAP = replace(FEW, name="cheap", price_per_hour=2.0, memory_mib=3500.0)

Slot = tuple[int, int, int]
"""Workload, batch and share."""

Cover = tuple[int, ...]
"""Twentieths of each workload that are served."""

Content = tuple[tuple[Slot, int], ...]
"""Slots, and the twentieths that each serves."""


def draw(seed: int, objective: Objective, most: int = 4) -> Instance:
    """A tiny instance under ``attainment``: two to ``most`` workloads on one or two GPU types, some of them bounded."""
    random = Random(seed)
    limits = (None, None, 2) if objective is Objective.COST else (1, 2)
    pools = [GpuPool(random.choice((FEW, GAPS)), random.choice(limits))]
    if random.random() < 0.4:
        pools.append(GpuPool(CHEAP, random.choice(limits)))
    drawn = generate("igniter-mix", random.randint(2, most), seed, objective).scaled(random.choice((0.8, 1.0, 1.5)))
    return replace(
        drawn,
        slo_rule=SloRule.ATTAINMENT,
        gpus=tuple(pools),
        attainment=random.choice((0.9, 0.99, 0.99, 0.999)),
        dropping=random.random() < 0.7,
        latency_buffer=random.choice((1.0, 1.1)),
    )


def contents(
    instance: Instance, gpu: GpuType, split: Collection[int] = (), twice: bool = False
) -> Iterator[tuple[Content, Cover]]:
    """Every content of one GPU whose slots all serve something, and what it covers."""
    view, count = View.of(instance, gpu), len(instance.workloads)
    models = [gpu.models[workload.model] for workload in instance.workloads]
    budgets = [_budgets(view, w, model.max_batch) for w, model in enumerate(models)]
    in_steps = instance.objective is Objective.GOODPUT
    slots = [
        (w, batch, units)
        for w, model in enumerate(models)
        for batch, units in product(range(1, model.max_batch + 1), permitted(gpu))
    ]

    def served(slot: Slot, time_ms: float) -> int:
        w, batch, units = slot
        holds = np.flatnonzero(time_ms <= budgets[w][batch, :, units])
        part = int(holds[-1]) + 1 if len(holds) else 0
        return part if in_steps or w in split or part == PART_STEPS else 0

    def extend(first: int, group: tuple[Slot, ...], free: int) -> Iterator[tuple[Content, Cover]]:
        for number in range(first, len(slots)):
            w, _, units = slots[number]
            again = bool(group) and w == group[-1][0]
            if units > free or (again and not (twice and w in split)):
                continue
            longer = (*group, slots[number])
            if len(longer) > view.tables.most_residents:
                continue
            if sum(models[v].memory_mib(b) for v, b, _ in longer) > gpu.memory_mib:
                continue
            parts = [served(slot, time) for slot, time in zip(longer, times_ms(view, longer), strict=True)]
            if min(parts) > 0:  # others would only slow it down further
                cover = [0] * count
                for (v, _, _), part in zip(longer, parts, strict=True):
                    cover[v] = min(PART_STEPS, cover[v] + part)
                yield tuple(zip(longer, parts, strict=True)), tuple(cover)
                yield from extend(number, longer, free - units)

    yield from extend(0, (), gpu.share_units)


def times_ms(view: View, slots: Sequence[Slot]) -> Sequence[float]:
    """GPU times of slots on one GPU: by the plain reference under iGniter's model, by the kernel under others."""
    if view.instance.performance_model == "igniter":
        workloads = view.instance.workloads
        tenants = [Tenant(view.gpu.models[workloads[w].model], batch, inf) for w, batch, _ in slots]
        return reference.gpu_times_ms(view.gpu, tenants, [units for _, _, units in slots])
    w, batch, units = np.array(slots).T
    found = np.empty(len(slots))
    gpu_times_ms(view.tables, view.model[w], batch, units, len(slots), found)
    return found.tolist()


def _budgets(view: View, workload: int, top: int) -> np.ndarray:
    """Budgets by batch, part and share."""
    rates = view.rate_rps[workload] * (np.arange(1, PART_STEPS + 1) / PART_STEPS)
    found = np.full((top + 1, PART_STEPS, view.tables.share_units + 1), -inf)
    found[1:] = view.budgets_ms(workload, np.arange(1, top + 1)[:, None], rates)
    return found


def oversized(instance: Instance) -> frozenset[int]:
    """The workloads that no GPU of the pool serves whole."""
    alone = [replace(instance, objective=Objective.COST, workloads=(asked,)) for asked in instance.workloads]
    return frozenset(
        w for w, one in enumerate(alone) if not any(True for pool in one.gpus for _ in contents(one, pool.type))
    )


Filling = dict[Cover, tuple[tuple[int, Content], ...]]
"""Coverage by some GPUs, and the contents that give it: for each GPU its type by number, and its slots."""


def undominated(covers: Filling) -> Filling:
    kept: Filling = {}
    for cover in sorted(covers, key=sum, reverse=True):
        if not any(all(a >= b for a, b in zip(other, cover, strict=True)) for other in kept):
            kept[cover] = covers[cover]
    return kept


def fillings(instance: Instance, split: Collection[int] = (), twice: bool = False) -> Iterator[tuple[float, Filling]]:
    """Price of every number of GPUs of each type, the cheapest first, and what so many can cover.

    Without a limit on the pool this never ends.
    """
    nothing = (0,) * len(instance.workloads)
    one_gpu: list[Filling] = []
    for t, pool in enumerate(instance.gpus):
        found = contents(instance, pool.type, split, twice)
        one_gpu.append(undominated({nothing: ()} | {cover: ((t, each),) for each, cover in found}))

    def together(one: Cover, other: Cover) -> Cover:
        parts = enumerate(zip(one, other, strict=True))
        return tuple(min(PART_STEPS, a + b) if w in split else max(a, b) for w, (a, b) in parts)

    none = (0,) * len(one_gpu)
    known: dict[tuple[int, ...], Filling] = {none: {nothing: ()}}
    waiting = [(0.0, none)]
    while waiting:
        price, used = heapq.heappop(waiting)
        yield price, known[used]
        for t, pool in enumerate(instance.gpus):
            more = (*used[:t], used[t] + 1, *used[t + 1 :])
            if more not in known and (pool.count is None or more[t] <= pool.count):
                pairs = product(known[used].items(), one_gpu[t].items())
                known[more] = undominated({together(a, b): (*before, *added) for (a, before), (b, added) in pairs})
                heapq.heappush(waiting, (price + pool.type.price_per_hour, more))


def plan_of(instance: Instance, gpus: Iterable[tuple[int, Content]], split: Collection[int] = ()) -> Plan:
    """The plan of these contents; no workload is served more than whole, or by two slots if it is not split."""
    slots = [slot for _, content in gpus for slot in content]
    left = [
        PART_STEPS if w in split else max([part for (other, _, _), part in slots if other == w], default=0)
        for w in range(len(instance.workloads))
    ]
    placed = []
    for t, content in gpus:
        rows = []
        for (w, batch, units), part in content:
            taken = min(part, left[w]) if w in split or part == left[w] else 0
            left[w] -= taken
            if taken:
                asked = instance.workloads[w]
                rows.append((asked.id, units, batch, asked.rate_rps * (taken / PART_STEPS)))
        placed.append(spatial_gpu(instance.gpus[t].type.name, rows))
    return Plan(instance.name, tuple(gpu for gpu in placed if gpu.gpulets))


def least_cost(instance: Instance, split: Collection[int] = (), twice: bool = False) -> Plan | None:
    """A cheapest plan, or None if the pool has too few GPUs; every workload must fit some GPU, at least in parts."""
    whole = (PART_STEPS,) * len(instance.workloads)
    for _, filling in fillings(instance, split, twice):
        if whole in filling:
            return plan_of(instance, filling[whole], split)
    return None


def most_goodput(instance: Instance, split: Collection[int] = (), twice: bool = False) -> Plan:
    """A plan of the most goodput on a bounded pool."""
    rates = [workload.rate_rps for workload in instance.workloads]
    best = max(
        (sum(part * rate for part, rate in zip(cover, rates, strict=True)), gpus)
        for _, filling in fillings(instance, split, twice)
        for cover, gpus in filling.items()
    )
    return plan_of(instance, best[1], split)


def most_capacity(instance: Instance) -> float | None:
    """Most throughput of all workloads together, each whole on one GPU; None if the pool has too few GPUs."""
    best: list[dict[tuple[int, ...], float]] = []
    for pool in instance.gpus:
        of_type: dict[tuple[int, ...], float] = {}
        view = View.of(instance, pool.type)
        for content, _ in contents(instance, pool.type):
            slots = [slot for slot, _ in content]
            members = tuple(w for w, _, _ in slots)
            total = fsum(_throughput_rps(view, *each) for each in zip(slots, times_ms(view, slots), strict=True))
            of_type[members] = max(of_type.get(members, 0.0), total)
        best.append(of_type)
    number = {pool.type.name: t for t, pool in enumerate(instance.gpus)}
    return best_partition(instance, lambda gpu, members: best[number[gpu.name]].get(members))


def _throughput_rps(view: View, slot: Slot, time_ms: float) -> float:
    w, batch, _ = slot
    return 1000.0 * batch / (time_ms + float(view.tables.exposed_ms[view.model[w], batch]))


def value(plan: Plan | None, instance: Instance) -> float:
    assert plan is not None
    verdict = judge(plan, instance)
    assert verdict.violations == ()
    assert verdict.value is not None
    return verdict.value


def one(name: str, rate_rps: float, **terms: object) -> Instance:
    workload = Workload("w", name, 35.0, rate_rps)
    pool = (GpuPool(FEW),)
    return replace(Instance("one", Objective.COST, SloRule.ATTAINMENT, "igniter", pool, (workload,)), **terms)
