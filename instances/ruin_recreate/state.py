"""State of the search: contents of the GPUs in use, and the waiting items; functions that change and copy it."""

from typing import NamedTuple

import numpy as np

from instances.arrays import Flags, Floats, Ints
from instances.compiled import kernel
from instances.joint_batches import choose_batches
from instances.ruin_recreate.problem import PackingProblem, choice_of, tables_of

WAITING, SPAN, TOUCHED = 0, 1, 2
"""Positions in ``PackingState.counts``."""


class PackingState(NamedTuple):
    """Contents of GPUs; a GPU without residents is not in use and has no type.

    Attributes
    ----------
    gpu_type, residents, allocated
        Type, number of residents and units in use of each GPU, shape (GPUs,).
    item, step, row, units
        Item, step, configuration and share of each resident, shape (GPUs, most residents).
    in_use
        Number of GPUs in use of each type, shape (types,).
    waiting
        Items on no GPU, shape (items,).
    counts
        Number of waiting items, number of GPUs up to the last that was in use, and number of touched GPUs.
    touched, is_touched
        GPUs that changed since the last ``copy_touched``, and whether each GPU did.
    """

    gpu_type: Ints
    residents: Ints
    allocated: Ints
    item: Ints
    step: Ints
    row: Ints
    units: Ints
    in_use: Ints
    waiting: Ints
    counts: Ints
    touched: Ints
    is_touched: Flags

    @classmethod
    def empty(cls, problem: PackingProblem) -> "PackingState":
        """Return a state without GPUs in use, in which all items that some GPU can serve are waiting."""
        items, types = problem.items, len(problem.price)
        share_units = int(problem.tables.share_units.max(initial=1))
        least_units = int(problem.configurations.units.min(initial=share_units))
        most = max(1, min(items, share_units // least_units))
        gpus = int(min(items, problem.limit.sum()))
        waiting = np.zeros(items, dtype=np.int64)
        servable = np.flatnonzero(problem.priority > 0.0)
        waiting[: len(servable)] = servable[np.argsort(-problem.priority[servable], kind="stable")]
        return cls(
            gpu_type=np.zeros(gpus, dtype=np.int64),
            residents=np.zeros(gpus, dtype=np.int64),
            allocated=np.zeros(gpus, dtype=np.int64),
            item=np.zeros((gpus, most), dtype=np.int64),
            step=np.zeros((gpus, most), dtype=np.int64),
            row=np.zeros((gpus, most), dtype=np.int64),
            units=np.zeros((gpus, most), dtype=np.int64),
            in_use=np.zeros(types, dtype=np.int64),
            waiting=waiting,
            counts=np.array([len(servable), 0, 0]),
            touched=np.zeros(gpus, dtype=np.int64),
            is_touched=np.zeros(gpus, dtype=np.bool_),
        )

    def copied(self) -> "PackingState":
        """Return a deep copy."""
        return PackingState._make(array.copy() for array in self)


class GpuBuffers(NamedTuple):
    """Working memory of the kernels.

    Attributes
    ----------
    item, step, first, end, row, units
        Item and step of each resident of one GPU, and arguments of ``choose_batches``, shape (most residents + 1,).
    key
        Sort key of each waiting item, shape (items,).
    price_factor
        Factor on the price of each GPU type, shape (types,).
    """

    item: Ints
    step: Ints
    first: Ints
    end: Ints
    row: Ints
    units: Ints
    key: Floats
    price_factor: Floats

    @classmethod
    def of(cls, problem: PackingProblem, packing: PackingState) -> "GpuBuffers":
        """Allocate the buffers."""
        residents = packing.item.shape[1] + 1
        item, step, first, end, row, units = np.zeros((6, residents), dtype=np.int64)
        return cls(item, step, first, end, row, units, np.zeros(problem.items), np.ones(len(problem.price)))


@kernel
def touch(packing: PackingState, gpu: int) -> None:
    """Record that a GPU changes."""
    if not packing.is_touched[gpu]:
        packing.is_touched[gpu] = True
        packing.touched[packing.counts[TOUCHED]] = gpu
        packing.counts[TOUCHED] += 1


@kernel
def copy_touched(source: PackingState, target: PackingState, changed: PackingState) -> None:
    """Copy the GPUs that are touched in ``changed``, and all counts, from ``source`` to ``target``.

    ``changed`` is one of these two states.
    """
    for n in range(changed.counts[TOUCHED]):
        g = changed.touched[n]
        changed.is_touched[g] = False
        _copy_gpu(source, target, g)
    changed.counts[TOUCHED] = 0
    _copy_rest(source, target)


@kernel
def copy_all(source: PackingState, target: PackingState) -> None:
    """Copy a whole state."""
    for g in range(max(source.counts[SPAN], target.counts[SPAN])):
        _copy_gpu(source, target, g)
    _copy_rest(source, target)


@kernel
def _copy_gpu(source: PackingState, target: PackingState, gpu: int) -> None:
    target.gpu_type[gpu], target.residents[gpu] = source.gpu_type[gpu], source.residents[gpu]
    target.allocated[gpu] = source.allocated[gpu]
    for j in range(source.residents[gpu]):
        target.item[gpu, j], target.step[gpu, j] = source.item[gpu, j], source.step[gpu, j]
        target.row[gpu, j], target.units[gpu, j] = source.row[gpu, j], source.units[gpu, j]


@kernel
def _copy_rest(source: PackingState, target: PackingState) -> None:
    """Copy everything that does not belong to a single GPU."""
    for x in range(len(source.in_use)):
        target.in_use[x] = source.in_use[x]
    for n in range(source.counts[WAITING]):
        target.waiting[n] = source.waiting[n]
    target.counts[WAITING], target.counts[SPAN] = source.counts[WAITING], source.counts[SPAN]


@kernel
def fit(problem: PackingProblem, gpu_type: int, count: int, buffers: GpuBuffers) -> int:
    """Choose batches and shares of the first ``count`` items of the buffers; return the sum of the shares, or -1.

    The configurations and the shares are written to the buffers.
    """
    for j in range(count):
        choice = choice_of(problem, gpu_type, buffers.item[j], buffers.step[j])
        buffers.first[j], buffers.end[j] = (
            problem.configurations.first[choice],
            problem.configurations.first[choice + 1],
        )
        if buffers.first[j] == buffers.end[j]:
            return -1
    tables = tables_of(problem, gpu_type)
    return choose_batches(tables, problem.configurations, buffers.first, buffers.end, count, buffers.row, buffers.units)


@kernel
def fill_buffers(problem: PackingProblem, gpu_type: int, rows: Ints, buffers: GpuBuffers) -> int:
    """Write residents of these configurations to the buffers; return the sum of their shares, -1 if they do not fit."""
    count = len(rows)
    if count >= len(buffers.item):
        return -1
    for j in range(count):
        buffers.item[j], buffers.step[j] = problem.configurations.item[rows[j]], problem.configurations.step[rows[j]]
        buffers.first[j], buffers.end[j] = rows[j], rows[j] + 1
    return choose_batches(
        tables_of(problem, gpu_type),
        problem.configurations,
        buffers.first,
        buffers.end,
        count,
        buffers.row,
        buffers.units,
    )


@kernel
def load(packing: PackingState, gpu: int, buffers: GpuBuffers) -> int:
    """Write the items and steps of a GPU to the buffers; return their number."""
    count = packing.residents[gpu]
    for j in range(count):
        buffers.item[j], buffers.step[j] = packing.item[gpu, j], packing.step[gpu, j]
    return count


@kernel
def fill(packing: PackingState, gpu: int, gpu_type: int, count: int, total: int, buffers: GpuBuffers) -> None:
    """Give a GPU this type and the first ``count`` residents of the buffers, whose shares sum to ``total``."""
    touch(packing, gpu)
    if packing.residents[gpu] > 0:
        packing.in_use[packing.gpu_type[gpu]] -= 1
    packing.gpu_type[gpu], packing.residents[gpu], packing.allocated[gpu] = gpu_type, count, total
    for j in range(count):
        packing.item[gpu, j], packing.step[gpu, j] = buffers.item[j], buffers.step[j]
        packing.row[gpu, j], packing.units[gpu, j] = buffers.row[j], buffers.units[j]
    if count > 0:
        packing.in_use[gpu_type] += 1
        packing.counts[SPAN] = max(packing.counts[SPAN], gpu + 1)


@kernel
def refill(
    problem: PackingProblem, packing: PackingState, gpu: int, gpu_type: int, count: int, buffers: GpuBuffers
) -> None:
    """Give a GPU this type and the residents of the buffers; residents that do not fit wait, the last ones first."""
    total = 0
    while count > 0:
        total = fit(problem, gpu_type, count, buffers)
        if total >= 0:
            break
        count -= 1
        wait(packing, buffers.item[count])
    fill(packing, gpu, gpu_type, count, total if count > 0 else 0, buffers)


@kernel
def wait(packing: PackingState, item: int) -> None:
    """Add an item to the waiting items."""
    packing.waiting[packing.counts[WAITING]] = item
    packing.counts[WAITING] += 1


@kernel
def cost_of(problem: PackingProblem, packing: PackingState) -> float:
    """Return the price of the GPUs in use."""
    cost = 0.0
    for x in range(len(problem.price)):
        cost += problem.price[x] * packing.in_use[x]
    return cost
