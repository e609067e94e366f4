"""Scoring of ended runs: the judge scores their plans, and the results form a row."""

import math
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bench.api import Bound
from bench.evaluation import NOT_JUDGED, UNCHECKED
from bench.holding.wording import doubt_in_words
from bench.judging.judge import judge
from bench.judging.measured import UnmeasuredError
from bench.judging.slack import is_roomier
from bench.judging.verdict import Verdict
from bench.ledger.row import JsonObject, Row, Termination
from bench.provenance import host
from bench.runner.record import RunRecord
from bench.scenarios import judge_scenarios, row_of_set
from bench.schedulers.registry import FILE
from bench.schedulers.sources import scheduler_hash
from bench.then import Then
from instances import InputError, Objective, Plan, ScenarioSet
from instances.files import plan_from_text

VIOLATIONS_KEPT = 100
"""Largest number of stored violations per plan, with at least one of each kind; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start time of a run, the host's load average at that time, and the facts about the host."""

    started_at: str
    load_average: float | None
    host: JsonObject = field(default_factory=host)


def score(record: RunRecord, start: Start) -> Row:
    """Judge the plans of an ended run, simulate the final one, and return the row.

    A plan that does not belong to the instance changes the termination to ``invalid_plan``. An error of the judge
    changes it to ``exception``, so that one bug does not stop the bench.
    """
    assert record.termination is not None
    figures: dict[str, Any] = {}
    points: list[JsonObject] = []
    task = record.task
    try:
        if record.plan_text is not None:
            try:
                plan = plan_from_text(record.plan_text)
                verdict = judge(plan, *task.true_performance)
                plan, verdict = _roomier(record, plan, verdict)
                figures = _figures(plan, verdict)
                not_simulated = task.trial.why_not_simulated(plan, task.instance)
                not_tested = task.trial.why_not_tested(plan, task.instance)
                record.reason = "; ".join(filter(None, (record.reason, not_simulated, not_tested)))
                if not not_simulated and (simulation := task.trial.simulation_json(plan, task.instance, task.seed)):
                    figures |= simulated_figures(simulation)
                if not not_tested and (holding := task.trial.holding_of(plan, task.instance, task.seed)):
                    if holding.holds is None:
                        record.reason = "; ".join(
                            filter(None, (record.reason, f"{UNCHECKED}: {doubt_in_words(holding)}"))
                        )
                    else:
                        figures |= {"holds": holding.holds, "late_workloads": len(holding.late)}
            except UnmeasuredError as error:
                figures = {"plan": plan, "plan_class": plan.plan_class}
                record.reason = "; ".join(filter(None, (record.reason, f"{NOT_JUDGED}: {error}")))
            except InputError as error:
                earlier_reason = "" if record.termination is Termination.FINISHED else f" ({record.reason})"
                record.end(Termination.INVALID_PLAN, f"{error}{earlier_reason}", record.status)
        points = _trajectory(record, figures)
    except Exception as error:  # noqa: BLE001 - a bug in the judge costs this row only
        record.log_tail = traceback.format_exc()
        _record_judge_failure(record, f"{type(error).__name__}: {error}")
    return _row(record, start, figures, points)


def unscored(record: RunRecord, start: Start, reason: str) -> Row:
    """Return the row of an ended run that could not be judged; ``reason`` says why."""
    _record_judge_failure(record, reason)
    return _row(record, start, {}, [])


def _record_judge_failure(record: RunRecord, reason: str) -> None:
    record.end(Termination.EXCEPTION, f"judge: {reason}", record.status)


@dataclass(frozen=True, slots=True)
class RefusedChunk:
    """Refusal of a chunk of scenarios: a plan does not belong to its scenario, or the judgement failed."""

    termination: Termination
    reason: str
    log_tail: str = ""


def judged_chunk(
    scenarios: ScenarioSet, first: int, plans: Sequence[bytes | None], decision_s: Sequence[float]
) -> JsonObject | RefusedChunk:
    """Return the verdicts of ``judge_scenarios``, or the refusal of the chunk. A refused chunk is not stored."""
    try:
        return judge_scenarios(scenarios, first, plans, decision_s)
    except InputError as error:
        return RefusedChunk(Termination.INVALID_PLAN, str(error))
    except Exception as error:  # noqa: BLE001 - a bug in the judge costs this row only
        problem = f"judge: {type(error).__name__}: {error}"
        return RefusedChunk(Termination.EXCEPTION, problem, traceback.format_exc())


def _roomier(record: RunRecord, plan: Plan, verdict: Verdict) -> tuple[Plan, Verdict]:
    """Return the plan of the second objective, if it has the same cost and more slack; otherwise the given plan.

    The two plans are compared on the instance that the scheduler saw: the true performance must not decide which one
    is kept.
    """
    if record.roomier_text is None:
        return plan, verdict
    planner_instance = record.task.trial.planner_instance(record.task.instance)
    with suppress(InputError):
        roomier = plan_from_text(record.roomier_text)
        if is_roomier(judge(roomier, planner_instance), judge(plan, planner_instance)):
            return roomier, judge(roomier, *record.task.true_performance)
    return plan, verdict


def _trajectory(record: RunRecord, final: dict[str, Any]) -> list[JsonObject]:
    """Return the reports of a run with the judge's values, and the end of the run as the last point.

    ``final`` has the figures of the final plan.
    """
    points: list[JsonObject] = []
    for report in record.trajectory():
        value = feasible = None
        if report.plan_text is not None:
            with suppress(InputError):  # the plan belongs to another instance
                value, feasible = _judge_report(report.plan_text, record, final)
        points.append(_point(report.t_s, value, feasible, report.bound))
    # A replay has no decision time.
    has_decision_time = record.termination is Termination.FINISHED and record.decision_s is not None
    if has_decision_time and (record.plan_text is not None or record.bound is not None):
        points.append(_point(record.decision_s, final.get("value"), final.get("feasible"), record.bound))
    return points


def _judge_report(text: bytes, record: RunRecord, final: dict[str, Any]) -> tuple[float | None, bool | None]:
    """Return the value and the feasibility of a reported plan. The final plan is not judged twice."""
    if final and text == record.plan_text:
        return final.get("value"), final.get("feasible")
    verdict = judge(plan_from_text(text), *record.task.true_performance)
    return verdict.value if math.isfinite(verdict.value) else None, verdict.feasible


def _point(t_s: float | None, value: float | None, feasible: bool | None, bound: Bound | None) -> JsonObject:
    return {"t_s": t_s, "value": value, "feasible": feasible, **_bound_figures(bound)}


def _bound_figures(bound: Bound | None) -> JsonObject:
    return {"bound": bound and bound.value, "bound_certified": bound and bound.certified}


def _figures(plan: Plan, verdict: Verdict) -> dict[str, Any]:
    """Return the columns of a plan with the judge's figures."""
    verdict_json: Any = verdict.to_json()
    figures = {name: figure for name, figure in verdict_json.items() if name not in ("slots", "violations")}
    return figures | {
        "plan": plan,
        "plan_class": plan.plan_class,
        "violations": len(verdict.violations),
        "violation_details": _stored_violations(verdict_json["violations"]),
    }


def _stored_violations(violations: list[JsonObject]) -> list[JsonObject]:
    """Return the first ``VIOLATIONS_KEPT`` violations in their order, with at least one of every kind."""
    kinds = [violation["kind"] for violation in violations]
    first_of_kind = {kinds.index(kind) for kind in kinds}
    by_priority = sorted(range(len(kinds)), key=lambda position: position not in first_of_kind)
    return [violations[position] for position in sorted(by_priority[:VIOLATIONS_KEPT])]


def simulated_figures(result: JsonObject) -> dict[str, Any]:
    """Return the columns with the figures of a simulation or a replay, given as JSON values."""
    names = ("goodput_rps", "violation_rate", "drop_rate", "violating", "worst_p99")
    return {f"sim_{name}": result[name] for name in names} | {"simulation": result}


def _row(record: RunRecord, start: Start, figures: dict[str, Any], points: list[JsonObject]) -> Row:
    """Return the row of an ended run from the columns about its plan (``figures``) and its trajectory (``points``)."""
    task, instance = record.task, record.task.instance
    # A bound applies to the instance of the scheduler. If the judge uses another instance, the bound is void.
    bound = record.bound if task.trial.as_planned else None
    assert record.termination is not None
    if record.termination is Termination.INVALID_PLAN:
        figures = {}
    by_throughput = instance.objective in (Objective.CAPACITY, Objective.GOODPUT)
    parts_s = (record.import_s, record.warm_s, record.decision_s, record.then_s)
    accounted_s = math.fsum(part_s for part_s in parts_s if part_s is not None)
    row = Row(
        key=task.key,
        instance=instance.name,
        instance_hash=instance.fingerprint,
        scheduler=task.scheduler,
        parameters=task.parameters,
        seed=task.seed,
        source=task.source,
        headroom=task.trial.headroom,
        truth=task.trial.reality,
        status=record.status,
        termination=record.termination,
        reason=record.reason,
        objective="throughput" if by_throughput else instance.objective.value,
        throughput_of=instance.objective.value if by_throughput else None,
        slo_rule=instance.slo_rule.value,
        performance_model=instance.performance_model,
        **_bound_figures(bound),
        bound_scope=bound and bound.scope,
        **figures,
        margin=task.trial.margin or None,
        then=task.then.value,
        then_s=record.then_s,
        then_limit_s=None if task.then is Then.NONE else task.then_limit_s,
        least_slack_bound=record.slack_bound if task.trial.as_planned else None,
        decision_s=record.decision_s,
        import_s=record.import_s,
        warm_s=record.warm_s,
        overhead_s=max(0.0, record.wall_s - accounted_s),
        wall_s=record.wall_s,
        overshoot_s=max(0.0, (record.decision_s or 0.0) - task.time_limit_s),
        peak_memory_mb=record.peak_memory_mb,
        time_limit_s=task.time_limit_s,
        work_limit=task.work_limit,
        memory_limit_mb=task.memory_limit_mb,
        threads=task.threads,
        started_at=start.started_at,
        statistics=record.statistics,
        trajectory=points,
        log_tail=record.log_tail if record.termination.failed else "",
        provenance=_provenance(record, start),
        duals=record.duals,
    )
    return row if record.tally is None else row_of_set(row, record.tally, task.problem_hash)


def _provenance(record: RunRecord, start: Start) -> JsonObject:
    return {
        "schedulers": [
            {
                "name": stage.name,
                "distribution": stage.distribution or None,
                "version": stage.version or None,
                "sources": None if stage.distribution == FILE else scheduler_hash(stage.target),
            }
            for stage in record.task.stages
        ],
        "code": record.task.code_hash,
        **start.host,
        "load_average": start.load_average,
        "limited_by": record.limited_by,
    }
