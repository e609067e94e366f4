"""Time of a batch: interference of the batches that run beside it, and seeded noise."""

import math

import numpy as np

from bench.simulation.applications import NONE
from bench.simulation.layout import Site
from bench.simulation.random_numbers import mixed, uniform
from instances.arrays import Floats, Records
from instances.compiled import compiled, inlined, kernel
from instances.interference import gpu_time_beside_ms, gpu_time_ms


@kernel
def retime(site: Site, state: Records, scratch: Floats, executor: int, now_ms: float) -> None:
    """Update the speed of every batch on an executor's GPU, given the batches that run now."""
    tables, executors, slots = site.tables, site.executors, site.slots
    running = np.int64(0)  # with a constant 0, Numba would compile the called kernels a second time for that constant
    l2, dram, power = 0.0, 0.0, 0.0
    for other in range(executors[executor].first, executors[executor].end):
        if state[other].slot != NONE:
            model, batch, units = slots[state[other].slot].model, state[other].size, executors[other].units
            running += 1
            l2 += tables.l2_pct[model, batch, units]
            dram += tables.dram_pct[model, batch, units]
            power += tables.power_w[model, batch, units]
    if tables.pairwise and running > 2:
        _retime_by_pairs(site, state, scratch, executor, now_ms, running)
        return
    for other in range(executors[executor].first, executors[executor].end):
        if state[other].slot != NONE:
            model, batch, units = slots[state[other].slot].model, state[other].size, executors[other].units
            others_l2 = l2 - tables.l2_pct[model, batch, units]
            others_dram = dram - tables.dram_pct[model, batch, units]
            time_ms = gpu_time_ms(tables, model, batch, units, running, others_l2, others_dram, power)
            _set_speed(state, other, time_ms * state[other].factor, now_ms)


@kernel
def _retime_by_pairs(site: Site, state: Records, scratch: Floats, executor: int, now_ms: float, running: int) -> None:
    """Update the speeds for performance models with pairwise interference."""
    tables, executors, slots = site.tables, site.executors, site.slots
    row = np.int64(0)
    for other in range(executors[executor].first, executors[executor].end):
        if state[other].slot != NONE:
            model, batch, units = slots[state[other].slot].model, state[other].size, executors[other].units
            scratch[row, 0] = tables.l2_pct[model, batch, units]
            scratch[row, 1] = tables.dram_pct[model, batch, units]
            scratch[row, 2] = tables.power_w[model, batch, units]
            row += 1
    row = np.int64(0)
    for other in range(executors[executor].first, executors[executor].end):
        if state[other].slot != NONE:
            model, batch, units = slots[state[other].slot].model, state[other].size, executors[other].units
            time_ms = gpu_time_beside_ms(tables, model, batch, units, scratch[:running], row)
            _set_speed(state, other, time_ms * state[other].factor, now_ms)
            row += 1


@inlined
def _set_speed(state: Records, executor: int, whole_ms: float, now_ms: float) -> None:
    """Continue a batch at the speed at which the whole batch takes ``whole_ms``."""
    if state[executor].since_ms < now_ms:
        finished_part = (now_ms - state[executor].since_ms) / state[executor].whole_ms
        state[executor].left = max(0.0, state[executor].left - finished_part)
        state[executor].since_ms = now_ms
    state[executor].whole_ms = whole_ms
    state[executor].event_ms = now_ms + (whole_ms * state[executor].left if state[executor].left > 0.0 else 0.0)


@compiled
def noise_factor(deviation: float, seed: int, slot: int, batch: int) -> float:
    """Return a lognormal factor of mean 1 on the time of a batch; seed, slot and batch determine it.

    ``batch`` is the number of the batch in its slot. ``deviation`` is the standard deviation of the factor's logarithm.
    """
    if deviation == 0.0:
        return 1.0
    state = mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    state = mixed(state + np.uint64(slot))
    state = mixed(state + np.uint64(batch))
    radius = math.sqrt(-2.0 * math.log(uniform(state)))
    normal = radius * math.cos(2.0 * math.pi * uniform(mixed(state + np.uint64(1))))
    return math.exp(deviation * normal - 0.5 * deviation * deviation)
