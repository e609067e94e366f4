"""Row of a run: the task, the scheduler's claims, the observations of the runner, and the judge's verdict."""

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
    """End of a run as the runner observed it. Interrupted runs are not stored, so that they run again next time."""

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
        """Whether the run failed (exit code 1). A run that reaches its time limit has not failed."""
        return self in (Termination.MEMORY_LIMIT, Termination.CRASHED, Termination.EXCEPTION, Termination.INVALID_PLAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run. The fields, in this order, are the columns of the ledger and the keys of its JSON form.

    Attributes
    ----------
    key
        SHA-256 over everything that can change the row.
    instance, instance_hash
        Name and fingerprint of the instance.
    scheduler, parameters, seed
        Scheduler (``b@a`` ran ``a`` first), parameters by scheduler name with defaults included, and seed.
    source
        Origin of the figures: ``plan`` (judged and simulated) or ``replay`` (measured on hardware).
    headroom, truth
        Factor on every latency in the scheduler's view, and the differences of the true GPUs from the instance as text.
        The plan is judged and simulated on the true GPUs.
    status, termination, reason
        The scheduler's claim, the end of the run, and one line about it for people.
    objective, throughput_of, slo_rule, performance_model
        Properties of the instance, as in instance files; the objective of a scenario set is ``scenarios``.
    plan_class
        Narrowest class that contains the plan.
    value
        Objective value according to the judge, also for infeasible plans; ``None`` without a plan. For a scenario set,
        the number of scenarios with a feasible plan.
    bound, bound_certified, bound_scope
        The last bound and the plans for which it holds (``plan_class, allowed_shares, slots_per_gpulet, max_batch``).
    gpus_used, cost_per_hour, throughput_rps, goodput_rps, fragments_pct, utilisation_pct, over_capacity_pct
        The judge's figures for the plan; the last one only under ``colocation``.
    sim_goodput_rps, sim_violation_rate, sim_drop_rate, sim_violating, sim_worst_p99
        Figures of the simulation: requests per second served in time; fractions of requests not served in time, and
        not served at all; number of workloads with more than 1 % not in time; largest P99 latency as a multiple of its
        SLO.
    simulation
        Complete result of the simulation: see ``bench.simulation.result``.
    feasible, violations, violation_details
        The judge's verdict, the number of violations, and the first of them. For a scenario set: whether all plans are
        feasible, and the number of plans that are not.
    scenarios
        Results of a scenario set: ``count`` of scenarios; numbers of scenarios that were ``decided``, for which the
        scheduler had a plan (``accepted``), and whose plan is feasible (``served``); the sets of the latter two
        (``accepted_bits``, ``served_bits``: see ``bench.scenarios.unpack``); and seconds per decision
        (``decision_median_s``, ``decision_max_s``).
    decision_s
        Decision time of the scheduler: from the end of ``warm`` until it returned or was stopped; for a scenario set,
        of all scenarios together.
    import_s, warm_s
        Time for loading the scheduler's module, and for its ``warm``.
    overhead_s
        Remaining part of ``wall_s``: time of the runner.
    wall_s
        Time from the request for the process until its end, without judging.
    overshoot_s
        Time by which the run exceeded its time limit.
    peak_memory_mb
        Largest resident memory of the worker or of one of its children, in MiB; ``None`` if it is not known.
    time_limit_s, work_limit, memory_limit_mb, threads
        Limits: work in the scheduler's unit (``None``: unlimited), memory in MiB of address space.
    started_at
        Start of the run in UTC, ISO 8601.
    statistics
        The scheduler's statistics, by name.
    trajectory
        ``{t_s, value, feasible, bound, bound_certified}`` of every report and of the end of the run.
    log_tail
        End of the scheduler's output, for failed runs.
    provenance
        Versions, CPU and load: see ``bench.provenance``.
    plan
        Plan in the format of plan files, with the instance's name.
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
        Name of the field.
    json_type
        Type of a value stored as JSON: ``dict`` or ``list``.
    type
        Type of values other than ``None``: ``str``, ``int``, ``float``, ``bool``, a ``StrEnum``, or ``object`` for
        values stored as JSON.
    required
        Whether the value is never ``None``.
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
    """Return the columns of the ledger, derived from the fields of ``Row``."""
    hints = get_type_hints(Row)
    return tuple(_column(field.name, hints[field.name]) for field in fields(Row))


def _column(name: str, hint: Any) -> Column:
    options = set(get_args(hint)) if get_origin(hint) is UnionType else {hint}
    (kind,) = options - {NoneType}
    json_type = dict if kind == JsonObject else list
    scalar = isinstance(kind, type) and issubclass(kind, str | int | float)
    return Column(name, json_type, kind if scalar else object, NoneType not in options)
