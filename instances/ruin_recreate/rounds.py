"""Rounds of the search: remove residents of a few GPUs, place them anew, and keep or undo the result."""

from typing import NamedTuple

import numpy as np

from instances.compiled import kernel
from instances.ruin_recreate.insertion import ROUNDING, insert
from instances.ruin_recreate.problem import PackingProblem
from instances.ruin_recreate.state import (
    SPAN,
    WAITING,
    GpuBuffers,
    PackingState,
    copy_all,
    copy_touched,
    cost_of,
    fill,
    load,
    refill,
    wait,
)

EMPTIED, THINNED = 3, 3
"""Largest number of GPUs that lose all residents in a round, and of GPUs that lose some."""

REMOVAL = 0.4
"""Probability of removing a resident of a thinned GPU."""

RETYPING = 0.4
"""Probability of moving the content of a GPU to one of another type in a round."""

BLINK = 0.05
"""Probability of skipping a possible place, so that repeated removals are not always repaired in the same way."""

NOISE = 0.5
"""Standard deviation of the logarithmic noise on the priorities of items and on the prices of GPU types."""

CYCLE, WARMTH = 400, 0.02
"""Rounds of an annealing cycle, and its first temperature as a fraction of the items' mean weight.

The temperature of every other cycle is 0: no worse state is accepted.
"""


class RoundsOfCall(NamedTuple):
    """Rounds of one call of ``search``: number of the first round, number of rounds, and largest price per hour."""

    first: int
    rounds: int
    cost_limit: float


@kernel
def search(
    problem: PackingProblem,
    packing: PackingState,
    previous: PackingState,
    best: PackingState,
    call: RoundsOfCall,
    random: np.random.Generator,
    buffers: GpuBuffers,
) -> int:
    """Run rounds until nothing is lost, or their number is reached; return how many were run.

    Parameters
    ----------
    packing, previous
        State, and an equal copy of it.
    best
        State with the least loss so far; overwritten with each state that has a smaller loss.
    """
    loss, least = loss_of(problem, packing), loss_of(problem, best)
    mean = problem.weight.sum() / max(problem.items, 1)
    done = 0
    while done < call.rounds and loss > 0.0:
        number = call.first + done
        done += 1
        _ruin(problem, packing, call.cost_limit, random, buffers)
        _recreate(problem, packing, call.cost_limit, random, buffers)
        new_loss = loss_of(problem, packing)
        warmth = WARMTH * mean * (1.0 - (number % CYCLE) / CYCLE) if number // CYCLE % 2 else 0.0
        if new_loss > loss and random.random() >= np.exp((loss - new_loss) / max(warmth, np.finfo(np.float64).tiny)):
            copy_touched(previous, packing, packing)
            continue
        copy_touched(packing, previous, packing)
        loss = new_loss
        if loss < least:
            copy_all(packing, best)
            least = loss
    return done


@kernel
def loss_of(problem: PackingProblem, packing: PackingState) -> float:
    """Return the loss: the weight of the waiting items, and the lost fractions of the weights of the placed items."""
    loss = 0.0
    for n in range(packing.counts[WAITING]):
        loss += problem.weight[packing.waiting[n]]
    if problem.steps > 1:
        for g in range(packing.counts[SPAN]):
            for j in range(packing.residents[g]):
                missing = problem.steps - packing.step[g, j]
                loss += problem.weight[packing.item[g, j]] * missing / problem.steps
    return loss


@kernel
def _ruin(
    problem: PackingProblem, packing: PackingState, cost_limit: float, random: np.random.Generator, buffers: GpuBuffers
) -> None:
    """Empty some GPUs, remove residents of others, and change the type of a GPU."""
    for _ in range(1 + int(random.random() * EMPTIED)):
        g = _gpu_in_use(packing, random)
        if g >= 0:
            empty_gpu(packing, g, buffers)
    for _ in range(int(random.random() * (THINNED + 1))):
        g = _gpu_in_use(packing, random)
        if g >= 0:
            _thin(problem, packing, g, random, buffers)
    types = len(problem.price)
    if types > 1 and random.random() < RETYPING:
        g, new_type = _gpu_in_use(packing, random), int(random.random() * types)
        if g >= 0 and new_type != packing.gpu_type[g]:
            _retype(problem, packing, g, new_type, cost_limit, random, buffers)


@kernel
def _gpu_in_use(packing: PackingState, random: np.random.Generator) -> int:
    """Return a random GPU in use, or -1 if there is none."""
    in_use = 0
    for x in range(len(packing.in_use)):
        in_use += packing.in_use[x]
    while in_use > 0:
        g = int(random.random() * packing.counts[SPAN])
        if packing.residents[g] > 0:
            return g
    return -1


@kernel
def empty_gpu(packing: PackingState, gpu: int, buffers: GpuBuffers) -> None:
    """Remove all residents of a GPU and add them to the waiting items."""
    for j in range(packing.residents[gpu]):
        wait(packing, packing.item[gpu, j])
    fill(packing, gpu, packing.gpu_type[gpu], 0, 0, buffers)


@kernel
def _thin(
    problem: PackingProblem, packing: PackingState, gpu: int, random: np.random.Generator, buffers: GpuBuffers
) -> None:
    """Remove each resident of a GPU with probability ``REMOVAL``; the others have their batches chosen anew."""
    staying = 0
    for j in range(packing.residents[gpu]):
        if random.random() < REMOVAL:
            wait(packing, packing.item[gpu, j])
        else:
            buffers.item[staying], buffers.step[staying] = packing.item[gpu, j], packing.step[gpu, j]
            staying += 1
    if staying < packing.residents[gpu]:
        refill(problem, packing, gpu, packing.gpu_type[gpu], staying, buffers)


@kernel
def _retype(
    problem: PackingProblem,
    packing: PackingState,
    gpu: int,
    new_type: int,
    cost_limit: float,
    random: np.random.Generator,
    buffers: GpuBuffers,
) -> None:
    """Move the content of a GPU to a new GPU of another type.

    If no further GPU of that type may be used, exchange the contents with a random GPU in use, provided that it has
    that type.
    """
    old_type = packing.gpu_type[gpu]
    cost = cost_of(problem, packing) + problem.price[new_type] - problem.price[old_type]
    if packing.in_use[new_type] >= problem.limit[new_type] or cost > cost_limit * (1.0 + ROUNDING):
        other = _gpu_in_use(packing, random)
        if packing.gpu_type[other] != new_type:
            return
        refill(problem, packing, other, old_type, load(packing, other, buffers), buffers)
    refill(problem, packing, gpu, new_type, load(packing, gpu, buffers), buffers)


@kernel
def _recreate(
    problem: PackingProblem, packing: PackingState, cost_limit: float, random: np.random.Generator, buffers: GpuBuffers
) -> None:
    """Place the waiting items, those of high priority first, with noise on priorities and prices."""
    for x in range(len(problem.price)):
        buffers.price_factor[x] = np.exp(NOISE * random.standard_normal()) if len(problem.price) > 1 else 1.0
    count = packing.counts[WAITING]
    for n in range(count):
        item, noise = packing.waiting[n], NOISE * random.standard_normal()
        key = problem.priority[item] * np.exp(noise)
        place = n
        while place > 0 and buffers.key[place - 1] < key:
            buffers.key[place], packing.waiting[place] = buffers.key[place - 1], packing.waiting[place - 1]
            place -= 1
        buffers.key[place], packing.waiting[place] = key, item
    waiting = 0
    for n in range(count):
        item = packing.waiting[n]
        if not insert(problem, packing, item, cost_limit, False, BLINK, random, buffers):
            packing.waiting[waiting] = item
            waiting += 1
    packing.counts[WAITING] = waiting
