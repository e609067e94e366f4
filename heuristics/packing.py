"""Packing of items (workloads or equal parts of them) onto GPUs of one type, each in a gpulet of its own."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bench.api import Outcome, Status
from heuristics.fleet import Fleet, placed_gpus
from heuristics.tiny import tiny_instance
from instances import PART_STEPS, Instance, Objective, PlacedGpu, Plan, Workload
from instances.arrays import Floats, Ints
from instances.configurations import Configurations
from instances.least_shares import shares_alone
from instances.one_gpu import Resident, fit_gpu, placed_throughput_rps
from instances.parts import MOST_PARTS, fewest_parts, trickle_rps
from instances.view import View


class UnservableError(Exception):
    """Workload that no whole GPU serves, at any batch; ``in_parts`` tells whether a GPU serves a small part of it.

    Attributes
    ----------
    status
        ``infeasible`` if no GPU serves a part of it either; ``unknown`` if ``MOST_PARTS`` parts are too few.
    """

    def __init__(self, workload: Workload, gpus: str, in_parts: bool) -> None:
        problem = f"cannot meet {workload.slo_ms:g} ms on a whole {gpus} at any rate"
        if in_parts:
            problem = f"asks for {workload.rate_rps:g} req/s: too much for {MOST_PARTS:,} parts, each on a whole {gpus}"
        super().__init__(f"{workload.id}: {workload.model} {problem}")
        self.status = Status.UNKNOWN if in_parts else Status.INFEASIBLE


def appropriate_batch(view: View, workload: Ints, rate_rps: Floats) -> Ints:
    """Return ``b_appr``: the batch that just meets the rate within half the SLO (iGniter equation 17).

    If uploads do not overlap execution, the upload term is zero. The batch is capped at the catalogue's largest. In
    decoding, it is the fewest places that serve the rate with the longest permitted steps. ``workload`` and
    ``rate_rps`` have equal shapes.
    """
    tables, model = view.tables, view.model[workload]
    # Hidden upload of a single request; apart from the batching time, uploads are linear in the batch.
    hidden_ms = tables.transfer_ms[model, 1] - tables.exposed_ms[model, 1]
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


def appropriate_configurations(view: View) -> Configurations:
    """Return iGniter's configuration of every item at each of its rates: batch ``b_appr`` and share ``r_lower``.

    An item is a workload, or one of its equal parts if no GPU serves it whole. Under ``goodput`` its rates are the
    steps of the workload's rate, highest first; those that no GPU serves are left out. Otherwise it has one rate.

    Raises
    ------
    UnservableError
        If a workload cannot be served, or only in too many parts (not under ``goodput``).
    """
    workload = np.arange(len(view.rate_rps), dtype=np.int64)
    steps = np.ones(1, dtype=np.int64)
    if view.instance.objective is Objective.GOODPUT:
        steps = np.arange(PART_STEPS, 0, -1)
        rate_rps = (view.rate_rps[:, None] * (steps / PART_STEPS)[None, :]).ravel()
    else:
        parts = _parts(view, workload)
        workload, rate_rps = np.repeat(workload, parts), np.repeat(view.rate_rps / parts, parts)
    items = len(workload)
    workload = np.repeat(workload, len(steps))
    batch = appropriate_batch(view, workload, rate_rps)
    units = lower_bound_share(view, workload, batch, rate_rps)
    configurations = Configurations(
        len(steps) * np.arange(items + 1),
        np.repeat(np.arange(items), len(steps)),
        workload,
        view.model[workload],
        batch,
        units,
        rate_rps,
        np.tile(steps, items),
        view.budgets_ms(workload, batch, rate_rps),
    )
    servable = units <= view.tables.share_units
    return configurations if servable.all() else configurations.only(servable)


def _parts(view: View, workload: Ints) -> Ints:
    """Return the number of equal parts into which each workload is divided so that one GPU serves a part; usually 1."""
    full = view.tables.share_units
    trickle = trickle_rps(view.rate_rps, view.slo_ms)
    unservable = lower_bound_share(view, workload, np.ones_like(workload), trickle) > full
    if unservable.any():
        raise UnservableError(view.instance.workloads[int(np.argmax(unservable))], view.gpu.name, in_parts=False)

    def fits(position: int, count: int) -> bool:
        one_workload, rate = workload[position : position + 1], view.rate_rps[position : position + 1] / count
        return bool(lower_bound_share(view, one_workload, appropriate_batch(view, one_workload, rate), rate)[0] <= full)

    parts = np.ones(len(workload), dtype=np.int64)
    whole_units = lower_bound_share(view, workload, appropriate_batch(view, workload, view.rate_rps), view.rate_rps)
    for position in np.flatnonzero(whole_units > full).tolist():
        if not fits(position, MOST_PARTS):
            raise UnservableError(view.instance.workloads[position], view.gpu.name, in_parts=True)
        parts_needed = fewest_parts(partial(fits, position))
        if view.instance.slo_rule.by_share and parts_needed <= PART_STEPS:
            # Certified bounds under such a rule hold for parts that are multiples of a step.
            parts_needed = next(count for count in range(parts_needed, PART_STEPS + 1) if PART_STEPS % count == 0)
        parts[position] = parts_needed
    return parts


PackingRule = Callable[[View, Configurations, int], Fleet]
"""Type of a packing rule: a function of (view, configurations of the items, available GPUs) that returns the fleet."""


def cheapest(plans: Sequence[Plan], instance: Instance, reason: str) -> Outcome:
    """Return the first plan of least cost; without plans, their absence has this reason."""
    if not plans:
        return Outcome(Status.UNKNOWN, reason=reason)
    return Outcome(Status.FEASIBLE, min(plans, key=lambda plan: instance.cost_per_hour(plan.gpus)))


def pack_pools(instance: Instance, pack: PackingRule, spend_spare: bool) -> Outcome:
    """Pack onto each GPU type separately and return the best plan (iGniter, Sec. 4.1, last paragraph).

    Under ``cost`` that is the cheapest type with a large enough pool, under ``capacity`` and ``goodput`` the one with
    the largest value. ``spend_spare`` distributes the spare shares of each GPU (``capacity`` only).
    """
    best: tuple[float, tuple[PlacedGpu, ...]] | None = None
    reasons, infeasible = [], True
    for pool in instance.gpus:
        view = View.of(instance, pool.type)
        try:
            configurations = appropriate_configurations(view)
        except UnservableError as error:
            reasons.append(str(error))
            infeasible = infeasible and error.status is Status.INFEASIBLE
            continue
        infeasible, count = False, configurations.item_count
        fleet = pack(view, configurations, count if pool.count is None else min(pool.count, count))
        left_out = count - int(fleet.residents.sum())
        if left_out and instance.objective is not Objective.GOODPUT:
            reasons.append(f"{left_out} of {count} workloads (or parts) do not fit on {pool.in_words}")
            continue
        gpus = placed_gpus(view, configurations, fleet)
        if spend_spare and instance.objective is Objective.CAPACITY:
            gpus = tuple(with_spare_spent(view, gpu) for gpu in gpus)
        worth = _worth(view, gpus)
        if best is None or worth > best[0]:
            best = (worth, gpus)
    if best is None:
        return Outcome(Status.INFEASIBLE if infeasible else Status.UNKNOWN, reason="; ".join(reasons))
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


def warm_packing(pack: PackingRule) -> None:
    """Run a packing rule once on a tiny instance, so that its kernel is loaded before time is measured."""
    for objective in (Objective.CAPACITY, Objective.GOODPUT):
        pack_pools(tiny_instance(objective), pack, spend_spare=True)
