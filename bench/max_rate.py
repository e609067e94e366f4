"""SLO-preserved maximum throughput (gpulet ATC'22, Sec. 5.2): how far rates can grow before requests come too late.

At every rate the scheduler plans anew and the plan is simulated; rates hold where at most one request in a hundred is
not served in time. That need not be so at every rate below: at low rates there are few gpulets, filled to the brim. So
the climb doubles the rates as long as there is a plan to try, late or not, and then grows them by a small step from the
largest that held until they no longer do. Only where none of these held it halves them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bench.ledger.row import Row
from bench.simulation.result import VIOLATIONS_ALLOWED
from bench.task import Task
from instances import InputError, Instance, Objective

STEP = 0.05

LEAST = 2.0**-10
"""Smallest multiple of the rates that is tried."""

MOST = 2.0**10
"""Multiple from which on rates at which too many are late are not doubled: some schedulers plan for any rate."""

_OVERLOAD = 0.5
"""Requests not in time beyond which a plan that itself promises less than the rates shows that no higher ones hold."""

_PROMISES = frozenset({"latency", "rate", "duty-cycle"})
"""Kinds of violation that are about time: whether they matter, the simulation says."""


@dataclass(slots=True)
class Climb:
    """The search of one scheduler on one instance.

    Attributes
    ----------
    instance
        With the rates as they are.
    step
        By how much rates grow at the end.
    rows
        Of the runs made, by multiple, in the order in which they were made.
    problems
        Why rates did not hold, by multiple.
    """

    instance: Instance
    step: float = STEP
    rows: dict[float, Row] = field(default_factory=dict)
    problems: dict[float, str] = field(default_factory=dict)

    @property
    def next(self) -> float | None:
        """The multiple of the rates to try next; ``None`` at the end."""
        if not self.rows:
            return 1.0
        if self.broken_off is not None:
            return None
        highest = max(self.rows)
        if highest not in self.problems or (highest < MOST and _higher_may_hold(self.rows[highest])):
            return 2.0 * highest
        if self.reached == 0.0:
            lowest = min(self.rows)
            return lowest / 2.0 if lowest > LEAST else None
        fine = self.reached * (1.0 + self.step)
        return fine if self.failed is None or fine < self.failed else None

    def take(self, multiple: float, row: Row) -> None:
        """Take the result of a run at a multiple of the rates into account."""
        self.rows[multiple] = row
        problem = not_held(row)
        if problem is not None:
            self.problems[multiple] = problem

    @property
    def reached(self) -> float:
        """Largest multiple of the rates that held; 0 if none did."""
        return max(self.rows.keys() - self.problems.keys(), default=0.0)

    @property
    def broken_off(self) -> Row | None:
        """The run that failed, after which there is no other: it says nothing about rates."""
        return next((row for row in self.rows.values() if row.failed), None)

    @property
    def failed(self) -> float | None:
        """Smallest multiple above ``reached`` that did not hold, or whose run failed; ``None`` before there is one."""
        if self.broken_off is not None:
            return list(self.rows)[-1]
        return min((multiple for multiple in self.problems if multiple > self.reached), default=None)

    @property
    def reason(self) -> str:
        """Why the rates at ``failed`` did not hold; empty before there are any."""
        return "" if self.failed is None else self.problems[self.failed]

    @property
    def throughput_rps(self) -> float:
        """Sum of the rates at the largest multiple that held."""
        return self.reached * sum(workload.rate_rps for workload in self.instance.workloads)


def not_held(row: Row) -> str | None:
    """Return why a run does not show that its rates can be served, or ``None`` if it does."""
    if row.failed:
        return row.reason or str(row.termination)
    if not _can_be_tried(row):
        if row.plan is None:
            return row.reason or f"no plan: {row.status}"
        broken = _broken(row)
        return f"the plan breaks {', '.join(sorted(broken))}" if broken else "the plan cannot be simulated"
    late = late_fraction(row)
    if late is None or late <= VIOLATIONS_ALLOWED:
        return None
    return f"{100.0 * late:.1f} % of the requests not in time"


def _higher_may_hold(row: Row) -> bool:
    """Whether higher rates, with another plan, may be served in time where these are not."""
    overloaded = (late_fraction(row) or 0.0) > _OVERLOAD and "rate" in _kinds(row)
    return _can_be_tried(row) and not overloaded


def _can_be_tried(row: Row) -> bool:
    """Whether there is a plan that breaks nothing but perhaps its promises, and a simulation of it."""
    return row.plan is not None and not _broken(row) and late_fraction(row) is not None


def _broken(row: Row) -> set[str]:
    return _kinds(row) - _PROMISES


def _kinds(row: Row) -> set[str]:
    return {violation["kind"] for violation in row.violation_details}


def late_fraction(row: Row) -> float | None:
    """Return the fraction of the requests not in time: of all workloads, or end to end of the worst application."""
    if row.sim_violation_rate is None or row.simulation is None:
        return None
    return max([row.sim_violation_rate, *(one["violation_rate"] for one in row.simulation["applications"])])


def with_all_served(instance: Instance) -> Instance:
    """Return the instance with the question whether its GPUs serve every request.

    Raises
    ------
    InputError
        If there is no end to its GPUs, or it has no rates.
    """
    if instance.objective is Objective.COLOCATION:
        raise InputError(f"{instance.name}: objective", "best-effort jobs have no rates that could grow")
    if any(pool.count is None for pool in instance.gpus):
        raise InputError(f"{instance.name}: gpus", "as many as needed serve any rate; the largest rate needs a count")
    return replace(instance, objective=Objective.COST)


def climb(tasks: Sequence[Task], run: Callable[[list[Task]], list[Row]], step: float = STEP) -> list[Climb]:
    """Find the largest rates of every task's instance, all climbs side by side; return them in the order of the tasks.

    Parameters
    ----------
    tasks
        With a trial that simulates, and instances of ``with_all_served``.
    run
        Makes runs and returns their rows in order.
    step
        By how much rates grow at the end.
    """
    climbs = [Climb(task.instance, step) for task in tasks]
    while under_way := [(task, one, one.next) for task, one in zip(tasks, climbs, strict=True) if one.next is not None]:
        rows = run([replace(task, instance=one.instance.scaled(multiple)) for task, one, multiple in under_way])
        for (_, one, multiple), row in zip(under_way, rows, strict=True):
            one.take(multiple, row)
    return climbs


def retraced(instance: Instance, rows: Sequence[Row], step: float = STEP) -> Climb:
    """Follow a climb from its rows, as far as they go.

    Parameters
    ----------
    instance
        Of ``with_all_served``.
    rows
        Of one scheduler with the same parameters, trial and seed; those of other instances do not matter.
    step
        As in ``climb``.
    """
    by_instance = {row.instance_hash: row for row in rows}
    one = Climb(instance, step)
    while (multiple := one.next) is not None:
        row = by_instance.get(instance.scaled(multiple).fingerprint)
        if row is None:
            break
        one.take(multiple, row)
    return one
