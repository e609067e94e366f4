"""Insertion of an item on the GPU where the additional share units have the least price."""

import numpy as np

from instances.compiled import kernel
from instances.ruin_recreate.problem import PackingProblem, choice_of
from instances.ruin_recreate.state import SPAN, GpuBuffers, PackingState, cost_of, fill, fit, load

ROUNDING = 1e-9
"""Relative tolerance on sums of prices."""


@kernel
def insert(
    problem: PackingProblem,
    packing: PackingState,
    item: int,
    cost_limit: float,
    used_first: bool,
    blink: float,
    random: np.random.Generator,
    buffers: GpuBuffers,
) -> bool:
    """Place an item; return whether it has a place.

    The highest step is tried on every GPU first. If the item fits nowhere at this step, it takes the GPU with the
    highest possible step.

    Parameters
    ----------
    cost_limit
        Largest price per hour of the GPUs in use.
    used_first
        Open a GPU only if no GPU in use has room at the highest step.
    blink
        Probability of skipping a possible place.
    """
    step, gpu, least_price = problem.steps, -1, np.inf
    for g in range(packing.counts[SPAN]):
        gpu_type = packing.gpu_type[g]
        least = _least_units(problem, packing, g, item, step)
        per_unit = buffers.price_factor[gpu_type] * problem.price[gpu_type] / problem.tables.share_units[gpu_type]
        if least < 0 or least * per_unit >= least_price or (blink > 0.0 and random.random() < blink):
            continue
        total = _fit_beside(problem, packing, g, item, step, buffers)
        if total >= 0 and (total - packing.allocated[g]) * per_unit < least_price:
            gpu, least_price = g, (total - packing.allocated[g]) * per_unit
    new_type = -1
    if gpu < 0 or not used_first:
        new_type = _type_to_open(problem, packing, item, step, cost_limit, least_price, buffers)
    if gpu < 0 and new_type < 0 and step > 1:
        step, gpu, new_type = _highest_step(problem, packing, item, cost_limit, buffers)
    if new_type >= 0:
        gpu = 0
        while packing.residents[gpu] > 0:
            gpu += 1
        packing.gpu_type[gpu] = new_type
    if gpu < 0:
        return False
    total = _fit_beside(problem, packing, gpu, item, step, buffers)
    fill(packing, gpu, packing.gpu_type[gpu], packing.residents[gpu] + 1, total, buffers)
    return True


@kernel
def _least_units(problem: PackingProblem, packing: PackingState, gpu: int, item: int, step: int) -> int:
    """Return the least share of an item alone.

    Return -1 if the GPU is not in use or has no room, or if it has an item of the same workload and ``apart`` is set.
    """
    count, gpu_type = packing.residents[gpu], packing.gpu_type[gpu]
    choice = choice_of(problem, gpu_type, item, step)
    first = problem.configurations.first[choice]
    if count == 0 or count >= packing.item.shape[1] or first == problem.configurations.first[choice + 1]:
        return -1
    if problem.apart:
        for j in range(count):
            if problem.configurations.workload[packing.row[gpu, j]] == problem.configurations.workload[first]:
                return -1
    units = problem.configurations.units[first]
    return units if packing.allocated[gpu] + units <= problem.tables.share_units[gpu_type] else -1


@kernel
def _fit_beside(
    problem: PackingProblem, packing: PackingState, gpu: int, item: int, step: int, buffers: GpuBuffers
) -> int:
    """Fit an item beside the residents of a GPU; return the sum of all shares, or -1."""
    count = load(packing, gpu, buffers)
    buffers.item[count], buffers.step[count] = item, step
    return fit(problem, packing.gpu_type[gpu], count + 1, buffers)


@kernel
def _type_to_open(
    problem: PackingProblem,
    packing: PackingState,
    item: int,
    step: int,
    cost_limit: float,
    least_price: float,
    buffers: GpuBuffers,
) -> int:
    """Return the type of a new GPU on which the item's share costs least and less than ``least_price``, or -1."""
    gpu_type, cost = -1, cost_of(problem, packing)
    for x in range(len(problem.price)):
        choice = choice_of(problem, x, item, step)
        first = problem.configurations.first[choice]
        if (
            packing.in_use[x] >= problem.limit[x]
            or cost + problem.price[x] > cost_limit * (1.0 + ROUNDING)
            or first == problem.configurations.first[choice + 1]
        ):
            continue
        per_unit = buffers.price_factor[x] * problem.price[x] / problem.tables.share_units[x]
        if problem.configurations.units[first] * per_unit < least_price:
            gpu_type, least_price = x, problem.configurations.units[first] * per_unit
    return gpu_type


@kernel
def _highest_step(
    problem: PackingProblem, packing: PackingState, item: int, cost_limit: float, buffers: GpuBuffers
) -> tuple[int, int, int]:
    """Return the highest step at which an item has a place, and its GPU or the type of a new one; -1 for none."""
    best_step, gpu, new_type = 0, -1, -1
    for g in range(packing.counts[SPAN]):
        low, high = best_step, problem.steps
        while high - low > 1:
            # The next higher step decides whether this GPU is worth a search.
            middle = low + 1 if low == best_step else (low + high) // 2
            fits = _least_units(problem, packing, g, item, middle) >= 0
            fits = fits and _fit_beside(problem, packing, g, item, middle, buffers) >= 0
            if not fits and low == best_step:
                break
            low, high = (middle, high) if fits else (low, middle)
        if low > best_step:
            best_step, gpu = low, g
    for step in range(problem.steps - 1, best_step, -1):
        new_type = _type_to_open(problem, packing, item, step, cost_limit, np.inf, buffers)
        if new_type >= 0:
            return step, -1, new_type
    return best_step, gpu, new_type
