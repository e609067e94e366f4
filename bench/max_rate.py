"""SLO-preserved maximum throughput (gpulet ATC'22, Sec. 5.2): the largest multiple of the rates that meets the SLOs.

For every multiple, the scheduler makes a new plan, and the plan is simulated. A multiple passes if at most 1 % of the
requests are not served in time and the loads of the servers do not prove that more requests are late in the long run.

A multiple may pass although a smaller one fails: at low rates a plan has few gpulets, and these are nearly full. The
search therefore doubles the rates even after a failure, as long as there is a plan and the plan is not overloaded. Then
the search raises the rates in small steps from the largest multiple that passed, until a multiple fails. The search
halves the rates only if no multiple has passed.

A search from above lowers the rates in small steps instead, from the multiple at which the doubling ended, until one
passes. It finds the largest multiple of its grid that passes ("the maximum achievable throughput"), in more runs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bench.ledger.row import JsonObject, Row
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from bench.task import Task
from instances import InputError, Instance, Objective

STEP = 0.05
"""Relative growth of the rates in the last phase of the search."""

SMALLEST_MULTIPLE = 2.0**-10
"""Smallest multiple of the rates in the search."""

LARGEST_MULTIPLE = 2.0**10
"""Multiple from which the search no longer doubles after a failure: some schedulers return a plan for any rate."""

_OVERLOADED_ABOVE = 0.5
"""Fraction of requests not in time above which a plan with a violated rate is overloaded: higher rates will fail."""

_TIME_VIOLATIONS = frozenset({"latency", "rate", "duty-cycle"})
"""Kinds of violation that may make requests late; the simulation shows the late requests."""


@dataclass(slots=True)
class Climb:
    """Search for the largest rates of one scheduler on one instance.

    Attributes
    ----------
    instance
        Instance with its original rates.
    step
        Relative growth of the rates in the last phase.
    from_above
        Whether the last phase lowers the rates from the end of the doubling.
    rows
        Rows of the finished runs by multiple, in the order of the runs.
    """

    instance: Instance
    step: float = STEP
    from_above: bool = False
    rows: dict[float, Row] = field(default_factory=dict)

    @property
    def next(self) -> float | None:
        """Next multiple of the rates to try; ``None`` when the search is finished."""
        if not self.rows:
            return 1.0
        if self.failed_run is not None:
            return None
        highest = max(self.rows)
        if highest not in self.problems or (highest < LARGEST_MULTIPLE and _higher_may_pass(self.rows[highest])):
            return 2.0 * highest
        if self.from_above:
            return self._next_below(highest)
        if self.largest_passed == 0.0:
            lowest = min(self.rows)
            return lowest / 2.0 if lowest > SMALLEST_MULTIPLE else None
        next_step = self.largest_passed * (1.0 + self.step)
        return next_step if self.smallest_failed is None or next_step < self.smallest_failed else None

    def _next_below(self, highest: float) -> float | None:
        """Return the largest multiple below ``highest`` that has not been tried, unless a larger one has passed."""
        multiple, problems = highest, self.problems
        while multiple in problems:
            multiple /= 1.0 + self.step
        return (
            multiple if max(self.largest_passed, SMALLEST_MULTIPLE) < multiple and multiple not in self.rows else None
        )

    @property
    def problems(self) -> dict[float, str]:
        """Reason of the failure by multiple, for the multiples that failed."""
        reasons = {multiple: why_failed(row) for multiple, row in self.rows.items()}
        return {multiple: reason for multiple, reason in reasons.items() if reason is not None}

    @property
    def largest_passed(self) -> float:
        """Largest multiple of the rates that passed; 0 if none passed."""
        return max(self.rows.keys() - self.problems.keys(), default=0.0)

    @property
    def failed_run(self) -> Row | None:
        """Run that crashed or raised; it shows nothing about rates, so the search ends. ``None`` without such a run."""
        return next((row for row in self.rows.values() if row.failed), None)

    @property
    def smallest_failed(self) -> float | None:
        """Smallest failed multiple above ``largest_passed``, or the multiple of ``failed_run``; ``None`` if none."""
        if self.failed_run is not None:
            return list(self.rows)[-1]
        return min((multiple for multiple in self.problems if multiple > self.largest_passed), default=None)

    @property
    def reason(self) -> str:
        """Reason why ``smallest_failed`` failed; empty if it is ``None``."""
        return "" if self.smallest_failed is None else self.problems[self.smallest_failed]

    @property
    def throughput_rps(self) -> float:
        """Sum of the rates at the largest multiple that passed."""
        return self.largest_passed * sum(workload.rate_rps for workload in self.instance.workloads)


def why_failed(row: Row) -> str | None:
    """Return why a run does not show that its rates can be served, or ``None`` if it does."""
    if row.failed:
        return row.reason or str(row.termination)
    if row.plan is None:
        return row.reason or f"no plan: {row.status}"
    if broken := _broken_constraints(row):
        return f"the plan violates {', '.join(sorted(broken))}"
    if (late_part := late_fraction(row)) is None:
        return "the plan cannot be simulated"
    if row.simulation is not None and proven_late(row.simulation) > VIOLATIONS_ALLOWED:
        worst = row.simulation["overloads"][0]
        return f"load {worst['load']:.2f} of {', '.join(worst['workloads'])}"
    return None if late_part <= VIOLATIONS_ALLOWED else f"{100.0 * late_part:.1f} % of the requests not in time"


def _higher_may_pass(row: Row) -> bool:
    """Return whether another plan may serve higher rates although these rates failed."""
    late_part = late_fraction(row)
    if row.plan is None or late_part is None or _broken_constraints(row):
        return False
    return late_part <= _OVERLOADED_ABOVE or all(violation["kind"] != "rate" for violation in row.violation_details)


def _broken_constraints(row: Row) -> set[str]:
    """Return the kinds of violation that do not concern time."""
    return {violation["kind"] for violation in row.violation_details} - _TIME_VIOLATIONS


def late_fraction(row: Row) -> float | None:
    """Return the fraction of requests not in time, over all workloads or, if larger, of the worst application.

    It is at least the fraction that the loads of the servers prove to be late in the long run.
    """
    if row.sim_violation_rate is None or row.simulation is None:
        return None
    applications = (application["violation_rate"] for application in row.simulation["applications"])
    return max([row.sim_violation_rate, proven_late(row.simulation), *applications])


def proven_late(simulation: JsonObject) -> float:
    """Return the fraction of all requests that the loads of the servers prove to be late in the long run."""
    overloads = simulation.get("overloads", ())
    if not overloads:
        return 0.0
    requests = {workload["id"]: workload["requests"] for workload in simulation["workloads"]}
    late_requests = [
        overload["missed"] * min(requests[name] for name in overload["workloads"]) for overload in overloads
    ]
    return min(1.0, math.fsum(late_requests) / max(1, sum(requests.values())))


def with_all_served(instance: Instance) -> Instance:
    """Return the instance with the objective ``cost``, so that a plan serves all requests on the pool.

    Raises
    ------
    InputError
        If the pool is unlimited, or the instance has no rates.
    """
    if instance.objective is Objective.COLOCATION:
        raise InputError(f"{instance.name}: objective", "best-effort jobs have no rates; expected workloads with rates")
    if any(pool.count is None for pool in instance.gpus):
        raise InputError(f"{instance.name}: gpus", "an unlimited pool serves any rate; give every GPU type a count")
    return replace(instance, objective=Objective.COST)


def climb(
    tasks: Sequence[Task], run: Callable[[list[Task]], list[Row]], step: float = STEP, from_above: bool = False
) -> list[Climb]:
    """Find the largest rates for every task, by concurrent searches; return the searches in the order of the tasks.

    Parameters
    ----------
    tasks
        Tasks whose trial simulates the plan, with instances from ``with_all_served``.
    run
        Function that runs tasks and returns their rows in order.
    step
        Relative growth of the rates in the last phase.
    from_above
        See ``Climb``.
    """
    searches = [Climb(task.instance, step, from_above) for task in tasks]
    while under_way := [
        (task, search, search.next) for task, search in zip(tasks, searches, strict=True) if search.next is not None
    ]:
        rows = run([replace(task, instance=search.instance.scaled(multiple)) for task, search, multiple in under_way])
        for (_, search, multiple), row in zip(under_way, rows, strict=True):
            search.rows[multiple] = row
    return searches


def retraced(instance: Instance, rows: Sequence[Row], from_above: bool = False) -> Climb:
    """Reconstruct a search from its rows, up to the first multiple without a row.

    Parameters
    ----------
    instance
        Instance from ``with_all_served``.
    rows
        Rows of one scheduler with the same parameters, trial and seed; rows of other instances are ignored.
    from_above
        See ``Climb``.
    """
    by_instance = {row.instance_hash: row for row in rows}
    search = Climb(instance, from_above=from_above)
    while (multiple := search.next) is not None:
        row = by_instance.get(instance.scaled(multiple).fingerprint)
        if row is None:
            break
        search.rows[multiple] = row
    return search
