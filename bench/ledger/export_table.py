"""Export of a ledger as one flat table: one run per row, with documented columns and units."""

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
"""Units of ``value`` and ``bound``, by objective."""

NOT_EXPORTED = ("violation_details", "simulation", "trajectory", "log_tail", "plan")
"""Columns of whole documents, which are not exported; ``bench show KEY`` prints them."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A column: its name, unit (empty for none), meaning and source.

    ``kind`` is ``str``, ``int``, ``float`` or ``bool``.
    """

    name: str
    kind: type
    unit: str
    meaning: str
    of: Callable[[Row, Gap], Value]


def table(ledger: Ledger) -> Iterator[Values]:
    """Yield every run of a ledger by column name, oldest first; ``None`` is unknown or does not apply."""
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
    """Return the number of texts that a spreadsheet would interpret as formulas."""
    return sum(isinstance(value, str) and value[:1] in tuple("=+-@\t\r") for line in lines for value in line.values())


def documentation() -> str:
    """Return the text of ``docs/columns.md``."""
    lines = [f"| `{c.name}` | {c.kind.__name__} | {c.unit} | {c.meaning} |" for c in COLUMNS]
    return "\n".join([_HEAD, *lines, ""])


def _cell(value: Value) -> str:
    if value is None:
        return ""
    return dumps(value) if isinstance(value, bool) else str(value)


def _field(name: str, unit: str, meaning: str) -> Exported:
    """Return a column of the ledger unchanged; a JSON column stays JSON text."""
    (kind,) = (column.type for column in columns() if column.name == name)
    if kind is object:
        return Exported(name, str, unit, meaning, lambda row, _: _json(getattr(row, name)))
    # An enumeration's members are texts; Parquet needs the plain type.
    plain = next(each for each in (bool, int, float, str) if issubclass(kind, each))
    return Exported(name, plain, unit, meaning, lambda row, _: _plain(getattr(row, name), plain))


def _plain(value: Any, kind: type) -> Value:
    return None if value is None else kind(value)


def _json(value: Any) -> str | None:
    return None if value is None else dumps(value, sort_keys=True)


def _part(name: str, kind: type, unit: str, meaning: str, of: str, key: str) -> Exported:
    """Return an entry of a JSON column of the ledger."""
    return Exported(name, kind, unit, meaning, lambda row, _: (getattr(row, of) or {}).get(key))


_HEAD = """# Columns of `bench export`

<!-- Written by `bench export --columns`; tests/reports/test_export_table.py checks that it is up to date. -->

One line per run, in the order in which the runs ended. An empty cell is unknown or does not apply: a
run that failed has no `value`, and a failure is never a zero. Times are seconds, fractions lie between 0 and 1.

CSV is UTF-8 with commas, one header line, `true` and `false`, and every digit of a float. Texts are written as they
are, also those that begin with `=`, `+`, `-` or `@`: a quotation mark before them would change names and break joins
with other tables. Spreadsheets interpret such texts as formulas, so import columns as text from a ledger of unknown
origin; `bench export` reports such texts. Parquet does not have this problem, and has units and meanings in
the metadata of its columns.

| column | type | unit | meaning |
|---|---|---|---|"""

COLUMNS: Sequence[Exported] = (
    _field("key", "", "SHA-256 over everything that can change the run; argument of `bench show`"),
    _field("instance", "", "name of the instance or scenario set"),
    _field("instance_hash", "", "SHA-256 of the instance: two may have the same name"),
    _field("scheduler", "", "as on the command line; `b@a` ran `a` first and started from its plan"),
    _field("parameters", "", "JSON: the parameters of each scheduler, defaults included"),
    _field("seed", "", "seed of the scheduler, the arrivals and the error"),
    _field("source", "", "`plan`: judged by the performance model; otherwise the hardware of the replay"),
    _field("headroom", "", "factor on every predicted latency while planning; 1 is none"),
    _field("truth", "", "true behaviour of the GPUs, in words; empty: as planned"),
    _field(
        "status", "", "the scheduler's claim about the plans that it searches: optimal, feasible, infeasible or unknown"
    ),
    _field("termination", "", "how the run ended: finished, a limit, or a failure"),
    _field("reason", "", "one line on the termination"),
    _field("objective", "", "objective of the instance; `scenarios` for a scenario set"),
    _field("throughput_of", "", "capacity or goodput, where the objective is throughput"),
    _field("slo_rule", "", "how latency budgets follow from SLOs"),
    _field("performance_model", "", "performance model that the scheduler uses"),
    _field("plan_class", "", f"narrowest class that contains the plan: {', '.join(PlanClass)}"),
    _field("value", "`value_unit`", "the judge's value of the plan, even if `feasible` is false"),
    Exported("value_unit", str, "", "unit of `value` and `bound`", lambda row, _: UNITS.get(row.objective)),
    _field("bound", "`value_unit`", "the run's last bound on `value`"),
    _field("bound_certified", "", "whether the bound holds for the true problem, not only for a simplified model"),
    _field("bound_scope", "", "JSON: the plans for which the bound holds"),
    Exported(
        "gap",
        float,
        "fraction",
        "abs(value - bound) / max(abs(value), abs(bound)) with the best certified bound in the ledger",
        lambda _, gap: gap.gap,
    ),
    Exported("own_gap", float, "fraction", "the same with the run's own bound", lambda _, gap: gap.own_gap),
    _field("gpus_used", "GPUs", "GPUs with at least one slot"),
    _field("cost_per_hour", "$/h", "price of the GPUs used"),
    _field("throughput_rps", "req/s", "sum of the slots' throughputs, by the judge"),
    _field("goodput_rps", "req/s", "sum of the rates served by slots that break no constraint, by the judge"),
    _field("fragments_pct", "%", "mean share of the GPUs used that is not allocated"),
    _field("utilisation_pct", "%", "mean over the GPUs used of share times busy fraction, by the judge"),
    _field("over_capacity_pct", "%", "time in which the jobs' demand exceeds their GPU; colocation only"),
    _field("feasible", "", "the judge's verdict: no violation"),
    _field("violations", "constraints", "violated constraints; of a scenario set, plans with violations"),
    _part("arrivals", str, "", "arrivals of the simulated requests", "simulation", "arrivals"),
    _part("simulated_s", float, "s", "simulated time that counts", "simulation", "seconds"),
    _field("sim_goodput_rps", "req/s", "requests served in time, by simulation"),
    _field("sim_violation_rate", "fraction", "simulated requests not served in time"),
    _field("sim_drop_rate", "fraction", "simulated requests not served at all"),
    _field("sim_violating", "workloads", "workloads with more than 1 % of their requests not in time"),
    _field(
        "sim_worst_p99",
        "SLOs",
        "largest P99 latency of a workload's served requests (dropped ones have none), as a multiple of its SLO",
    ),
    _part("scenarios_count", int, "scenarios", "scenarios in the set", "scenarios", "count"),
    _part("scenarios_decided", int, "scenarios", "scenarios with an answer of the scheduler", "scenarios", "decided"),
    _part("scenarios_accepted", int, "scenarios", "scenarios with a plan", "scenarios", "accepted"),
    _part("scenarios_served", int, "scenarios", "scenarios whose plan has no violation", "scenarios", "served"),
    _part("scenario_decision_median_s", float, "s", "median time per scenario", "scenarios", "decision_median_s"),
    _part("scenario_decision_max_s", float, "s", "largest time per scenario", "scenarios", "decision_max_s"),
    _field("decision_s", "s", "the scheduler's own time, without imports and compilation; of a set, for all scenarios"),
    _field("import_s", "s", "loading the scheduler's module"),
    _field("warm_s", "s", "the scheduler's `warm`: compilation"),
    _field("overhead_s", "s", "time of the harness itself"),
    _field("wall_s", "s", "from the request for the process to its end"),
    _field("overshoot_s", "s", "time by which the run exceeded the time limit"),
    _field("peak_memory_mb", "MiB", "largest resident memory"),
    _field("time_limit_s", "s", "limit on the decision"),
    _field("work_limit", "units", "limit on the work, in the scheduler's unit; empty: none"),
    _field("memory_limit_mb", "MiB", "limit on the address space; empty: none"),
    _field("threads", "threads", "threads available to scheduler and solver"),
    _field("started_at", "UTC", "ISO 8601"),
    _field("statistics", "", "JSON: the scheduler's own statistics, by name"),
    _part("bench_version", str, "", "version of gpushare-bench", "provenance", "gpushare_bench"),
    _part("commit", str, "", "commit of the checkout that ran", "provenance", "commit"),
    _part("python", str, "", "version", "provenance", "python"),
    _part("cpu", str, "", "model", "provenance", "cpu"),
    _part("cores", int, "cores", "cores of the machine", "provenance", "cores"),
    _part("load_average", float, "", "load of the machine in the minute before the run", "provenance", "load_average"),
    _field("provenance", "", "JSON: the whole provenance, with versions of schedulers and packages"),
)
