"""Every content of a GPU whose slots may take turns, and the best plans of small instances by trying all contents.

Plain Python on top of the view and the interference model; nothing of ``formulations`` is used.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations_with_replacement, product
from random import Random

import numpy as np
from numpy.typing import NDArray

from instances import (
    GOODPUT_STEP,
    Gpulet,
    GpuPool,
    GpuType,
    Instance,
    Objective,
    PlacedGpu,
    PlanClass,
    SloRule,
    Slot,
    Workload,
)
from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.interference import gpu_time_beside_ms
from instances.tables import gpu_tables
from instances.view import View
from tests.formulations.exhaustive import small_batches
from tests.frozen import frozen_type

MOST_SLOTS = {PlanClass.SPATIAL: 1, PlanClass.SPLIT: 1, PlanClass.SPATIO_TEMPORAL: 3}
"""Largest number of slots of a gpulet."""

MOST_GPULETS = {"gpulet": 2, "igniter": 4, "inss": 4}
"""Largest number of gpulets of a GPU of ``drawn_for``, by performance model."""

BASES = {"gpulet": frozen_type("rtx2080ti"), "igniter": gpu_type("v100"), "inss": frozen_type("a100-inss")}

Slots = tuple[tuple[int, int], ...]
"""Of a gpulet: (workload, batch) each."""

PerSlot = tuple[tuple[float, ...], ...]
"""A number for each slot of each gpulet."""


@dataclass(frozen=True)
class Content:
    """Gpulets as (units, slots), the least and most that each slot serves and completes, and the duty cycles."""

    gpulets: tuple[tuple[int, Slots], ...]
    rates_rps: PerSlot
    least_rps: PerSlot
    throughputs_rps: PerSlot
    cycles_ms: tuple[float | None, ...]

    def total_of(self, amounts: PerSlot, workload: int) -> float:
        return math.fsum(
            amount
            for (_, slots), here in zip(self.gpulets, amounts, strict=True)
            for (w, _), amount in zip(slots, here, strict=True)
            if w == workload
        )

    def served_rps(self, workload: int) -> float:
        return self.total_of(self.rates_rps, workload)

    def placed(self, instance: Instance) -> PlacedGpu:
        return PlacedGpu(
            instance.gpus[0].type.name,
            tuple(
                Gpulet(
                    units,
                    tuple(Slot(instance.workloads[w].id, b, r) for (w, b), r in zip(slots, rates, strict=True)),
                    cycle,
                )
                for (units, slots), rates, cycle in zip(self.gpulets, self.rates_rps, self.cycles_ms, strict=True)
            ),
        )


def all_slots(view: View) -> list[tuple[int, int]]:
    return [(w, b) for w, m in enumerate(view.model) for b in range(1, int(view.tables.max_batch[m]) + 1)]


def choices_of_slots(view: View, most_slots: int) -> list[Slots]:
    sizes = range(1, most_slots + 1)
    return [chosen for size in sizes for chosen in combinations_with_replacement(all_slots(view), size)]


def contents(view: View, most_gpulets: int, most_slots: int = 3) -> Iterator[Content]:
    """Yield every content of one GPU, at the shortest duty cycles."""
    gpulets = [(int(units), chosen) for units in view.tables.permitted for chosen in choices_of_slots(view, most_slots)]
    for count in range(1, min(most_gpulets, view.tables.share_units // int(view.tables.permitted[0])) + 1):
        for together in combinations_with_replacement(gpulets, count):
            if sum(units for units, _ in together) <= view.tables.share_units:
                content = served(view, together)
                if content is not None:
                    yield content


def twice_each(view: View) -> Iterator[Content]:
    """Yield every content of a whole GPU in which each of up to three workloads has one slot or two."""
    assert len(view.model) <= 3
    options = [
        [chosen for size in range(3) for chosen in combinations_with_replacement(own, size)]
        for own in ([slot for slot in all_slots(view) if slot[0] == w] for w in range(len(view.model)))
    ]
    for together in product(*options):
        if not any(together):
            continue
        content = served(view, ((view.tables.share_units, tuple(chain(*together))),))
        if content is not None:
            yield content


def served(view: View, gpulets: tuple[tuple[int, Slots], ...]) -> Content | None:
    """Return what the slots of a GPU serve, or ``None`` if some of them cannot be there."""
    tables, buffer = view.tables, view.instance.latency_buffer
    demand = np.array(
        [[max(table[view.model[w], b, units] for w, b in slots) for table in tables[1:4]] for units, slots in gpulets]
    )
    rates_rps: list[tuple[float, ...]] = []
    least_rps: list[tuple[float, ...]] = []
    throughputs_rps: list[tuple[float, ...]] = []
    cycles_ms: list[float | None] = []
    for own, (units, slots) in enumerate(gpulets):
        gpu_ms = [gpu_time_beside_ms(tables, view.model[w], b, units, demand, own) for w, b in slots]
        times_ms = [
            buffer * (t + tables.transfer_ms[view.model[w], b]) for t, (w, b) in zip(gpu_ms, slots, strict=True)
        ]
        if len(slots) == 1:
            (w, b), m = slots[0], view.model[slots[0][0]]
            periods_ms = [buffer * (gpu_ms[0] + x) for x in (tables.exposed_ms[m, b], tables.transfer_ms[m, b])]
            rates = [1000.0 * b / period_ms * (1.0 - 1e-12) for period_ms in periods_ms]
            possible = [rate for rate in rates if gpu_ms[0] <= view.budget_ms(w, b, rate)]
            if not possible:
                return None
            waits = view.instance.slo_rule is SloRule.ASSEMBLY and b > 1
            # The first request waits for b - 1 others: 1000 (b - 1) / r + t_inf <= SLO.
            least = 1000.0 * (b - 1) / (view.slo_ms[w] - times_ms[0]) if waits else 0.0
            rates_rps.append((max(possible),))
            least_rps.append((float(least),))
            throughputs_rps.append((1000.0 * b / (gpu_ms[0] + tables.exposed_ms[m, b]),))
            cycles_ms.append(None)
        else:
            cycle_ms = math.fsum(times_ms) * (1.0 + 1e-12)
            if any(cycle_ms + t > view.slo_ms[w] for t, (w, _) in zip(times_ms, slots, strict=True)):
                return None
            rates_rps.append(tuple(1000.0 * b / cycle_ms for _, b in slots))
            least_rps.append((0.0,) * len(slots))
            throughputs_rps.append(rates_rps[-1])
            cycles_ms.append(cycle_ms)
    return Content(gpulets, tuple(rates_rps), tuple(least_rps), tuple(throughputs_rps), tuple(cycles_ms))


def worth_of(content: Content, worth: Floats, most_rps: Floats) -> float:
    return math.fsum(worth[w] * min(most_rps[w], content.served_rps(w)) for w in range(len(worth)))


# --- The best plans ---


@dataclass(frozen=True)
class Plans:
    """Every plan of one GPU or two: undominated contents, and by number of GPUs their positions and the plans' values.

    ``chosen`` has arrays of shape (GPUs, plans), ``values`` of shape (plans,): infinitely bad where no plan is.
    """

    contents: list[Content]
    chosen: list[NDArray[np.int64]]
    values: list[Floats]


def optimum(instance: Instance, plan_class: PlanClass) -> float | None:
    """Return the best value of the instance's objective on at most two GPUs of one type; ``None`` without a plan."""
    values = np.concatenate([*plans(instance, plan_class).values, []])
    possible = values[np.isfinite(values)]
    if not len(possible):
        return None
    return float(possible.min() if instance.objective.minimised else possible.max())


def plans(instance: Instance, plan_class: PlanClass) -> Plans:
    """Try every choice of contents for at most two GPUs of one type."""
    (pool,) = instance.gpus
    assert pool.count in (1, 2)
    view, slots = View.of(instance, pool.type), MOST_SLOTS[plan_class]
    spatial = plan_class is PlanClass.SPATIAL
    found = list(contents(view, min(view.tables.most_residents, MOST_GPULETS[instance.performance_model]), slots))
    if not found:
        return Plans([], [], [])
    parts, least, slots_of = (np.array(each) for each in zip(*(_parts(instance, c) for c in found), strict=True))
    throughput = np.array([math.fsum(chain(*content.throughputs_rps)) for content in found])
    if instance.objective is not Objective.SCALE:
        parts = np.minimum(parts, 1.0)
    counted = throughput[:, None] * (instance.objective is Objective.CAPACITY)
    kept = _undominated(np.concatenate([parts, -least, counted, -slots_of * spatial], axis=1))
    found, (parts, least, slots_of) = [found[k] for k in kept], (x[kept] for x in (parts, least, slots_of))
    throughput = throughput[kept]
    chosen = [np.arange(len(found))[None], np.array(np.triu_indices(len(found)))][: pool.count]
    values = []
    for here in chosen:
        allowed = (least[here].sum(axis=0) <= 1.0 + 1e-9).all(axis=1)
        allowed &= (slots_of[here].sum(axis=0) <= (1 if spatial else math.inf)).all(axis=1)
        price = len(here) * pool.type.price_per_hour
        value = _values(instance, parts[here].sum(axis=0), throughput[here].sum(axis=0), price)
        values.append(np.where(allowed, value, math.inf if instance.objective.minimised else -math.inf))
    return Plans(found, chosen, values)


def _undominated(rows: Floats) -> list[int]:
    """Return the positions of rows that no other row equals or exceeds in every column."""
    kept: list[int] = []
    for k in np.argsort(-rows.sum(axis=1), kind="stable").tolist():
        if not (rows[kept] >= rows[k]).all(axis=1).any():
            kept.append(k)
    return kept


def _parts(instance: Instance, content: Content) -> tuple[list[float], list[float], list[float]]:
    """Return the most and the least of each workload's rate that a content serves, and its number of slots."""
    parts, least, times = ([0.0] * len(instance.workloads) for _ in range(3))
    for (_, slots), rates, least_rates in zip(content.gpulets, content.rates_rps, content.least_rps, strict=True):
        for (w, _), rate, least_rate in zip(slots, rates, least_rates, strict=True):
            part, least_part = (x / instance.workloads[w].rate_rps for x in (rate, least_rate))
            if instance.objective is Objective.SCALE:  # any rate above the scale will do
                least_part = 0.0
            if instance.objective is Objective.GOODPUT:
                part = GOODPUT_STEP * math.floor(part / GOODPUT_STEP + 1e-9)
                least_part = GOODPUT_STEP * math.ceil(least_part / GOODPUT_STEP - 1e-9)
                if least_part > part + 1e-12:
                    least_part = math.inf
            parts[w], least[w], times[w] = parts[w] + part, least[w] + least_part, times[w] + 1.0
    return parts, least, times


def _values(instance: Instance, served: Floats, completed: Floats, price: float) -> Floats:
    """Return the values of plans that serve these parts of the rates, shape (plans, workloads)."""
    if instance.objective is Objective.GOODPUT:
        return np.minimum(served, 1.0) @ np.array([workload.rate_rps for workload in instance.workloads])
    if instance.objective is Objective.SCALE:
        return served.min(axis=1)
    whole = served.min(axis=1) >= 1.0 - 1e-9
    return np.where(whole, price, math.inf) if instance.objective.minimised else np.where(whole, completed, -math.inf)


# --- Random cases ---


def draw(
    random: Random, gpu: GpuType, model: str, size: int, objective: Objective, count: int, load: tuple[float, float]
) -> Instance:
    """Workloads that each ask for a part of one GPU within ``load``, as batches of one on all of it."""
    tables, names = gpu_tables(gpu, model), list(gpu.models)
    workloads = []
    for number in range(size):
        row = random.randrange(len(names))
        time_ms = float(tables.active_ms[row, 1, tables.share_units] + tables.transfer_ms[row, 1])
        slo_ms, rate_rps = time_ms * random.uniform(2.5, 30.0), 1000.0 / time_ms * random.uniform(*load)
        workloads.append(Workload(f"w{number}", names[row], round(slo_ms, 2), round(rate_rps, 1)))
    rule = random.choice([SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE])
    pool = (GpuPool(gpu, count),)
    return Instance("drawn", objective, rule, model, pool, tuple(workloads), latency_buffer=random.choice([1.0, 1.1]))


def drawn_for(plan_class: PlanClass, objective: Objective, seed: int) -> Instance:
    """One or two workloads on one or two GPUs of a few shares; every model and analytic rule."""
    random = Random(seed)
    model = random.choice(list(BASES))
    gpu = small_batches(BASES[model], random.choice([1, 2, 3]))
    parts = (0.4, 0.6, 1.0) if model == "gpulet" else (0.25, 0.5, 1.0) if MOST_SLOTS[plan_class] == 1 else (0.5, 1.0)
    gpu = replace(gpu, allowed_shares=tuple(round(gpu.share_units * part) for part in parts))
    count = random.choice([1, 2])
    return draw(random, gpu, model, random.choice([1, 2, 2]), objective, count, (0.1, 1.2))
