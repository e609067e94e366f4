"""SLO-preserved maximum throughput (gpulet ATC'22, Sec. 5.2): the largest multiple of the rates that meets the SLOs.

For every multiple, the scheduler makes a new plan, which is then simulated. A multiple holds if at most 1 % of the
requests are not served in time, and the loads of the servers do not prove that more are late in the long run. Smaller
multiples need not hold: at low rates a plan has few gpulets, which are nearly full. The search therefore doubles the
rates as long as there is a plan to simulate and it is not overloaded, even if it does not hold. Then it grows the rates
in small steps from the largest multiple that holds until one does not. It halves the rates only if none of the
multiples holds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bench.ledger.row import JsonObject, Row
from bench.simulation.result import VIOLATIONS_ALLOWED
from bench.task import Task
from instances import InputError, Instance, Objective

STEP = 0.05

LEAST = 2.0**-10
"""Smallest multiple of the rates in the search."""

MOST = 2.0**10
"""Multiple from which rates that do not hold are not doubled: some schedulers return a plan for any rate."""

_OVERLOAD = 0.5
"""Fraction of requests not in time above which a plan with a violated rate is overloaded: no higher rates will hold."""

_PROMISES = frozenset({"latency", "rate", "duty-cycle"})
"""Kinds of violation that concern time; the simulation shows whether they matter."""


@dataclass(slots=True)
class Climb:
    """Search for the largest rates of one scheduler on one instance.

    Attributes
    ----------
    instance
        Instance with its original rates.
    step
        Relative growth of the rates in the last phase.
    rows
        Rows of the finished runs by multiple, in the order of the runs.
    """

    instance: Instance
    step: float = STEP
    rows: dict[float, Row] = field(default_factory=dict)

    @property
    def next(self) -> float | None:
        """Next multiple of the rates to try; ``None`` at the end."""
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

    @property
    def problems(self) -> dict[float, str]:
        """Reason by multiple, for the rates that do not hold."""
        reasons = {multiple: not_held(row) for multiple, row in self.rows.items()}
        return {multiple: reason for multiple, reason in reasons.items() if reason is not None}

    @property
    def reached(self) -> float:
        """Largest multiple of the rates that holds; 0 if none does."""
        return max(self.rows.keys() - self.problems.keys(), default=0.0)

    @property
    def broken_off(self) -> Row | None:
        """Failed run, which ends the search because it shows nothing about rates; ``None`` without one."""
        return next((row for row in self.rows.values() if row.failed), None)

    @property
    def failed(self) -> float | None:
        """Smallest multiple above ``reached`` that does not hold or whose run failed; ``None`` without one."""
        if self.broken_off is not None:
            return list(self.rows)[-1]
        return min((multiple for multiple in self.problems if multiple > self.reached), default=None)

    @property
    def reason(self) -> str:
        """Reason why the rates at ``failed`` do not hold; empty if ``failed`` is ``None``."""
        return "" if self.failed is None else self.problems[self.failed]

    @property
    def throughput_rps(self) -> float:
        """Sum of the rates at the largest multiple that holds."""
        return self.reached * sum(workload.rate_rps for workload in self.instance.workloads)


def not_held(row: Row) -> str | None:
    """Return why a run does not show that its rates can be served, or ``None`` if it does."""
    if row.failed:
        return row.reason or str(row.termination)
    if row.plan is None:
        return row.reason or f"no plan: {row.status}"
    if broken := _broken(row):
        return f"the plan violates {', '.join(sorted(broken))}"
    if (late := late_fraction(row)) is None:
        return "the plan cannot be simulated"
    if row.simulation is not None and proven_late(row.simulation) > VIOLATIONS_ALLOWED:
        over = row.simulation["overloads"][0]
        return f"load {over['load']:.2f} of {', '.join(over['workloads'])}"
    return None if late <= VIOLATIONS_ALLOWED else f"{100.0 * late:.1f} % of the requests not in time"


def _higher_may_hold(row: Row) -> bool:
    """Return whether higher rates may hold with another plan although these do not."""
    late = late_fraction(row)
    if row.plan is None or late is None or _broken(row):
        return False
    return late <= _OVERLOAD or all(violation["kind"] != "rate" for violation in row.violation_details)


def _broken(row: Row) -> set[str]:
    """Return the kinds of violation that do not concern time."""
    return {violation["kind"] for violation in row.violation_details} - _PROMISES


def late_fraction(row: Row) -> float | None:
    """Return the fraction of requests not in time, over all workloads or, if larger, of the worst application.

    It is at least the fraction that the loads of the servers prove to be late in the long run.
    """
    if row.sim_violation_rate is None or row.simulation is None:
        return None
    applications = (one["violation_rate"] for one in row.simulation["applications"])
    return max([row.sim_violation_rate, proven_late(row.simulation), *applications])


def proven_late(simulation: JsonObject) -> float:
    """Return the fraction of all requests that the loads of the servers prove to be late in the long run."""
    overloads = simulation.get("overloads", ())
    if not overloads:
        return 0.0
    requests = {one["id"]: one["requests"] for one in simulation["workloads"]}
    late = [over["missed"] * min(requests[name] for name in over["workloads"]) for over in overloads]
    return min(1.0, math.fsum(late) / max(1, sum(requests.values())))


def with_all_served(instance: Instance) -> Instance:
    """Return the instance with the objective ``cost``, so that a plan serves all requests on the pool.

    Raises
    ------
    InputError
        If its pool is unlimited, or it has no rates.
    """
    if instance.objective is Objective.COLOCATION:
        raise InputError(f"{instance.name}: objective", "best-effort jobs have no rates; expected workloads with rates")
    if any(pool.count is None for pool in instance.gpus):
        raise InputError(f"{instance.name}: gpus", "an unlimited pool serves any rate; give every GPU type a count")
    return replace(instance, objective=Objective.COST)


def climb(tasks: Sequence[Task], run: Callable[[list[Task]], list[Row]], step: float = STEP) -> list[Climb]:
    """Find the largest rates for every task, in concurrent searches; return these in the order of the tasks.

    Parameters
    ----------
    tasks
        Tasks whose trial simulates the plan, with instances from ``with_all_served``.
    run
        Function that runs tasks and returns their rows in order.
    step
        Relative growth of the rates in the last phase.
    """
    climbs = [Climb(task.instance, step) for task in tasks]
    while under_way := [(task, one, one.next) for task, one in zip(tasks, climbs, strict=True) if one.next is not None]:
        rows = run([replace(task, instance=one.instance.scaled(multiple)) for task, one, multiple in under_way])
        for (_, one, multiple), row in zip(under_way, rows, strict=True):
            one.rows[multiple] = row
    return climbs


def retraced(instance: Instance, rows: Sequence[Row]) -> Climb:
    """Reconstruct a search from its rows, as far as they reach.

    Parameters
    ----------
    instance
        Instance from ``with_all_served``.
    rows
        Rows of one scheduler with the same parameters, trial and seed; rows of other instances are ignored.
    """
    by_instance = {row.instance_hash: row for row in rows}
    one = Climb(instance)
    while (multiple := one.next) is not None:
        row = by_instance.get(instance.scaled(multiple).fingerprint)
        if row is None:
            break
        one.rows[multiple] = row
    return one
