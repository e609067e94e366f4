"""Row of a run: the task, the scheduler's claims, the observations of the runner, and the judge's verdict.

Every column is an annotated field of ``Row``. The SQL table, the checks of stored values, the export and
``docs/columns.md`` are derived from the fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Self, get_args, get_origin, get_type_hints

from bench.api import Proof, Scope, Status
from bench.command_text import option
from bench.ledger import row_schema as schema
from bench.then import Then
from instances import Plan, PlanClass

JsonObject = Mapping[str, Any]

UNITS = {
    "cost": "$/h",
    **dict.fromkeys(("throughput", "capacity", "goodput", "colocation"), "req/s"),
    "scale": "x",
    "scenarios": "scenarios",
}
"""Units of ``value`` and ``bound``, by objective."""

CHECKED = "checked"
"""Value of ``proof`` after the check of a certificate."""


class Termination(StrEnum):
    """End of a run as the runner observed it. Interrupted runs are not stored, so the next command repeats them."""

    FINISHED = "finished"
    WALL_LIMIT = "wall_limit"
    MEMORY_LIMIT = "memory_limit"
    CRASHED = "crashed"
    EXCEPTION = "exception"
    INVALID_PLAN = "invalid_plan"
    SKIPPED = "skipped"

    @property
    def failed(self) -> bool:
        """Whether the run failed (exit code 1). A run that reaches its time limit has not failed."""
        return self in (Termination.MEMORY_LIMIT, Termination.CRASHED, Termination.EXCEPTION, Termination.INVALID_PLAN)


@dataclass(frozen=True, slots=True)
class Part:
    """Entry of a JSON column that is exported as a column of its own.

    ``name`` is the name of the exported column, and ``key`` the key of the entry. ``kind`` is ``str``, ``int`` or
    ``float``.
    """

    name: str
    key: str
    kind: type
    meaning: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """Annotation of a field of ``Row``.

    Attributes
    ----------
    meaning
        Meaning of the column, for ``docs/columns.md``.
    unit
        Unit; empty for none.
    exported
        Whether ``bench export`` writes the column. The other columns are whole documents, which ``bench show KEY``
        prints.
    parts
        Entries of a JSON column that are exported.
    schema, replay_schema
        Schema of a JSON column; ``replay_schema`` is the schema for replays, if it differs. A replay has measurements
        and no decision time.
    bulk
        Rank among the large columns, which are the last ones of the SQL table; 0 for a small column.
    repeated
        Whether many rows share a JSON value; the text of a shared value is parsed once.
    """

    meaning: str
    unit: str = ""
    exported: bool = True
    parts: tuple[Part, ...] = ()
    schema: Any = None
    replay_schema: Any = None
    bulk: int = 0
    repeated: bool = False


_PARTS_OF_SIMULATION = (
    Part("arrivals", "arrivals", str, "arrivals of the simulated requests"),
    Part("simulated_s", "seconds", float, "simulated time that counts", "s"),
)
_PARTS_OF_SCENARIOS = (
    Part("scenarios_count", "count", int, "scenarios in the set", "scenarios"),
    Part("scenarios_decided", "decided", int, "scenarios with an answer of the scheduler", "scenarios"),
    Part("scenarios_accepted", "accepted", int, "scenarios with a plan", "scenarios"),
    Part("scenarios_served", "served", int, "scenarios whose plan has no violation", "scenarios"),
    Part("scenario_decision_median_s", "decision_median_s", float, "median time per scenario", "s"),
    Part("scenario_decision_max_s", "decision_max_s", float, "largest time per scenario", "s"),
)
_PARTS_OF_PROVENANCE = (
    Part("bench_version", "gpushare_bench", str, "version of gpushare-bench"),
    Part("commit", "commit", str, "commit of the checkout that ran"),
    Part("python", "python", str, "version"),
    Part("cpu", "cpu", str, "model"),
    Part("cores", "cores", int, "cores of the machine", "cores"),
    Part("load_average", "load_average", float, "load of the machine in the minute before the run"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row of one run. The fields, in this order, are the columns of the ledger and the keys of the JSON form.

    Most fields with a default describe a plan, and are empty for a run without a plan. The others are ``margin``,
    ``then``, ``then_s``, ``then_limit_s``, ``scenarios``, ``proof`` and ``duals``.
    """

    key: Annotated[str, About("SHA-256 over everything that can change the run; argument of `bench show`")]
    instance: Annotated[str, About("name of the instance or scenario set")]
    instance_hash: Annotated[str, About("SHA-256 of the instance: two may have the same name")]
    scheduler: Annotated[str, About("as on the command line; `b@a` ran `a` first and started from its plan")]
    parameters: Annotated[
        JsonObject,
        About(
            "JSON: the parameters of each scheduler, defaults included",
            schema=schema.Parameters,
            replay_schema=schema.ReplayParameters,
            repeated=True,
        ),
    ]
    seed: Annotated[int, About("seed of the scheduler, the arrivals and the error")]
    source: Annotated[str, About("`plan`: judged by the performance model; otherwise the hardware of the replay")]
    headroom: Annotated[float | None, About("factor on every predicted latency while planning; 1 is none")]
    truth: Annotated[str | None, About("true behaviour of the GPUs, in words; empty: as planned")]
    status: Annotated[
        Status,
        About(
            "the scheduler's claim about the plans that it searches: optimal, feasible, infeasible or unknown; "
            "`plan_class` in `bound_scope` is the class of plans in which it is optimal",
        ),
    ]
    termination: Annotated[Termination, About("how the run ended: finished, a limit, or a failure")]
    reason: Annotated[str, About("one line on the termination")]
    objective: Annotated[str, About("objective of the instance; `scenarios` for a scenario set")]
    throughput_of: Annotated[str | None, About("capacity or goodput, where the objective is throughput")]
    slo_rule: Annotated[str, About("how latency budgets follow from SLOs")]
    performance_model: Annotated[str, About("performance model that the scheduler uses")]
    plan_class: Annotated[
        PlanClass | None, About(f"narrowest class that contains the plan: {', '.join(PlanClass)}")
    ] = None
    value: Annotated[
        float | None, About("the judge's value of the plan, even if `feasible` is false", "`value_unit`")
    ] = None
    bound: Annotated[
        float | None,
        About(
            "the run's last bound on `value`, as reported; gaps raise a bound on cost to the next sum of GPU prices",
            "`value_unit`",
        ),
    ]
    bound_certified: Annotated[
        bool | None, About("whether the bound holds for the true problem, not only for a simplified model")
    ]
    bound_scope: Annotated[
        Scope | None, About("JSON: the plans for which the bound holds", schema=Scope, repeated=True)
    ]
    gpus_used: Annotated[int | None, About("GPUs with at least one slot", "GPUs")] = None
    cost_per_hour: Annotated[float | None, About("price of the GPUs used", "$/h")] = None
    throughput_rps: Annotated[float | None, About("sum of the slots' throughputs, by the judge", "req/s")] = None
    goodput_rps: Annotated[
        float | None, About("sum of the rates served by slots that break no constraint, by the judge", "req/s")
    ] = None
    fragments_pct: Annotated[float | None, About("mean share of the GPUs used that is not allocated", "%")] = None
    utilisation_pct: Annotated[
        float | None, About("mean over the GPUs used of share times busy fraction, by the judge", "%")
    ] = None
    over_capacity_pct: Annotated[
        float | None, About("time in which the jobs' demand exceeds their GPU; colocation only", "%")
    ] = None
    least_slack: Annotated[
        float | None, About("how much longer than planned all latencies may be before an SLO breaks", "fraction")
    ] = None
    margin: Annotated[
        float | None, About("level of the margins on times beside others while planning; empty: none", "fraction")
    ] = None
    then: Annotated[
        str | None, About("second objective among plans of equal cost: `slack` or `none`; empty: an older run")
    ] = None
    then_s: Annotated[float | None, About("time of the second objective, after the decision", "s")] = None
    then_limit_s: Annotated[
        float | None, About("time limit of the second objective; empty without one, and for an older run", "s")
    ] = None
    least_slack_bound: Annotated[
        float | None,
        About(
            "bound on `least_slack` of all plans of this cost, proven by the scheduler in the class of `bound_scope`",
            "fraction",
        ),
    ] = None
    feasible: Annotated[bool | None, About("the judge's verdict: no violation")] = None
    violations: Annotated[
        int | None, About("violated constraints; of a scenario set, plans with violations", "constraints")
    ] = None
    violation_details: Annotated[
        Sequence[JsonObject],
        About(
            "the first violations, at least one of each kind",
            exported=False,
            schema=list[schema.BrokenConstraint],
            bulk=5,
        ),
    ] = field(default_factory=list)
    simulation: Annotated[
        JsonObject | None,
        About(
            "complete result of the simulation, or the measurements of a replay",
            exported=False,
            parts=_PARTS_OF_SIMULATION,
            schema=schema.SimulatedRequests,
            replay_schema=schema.ReplayedRequests,
            bulk=7,
        ),
    ] = None
    sim_goodput_rps: Annotated[float | None, About("requests served in time, by simulation", "req/s")] = None
    sim_violation_rate: Annotated[float | None, About("simulated requests not served in time", "fraction")] = None
    sim_drop_rate: Annotated[float | None, About("simulated requests not served at all", "fraction")] = None
    sim_violating: Annotated[
        int | None,
        About("simulated workloads above the permitted fraction not in time (no test)", "workloads"),
    ] = None
    sim_worst_p99: Annotated[
        float | None,
        About(
            "largest P99 latency of a workload's served requests (dropped ones have none), as a multiple of its SLO",
            "SLOs",
        ),
    ] = None
    holds: Annotated[
        bool | None,
        About(
            f"whether the plan keeps its attainment in the test of `{option('check_holds')}`, on servers that drop late"
            " requests, or that drop none if the instance has `dropping` false; empty: unknown"
        ),
    ] = None
    late_workloads: Annotated[int | None, About("workloads below their attainment in that test", "workloads")] = None
    scenarios: Annotated[
        JsonObject | None,
        About(
            "counts of a scenario set; `accepted_bits` and `served_bits` are the sets of accepted and served scenarios",
            exported=False,
            parts=_PARTS_OF_SCENARIOS,
            schema=schema.ScenarioCounts,
        ),
    ] = None
    decision_s: Annotated[
        float | None,
        About("the scheduler's own time, without imports and compilation; of a set, for all scenarios", "s"),
    ]
    import_s: Annotated[float | None, About("loading the scheduler's module", "s")]
    warm_s: Annotated[float | None, About("the scheduler's `warm`: compilation", "s")]
    overhead_s: Annotated[float, About("time of the bench itself", "s")]
    wall_s: Annotated[float, About("from the request for the process to its end", "s")]
    overshoot_s: Annotated[float, About("time by which the run exceeded the time limit", "s")]
    peak_memory_mb: Annotated[float | None, About("largest resident memory", "MiB")]
    time_limit_s: Annotated[float, About("limit on the decision", "s")]
    work_limit: Annotated[int | None, About("limit on the work, in the scheduler's unit; empty: none", "units")]
    memory_limit_mb: Annotated[float | None, About("limit on the address space; empty: none", "MiB")]
    threads: Annotated[int, About("threads available to scheduler and solver", "threads")]
    started_at: Annotated[str, About("ISO 8601", "UTC")]
    statistics: Annotated[
        JsonObject,
        About("JSON: the scheduler's own statistics, by name", schema=dict[str, schema.AnyJson], bulk=2),
    ]
    trajectory: Annotated[
        Sequence[JsonObject],
        About(
            "`t_s`, `value`, `feasible`, `bound` and `bound_certified` of every report and of the end of the run",
            exported=False,
            schema=list[schema.Point],
            replay_schema=list[schema.Point | schema.UntimedPoint],
            bulk=4,
        ),
    ]
    log_tail: Annotated[str, About("end of the scheduler's output, for failed runs", exported=False, bulk=3)]
    provenance: Annotated[
        JsonObject,
        About(
            "JSON: the whole provenance, with versions of schedulers and packages",
            parts=_PARTS_OF_PROVENANCE,
            schema=schema.Provenance,
            bulk=1,
        ),
    ]
    proof: Annotated[
        str | None, About("`checked`: `bench check` verified a certificate of this run's bound; empty: not checked")
    ] = None
    duals: Annotated[
        Proof | None,
        About(
            "duals, or the branching tree of duals, from which the bound follows; `bench prove` makes a certificate "
            "of them",
            exported=False,
            schema=schema.StoredProof,
            bulk=5,
        ),
    ] = None
    plan: Annotated[
        Plan | None,
        About("plan in the format of plan files, with the instance's name", exported=False, schema=Plan, bulk=6),
    ] = None

    @property
    def reserve(self) -> str:
        """Headroom and margin of planning in words; empty without both."""
        headroom = "" if self.headroom in (None, 1.0) else f"headroom {self.headroom:g}"
        margin = "" if self.margin is None else f"margin {self.margin:g}"
        return ", ".join(filter(None, (headroom, margin)))

    @property
    def second_objective(self) -> str:
        """Second objective of the run; empty without one."""
        return "" if self.then in (None, Then.NONE) else str(self.then)

    @property
    def failed(self) -> bool:
        """Whether the run counts as a failure (exit code 1)."""
        return self.termination.failed

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values, one key per field."""
        return {column.name: schema.to_json(getattr(self, column.name)) for column in columns()}

    @classmethod
    def from_json(cls, data: JsonObject) -> Self:
        """Return the row that ``to_json`` wrote as ``data``."""
        return cls(**{column.name: column.read(data[column.name]) for column in columns()})


@dataclass(frozen=True, slots=True)
class Column:
    """Column of the ledger: a field of ``Row``.

    Attributes
    ----------
    json_type
        Type of a value stored as JSON: ``dict`` or ``list``.
    type
        Type of values other than ``None``: ``str``, ``int``, ``float``, ``bool``, a ``StrEnum``, or ``object`` for
        values stored as JSON.
    required
        Whether the value is never ``None``.
    """

    name: str
    about: About
    json_type: type
    type: type
    required: bool

    def read(self, value: Any) -> Any:
        """Return a JSON value as the field's type."""
        if value is None:
            return None
        if self.type is not object:
            return self.type(value)
        return value if schema.class_of(self.about.schema) is None else schema.from_json(self.about.schema, value)


@cache
def columns() -> tuple[Column, ...]:
    """Return the columns of the ledger, derived from the fields of ``Row``."""
    hints = get_type_hints(Row, include_extras=True)
    return tuple(_column(column.name, *get_args(hints[column.name])) for column in fields(Row))


def _column(name: str, hint: Any, about: About) -> Column:
    types = set(get_args(hint)) if get_origin(hint) is UnionType else {hint}
    (kind,) = types - {NoneType}
    json_type = list if kind == Sequence[JsonObject] else dict
    is_scalar = isinstance(kind, type) and issubclass(kind, str | int | float)
    return Column(name, about, json_type, kind if is_scalar else object, NoneType not in types)
