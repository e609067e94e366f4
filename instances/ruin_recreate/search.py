"""Search of one packing problem: a first packing, and rounds within limits of time and work."""

import time
from collections.abc import Callable, Iterator
from math import inf

import numpy as np

from instances.arrays import Ints
from instances.compiled import kernel
from instances.ruin_recreate.insertion import insert
from instances.ruin_recreate.problem import PackingProblem
from instances.ruin_recreate.rounds import RoundsOfCall, empty_gpu, loss_of, search
from instances.ruin_recreate.state import (
    SPAN,
    WAITING,
    GpuBuffers,
    PackingState,
    copy_all,
    copy_touched,
    cost_of,
    fill,
    fill_buffers,
)

CALL_S = 0.05
"""Time of one call of the compiled search, after which the deadline is tested."""


class PackingSearch:
    """Ruin and recreate on one packing problem (Schrimpf et al., J. Comput. Phys. 159, 2000).

    Attributes
    ----------
    rounds
        Number of rounds so far.
    """

    def __init__(self, problem: PackingProblem, random: np.random.Generator) -> None:
        self.rounds = 0
        self._problem = problem
        self._cost_limit = inf
        self._random = random
        self._packing = PackingState.empty(problem)
        self._previous, self._best = self._packing.copied(), self._packing.copied()
        self._buffers = GpuBuffers.of(problem, self._packing)
        self._rounds_per_call = 1

    @property
    def waiting(self) -> int:
        """Number of items on no GPU in the best packing."""
        return int(self._best.counts[WAITING])

    @property
    def loss(self) -> float:
        """Weight that the best packing does not serve."""
        return float(loss_of(self._problem, self._best))

    @property
    def cost_per_hour(self) -> float:
        """Price of the GPUs in use in the best packing."""
        return float(cost_of(self._problem, self._best))

    def gpus(self) -> Iterator[tuple[int, Ints, Ints]]:
        """Yield type, configurations and shares of the GPUs in use in the best packing."""
        best = self._best
        for g in np.flatnonzero(best.residents).tolist():
            count = best.residents[g]
            yield int(best.gpu_type[g]), best.row[g, :count], best.units[g, :count]

    def take_over(self, gpu_type: int, rows: Ints) -> None:
        """Place items together on a new GPU, with these configurations' batches; do nothing if they do not fit."""
        _take_over(self._problem, self._packing, gpu_type, rows, self._buffers)

    def build(self) -> None:
        """Place all waiting items, those of the highest priority first."""
        _build(self._problem, self._packing, self._cost_limit, self._random, self._buffers)
        self._synchronise()

    def run(self, rounds: int, deadline: float, improved: Callable[[], None] = lambda: None) -> None:
        """Search until nothing is lost, for a number of rounds, or until ``time.monotonic()`` reaches ``deadline``.

        ``improved`` is called after each call of the compiled search that has found a better packing.
        """
        end, loss = self.rounds + rounds, self.loss
        states = (self._packing, self._previous, self._best)
        while self.rounds < end and loss > 0.0 and (began := time.monotonic()) < deadline:
            count = min(self._rounds_per_call, end - self.rounds)
            call = RoundsOfCall(self.rounds, count, self._cost_limit)
            self.rounds += int(search(self._problem, *states, call, self._random, self._buffers))
            if self.loss < loss:
                loss = self.loss
                improved()
            self._rounds_per_call = 2 * count if time.monotonic() - began < CALL_S else max(1, count // 2)

    def limit_cost(self, cost_limit: float) -> None:
        """Limit the price of the GPUs in use.

        GPUs of the best packing are emptied until the others are within the limit, first the GPU that serves the least
        weight per dollar.
        """
        self._cost_limit = cost_limit
        copy_all(self._best, self._packing)
        _close(self._problem, self._packing, cost_limit, self._buffers)
        self._synchronise()

    def _synchronise(self) -> None:
        """Make the previous and the best state equal to the present state."""
        copy_touched(self._packing, self._previous, self._packing)
        copy_all(self._packing, self._previous)
        copy_all(self._packing, self._best)


@kernel
def _take_over(problem: PackingProblem, packing: PackingState, gpu_type: int, rows: Ints, buffers: GpuBuffers) -> None:
    """Place the items of the configurations ``rows`` on a new GPU, and remove them from the waiting items."""
    count = len(rows)
    total = fill_buffers(problem, gpu_type, rows, buffers)
    if total < 0 or packing.in_use[gpu_type] >= problem.limit[gpu_type]:
        return
    fill(packing, packing.counts[SPAN], gpu_type, count, total, buffers)
    waiting = 0
    for n in range(packing.counts[WAITING]):
        placed = False
        for j in range(count):
            placed = placed or packing.waiting[n] == buffers.item[j]
        if not placed:
            packing.waiting[waiting] = packing.waiting[n]
            waiting += 1
    packing.counts[WAITING] = waiting


@kernel
def _build(
    problem: PackingProblem, packing: PackingState, cost_limit: float, random: np.random.Generator, buffers: GpuBuffers
) -> None:
    """Place the waiting items in their order; those without a place keep waiting."""
    waiting = 0
    for n in range(packing.counts[WAITING]):
        item = packing.waiting[n]
        if not insert(problem, packing, item, cost_limit, True, 0.0, random, buffers):
            packing.waiting[waiting] = item
            waiting += 1
    packing.counts[WAITING] = waiting


@kernel
def _close(problem: PackingProblem, packing: PackingState, cost_limit: float, buffers: GpuBuffers) -> None:
    """Empty GPUs until the price of the others is within the limit; see ``PackingSearch.limit_cost``."""
    while cost_of(problem, packing) > cost_limit:
        emptiest, least = -1, np.inf
        for g in range(packing.counts[SPAN]):
            price = problem.price[packing.gpu_type[g]]
            if packing.residents[g] == 0 or price <= 0.0:
                continue
            served = 0.0
            for j in range(packing.residents[g]):
                served += problem.weight[packing.item[g, j]]
            if served / price < least:
                emptiest, least = g, served / price
        empty_gpu(packing, emptiest, buffers)
