"""Contract checks on the rows of ordinary runs of the bench, each in a process under limits."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bench.api import Status, refusal
from bench.conformance.cases import CheckedInstance, cases, impossible, large
from bench.conformance.witness import CHANGED, DIFFERS
from bench.ledger.row import Row, Termination
from bench.runner.inspection import SchedulerInfo
from bench.runner.runner import GRACE_S, run_tasks
from bench.schedulers.registry import FILE
from bench.task import Stage, Task
from instances import SCALE_STEP, Instance, Objective, Partition

WITNESS = "bench.conformance.witness:Witness"

HURRIED_S = 3.0
"""Default time limit on a large instance."""

TOLERANCE = 1e-6
"""Relative tolerance between values and bounds that should be equal."""

NOTHING = "there is no plan to check"

EXHAUSTED = 0.9
"""Fraction of the time limit from which a scheduler counts as one that runs until its deadline. Its plan may depend on
the load of the machine."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check, with its reason in one line."""

    check: str
    passed: bool
    why: str


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """Limits of the runs of the checks.

    Attributes
    ----------
    time_limit_s, hurried_s
        Time limits on small instances, and on a large one for the check of the deadline.
    grace_s
        Time after the limit at which a run is killed.
    memory_limit_mb, threads, jobs
        As for any run.
    """

    time_limit_s: float = 10.0
    hurried_s: float = HURRIED_S
    grace_s: float = GRACE_S
    memory_limit_mb: float = 8192.0
    threads: int = 1
    jobs: int | None = None


def check(
    info: SchedulerInfo, terms: CheckSettings | None = None, own: Sequence[Instance] = ()
) -> Iterator[CheckResult]:
    """Check a scheduler and yield findings as they occur.

    Parameters
    ----------
    info
        Description of the scheduler from ``bench.runner.inspection``.
    terms
        Limits of the runs.
    own
        Instances in place of the built-in ones, for schedulers that solve only some instances. Their optima are
        unknown.
    """
    yield (loading := _loads(info))
    if loading.passed:
        yield from _Suite(info, terms or CheckSettings(), own).findings()


def _loads(info: SchedulerInfo) -> CheckResult:
    problem = info.error
    if not problem and info.entry.distribution != FILE and info.class_name != info.entry.name:
        problem = f'is registered as "{info.entry.name}", but its class has name = "{info.class_name}"'
    if not problem and not info.objectives:
        problem = "has no objectives; expected a non-empty `objectives`"
    if not problem and not info.doc:
        problem = "its class has no docstring; lists of schedulers show its first paragraph"
    came = f"{info.entry.distribution} {info.entry.version}, {info.entry.target}: {info.doc}"
    return CheckResult("loads", not problem, problem or came)


@dataclass
class _Suite:
    info: SchedulerInfo
    terms: CheckSettings
    own: Sequence[Instance]
    rows: list[tuple[CheckedInstance, Row]] = field(default_factory=list)
    """Small instances and their rows."""

    def findings(self) -> Iterator[CheckResult]:
        for objective in sorted(self.info.objectives):
            small = self._small(objective)
            if small:
                found = list(zip(small, self._run([case.instance for case in small]), strict=True))
                self.rows += found
                yield self._solves(objective, [row for _, row in found])
            elif not self.own:
                divided = ", ".join(sorted(self.info.partitions))
                yield CheckResult(f"solves {objective}", False, f"there are no instances on GPUs divided by {divided}")
        if not self.rows:
            yield CheckResult("solves", False, "none of the given instances has an objective that it solves")
            return
        yield self._over_all("keeps every workload", "each is served at its rate", _lost)
        yield self._over_all(
            "is honest", "statuses and bounds agree with the judge and known values", self._wrong_claim
        )
        yield self._over_all("leaves the instance alone", "it is unchanged", _changes)
        yield self._repeats()
        yield self._stops()
        if (honest := self._gives_up()) is not None:
            yield honest

    def _small(self, objective: Objective) -> list[CheckedInstance]:
        if self.own:
            chosen = [one for one in self.own if one.objective is objective]
            return [CheckedInstance(one, None) for one in chosen if refusal(self.info, one) is None]
        partitions = [one for one in sorted(self.info.partitions) if _there_is(objective, one)]
        return [case for partition in partitions for case in cases(objective, partition)]

    def _run(
        self, instances: Sequence[Instance], seed: int = 0, again: bool = False, hurried: bool = False
    ) -> list[Row]:
        overrides = json.dumps(dict(self.info.overrides or {}))
        parameters = {"target": self.info.entry.target, "overrides": overrides, "again": str(again)}
        stage = Stage(self.info.entry.name, WITNESS, parameters)
        limit_s = self.terms.hurried_s if hurried else self.terms.time_limit_s
        tasks = [
            Task(instance, (stage,), seed, limit_s, self.terms.memory_limit_mb, self.terms.threads)
            for instance in instances
        ]
        return run_tasks(tasks, None, self.terms.jobs, grace_s=self.terms.grace_s)

    def _solves(self, objective: Objective, rows: Sequence[Row]) -> CheckResult:
        name = f"solves {objective}"
        for row in rows:
            if row.termination is not Termination.FINISHED:
                return CheckResult(name, False, f"{row.instance}: {row.termination}: {row.reason}")
            if row.plan is None:
                why = f"{row.instance}: {row.status}, no plan: {row.reason or 'no reason given'}"
                return CheckResult(name, False, why)
        return CheckResult(name, True, f"a plan for {', '.join(row.instance for row in rows)}")

    def _over_all(self, name: str, good: str, problem: Callable[[CheckedInstance, Row], str | None]) -> CheckResult:
        """Apply a check to the row of every small instance, and report the first problem."""
        for case, row in self.rows:
            if (found := problem(case, row)) is not None:
                return CheckResult(name, False, f"{row.instance}: {found}")
        plans = sum(row.plan is not None for _, row in self.rows)
        return CheckResult(name, plans > 0, f"{good} ({plans} plans)" if plans else NOTHING)

    def _wrong_claim(self, case: CheckedInstance, row: Row) -> str | None:
        """Return which claim of the scheduler is wrong, or ``None``."""
        if row.status is Status.INFEASIBLE and (case.reachable is not None or row.feasible):
            return 'reports "infeasible"; there is a plan'
        claimed = [Status.OPTIMAL, *([] if self.info.own_model else [Status.FEASIBLE])]
        if row.feasible is False and row.status in claimed:
            return f'reports "{row.status}"; the judge finds: {row.violation_details[0]["message"]}'
        if case.reachable is None:
            return None
        objective = case.instance.objective
        if row.status is Status.OPTIMAL and row.value is not None and _beats(case.reachable, row.value, objective):
            return f'reports "optimal" for {row.value:g}; {case.reachable:g} can be reached'
        scope = row.bound_scope
        unlimited = scope is not None and scope.allowed_shares is None and scope.max_batch is None
        if row.bound is not None and row.bound_certified and unlimited and _beats(case.reachable, row.bound, objective):
            return f"certifies the bound {row.bound:g}; {case.reachable:g} can be reached"
        return None

    def _repeats(self) -> CheckResult:
        """Compare the plans of runs with one seed: in two processes, and of two calls in one process."""
        name = "repeats itself"
        instances = [case.instance for case, _ in self.rows]
        first, second = (self._run(instances, seed=3, again=again) for again in (False, True))
        for one, other in zip(first, second, strict=True):
            if failed := [row for row in (one, other) if row.failed]:
                return CheckResult(name, False, f"{one.instance}: {failed[0].termination}: {failed[0].reason}")
            tired = max(row.decision_s or 0.0 for row in (one, other)) >= EXHAUSTED * self.terms.time_limit_s / 2.0
            if one.plan != other.plan and not tired:
                return CheckResult(name, False, f"{one.instance}: two runs with seed 3 return different plans")
            if other.statistics.get(DIFFERS) and not tired:
                why = f"{one.instance}: two calls of one object with seed 3 return different plans"
                return CheckResult(name, False, why)
        plans = sum(row.plan is not None for row in first)
        why = f"seed 3 gives the same plan every time ({plans} plans)" if plans else NOTHING
        return CheckResult(name, plans > 0, why)

    def _stops(self) -> CheckResult:
        """Check that it returns by its deadline on a large instance."""
        name, limit_s = "keeps to its deadline", self.terms.hurried_s
        asked = self.own or [
            large(objective, partition)
            for objective in sorted(self.info.objectives)
            for partition in sorted(self.info.partitions)
            if _there_is(objective, partition)
        ]
        rows = self._run([one for one in asked if refusal(self.info, one) is None], hurried=True)
        for row in rows:
            what = f"{row.instance} ({row.throughput_of or row.objective}) in {limit_s:g} s"
            if row.termination is Termination.WALL_LIMIT:
                return CheckResult(name, False, f"{what}: still running {self.terms.grace_s:g} s later, and killed")
            if row.termination is not Termination.FINISHED:
                return CheckResult(name, False, f"{what}: {row.termination}: {row.reason}")
        longest_s = max((row.decision_s or 0.0 for row in rows), default=0.0)
        return CheckResult(name, True, f"took at most {longest_s:.2f} s of {limit_s:g} s, also on large instances")

    def _gives_up(self) -> CheckResult | None:
        """Check its claims on instances without a feasible plan."""
        asked = [impossible(o, p) for o in sorted(self.info.objectives) for p in sorted(self.info.partitions)]
        instances = [] if self.own else [one for one in asked if one is not None]
        if not instances:
            return None
        name = "gives up honestly"
        for row in self._run(instances):
            what = f"{row.instance} ({row.objective})"
            if row.termination is not Termination.FINISHED:
                return CheckResult(name, False, f"{what}: {row.termination}: {row.reason}")
            if row.plan is not None and row.status is not Status.UNKNOWN and not self.info.own_model:
                why = f'{what}: reports "{row.status}"; no plan meets the SLO of workload "never"'
                return CheckResult(name, False, why)
            if row.plan is None and not row.reason:
                why = f'{what}: reports "{row.status}" without a reason; set Outcome.reason'
                return CheckResult(name, False, why)
        return CheckResult(name, True, "gives a reason if no GPU can meet the SLO of a workload")


def _there_is(objective: Objective, partition: Partition) -> bool:
    """Return whether instances of this kind exist; with MIG, only the objective ``cost`` has some."""
    return partition is Partition.SHARES or objective is Objective.COST


def _lost(case: CheckedInstance, row: Row) -> str | None:
    """Return a message on a workload that the plan leaves out or serves at a wrong rate."""
    if row.plan is None:
        return None
    placed = {slot.workload for _, _, slot in row.plan.slots()}
    missing = [name for name in case.instance.model_of if name not in placed]
    if missing and case.instance.objective is not Objective.GOODPUT:  # where a plan may leave workloads out
        return f'"{missing[0]}" is missing from the plan'
    rates = [one for one in row.violation_details if one["kind"] in ("rate", "job")]
    return rates[0]["message"] if rates else None


def _changes(case: CheckedInstance, row: Row) -> str | None:
    return "was changed; instances are shared and must not change" if row.statistics.get(CHANGED) else None


def _beats(value: float, other: float, objective: Objective) -> bool:
    """Return whether ``value`` is better than ``other`` by more than rounding."""
    slack = SCALE_STEP if objective is Objective.SCALE else TOLERANCE * max(abs(value), abs(other))
    return value < other - slack if objective.minimised else value > other + slack
