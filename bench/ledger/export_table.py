"""A ledger as one flat table: a run per line, a documented column per figure, its unit beside it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from csv import writer
from dataclasses import dataclass
from io import BytesIO, StringIO
from json import dumps
from typing import Any

from bench.ledger.gap import Gap, ledger_gaps
from bench.ledger.row import Row, columns
from bench.ledger.store import Ledger
from instances import InputError, PlanClass

Value = str | int | float | bool | None
Values = Mapping[str, Value]

UNITS = {"cost": "$/h", "throughput": "req/s", "scale": "x", "colocation": "req/s", "scenarios": "scenarios"}
"""Of ``value`` and ``bound``, by objective."""

NOT_EXPORTED = ("violation_details", "simulation", "trajectory", "log_tail", "plan")
"""What is no figure of a run but a document of its own: ``bench show KEY`` has it."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A column: its name, its unit (empty for none), what it means, and where it comes from.

    ``kind`` is ``str``, ``int``, ``float`` or ``bool``.
    """

    name: str
    kind: type
    unit: str
    meaning: str
    of: Callable[[Row, Gap], Value]


def table(ledger: Ledger) -> Iterator[Values]:
    """Yield every run of a ledger by column name, oldest first; ``None`` is what is not known or does not apply."""
    rows = ledger.rows(without=("violation_details", "trajectory", "log_tail"))
    gaps = ledger_gaps(rows, ledger)
    for row in rows:
        yield {column.name: column.of(row, gaps[row.key]) for column in COLUMNS}


def to_csv(lines: "Sequence[Values]") -> str:
    """Return lines as CSV (RFC 4180) with a header: empty for ``None``, ``true`` and ``false``, floats in full."""
    text = StringIO()
    out = writer(text, lineterminator="\n")
    out.writerow([column.name for column in COLUMNS])
    for line in lines:
        out.writerow([_cell(line[column.name]) for column in COLUMNS])
    return text.getvalue()


def to_parquet(lines: "Sequence[Values]") -> bytes:
    """Return lines as a Parquet file, units and meanings in the metadata of its columns.

    Raises
    ------
    InputError
        If pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow.parquet import write_table
    except ImportError:
        raise InputError("--format parquet", "needs pyarrow; pip install 'gpushare-bench[parquet]'") from None

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    fields = [
        pyarrow.field(column.name, types[column.kind], metadata={"unit": column.unit, "meaning": column.meaning})
        for column in COLUMNS
    ]
    file = BytesIO()
    write_table(pyarrow.Table.from_pylist(list(lines), pyarrow.schema(fields)), file)
    return file.getvalue()


def like_formulas(lines: "Sequence[Values]") -> int:
    """Return how many texts a spreadsheet that opens the CSV would take for formulas."""
    return sum(isinstance(value, str) and value[:1] in tuple("=+-@\t\r") for line in lines for value in line.values())


def documentation() -> str:
    """Return what ``docs/columns.md`` says."""
    lines = [f"| `{c.name}` | {c.kind.__name__} | {c.unit} | {c.meaning} |" for c in COLUMNS]
    return "\n".join([_HEAD, *lines, ""])


def _cell(value: Value) -> str:
    if value is None:
        return ""
    return dumps(value) if isinstance(value, bool) else str(value)


def _field(name: str, unit: str, meaning: str) -> Exported:
    """Return a column of the ledger as it is; what is stored as JSON, as JSON text."""
    (kind,) = (column.type for column in columns() if column.name == name)
    if kind is object:
        return Exported(name, str, unit, meaning, lambda row, _: _json(getattr(row, name)))
    # An enumeration's members are texts that say more than Parquet wants to know.
    plain = next(each for each in (bool, int, float, str) if issubclass(kind, each))
    return Exported(name, plain, unit, meaning, lambda row, _: _plain(getattr(row, name), plain))


def _plain(value: Any, kind: type) -> Value:
    return None if value is None else kind(value)


def _json(value: Any) -> str | None:
    return None if value is None else dumps(value, sort_keys=True)


def _part(name: str, kind: type, unit: str, meaning: str, of: str, key: str) -> Exported:
    """Return an entry of a column that the ledger has as JSON."""
    return Exported(name, kind, unit, meaning, lambda row, _: (getattr(row, of) or {}).get(key))


_HEAD = """# Columns of `bench export`

<!-- Written by `bench export --columns`; tests/reports/test_export_table.py says when it is out of date. -->

One line per run, in the order in which the runs ended. An empty cell is a figure that is not known or does not apply: a
run that failed has no `value`, and a failure is never a zero. Times are seconds, fractions lie between 0 and 1.

CSV is UTF-8 with commas, one header line, `true` and `false`, and every digit of a float. Texts are written as they
are, also those that begin with `=`, `+`, `-` or `@`: a quotation mark before them would change names and break joins
with other tables. Spreadsheets take such texts for formulas, so import columns as text where a ledger comes from
somebody else; `bench export` says when there are any. Parquet has no such problem, and carries units and meanings in
the metadata of its columns.

| column | type | unit | meaning |
|---|---|---|---|"""

COLUMNS: Sequence[Exported] = (
    _field("key", "", "SHA-256 over everything that can change the run; names it in `bench show`"),
    _field("instance", "", "name of the instance or scenario set"),
    _field("instance_hash", "", "SHA-256 of the instance: two may have the same name"),
    _field("scheduler", "", "as asked for; `b@a` ran `a` first and went on from its plan"),
    _field("parameters", "", "JSON: the parameters of each scheduler, defaults included"),
    _field("seed", "", "of the scheduler, the arrivals and the error"),
    _field("source", "", "`plan`: judged by the performance model; otherwise what the plan was replayed on"),
    _field("headroom", "", "factor on every latency that was planned with; 1 is none"),
    _field("truth", "", "how the GPUs really behave, in words; empty: as planned"),
    _field(
        "status", "", "the scheduler's own claim, of the plans it looks for: optimal, feasible, infeasible or unknown"
    ),
    _field("termination", "", "how the run ended: finished, a limit, or a failure"),
    _field("reason", "", "one line about it"),
    _field("objective", "", "of the instance; `scenarios` for a scenario set"),
    _field("throughput_of", "", "capacity or goodput, where the objective is throughput"),
    _field("slo_rule", "", "how latency budgets follow from SLOs"),
    _field("performance_model", "", "that the scheduler plans by"),
    _field("plan_class", "", f"narrowest class that holds the plan: {', '.join(PlanClass)}"),
    _field("value", "`value_unit`", "the judge's value of the plan, also where `feasible` is false"),
    Exported("value_unit", str, "", "unit of `value` and `bound`", lambda row, _: UNITS.get(row.objective)),
    _field("bound", "`value_unit`", "the run's last bound on `value`"),
    _field("bound_certified", "", "whether it is proven for the true problem rather than for a simplified model"),
    _field("bound_scope", "", "JSON: the plans for which it holds"),
    Exported(
        "gap",
        float,
        "fraction",
        "abs(value - bound) / max(abs(value), abs(bound)) with the best certified bound in the ledger",
        lambda _, gap: gap.gap,
    ),
    Exported("own_gap", float, "fraction", "the same with the run's own bound", lambda _, gap: gap.own_gap),
    _field("gpus_used", "GPUs", "with at least one slot"),
    _field("cost_per_hour", "$/h", "of the GPUs used"),
    _field("throughput_rps", "req/s", "sum of what the slots can do, by the judge"),
    _field("goodput_rps", "req/s", "sum of the rates served by slots that break no constraint, by the judge"),
    _field("fragments_pct", "%", "mean share of the GPUs used that is not allocated"),
    _field("utilisation_pct", "%", "mean over the GPUs used of share times busy fraction, by the judge"),
    _field("over_capacity_pct", "%", "time in which jobs ask for more than their GPU; colocation only"),
    _field("feasible", "", "the judge's verdict: every constraint is kept"),
    _field("violations", "constraints", "broken; of a scenario set, plans that break some"),
    _part("arrivals", str, "", "of the requests that were simulated", "simulation", "arrivals"),
    _part("simulated_s", float, "s", "simulated time that was measured", "simulation", "seconds"),
    _field("sim_goodput_rps", "req/s", "served in time, by simulation"),
    _field("sim_violation_rate", "fraction", "of the simulated requests, not served in time"),
    _field("sim_drop_rate", "fraction", "of the simulated requests, not served at all"),
    _field("sim_violating", "workloads", "with more than 1 % of their requests not in time"),
    _field(
        "sim_worst_p99",
        "SLOs",
        "largest P99 latency of a workload's served requests (dropped ones have none), as a multiple of its SLO",
    ),
    _part("scenarios_count", int, "scenarios", "in the set", "scenarios", "count"),
    _part("scenarios_decided", int, "scenarios", "for which the scheduler answered", "scenarios", "decided"),
    _part("scenarios_accepted", int, "scenarios", "for which it had a plan", "scenarios", "accepted"),
    _part("scenarios_served", int, "scenarios", "whose plan keeps every constraint", "scenarios", "served"),
    _part("scenario_decision_median_s", float, "s", "per scenario", "scenarios", "decision_median_s"),
    _part("scenario_decision_max_s", float, "s", "per scenario", "scenarios", "decision_max_s"),
    _field("decision_s", "s", "the scheduler's own time, without imports and compilation; of a set, for all scenarios"),
    _field("import_s", "s", "loading the scheduler's module"),
    _field("warm_s", "s", "the scheduler's `warm`: compilation"),
    _field("overhead_s", "s", "what the harness itself took"),
    _field("wall_s", "s", "from asking for the process until it was gone"),
    _field("overshoot_s", "s", "how far beyond the time limit the run ended"),
    _field("peak_memory_mb", "MiB", "largest resident memory"),
    _field("time_limit_s", "s", "limit on the decision"),
    _field("work_limit", "units", "limit on the work, in the scheduler's unit; empty: none"),
    _field("memory_limit_mb", "MiB", "limit on the address space; empty: none"),
    _field("threads", "threads", "that scheduler and solver might use"),
    _field("started_at", "UTC", "ISO 8601"),
    _field("statistics", "", "JSON: the scheduler's own, by name"),
    _part("bench_version", str, "", "of gpushare-bench", "provenance", "gpushare_bench"),
    _part("commit", str, "", "of the checkout that ran", "provenance", "commit"),
    _part("python", str, "", "version", "provenance", "python"),
    _part("cpu", str, "", "model", "provenance", "cpu"),
    _part("cores", int, "cores", "of the machine", "provenance", "cores"),
    _part("load_average", float, "", "of the machine in the minute before the run", "provenance", "load_average"),
    _field("provenance", "", "JSON: all of it, with versions of schedulers and packages"),
)
