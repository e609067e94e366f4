"""Contents of a GPU whose slots may take turns, and the best plans of small instances by trying all contents.

It is plain Python on top of the view and the interference model, and uses nothing of ``formulations``.
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
"""GPU type of ``drawn_for``, by performance model."""

Slots = tuple[tuple[int, int], ...]
"""Slots of a gpulet: (workload, batch) of each."""

PerSlot = tuple[tuple[float, ...], ...]
"""A number for each slot of each gpulet."""


@dataclass(frozen=True)
class Content:
    """Content of a GPU.

    Attributes
    ----------
    gpulets
        Units and slots of each gpulet.
    rates_rps, least_rps
        Largest and least rate that each slot can serve.
    throughputs_rps
        Requests per second that each slot completes when busy all the time.
    cycles_ms
        Duty cycle of each gpulet; ``None`` for a single slot.
    """

    gpulets: tuple[tuple[int, Slots], ...]
    rates_rps: PerSlot
    least_rps: PerSlot
    throughputs_rps: PerSlot
    cycles_ms: tuple[float | None, ...]

    def total_of(self, amounts: PerSlot, workload: int) -> float:
        """Return the sum of the amounts of a workload's slots."""
        slots = chain.from_iterable(slots for _, slots in self.gpulets)
        slot_amounts = zip(slots, chain.from_iterable(amounts), strict=True)
        return math.fsum(amount for (w, _), amount in slot_amounts if w == workload)

    def served_rps(self, workload: int) -> float:
        """Return the largest rate of a workload that its slots serve."""
        return self.total_of(self.rates_rps, workload)

    def placed(self, instance: Instance) -> PlacedGpu:
        """Return the GPU in a plan, at the largest rates."""
        gpulets = []
        for (units, slots), rates, cycle_ms in zip(self.gpulets, self.rates_rps, self.cycles_ms, strict=True):
            placed = tuple(Slot(instance.workloads[w].id, b, r) for (w, b), r in zip(slots, rates, strict=True))
            gpulets.append(Gpulet(units, placed, cycle_ms))
        return PlacedGpu(instance.gpus[0].type.name, tuple(gpulets))


def all_slots(view: View) -> list[tuple[int, int]]:
    """Return every (workload, batch)."""
    return [(w, b) for w, m in enumerate(view.model) for b in range(1, int(view.tables.max_batch[m]) + 1)]


def choices_of_slots(view: View, most_slots: int) -> list[Slots]:
    """Return every choice of one to ``most_slots`` slots."""
    sizes = range(1, most_slots + 1)
    return [chosen for size in sizes for chosen in combinations_with_replacement(all_slots(view), size)]


def contents(view: View, most_gpulets: int, most_slots: int = 3) -> Iterator[Content]:
    """Yield every content of one GPU, at the shortest duty cycles."""
    gpulets = [(int(units), chosen) for units in view.tables.permitted for chosen in choices_of_slots(view, most_slots)]
    for count in range(1, min(most_gpulets, view.tables.share_units // int(view.tables.permitted[0])) + 1):
        for chosen_gpulets in combinations_with_replacement(gpulets, count):
            if sum(units for units, _ in chosen_gpulets) <= view.tables.share_units:
                content = served(view, chosen_gpulets)
                if content is not None:
                    yield content


def twice_each(view: View) -> Iterator[Content]:
    """Yield every content of a single gpulet, the whole GPU, in which each workload has at most two slots."""
    assert len(view.model) <= 3
    slots_of = [[slot for slot in all_slots(view) if slot[0] == w] for w in range(len(view.model))]
    options = [
        [chosen for size in range(3) for chosen in combinations_with_replacement(slots, size)] for slots in slots_of
    ]
    for chosen_options in product(*options):
        if not any(chosen_options):
            continue
        content = served(view, ((view.tables.share_units, tuple(chain(*chosen_options))),))
        if content is not None:
            yield content


def served(view: View, gpulets: tuple[tuple[int, Slots], ...]) -> Content | None:
    """Return the content of these gpulets with the rates that their slots serve; ``None`` if it is infeasible."""
    tables, buffer = view.tables, view.instance.latency_buffer
    demand = np.array(
        [[max(table[view.model[w], b, units] for w, b in slots) for table in tables[1:4]] for units, slots in gpulets]
    )
    rates_rps: list[tuple[float, ...]] = []
    least_rps: list[tuple[float, ...]] = []
    throughputs_rps: list[tuple[float, ...]] = []
    cycles_ms: list[float | None] = []
    for position, (units, slots) in enumerate(gpulets):
        gpu_ms = [gpu_time_beside_ms(tables, view.model[w], b, units, demand, position) for w, b in slots]
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
    """Return the worth of the served rates, of which at most ``most_rps`` counts for each workload."""
    return math.fsum(worth[w] * min(most_rps[w], content.served_rps(w)) for w in range(len(worth)))


# --- The best plans ---


@dataclass(frozen=True)
class Plans:
    """Plans of one GPU and of two GPUs.

    Attributes
    ----------
    contents
        Undominated contents of a GPU.
    chosen
        By number of GPUs: positions of the contents of each plan, shape (GPUs, plans).
    values
        By number of GPUs: values of the plans, shape (plans,); infinitely bad if the contents make no plan.
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
    """Return every plan of undominated contents for at most two GPUs of one type."""
    (pool,) = instance.gpus
    assert pool.count in (1, 2)
    view, most_slots = View.of(instance, pool.type), MOST_SLOTS[plan_class]
    spatial = plan_class is PlanClass.SPATIAL
    most_gpulets = min(view.tables.most_residents, MOST_GPULETS[instance.performance_model])
    all_contents = list(contents(view, most_gpulets, most_slots))
    if not all_contents:
        return Plans([], [], [])
    rows = zip(*(_parts(instance, content) for content in all_contents), strict=True)
    parts, least, slot_count = (np.array(column) for column in rows)
    throughput = np.array([math.fsum(chain(*content.throughputs_rps)) for content in all_contents])
    if instance.objective is not Objective.SCALE:
        parts = np.minimum(parts, 1.0)
    counted = throughput[:, None] * (instance.objective is Objective.CAPACITY)
    best = _undominated(np.concatenate([parts, -least, counted, -slot_count * spatial], axis=1))
    parts, least, slot_count, throughput = parts[best], least[best], slot_count[best], throughput[best]
    choices = [np.arange(len(best))[None], np.array(np.triu_indices(len(best)))][: pool.count]
    values = []
    for chosen in choices:
        allowed = (least[chosen].sum(axis=0) <= 1.0 + 1e-9).all(axis=1)
        allowed &= (slot_count[chosen].sum(axis=0) <= (1 if spatial else math.inf)).all(axis=1)
        price = len(chosen) * pool.type.price_per_hour
        value = _values(instance, parts[chosen].sum(axis=0), throughput[chosen].sum(axis=0), price)
        values.append(np.where(allowed, value, math.inf if instance.objective.minimised else -math.inf))
    return Plans([all_contents[k] for k in best], choices, values)


def _undominated(rows: Floats) -> list[int]:
    """Return the positions of rows that no other row equals or exceeds in every column."""
    best: list[int] = []
    for k in np.argsort(-rows.sum(axis=1), kind="stable").tolist():
        if not (rows[best] >= rows[k]).all(axis=1).any():
            best.append(k)
    return best


def _parts(instance: Instance, content: Content) -> tuple[list[float], list[float], list[float]]:
    """Return for each workload the largest and the least part of its rate that a content serves, and its slots."""
    parts, least, slot_count = ([0.0] * len(instance.workloads) for _ in range(3))
    for (_, slots), rates, least_rates in zip(content.gpulets, content.rates_rps, content.least_rps, strict=True):
        for (w, _), rate, least_rate in zip(slots, rates, least_rates, strict=True):
            part, least_part = (x / instance.workloads[w].rate_rps for x in (rate, least_rate))
            if instance.objective is Objective.SCALE:  # rates may be higher than the scale, so no rate is too low
                least_part = 0.0
            if instance.objective is Objective.GOODPUT:
                part = GOODPUT_STEP * math.floor(part / GOODPUT_STEP + 1e-9)
                least_part = GOODPUT_STEP * math.ceil(least_part / GOODPUT_STEP - 1e-9)
                if least_part > part + 1e-12:
                    least_part = math.inf
            parts[w], least[w], slot_count[w] = parts[w] + part, least[w] + least_part, slot_count[w] + 1.0
    return parts, least, slot_count


def _values(instance: Instance, served: Floats, completed: Floats, price: float) -> Floats:
    """Return the values of plans, shape (plans,).

    ``served`` has the parts of the rates that each plan serves, shape (plans, workloads), and ``completed`` the
    throughput of each plan.
    """
    if instance.objective is Objective.GOODPUT:
        return np.minimum(served, 1.0) @ np.array([workload.rate_rps for workload in instance.workloads])
    if instance.objective is Objective.SCALE:
        return served.min(axis=1)
    serves_all = served.min(axis=1) >= 1.0 - 1e-9
    if instance.objective.minimised:
        return np.where(serves_all, price, math.inf)
    return np.where(serves_all, completed, -math.inf)


# --- Random cases ---


def draw(
    random: Random, gpu: GpuType, model: str, size: int, objective: Objective, count: int, load: tuple[float, float]
) -> Instance:
    """Return an instance of ``size`` workloads on ``count`` GPUs.

    With batches of 1 on a whole GPU, each workload would keep the GPU busy for a fraction of the time within ``load``.
    """
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
    """Return an instance of one or two workloads on one or two GPUs with two or three permitted shares.

    The seed also chooses the performance model and an analytic rule.
    """
    random = Random(seed)
    model = random.choice(list(BASES))
    gpu = small_batches(BASES[model], random.choice([1, 2, 3]))
    parts: tuple[float, ...] = (0.5, 1.0)
    if model == "gpulet":
        parts = (0.4, 0.6, 1.0)
    elif MOST_SLOTS[plan_class] == 1:
        parts = (0.25, 0.5, 1.0)
    gpu = replace(gpu, allowed_shares=tuple(round(gpu.share_units * part) for part in parts))
    count = random.choice([1, 2])
    return draw(random, gpu, model, random.choice([1, 2, 2]), objective, count, (0.1, 1.2))
