"""Contract checks on the rows of ordinary runs of the bench, each in a process under limits."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bench.api import Status, refusal
from bench.conformance.cases import CheckedInstance, infeasible_instance, large_instance, small_instances
from bench.conformance.witness import CHANGED, DIFFERS
from bench.formatting import short_hash
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

NO_PLAN = "there is no plan to check"

EXHAUSTED_FRACTION = 0.9
"""Fraction of the time limit after which a scheduler counts as running until its deadline. The plan of such a scheduler
may depend on the load of the machine."""


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
        Time limit on small instances, and time limit on large instances in the check of the deadline.
    grace_s
        Time after the limit at which a run is killed.
    memory_limit_mb, threads, jobs
        Memory limit, threads per run, and concurrent runs, as for any run.
    """

    time_limit_s: float = 10.0
    hurried_s: float = HURRIED_S
    grace_s: float = GRACE_S
    memory_limit_mb: float = 8192.0
    threads: int = 1
    jobs: int | None = None


def check(
    info: SchedulerInfo, settings: CheckSettings | None = None, instances: Sequence[Instance] = ()
) -> Iterator[CheckResult]:
    """Check a scheduler and yield findings as they occur.

    Parameters
    ----------
    info
        Description of the scheduler from ``bench.runner.inspection``.
    settings
        Limits of the runs.
    instances
        Instances in place of the built-in ones, for schedulers that solve only some instances. Their optima are
        unknown.
    """
    yield (loading := _loads(info))
    if loading.passed:
        yield from _Suite(info, settings or CheckSettings(), instances).findings()


def _loads(info: SchedulerInfo) -> CheckResult:
    problem = info.error
    if not problem and info.entry.distribution != FILE and info.class_name != info.entry.name:
        problem = f'is registered as "{info.entry.name}", but its class has name = "{info.class_name}"'
    if not problem and not info.objectives:
        problem = "has no objectives; expected a non-empty `objectives`"
    if not problem and not info.doc:
        problem = "its class has no docstring; lists of schedulers show its first paragraph"
    version = short_hash(info.entry.version)  # the version of a file is a hash
    source = f"{info.entry.distribution} {version}, {info.entry.target}: {info.doc}"
    return CheckResult("loads", not problem, problem or source)


@dataclass
class _Suite:
    """Checks of a scheduler that loads; ``given_instances`` replace the built-in instances."""

    info: SchedulerInfo
    settings: CheckSettings
    given_instances: Sequence[Instance]
    rows: list[tuple[CheckedInstance, Row]] = field(default_factory=list)
    """Small instances and the rows of their runs, for the objectives checked so far."""

    def findings(self) -> Iterator[CheckResult]:
        for objective in sorted(self.info.objectives):
            instances = self._small_instances(objective)
            if instances:
                results = list(zip(instances, self._run([checked.instance for checked in instances]), strict=True))
                self.rows += results
                yield self._solves(objective, results)
            elif not self.given_instances:
                partitions = ", ".join(sorted(self.info.partitions))
                yield CheckResult(
                    f"solves {objective}", False, f"there are no instances on GPUs divided by {partitions}"
                )
        if not self.rows:
            yield CheckResult("solves", False, "none of the given instances has an objective that it solves")
            return
        yield self._over_all("keeps every workload", "each is served at its rate", _missing_workload)
        yield self._over_all(
            "is honest", "statuses and bounds agree with the judge and known values", self._wrong_claim
        )
        yield self._over_all("leaves the instance alone", "it is unchanged", _changed_instance)
        yield self._repeats()
        yield self._stops()
        if (infeasible_claims := self._claims_infeasible()) is not None:
            yield infeasible_claims

    def _small_instances(self, objective: Objective) -> list[CheckedInstance]:
        if self.given_instances:
            chosen = [instance for instance in self.given_instances if instance.objective is objective]
            return [CheckedInstance(instance, None) for instance in chosen if refusal(self.info, instance) is None]
        partitions = [partition for partition in sorted(self.info.partitions) if _instances_exist(objective, partition)]
        return [checked for partition in partitions for checked in small_instances(objective, partition)]

    def _run(
        self, instances: Sequence[Instance], seed: int = 0, again: bool = False, hurried: bool = False
    ) -> list[Row]:
        overrides = json.dumps(dict(self.info.overrides or {}))
        parameters = {"target": self.info.entry.target, "overrides": overrides, "again": str(again)}
        stage = Stage(self.info.entry.name, WITNESS, parameters)
        limit_s = self.settings.hurried_s if hurried else self.settings.time_limit_s
        tasks = [
            Task(instance, (stage,), seed, limit_s, self.settings.memory_limit_mb, self.settings.threads)
            for instance in instances
        ]
        return run_tasks(tasks, None, self.settings.jobs, grace_s=self.settings.grace_s)

    def _solves(self, objective: Objective, results: Sequence[tuple[CheckedInstance, Row]]) -> CheckResult:
        name, reasons = f"solves {objective}", []
        for checked, row in results:
            if row.termination is not Termination.FINISHED:
                return CheckResult(name, False, f"{row.instance}: {row.termination}: {row.reason}")
            if row.plan is None:
                why = f"{row.instance}: {row.status}, no plan: {row.reason or 'no reason given'}"
                if not (checked.may_give_up and row.reason):
                    return CheckResult(name, False, why)
                reasons.append(why)
        solved = ", ".join(row.instance for _, row in results if row.plan is not None)
        return CheckResult(name, bool(solved), "; ".join([*([f"a plan for {solved}"] if solved else []), *reasons]))

    def _over_all(self, name: str, success: str, problem: Callable[[CheckedInstance, Row], str | None]) -> CheckResult:
        """Apply ``problem`` to the rows of the small instances; return its first message, or else ``success``."""
        for checked, row in self.rows:
            if (message := problem(checked, row)) is not None:
                return CheckResult(name, False, f"{row.instance}: {message}")
        plans = sum(row.plan is not None for _, row in self.rows)
        return CheckResult(name, plans > 0, f"{success} ({plans} plans)" if plans else NO_PLAN)

    def _wrong_claim(self, checked: CheckedInstance, row: Row) -> str | None:
        """Return a message on a wrong claim of the scheduler, or ``None``."""
        if row.status is Status.INFEASIBLE and (checked.reachable is not None or row.feasible):
            return 'reports "infeasible"; there is a plan'
        feasible_claims = [Status.OPTIMAL, *([] if self.info.own_model else [Status.FEASIBLE])]
        if row.feasible is False and row.status in feasible_claims:
            return f'reports "{row.status}"; the judge finds: {row.violation_details[0]["message"]}'
        if checked.reachable is None:
            return None
        objective = checked.instance.objective
        if row.status is Status.OPTIMAL and row.value is not None and _beats(checked.reachable, row.value, objective):
            return f'reports "optimal" for {row.value:g}; {checked.reachable:g} can be reached'
        scope = row.bound_scope
        unlimited = scope is not None and scope.allowed_shares is None and scope.max_batch is None
        if (
            row.bound is not None
            and row.bound_certified
            and unlimited
            and _beats(checked.reachable, row.bound, objective)
        ):
            return f"certifies the bound {row.bound:g}; {checked.reachable:g} can be reached"
        return None

    def _repeats(self) -> CheckResult:
        """Compare the plans of two processes, and of two calls in one process, with the same seed."""
        name = "repeats itself"
        instances = [checked.instance for checked, _ in self.rows]
        first_rows, second_rows = (self._run(instances, seed=3, again=again) for again in (False, True))
        for first_row, second_row in zip(first_rows, second_rows, strict=True):
            if failed := [row for row in (first_row, second_row) if row.failed]:
                return CheckResult(name, False, f"{first_row.instance}: {failed[0].termination}: {failed[0].reason}")
            # The first of two calls in one process has half of the time limit.
            reached_limit = (
                max(row.decision_s or 0.0 for row in (first_row, second_row))
                >= EXHAUSTED_FRACTION * self.settings.time_limit_s / 2.0
            )
            if first_row.plan != second_row.plan and not reached_limit:
                return CheckResult(name, False, f"{first_row.instance}: two runs with seed 3 return different plans")
            if second_row.statistics.get(DIFFERS) and not reached_limit:
                why = f"{first_row.instance}: two calls of one object with seed 3 return different plans"
                return CheckResult(name, False, why)
        plans = sum(row.plan is not None for row in first_rows)
        why = f"seed 3 gives the same plan every time ({plans} plans)" if plans else NO_PLAN
        return CheckResult(name, plans > 0, why)

    def _stops(self) -> CheckResult:
        """Check that the scheduler returns by its deadline on large instances."""
        name, limit_s = "keeps to its deadline", self.settings.hurried_s
        instances = self.given_instances or [
            large_instance(objective, partition)
            for objective in sorted(self.info.objectives)
            for partition in sorted(self.info.partitions)
            if _instances_exist(objective, partition)
        ]
        rows = self._run([instance for instance in instances if refusal(self.info, instance) is None], hurried=True)
        for row in rows:
            label = f"{row.instance} ({row.throughput_of or row.objective}) in {limit_s:g} s"
            if row.termination is Termination.WALL_LIMIT:
                return CheckResult(name, False, f"{label}: still running {self.settings.grace_s:g} s later, and killed")
            if row.termination is not Termination.FINISHED:
                return CheckResult(name, False, f"{label}: {row.termination}: {row.reason}")
        longest_s = max((row.decision_s or 0.0 for row in rows), default=0.0)
        return CheckResult(name, True, f"took at most {longest_s:.2f} s of {limit_s:g} s, also on large instances")

    def _claims_infeasible(self) -> CheckResult | None:
        """Check the claims of the scheduler on instances without a feasible plan."""
        candidates = [
            infeasible_instance(objective, partition)
            for objective in sorted(self.info.objectives)
            for partition in sorted(self.info.partitions)
        ]
        instances = [] if self.given_instances else [instance for instance in candidates if instance is not None]
        if not instances:
            return None
        name = "gives up honestly"
        for row in self._run(instances):
            label = f"{row.instance} ({row.objective})"
            if row.termination is not Termination.FINISHED:
                return CheckResult(name, False, f"{label}: {row.termination}: {row.reason}")
            if row.plan is not None and row.status is not Status.UNKNOWN and not self.info.own_model:
                why = f'{label}: reports "{row.status}"; no plan meets the SLO of workload "never"'
                return CheckResult(name, False, why)
            if row.plan is None and not row.reason:
                why = f'{label}: reports "{row.status}" without a reason; set Outcome.reason'
                return CheckResult(name, False, why)
        return CheckResult(name, True, "gives a reason if no GPU can meet the SLO of a workload")


def _instances_exist(objective: Objective, partition: Partition) -> bool:
    """Return whether ``bench.conformance.cases`` has instances: on MIG instances only of the objective ``cost``."""
    return partition is Partition.SHARES or objective is Objective.COST


def _missing_workload(checked: CheckedInstance, row: Row) -> str | None:
    """Return a message on a workload that the plan leaves out or serves at a wrong rate."""
    if row.plan is None:
        return None
    placed = {slot.workload for _, _, slot in row.plan.slots()}
    missing = [name for name in checked.instance.model_of if name not in placed]
    if missing and checked.instance.objective is not Objective.GOODPUT:  # where a plan may leave workloads out
        return f'"{missing[0]}" is missing from the plan'
    rate_violations = [violation for violation in row.violation_details if violation["kind"] in ("rate", "job")]
    return rate_violations[0]["message"] if rate_violations else None


def _changed_instance(checked: CheckedInstance, row: Row) -> str | None:
    return "was changed; instances are shared and must not change" if row.statistics.get(CHANGED) else None


def _beats(value: float, other: float, objective: Objective) -> bool:
    """Return whether ``value`` is better than ``other`` by more than rounding."""
    slack = SCALE_STEP if objective is Objective.SCALE else TOLERANCE * max(abs(value), abs(other))
    return value < other - slack if objective.minimised else value > other + slack
