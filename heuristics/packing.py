"""Packing of items (workloads or equal parts of them) onto GPUs of one type, each in a gpulet of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from bench.api import Outcome, Status
from heuristics.tiny import tiny_instance
from instances import GOODPUT_STEP, PART_STEPS, Instance, Objective, PlacedGpu, Plan, Workload, spatial_gpu
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.least_shares import least_share_within, raise_to_feasible
from instances.one_gpu import Resident, fit_gpu, placed_throughput_rps
from instances.tables import Tables
from instances.view import View

MOST_PARTS = 100_000
"""Largest number of equal parts into which a workload is divided."""


class UnservableError(Exception):
    """Workload that no whole GPU serves, at any batch.

    Attributes
    ----------
    status
        ``infeasible`` if a GPU serves it in no number of parts; ``unknown`` if ``MOST_PARTS`` are too few.
    """

    def __init__(self, asked: Workload, gpus: str, in_parts: bool) -> None:
        why = f"cannot meet {asked.slo_ms:g} ms on a whole {gpus} at any rate"
        if in_parts:
            why = f"asks for {asked.rate_rps:g} req/s: too much for {MOST_PARTS:,} parts, each on a whole {gpus}"
        super().__init__(f"{asked.id}: {asked.model} {why}")
        self.status = Status.UNKNOWN if in_parts else Status.INFEASIBLE


def trickle_rps(rate_rps: Floats, slo_ms: Floats) -> Floats:
    """Return a rate at which a request is alone, at most the part of the rate that ``MOST_PARTS`` leave."""
    return np.minimum(rate_rps / MOST_PARTS, 1.0 / slo_ms)


@compiled
def shares_alone(tables: Tables, model: Ints, batch: Ints, budget_ms: Floats, time_only: bool = False) -> Ints:
    """Return the least share of each alone on a GPU; ``share_units + 1`` if none is enough.

    With ``time_only``, its memory and its own power are ignored.
    """
    units = np.empty(len(model), dtype=np.int64)
    for i in range(len(model)):
        units[i] = least_share_within(tables, model[i], batch[i], budget_ms, i)
        if not time_only and (
            tables.memory_mib[model[i], batch[i]] > tables.memory_limit_mib
            or not raise_to_feasible(
                tables, model[i : i + 1], batch[i : i + 1], budget_ms[i : i + 1], units[i : i + 1], 1
            )
        ):
            units[i] = tables.share_units + 1
    return units


def appropriate_batch(view: View, workload: Ints, rate_rps: Floats) -> Ints:
    """Return ``b_appr``: the batch that just meets the rate within half the SLO (iGniter equation 17).

    If uploads do not overlap execution, the upload term is zero. The batch is capped at the catalogue's largest. In
    decoding, it is the fewest places that serve the rate with the longest permitted steps. ``workload`` and
    ``rate_rps`` have equal shapes.
    """
    tables, model = view.tables, view.model[workload]
    hidden_ms = tables.transfer_ms[model, 1] - tables.exposed_ms[model, 1]  # per request, linear in the batch
    # Equation 17, with B_pcie divided out
    batch = np.ceil(view.slo_ms[workload] / 2.0 / (1000.0 / rate_rps + hidden_ms)).astype(np.int64)
    if view.steps.any():
        batch = np.where(view.steps[workload] > 0, view.places_needed(workload, rate_rps), batch)
    clipped: Ints = np.clip(batch, 1, tables.max_batch[model])
    return clipped


def lower_bound_share(view: View, workload: Ints, batch: Ints, rate_rps: Floats) -> Ints:
    """Return ``r_lower`` in units: the least share that serves each workload alone (iGniter equation 18).

    The result is ``share_units + 1`` if even the full GPU is too slow. Equation 18 ignores the workload's own power.
    Under a rule whose budget depends on the share, the power counts, so that a workload that throttles its GPU is
    split.
    """
    budget = view.budgets_ms(workload, batch, rate_rps)
    time_only = not view.instance.slo_rule.by_share
    units: Ints = shares_alone(view.tables, view.model[workload], batch, budget, time_only)
    return units


@dataclass(frozen=True, slots=True)
class DemandItems:
    """Items to pack; arrays have one row per item and one column per rate.

    An item is a workload, or one of its equal parts if no GPU can serve it whole. Column 0 is the full rate of the
    item. Under ``goodput`` the next columns are the lower steps of its rate; otherwise there is one column.

    Attributes
    ----------
    workload
        Position in the instance, shape (items,).
    rate_rps, batch, lower_units
        Rate, appropriate batch (equation 17) and lower bound on the share (equation 18), shape (items, rates).
    budget_ms
        Budgets by share, shape (items, rates, 1 or share units + 1).
    """

    workload: Ints
    rate_rps: Floats
    batch: Ints
    lower_units: Ints
    budget_ms: Floats

    @classmethod
    def of(cls, view: View) -> "DemandItems":
        """Split the workloads of ``view`` into items, in the order of the instance.

        Raises
        ------
        UnservableError
            If a workload cannot be served, or only in too many parts (not under ``goodput``).
        """
        workload = np.arange(len(view.rate_rps), dtype=np.int64)
        if view.instance.objective is Objective.GOODPUT:
            steps = round(1.0 / GOODPUT_STEP)
            share_of_rate = np.arange(steps, 0, -1) / steps
            return cls._at_rates(view, workload, view.rate_rps[:, None] * share_of_rate[None, :])
        parts = _parts(view, workload)
        return cls._at_rates(view, np.repeat(workload, parts), np.repeat(view.rate_rps / parts, parts)[:, None])

    @classmethod
    def _at_rates(cls, view: View, workload: Ints, rate_rps: Floats) -> "DemandItems":
        flat = np.repeat(workload, rate_rps.shape[1])
        batch = appropriate_batch(view, flat, rate_rps.ravel())
        lower = lower_bound_share(view, flat, batch, rate_rps.ravel())
        budget = view.budgets_ms(flat, batch, rate_rps.ravel())
        shape = rate_rps.shape
        return cls(
            workload, rate_rps, batch.reshape(shape), lower.reshape(shape), budget.reshape(*shape, budget.shape[1])
        )

    def decreasing(self) -> Ints:
        """Return the items by ``r_lower`` at full rate, largest first, ties by position (Alg. 1, line 3)."""
        return np.argsort(-self.lower_units[:, 0], kind="stable")


def _parts(view: View, workload: Ints) -> Ints:
    """Return into how many equal parts each workload is split so that one GPU serves a part; usually 1."""
    full = view.tables.share_units
    trickle = trickle_rps(view.rate_rps, view.slo_ms)
    hopeless = lower_bound_share(view, workload, np.ones_like(workload), trickle) > full
    if hopeless.any():
        raise UnservableError(view.instance.workloads[int(np.argmax(hopeless))], view.gpu.name, in_parts=False)

    def fits(position: int, count: int) -> bool:
        one, rate = workload[position : position + 1], view.rate_rps[position : position + 1] / count
        return bool(lower_bound_share(view, one, appropriate_batch(view, one, rate), rate)[0] <= full)

    parts = np.ones(len(workload), dtype=np.int64)
    whole = lower_bound_share(view, workload, appropriate_batch(view, workload, view.rate_rps), view.rate_rps)
    for position in np.flatnonzero(whole > full).tolist():
        if not fits(position, MOST_PARTS):
            raise UnservableError(view.instance.workloads[position], view.gpu.name, in_parts=True)
        enough = fewest_parts(partial(fits, position))
        if view.instance.slo_rule.by_share and enough <= PART_STEPS:
            # Certified bounds under such a rule hold for parts that are multiples of a step.
            enough = next(count for count in range(enough, PART_STEPS + 1) if PART_STEPS % count == 0)
        parts[position] = enough
    return parts


def fewest_parts(enough: Callable[[int], bool]) -> int:
    """Return the smallest number of parts from 2 on that is ``enough``, where every larger number is enough too."""
    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


Packing = tuple[Ints, Ints, Ints, Ints]
"""Result of a packing kernel: the rate column of each item (-1 if it was left out), shape (items,); the items and the
shares of the residents, shape (GPUs, residents at most); and the number of residents, shape (GPUs,)."""

Pack = Callable[[View, DemandItems, int], Packing]
"""Type of a packing rule: (view, items, available GPUs) to a packing."""


def _placed_gpus(view: View, items: DemandItems, packing: Packing) -> tuple[PlacedGpu, ...]:
    """Return the GPUs of a packing that are in use."""
    column, resident, units, residents = packing
    used = np.arange(resident.shape[1]) < residents[:, None]
    at = (resident[used], column[resident[used]])
    ids = [view.instance.workloads[w].id for w in items.workload[at[0]].tolist()]
    rows = zip(ids, units[used].tolist(), items.batch[at].tolist(), items.rate_rps[at].tolist(), strict=True)
    return tuple(spatial_gpu(view.gpu.name, list(islice(rows, count))) for count in residents[residents > 0].tolist())


def cheapest(plans: Sequence[Plan], instance: Instance, reason: str) -> Outcome:
    """Return the first plan of least cost; without plans, their absence has this reason."""
    if not plans:
        return Outcome(Status.UNKNOWN, reason=reason)
    return Outcome(Status.FEASIBLE, min(plans, key=lambda plan: instance.cost_per_hour(plan.gpus)))


def pack_pools(instance: Instance, pack: Pack, spend_spare: bool) -> Outcome:
    """Pack onto each GPU type alone and return the best plan (iGniter, Sec. 4.1, last paragraph).

    Under ``cost`` that is the cheapest type with a large enough pool, under ``capacity`` and ``goodput`` the one with
    the largest value. ``spend_spare`` distributes the spare shares of each GPU (``capacity`` only).
    """
    best: tuple[float, tuple[PlacedGpu, ...]] | None = None
    reasons, unservable = [], True
    for pool in instance.gpus:
        view = View.of(instance, pool.type)
        try:
            items = DemandItems.of(view)
        except UnservableError as why:
            reasons.append(str(why))
            unservable = unservable and why.status is Status.INFEASIBLE
            continue
        unservable, count = False, len(items.workload)
        packing = pack(view, items, count if pool.count is None else min(pool.count, count))
        left_out = int(np.count_nonzero(packing[0] < 0))
        if left_out and instance.objective is not Objective.GOODPUT:
            reasons.append(f"{left_out} of {count} workloads (or parts) do not fit on {pool.in_words}")
            continue
        gpus = _placed_gpus(view, items, packing)
        if spend_spare and instance.objective is Objective.CAPACITY:
            gpus = tuple(with_spare_spent(view, gpu) for gpu in gpus)
        worth = _worth(view, gpus)
        if best is None or worth > best[0]:
            best = (worth, gpus)
    if best is None:
        return Outcome(Status.INFEASIBLE if unservable else Status.UNKNOWN, reason="; ".join(reasons))
    return Outcome(Status.FEASIBLE, Plan(instance.name, best[1]))


def _worth(view: View, gpus: tuple[PlacedGpu, ...]) -> float:
    """Return the value of a plan for comparison; larger is better."""
    if view.instance.objective is Objective.COST:
        return -view.instance.cost_per_hour(gpus)
    if view.instance.objective is Objective.CAPACITY:
        return sum(placed_throughput_rps(view, gpu) for gpu in gpus)
    return sum(slot.rate_rps for gpu in gpus for gpulet in gpu.gpulets for slot in gpulet.slots)


def with_spare_spent(view: View, gpu: PlacedGpu) -> PlacedGpu:
    """Return the same residents with the spare shares distributed, or ``gpu`` unchanged if its residents do not fit."""
    residents = [
        Resident(view.instance.workload_index[slot.workload], slot.batch, slot.rate_rps)
        for gpulet in gpu.gpulets
        for slot in gpulet.slots
    ]
    return fit_gpu(view, residents, spend_spare=True) or gpu


def warm_packing(pack: Pack) -> None:
    """Run a packing rule once on a tiny instance, so that its kernel is loaded before time is measured."""
    for objective in (Objective.CAPACITY, Objective.GOODPUT):
        pack_pools(tiny_instance(objective), pack, spend_spare=True)
