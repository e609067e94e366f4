"""SLO-preserved maximum throughput (gpulet ATC'22, Sec. 5.2): how far rates can grow before requests come too late.

At every rate the scheduler plans anew and the plan is simulated. The climb doubles the rates while all goes well, then
grows them by a small step from the last that did; it ends at the first rate at which there is no plan or more than one
request in a hundred is not served in time.
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
    reached
        Largest multiple of the rates that held; 0 if none did.
    failed, reason
        Smallest multiple known not to hold, and why it does not; ``None`` and empty before there is one.
    rows
        Of the runs made, by multiple.
    """

    instance: Instance
    step: float = STEP
    reached: float = 0.0
    failed: float | None = None
    reason: str = ""
    rows: dict[float, Row] = field(default_factory=dict)

    @property
    def next(self) -> float | None:
        """The multiple of the rates to try next; ``None`` at the end."""
        if self.failed is None:
            return 2.0 * self.reached if self.reached else 1.0
        if self.reached == 0.0:
            return self.failed / 2.0 if self.failed > LEAST else None
        fine = self.reached * (1.0 + self.step)
        return fine if fine < self.failed else None

    def take(self, multiple: float, row: Row) -> None:
        """Take the result of a run at a multiple of the rates into account."""
        self.rows[multiple] = row
        problem = not_held(row)
        if problem is None:
            self.reached = max(self.reached, multiple)
        else:
            self.failed, self.reason = multiple, problem  # every later one is smaller

    @property
    def throughput_rps(self) -> float:
        """Sum of the rates at the largest multiple that held."""
        return self.reached * sum(workload.rate_rps for workload in self.instance.workloads)


def not_held(row: Row) -> str | None:
    """Return why a run shows that its rates are too high, or ``None`` if they are not."""
    if row.plan is None:
        return row.reason or f"no plan: {row.status}"
    broken = {violation["kind"] for violation in row.violation_details} - _PROMISES
    if broken:
        return f"the plan breaks {', '.join(sorted(broken))}"
    late = late_fraction(row)
    if late is None:
        return "the plan cannot be simulated"
    return f"{100.0 * late:.1f} % of the requests not in time" if late > VIOLATIONS_ALLOWED else None


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
