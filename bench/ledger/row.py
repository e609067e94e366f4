"""One run is one row: what was asked, what the scheduler said, what the harness saw, what the judge found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from bench.api import Status
from instances import PlanClass

JsonObject = Mapping[str, Any]


class Termination(StrEnum):
    """How a run ended, as the harness saw it. Interrupted runs are never stored: they run again next time."""

    FINISHED = "finished"
    WALL_LIMIT = "wall_limit"
    MEMORY_LIMIT = "memory_limit"
    CRASHED = "crashed"
    EXCEPTION = "exception"
    INVALID_PLAN = "invalid_plan"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"

    @property
    def failed(self) -> bool:
        """Whether something that ran went wrong: exit code 1. Reaching the time limit is a result."""
        return self in (Termination.MEMORY_LIMIT, Termination.CRASHED, Termination.EXCEPTION, Termination.INVALID_PLAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run. The fields, in this order, are the columns of the ledger and the keys of its JSON form.

    Attributes
    ----------
    key
        SHA-256 over everything that can change the row.
    instance, instance_hash
        Name and fingerprint.
    scheduler, parameters, seed
        As asked: ``b@a`` ran ``a`` first. Parameters by scheduler name, defaults included.
    source
        Where the figures come from: ``plan`` (the judge's model, simulated), ``replay`` (measured on hardware).
    headroom, truth
        Factor on every latency that the scheduler planned for, and what is really different from the instance, in
        words; the plan is judged and simulated by that.
    status, termination, reason
        The scheduler's claim, how the run ended, and one line about it for people.
    objective, throughput_of, slo_rule, performance_model
        Of the instance, in the words of instance files; the objective of a scenario set is ``scenarios``.
    plan_class
        The narrowest class that contains the plan.
    value
        The judge's, in the objective's unit, also for infeasible plans; ``None`` without a plan. Of a scenario set the
        number of scenarios with a plan that breaks no constraint.
    bound, bound_certified, bound_scope
        The last bound and the plans it holds for (``plan_class, allowed_shares, slots_per_gpulet, max_batch``).
    gpus_used, cost_per_hour, throughput_rps, goodput_rps, fragments_pct, utilisation_pct, over_capacity_pct
        The judge's figures for the plan; the last of ``colocation`` only.
    sim_goodput_rps, sim_violation_rate, sim_drop_rate, sim_violating, sim_worst_p99
        Of the simulation: requests in time per second, fractions of the requests not served in time and not served at
        all, workloads with more than 1 % not in time, and the largest P99 latency as a multiple of its SLO.
    simulation
        All that it found: see ``bench.simulation.result``.
    feasible, violations, violation_details
        The judge's verdict, how many constraints are broken, and the first of them. Of a scenario set: whether all
        plans keep all constraints, and how many plans do not.
    scenarios
        Of a scenario set: the ``count`` of its scenarios, how many were ``decided``, for how many the scheduler had a
        plan (``accepted``) and the judge agreed (``served``), which these are (``accepted_bits``, ``served_bits``: see
        ``bench.scenarios.unpack``), and seconds per decision (``decision_median_s``, ``decision_max_s``).
    decision_s
        The scheduler's own time: from after ``warm`` until it returned or was stopped; for all scenarios of a set.
    import_s, warm_s
        Loading the scheduler's module; its ``warm``.
    overhead_s
        The rest of ``wall_s``: what the harness itself took.
    wall_s
        From asking for the process until it was gone. Judging comes after it.
    overshoot_s
        How far beyond the time limit the run really ended.
    peak_memory_mb
        Largest resident memory of the worker or of one of its children, in MiB; ``None`` where it died unobserved.
    time_limit_s, work_limit, memory_limit_mb, threads
        The limits, work in the unit of each scheduler (``None``: none), memory in MiB of address space.
    started_at
        UTC, ISO 8601.
    statistics
        The scheduler's, by name.
    trajectory
        ``{t_s, value, feasible, bound, bound_certified}`` of what was reported on the way, and of the end.
    log_tail
        The end of what the scheduler printed, for runs that failed.
    provenance
        Versions, CPU, load: see ``bench.provenance``.
    plan
        In the plan file's format, with the instance's name.
    """

    key: str
    instance: str
    instance_hash: str
    scheduler: str
    parameters: JsonObject
    seed: int
    source: str
    headroom: float | None
    truth: str | None
    status: Status
    termination: Termination
    reason: str
    objective: str
    throughput_of: str | None
    slo_rule: str
    performance_model: str
    plan_class: PlanClass | None
    value: float | None
    bound: float | None
    bound_certified: bool | None
    bound_scope: JsonObject | None
    gpus_used: int | None
    cost_per_hour: float | None
    throughput_rps: float | None
    goodput_rps: float | None
    fragments_pct: float | None
    utilisation_pct: float | None
    over_capacity_pct: float | None
    sim_goodput_rps: float | None
    sim_violation_rate: float | None
    sim_drop_rate: float | None
    sim_violating: int | None
    sim_worst_p99: float | None
    simulation: JsonObject | None
    feasible: bool | None
    violations: int | None
    violation_details: Sequence[JsonObject]
    scenarios: JsonObject | None
    decision_s: float | None
    import_s: float | None
    warm_s: float | None
    overhead_s: float
    wall_s: float
    overshoot_s: float
    peak_memory_mb: float | None
    time_limit_s: float
    work_limit: int | None
    memory_limit_mb: float | None
    threads: int
    started_at: str
    statistics: JsonObject
    trajectory: Sequence[JsonObject]
    log_tail: str
    provenance: JsonObject
    plan: JsonObject | None

    @property
    def failed(self) -> bool:
        """Whether the run counts as a failure (exit code 1)."""
        return self.termination.failed

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values, one key per field."""
        values = {column.name: getattr(self, column.name) for column in columns()}
        return {name: str(value) if isinstance(value, StrEnum) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, data: JsonObject) -> Self:
        """Return the row that ``to_json`` wrote as ``data``."""
        return cls(**{column.name: column.read(data[column.name]) for column in columns()})


@dataclass(frozen=True, slots=True)
class Column:
    """One field of ``Row`` as a column.

    Attributes
    ----------
    name
        Of the field.
    json_type
        Of what is stored as JSON: ``dict`` or ``list``.
    type
        Of its values other than ``None``: ``str``, ``int``, ``float``, ``bool``, a ``StrEnum``, or ``object`` for what
        is stored as JSON.
    required
        Whether it is never ``None``.
    """

    name: str
    json_type: type
    type: type
    required: bool

    def read(self, value: Any) -> Any:
        """Return a JSON value as the field's type."""
        return value if value is None or self.type is object else self.type(value)


@cache
def columns() -> tuple[Column, ...]:
    """Return the columns of the ledger, taken from the fields of ``Row`` so that they are listed in one place."""
    hints = get_type_hints(Row)
    return tuple(_column(field.name, hints[field.name]) for field in fields(Row))


def _column(name: str, hint: Any) -> Column:
    options = set(get_args(hint)) if get_origin(hint) is UnionType else {hint}
    (kind,) = options - {NoneType}
    json_type = dict if kind == JsonObject else list
    scalar = isinstance(kind, type) and issubclass(kind, str | int | float)
    return Column(name, json_type, kind if scalar else object, NoneType not in options)
