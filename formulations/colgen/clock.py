"""Clock of column generation: time, or under a work limit the work done.

Column generation often divides the remaining time between patterns, bound and integer solutions. Under a work limit its
clock converts work to seconds, so the division is the same on a busy and on a quiet machine. The unit of work is a node
of a pricing search. Other long operations count as the number of nodes that take about as long.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace

from bench.api import Run
from instances.compiled import CompilationTime, compilation_time

NODES_PER_S = 300_000
"""Work per second of the clock: about the speed of one core."""

CELLS_PER_NODE = 5_000
"""Entries of a completion table that are filled in the time of one node."""

ENTRIES_PER_NODE = 500
"""Rows plus columns that a simplex iteration processes in the time of one node."""

RELAXATION_NODES = 100
"""Work of solving a linear program besides its iterations, in nodes."""

INTEGER_NODES_PER_S, COLUMNS_AT_FULL_SPEED = 20, 400
"""Branch-and-bound nodes per second of an integer program, and the largest number of columns at this speed."""

OVER_S = 1e9
"""Seconds added to a clock of work once the wall-clock deadline has passed."""


class _Work:
    """Work done, and the wall-clock deadline; the time of compilations in ``left_out`` does not count."""

    def __init__(self, time_is_over_at: float, limited: bool, left_out: CompilationTime | None = None) -> None:
        self.nodes = 0.0
        self._limited, self._left_out = limited, left_out
        self._time_is_over_at = time_is_over_at

    @property
    def time_left_s(self) -> float:
        """Return the seconds until the wall-clock deadline."""
        return self._time_is_over_at - self._wall_s()

    def now(self) -> float:
        """Return the seconds on the clock: of the wall clock, or under a work limit the work done."""
        if not self._limited:
            return self._wall_s()
        over_s = 0.0 if self.time_left_s > 0.0 else OVER_S
        return self.nodes / NODES_PER_S + over_s

    @property
    def limited(self) -> bool:
        """Whether the clock counts work."""
        return self._limited

    def _wall_s(self) -> float:
        return time.monotonic() - (0.0 if self._left_out is None else self._left_out.seconds)


# Without a run, work has no limit and its count is not reported, so all contexts may share one default.
_WORK: ContextVar[_Work] = ContextVar("work", default=_Work(math.inf, limited=False))  # noqa: B039


@dataclass(frozen=True, slots=True)
class _ClockedRun(Run):
    """Run whose deadline is on the clock of column generation."""

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline on the clock, never negative."""
        return max(0.0, self.deadline - now())


@contextmanager
def clocked(run: Run, without_compilation: bool = False) -> Iterator[Run]:
    """Yield the run for column generation: ``run`` itself, or one whose deadline is on the clock.

    Parameters
    ----------
    without_compilation
        Whether the time of compiling kernels does not count. The run then ends later by that time.
    """
    with compilation_time() if without_compilation else nullcontext() as left_out:
        token = _WORK.set(_Work(run.deadline, run.work_limit is not None, left_out))
        try:
            if run.work_limit is None and not without_compilation:
                yield run
                return
            values = {field.name: getattr(run, field.name) for field in fields(Run)}
            deadline = run.deadline if run.work_limit is None else run.work_limit / NODES_PER_S
            yield _ClockedRun(**(values | {"deadline": deadline}))
        finally:
            _WORK.reset(token)


def subproblem_run(run: Run, deadline: float | None = None) -> Run:
    """Return a copy of the run for a subproblem: without a listener and without a start plan."""
    deadline = run.deadline if deadline is None else deadline
    return replace(run, deadline=deadline, start=None, listener=lambda plan, bound: None)


def now() -> float:
    """Return the seconds on the clock: ``time.monotonic()``, or the work done converted to seconds."""
    return _WORK.get().now()


def spend_nodes(nodes: float) -> None:
    """Count work, in nodes of a pricing search."""
    _WORK.get().nodes += nodes


def branch_and_bound_limits(limit_s: float, columns: int = 0) -> dict[str, float | int]:
    """Return HiGHS options that limit branch-and-bound to about ``limit_s`` on the clock.

    Beyond ``COLUMNS_AT_FULL_SPEED`` columns, the time of a node is taken to be proportional to their number.
    """
    work = _WORK.get()
    if not work.limited:
        return {"time_limit": float(max(limit_s, 0.01))}
    per_s = INTEGER_NODES_PER_S * COLUMNS_AT_FULL_SPEED / max(columns, COLUMNS_AT_FULL_SPEED)
    most = max(1, min(round(limit_s * per_s), 2**31 - 1))
    return {"time_limit": max(work.time_left_s, 0.01), "mip_max_nodes": most}


def wall_time_left_s() -> float:
    """Return the seconds until the wall-clock deadline, never negative; infinite without one."""
    return max(0.0, _WORK.get().time_left_s)


def work_done() -> float:
    """Return the work done, in nodes of a pricing search."""
    return _WORK.get().nodes
