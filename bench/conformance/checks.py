"""The checks: every run is one of the harness's own, in a process under limits, and its row is what is looked at."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bench.api import Status, refusal
from bench.conformance.cases import CheckedInstance, cases, impossible, large
from bench.conformance.witness import CHANGED, DIFFERS
from bench.evaluation import Trial
from bench.ledger.row import Row, Termination
from bench.runner.inspection import SchedulerInfo
from bench.runner.runner import GRACE_S, run_tasks
from bench.task import Stage, Task
from instances import Instance, Objective, Partition

WITNESS = "bench.conformance.witness:Witness"

HURRIED_S = 3.0
"""For a large instance, unless told otherwise."""

TOLERANCE = 1e-6
"""Relative, between values and bounds that ought to be equal."""

SCALE_STEP = 0.005
"""Under ``scale`` values are multiples of it."""

NOTHING = "there is no plan to look at"

EXHAUSTED = 0.9
"""Of its time: a scheduler that takes so much goes on until it is stopped, and what it has then is chance."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, with what was seen in one line."""

    check: str
    passed: bool
    why: str


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What every run of the checks may take.

    Attributes
    ----------
    time_limit_s
        On small instances.
    hurried_s
        On a large one: this is the deadline that is checked.
    grace_s
        By how much a run may be late.
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
    """Check a scheduler, and yield what is found as soon as it is.

    Parameters
    ----------
    info
        Of ``bench.runner.inspection``.
    terms
        Of the runs.
    own
        Instances in place of the built-in ones, for schedulers that are for some instances only. Nothing is known of
        their optima.
    """
    yield (loading := _loads(info))
    if loading.passed:
        yield from _Suite(info, terms or CheckSettings(), own).findings()


def _loads(info: SchedulerInfo) -> CheckResult:
    problem = info.error
    if not problem and info.class_name != info.entry.name:
        problem = f'is registered as "{info.entry.name}", its class says name = "{info.class_name}"'
    if not problem and not info.objectives:
        problem = "claims no objective"
    if not problem and not info.doc:
        problem = "its class has no docstring; lists show the first paragraph"
    came = f"{info.entry.distribution} {info.entry.version}, {info.entry.target}: {info.doc}"
    return CheckResult("loads", not problem, problem or came)


@dataclass
class _Suite:
    info: SchedulerInfo
    terms: CheckSettings
    own: Sequence[Instance]
    rows: list[tuple[CheckedInstance, Row]] = field(default_factory=list)
    """Of the small instances."""

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
            yield CheckResult("solves", False, "none of the instances given asks for what it claims to do")
            return
        yield self._over_all("keeps every workload", "each is served as asked", _lost)
        yield self._over_all("is honest", "statuses and bounds agree with the judge and what is known", self._lies)
        yield self._over_all("leaves the instance alone", "it is as before", _changes)
        yield self._repeats()
        yield self._stops()
        yield from self._gives_up()

    def _small(self, objective: Objective) -> list[CheckedInstance]:
        if self.own:
            chosen = [one for one in self.own if one.objective is objective]
            return [CheckedInstance(one, None) for one in chosen if refusal(self.info, one) is None]
        return [case for partition in sorted(self.info.partitions) for case in self._cases(objective, partition)]

    def _cases(self, objective: Objective, partition: Partition) -> list[CheckedInstance]:
        return cases(objective, partition) if _there_is(objective, partition) else []

    def _run(
        self, instances: Sequence[Instance], seed: int = 0, again: bool = False, hurried: bool = False
    ) -> list[Row]:
        stage = Stage(
            self.info.entry.name,
            WITNESS,
            {
                "target": self.info.entry.target,
                "overrides": json.dumps(dict(self.info.overrides or {})),
                "again": str(again),
            },
        )
        limit_s = self.terms.hurried_s if hurried else self.terms.time_limit_s
        tasks = [
            Task(instance, (stage,), seed, limit_s, self.terms.memory_limit_mb, self.terms.threads, trial=Trial())
            for instance in instances
        ]
        return run_tasks(tasks, None, self.terms.jobs, grace_s=self.terms.grace_s)

    def _solves(self, objective: Objective, rows: Sequence[Row]) -> CheckResult:
        name = f"solves {objective}"
        for row in rows:
            if row.termination is not Termination.FINISHED:
                return CheckResult(name, False, f"{row.instance}: {row.termination}: {row.reason}")
            if row.plan is None:
                return CheckResult(
                    name, False, f"{row.instance}: {row.status}, no plan: {row.reason or 'no reason given'}"
                )
        return CheckResult(name, True, f"a plan for {', '.join(row.instance for row in rows)}")

    def _over_all(self, name: str, good: str, problem: Callable[[CheckedInstance, Row], str | None]) -> CheckResult:
        """Apply a check to the row of every small instance; the first problem is told."""
        for case, row in self.rows:
            if (found := problem(case, row)) is not None:
                return CheckResult(name, False, f"{row.instance}: {found}")
        plans = sum(row.plan is not None for _, row in self.rows)
        return CheckResult(name, plans > 0, f"{good} ({plans} plans)" if plans else NOTHING)

    def _lies(self, case: CheckedInstance, row: Row) -> str | None:
        """Return what the scheduler says that is not so."""
        if row.status is Status.INFEASIBLE and (case.reachable is not None or row.feasible):
            return 'says "infeasible"; there is a plan'
        if row.feasible is False and row.status is Status.OPTIMAL:
            return f'says "optimal"; the judge: {row.violation_details[0]["message"]}'
        if row.feasible is False and row.status is Status.FEASIBLE and not self.info.own_model:
            return f'says "feasible"; the judge: {row.violation_details[0]["message"]}'
        if case.reachable is None:
            return None
        objective = case.instance.objective
        if row.status is Status.OPTIMAL and row.value is not None and _beats(case.reachable, row.value, objective):
            return f'says "optimal" of {row.value:g}; {case.reachable:g} can be reached'
        scope = row.bound_scope
        unlimited = scope is not None and scope["allowed_shares"] is None and scope["max_batch"] is None
        if row.bound is not None and row.bound_certified and unlimited and _beats(case.reachable, row.bound, objective):
            return f"certifies the bound {row.bound:g}; {case.reachable:g} can be reached"
        return None

    def _repeats(self) -> CheckResult:
        """Ask again with one seed, in other processes and twice in one, and compare the plans."""
        name = "repeats itself"
        instances = [case.instance for case, _ in self.rows]
        first, second = (self._run(instances, seed=3, again=again) for again in (False, True))
        for one, other in zip(first, second, strict=True):
            if failed := [row for row in (one, other) if row.failed]:
                return CheckResult(name, False, f"{one.instance}: {failed[0].termination}: {failed[0].reason}")
            tired = max(row.decision_s or 0.0 for row in (one, other)) >= EXHAUSTED * self.terms.time_limit_s / 2.0
            if one.plan != other.plan and not tired:
                return CheckResult(name, False, f"{one.instance}: two runs of seed 3 give two plans")
            if other.statistics.get(DIFFERS) and not tired:
                return CheckResult(
                    name, False, f"{one.instance}: asked twice with seed 3 the same object gives two plans"
                )
        plans = sum(row.plan is not None for row in first)
        return CheckResult(name, plans > 0, f"seed 3 gives the same plan again ({plans} plans)" if plans else NOTHING)

    def _stops(self) -> CheckResult:
        """Give it little time for much, and see whether it comes back."""
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
                return CheckResult(name, False, f"{what}: still at it {self.terms.grace_s:g} s later, and killed")
            if row.termination is not Termination.FINISHED:
                return CheckResult(name, False, f"{what}: {row.termination}: {row.reason}")
        longest_s = max((row.decision_s or 0.0 for row in rows), default=0.0)
        return CheckResult(name, True, f"took at most {longest_s:.2f} s of {limit_s:g} s, however large the instance")

    def _gives_up(self) -> Iterator[CheckResult]:
        """See what it says where there is no plan."""
        asked = [impossible(o, p) for o in sorted(self.info.objectives) for p in sorted(self.info.partitions)]
        instances = [] if self.own else [one for one in asked if one is not None]
        if not instances:
            return
        name = "gives up honestly"
        for row in self._run(instances):
            what = f"{row.instance} ({row.objective})"
            if row.termination is not Termination.FINISHED:
                yield CheckResult(name, False, f"{what}: {row.termination}: {row.reason}")
                return
            if row.plan is not None and row.status is not Status.UNKNOWN and not self.info.own_model:
                yield CheckResult(name, False, f'{what}: says "{row.status}"; no plan serves workload "never" in time')
                return
            if row.plan is None and not row.reason:
                yield CheckResult(
                    name, False, f'{what}: says "{row.status}" without a reason; Outcome has one for people'
                )
                return
        yield CheckResult(name, True, "says why there is no plan where no GPU serves a workload in time")


def _there_is(objective: Objective, partition: Partition) -> bool:
    """Whether there are instances of this kind: on MIG partitions only those of cost."""
    return partition is Partition.SHARES or objective is Objective.COST


def _lost(case: CheckedInstance, row: Row) -> str | None:
    """Return the workload that a plan forgets, or serves less or more of than is asked."""
    if row.plan is None:
        return None
    placed = {slot["workload"] for gpu in row.plan["gpus"] for gpulet in gpu["gpulets"] for slot in gpulet["slots"]}
    missing = [name for name in case.instance.model_of if name not in placed]
    if missing and case.instance.objective is not Objective.GOODPUT:  # there leaving one out is a choice
        return f'"{missing[0]}" is nowhere in the plan'
    rates = [one for one in row.violation_details if one["kind"] in ("rate", "job")]
    return rates[0]["message"] if rates else None


def _changes(case: CheckedInstance, row: Row) -> str | None:
    return "was changed; instances are shared and must stay as they are" if row.statistics.get(CHANGED) else None


def _beats(value: float, other: float, objective: Objective) -> bool:
    """Whether ``value`` is better than ``other`` by more than rounding."""
    slack = SCALE_STEP if objective is Objective.SCALE else TOLERANCE * max(abs(value), abs(other))
    return value < other - slack if objective.minimised else value > other + slack
