"""Optima of tiny instances whose budgets depend on the share, found by trying every content of a GPU.

The tests compare exact methods with these optima. GPU times come from the one-GPU reference (under models other than
iGniter's, from the kernel), and budgets from the instance. A content is any set of slots, each of any batch and
permitted share, even if a smaller share or another batch is as good. A slot serves the largest part of its workload's
rate at which its budget holds, in twentieths. Budgets fall with the rate, so the slot may also serve less. Of a content
only the parts that it covers matter, so contents that cover no more than another are dropped.

``split`` has the positions of workloads that several slots may serve in parts; the others have one slot. With
``twice`` a split workload may have several slots on one GPU.
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
# Six share units with up to four batches; gaps between the permitted shares; a low price with little memory.
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
    """Return a tiny instance under ``attainment``: two to ``most`` workloads on one or two GPU types."""
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
    """Yield every content of one GPU whose slots all serve something, and what it covers."""
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

    def extend(first: int, chosen: tuple[Slot, ...], free: int) -> Iterator[tuple[Content, Cover]]:
        for number in range(first, len(slots)):
            w, _, units = slots[number]
            same_workload = bool(chosen) and w == chosen[-1][0]
            if units > free or (same_workload and not (twice and w in split)):
                continue
            longer = (*chosen, slots[number])
            if len(longer) > view.tables.most_residents:
                continue
            if sum(models[v].memory_mib(b) for v, b, _ in longer) > gpu.memory_mib:
                continue
            parts = [served(slot, time) for slot, time in zip(longer, times_ms(view, longer), strict=True)]
            if min(parts) > 0:  # otherwise a slot serves nothing, and more slots would only slow it down
                cover = [0] * count
                for (v, _, _), part in zip(longer, parts, strict=True):
                    cover[v] = min(PART_STEPS, cover[v] + part)
                yield tuple(zip(longer, parts, strict=True)), tuple(cover)
                yield from extend(number, longer, free - units)

    yield from extend(0, (), gpu.share_units)


def times_ms(view: View, slots: Sequence[Slot]) -> Sequence[float]:
    """Return the GPU times of slots on one GPU: by the reference under iGniter's model, by the kernel under others."""
    if view.instance.performance_model == "igniter":
        workloads = view.instance.workloads
        tenants = [Tenant(view.gpu.models[workloads[w].model], batch, inf) for w, batch, _ in slots]
        return reference.gpu_times_ms(view.gpu, tenants, [units for _, _, units in slots])
    w, batch, units = np.array(slots).T
    gpu_ms = np.empty(len(slots))
    gpu_times_ms(view.tables, view.model[w], batch, units, len(slots), gpu_ms)
    return gpu_ms.tolist()


def _budgets(view: View, workload: int, top: int) -> np.ndarray:
    """Return the budgets by batch (at most ``top``), part and share."""
    rates = view.rate_rps[workload] * (np.arange(1, PART_STEPS + 1) / PART_STEPS)
    budgets_ms = np.full((top + 1, PART_STEPS, view.tables.share_units + 1), -inf)
    budgets_ms[1:] = view.budgets_ms(workload, np.arange(1, top + 1)[:, None], rates)
    return budgets_ms


def oversized(instance: Instance) -> frozenset[int]:
    """Return the positions of the workloads that no GPU of the pool serves whole."""

    def is_servable(workload: Workload) -> bool:
        alone = replace(instance, objective=Objective.COST, workloads=(workload,))
        return any(next(contents(alone, pool.type), None) is not None for pool in alone.gpus)

    return frozenset(w for w, workload in enumerate(instance.workloads) if not is_servable(workload))


Filling = dict[Cover, tuple[tuple[int, Content], ...]]
"""Covers by some GPUs, and the GPUs behind each cover: their position in the pool, and their content."""


def undominated(covers: Filling) -> Filling:
    """Return the covers that no other cover reaches or exceeds in every workload."""
    best: Filling = {}
    for cover in sorted(covers, key=sum, reverse=True):
        if not any(all(a >= b for a, b in zip(other, cover, strict=True)) for other in best):
            best[cover] = covers[cover]
    return best


def fillings(instance: Instance, split: Collection[int] = (), twice: bool = False) -> Iterator[tuple[float, Filling]]:
    """Yield the price of every choice of GPUs, the cheapest first, and what these GPUs can cover.

    Without a limit on the pool, the choices never end.
    """
    nothing = (0,) * len(instance.workloads)
    one_gpu: list[Filling] = []
    for t, pool in enumerate(instance.gpus):
        every_content = contents(instance, pool.type, split, twice)
        one_gpu.append(undominated({nothing: ()} | {cover: ((t, content),) for content, cover in every_content}))

    def combined(first: Cover, second: Cover) -> Cover:
        parts = enumerate(zip(first, second, strict=True))
        return tuple(min(PART_STEPS, a + b) if w in split else max(a, b) for w, (a, b) in parts)

    no_gpus = (0,) * len(one_gpu)  # number of GPUs of each type
    filling_of: dict[tuple[int, ...], Filling] = {no_gpus: {nothing: ()}}
    waiting = [(0.0, no_gpus)]
    while waiting:
        price, used = heapq.heappop(waiting)
        yield price, filling_of[used]
        for t, pool in enumerate(instance.gpus):
            one_more = (*used[:t], used[t] + 1, *used[t + 1 :])
            if one_more not in filling_of and (pool.count is None or one_more[t] <= pool.count):
                pairs = product(filling_of[used].items(), one_gpu[t].items())
                filling_of[one_more] = undominated(
                    {combined(a, b): (*gpus, *added_gpu) for (a, gpus), (b, added_gpu) in pairs}
                )
                heapq.heappush(waiting, (price + pool.type.price_per_hour, one_more))


def plan_of(instance: Instance, gpus: Iterable[tuple[int, Content]], split: Collection[int] = ()) -> Plan:
    """Return the plan of these contents, without service beyond a rate, or by a second slot of an unsplit workload."""
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
                workload = instance.workloads[w]
                rows.append((workload.id, units, batch, workload.rate_rps * (taken / PART_STEPS)))
        placed.append(spatial_gpu(instance.gpus[t].type.name, rows))
    return Plan(instance.name, tuple(gpu for gpu in placed if gpu.gpulets))


def least_cost(instance: Instance, split: Collection[int] = (), twice: bool = False) -> Plan | None:
    """Return a cheapest plan, or ``None`` if the pool has too few GPUs.

    Every workload must fit some GPU, at least in parts: otherwise the search never ends without a limit on the pool.
    """
    whole = (PART_STEPS,) * len(instance.workloads)
    for _, filling in fillings(instance, split, twice):
        if whole in filling:
            return plan_of(instance, filling[whole], split)
    return None


def most_goodput(instance: Instance, split: Collection[int] = (), twice: bool = False) -> Plan:
    """Return a plan of the most goodput on a bounded pool."""
    rates = [workload.rate_rps for workload in instance.workloads]
    best = max(
        (sum(part * rate for part, rate in zip(cover, rates, strict=True)), gpus)
        for _, filling in fillings(instance, split, twice)
        for cover, gpus in filling.items()
    )
    return plan_of(instance, best[1], split)


def most_capacity(instance: Instance) -> float | None:
    """Return the most throughput of all workloads, each whole on one GPU; ``None`` if the pool has too few GPUs."""
    best: list[dict[tuple[int, ...], float]] = []
    for pool in instance.gpus:
        of_type: dict[tuple[int, ...], float] = {}
        view = View.of(instance, pool.type)
        for content, _ in contents(instance, pool.type):
            slots = [slot for slot, _ in content]
            members = tuple(w for w, _, _ in slots)
            timed_slots = zip(slots, times_ms(view, slots), strict=True)
            total = fsum(_throughput_rps(view, slot, time_ms) for slot, time_ms in timed_slots)
            of_type[members] = max(of_type.get(members, 0.0), total)
        best.append(of_type)
    type_number = {pool.type.name: t for t, pool in enumerate(instance.gpus)}
    return best_partition(instance, lambda gpu, members: best[type_number[gpu.name]].get(members))


def _throughput_rps(view: View, slot: Slot, time_ms: float) -> float:
    w, batch, _ = slot
    return 1000.0 * batch / (time_ms + float(view.tables.exposed_ms[view.model[w], batch]))


def value(plan: Plan | None, instance: Instance) -> float:
    """Return the judge's value of a plan that must be feasible."""
    assert plan is not None
    verdict = judge(plan, instance)
    assert verdict.violations == ()
    assert verdict.value is not None
    return verdict.value


def one(name: str, rate_rps: float, **terms: object) -> Instance:
    """Return an instance of one workload of the model ``name`` on the GPU type ``FEW``; ``terms`` are its fields."""
    workload = Workload("w", name, 35.0, rate_rps)
    pool = (GpuPool(FEW),)
    return replace(Instance("one", Objective.COST, SloRule.ATTAINMENT, "igniter", pool, (workload,)), **terms)
