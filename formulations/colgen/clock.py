"""The clock of column generation: time or, under a work limit, work in the place of time.

Column generation divides what is left between patterns, bound and whole GPUs, and does so often. Under a work limit it
reads a clock that counted work turns: the same run divides alike on a busy machine and on a quiet one. The unit is a
node of a pricing search. Everything else that takes long counts as so many nodes as take about as long.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace

from bench.api import Run

NODES_PER_S = 300_000
"""Work of a second on the clock: about what a core does, and no more."""

CELLS_PER_NODE = 5_000
"""Entries of a completion table that are filled in the time of a node."""

ENTRIES_PER_NODE = 500
"""Rows and columns of a linear programme that an iteration of the simplex method goes through in the time of a node."""

RELAXATION_NODES = 100
"""What a linear programme takes besides its iterations."""

WHOLE_NODES_PER_S = 20
"""Branch-and-bound nodes of a restricted master over whole GPUs in a second."""

OVER_S = 1e9
"""How far the clock jumps when the time itself is over."""


class _Work:
    """Work done, and the time at which it has to end all the same."""

    def __init__(self, time_is_over_at: float, limited: bool) -> None:
        self.nodes = 0.0
        self.limited = limited
        self._time_is_over_at = time_is_over_at

    @property
    def time_left_s(self) -> float:
        """Return the seconds until the time itself is over."""
        return self._time_is_over_at - time.monotonic()

    def now(self) -> float:
        """Return the seconds that the work stands for."""
        over_s = 0.0 if self.time_left_s > 0.0 else OVER_S
        return self.nodes / NODES_PER_S + over_s


_WORK: ContextVar[_Work | None] = ContextVar("work", default=None)


@dataclass(frozen=True, slots=True)
class _WorkRun(Run):
    """Terms whose deadline is read from the clock of work."""

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline on the clock, never negative."""
        return max(0.0, self.deadline - now())


@contextmanager
def clocked(run: Run) -> Iterator[Run]:
    """Yield the terms by which column generation runs: ``run`` itself, or one whose deadline is an amount of work."""
    token = _WORK.set(_Work(run.deadline, run.work_limit is not None))
    try:
        if run.work_limit is None:
            yield run
            return
        values = {field.name: getattr(run, field.name) for field in fields(Run)}
        yield _WorkRun(**(values | {"deadline": run.work_limit / NODES_PER_S}))
    finally:
        _WORK.reset(token)


def alone(run: Run, deadline: float | None = None) -> Run:
    """Return the terms of a part that nobody listens to and that starts from nothing."""
    deadline = run.deadline if deadline is None else deadline
    return replace(run, deadline=deadline, start=None, listener=lambda plan, bound: None)


def now() -> float:
    """Return the seconds on the clock: ``time.monotonic()``, or those that the work so far stands for."""
    work = _WORK.get()
    return work.now() if work is not None and work.limited else time.monotonic()


def spend(nodes: float) -> None:
    """Count work, in nodes of a pricing search."""
    work = _WORK.get()
    if work is not None:
        work.nodes += nodes


def whole_limits(limit_s: float) -> dict[str, float | int]:
    """Return options of HiGHS that let it branch for ``limit_s`` on the clock, or a little less."""
    work = _WORK.get()
    if work is None or not work.limited:
        return {"time_limit": float(max(limit_s, 0.01))}
    most = max(1, min(round(limit_s * WHOLE_NODES_PER_S), 2**31 - 1))
    return {"time_limit": max(work.time_left_s, 0.01), "mip_max_nodes": most}


def work_done() -> float:
    """Return the work so far, in nodes of a pricing search."""
    work = _WORK.get()
    return 0.0 if work is None else work.nodes
