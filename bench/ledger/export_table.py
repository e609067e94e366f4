"""Export of a ledger as one flat table: one run per row, with documented columns and units."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from csv import writer
from dataclasses import dataclass
from functools import partial
from io import BytesIO, StringIO
from json import dumps
from typing import Any

from bench.ledger.gap import Gap, ledger_gaps
from bench.ledger.labels import labels
from bench.ledger.row import UNITS, Row, columns
from bench.ledger.row_schema import to_json
from bench.ledger.store import Ledger
from instances import InputError
from instances.errors import FieldName, printable

Value = str | int | float | bool | None
"""Value of a column."""

Values = Mapping[str, Value]
"""Line of the table: values by the names of the columns."""


@dataclass(frozen=True, slots=True)
class RelativeValues:
    """Values of a run that follow from the other runs beside it: its gaps, and its label."""

    gap: Gap
    label: str


@dataclass(frozen=True, slots=True)
class Exported:
    """Column of the table.

    ``kind`` is ``str``, ``int``, ``float`` or ``bool``; ``unit`` may be empty; ``compute`` returns the value of a run.
    """

    name: str
    kind: type
    unit: str
    meaning: str
    compute: Callable[[Row, RelativeValues], Value]


def table(ledger: Ledger) -> Iterator[Values]:
    """Yield the values of every run of a ledger by column, oldest first. ``None`` is unknown or does not apply."""
    rows = ledger.rows(without=("violation_details", "trajectory", "log_tail", "plan"))
    yield from lines_of(rows, ledger_gaps(rows, ledger, ledger.reaches()), COLUMNS)


def lines_of(rows: Sequence[Row], gaps: Mapping[str, Gap], exported: Sequence[Exported]) -> Iterator[Values]:
    """Yield the values of each row by column; ``gaps`` has the gaps of every row by key."""
    label_of = labels(rows)
    for row in rows:
        relative = RelativeValues(gaps[row.key], label_of[row.key])
        yield {column.name: column.compute(row, relative) for column in exported}


def to_csv(lines: Sequence[Values], spreadsheet: bool = False) -> str:
    """Return lines as CSV (RFC 4180) with a header.

    ``None`` is an empty cell, Booleans are ``true`` and ``false``, and floats have all digits.

    Unprintable characters are escaped. With ``spreadsheet``, an apostrophe precedes texts that look like formulas.
    """
    text = StringIO()
    csv_writer = writer(text, lineterminator="\n")
    csv_writer.writerow([column.name for column in COLUMNS])
    for line in lines:
        csv_writer.writerow([_cell(line[column.name], spreadsheet) for column in COLUMNS])
    return text.getvalue()


def to_parquet(lines: Sequence[Values]) -> bytes:
    """Return lines as a Parquet file; the metadata of its columns has units and meanings.

    Raises
    ------
    InputError
        If pyarrow is not installed.
    """
    try:
        import pyarrow  # an extra
        from pyarrow.parquet import write_table
    except ImportError:
        raise InputError(
            FieldName("form", " parquet"), "needs pyarrow; pip install 'gpushare-bench[parquet]'"
        ) from None

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    fields = [
        pyarrow.field(column.name, types[column.kind], metadata={"unit": column.unit, "meaning": column.meaning})
        for column in COLUMNS
    ]
    file = BytesIO()
    write_table(pyarrow.Table.from_pylist(list(lines), pyarrow.schema(fields)), file)
    return file.getvalue()


def like_formulas(lines: Sequence[Values]) -> int:
    """Return the number of texts that a spreadsheet would interpret as formulas."""
    return sum(_like_formula(value) for line in lines for value in line.values())


def documentation() -> str:
    """Return the text of ``docs/columns.md``."""
    lines = [f"| `{column.name}` | {column.kind.__name__} | {column.unit} | {column.meaning} |" for column in COLUMNS]
    not_exported = [
        f"| `{column.name}` | {column.about.meaning} |" for column in columns() if not column.about.exported
    ]
    return "\n".join([_HEAD, *lines, _HEAD_OF_NOT_EXPORTED, *not_exported, ""])


def _like_formula(value: Value) -> bool:
    return isinstance(value, str) and value.startswith(("=", "+", "-", "@"))


def _cell(value: Value, spreadsheet: bool) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return dumps(value) if isinstance(value, bool) else str(value)
    return printable(f"'{value}" if spreadsheet and _like_formula(value) else value)


_HEAD = """# Columns of `bench export`

<!-- Written by `bench export --columns`; tests/reports/test_export_table.py checks that it is up to date. -->

One line per run, in the order in which the runs ended. An empty cell is unknown or does not apply: a
run that failed has no `value`, and a failure is never a zero. Times are seconds, fractions lie between 0 and 1.

CSV is UTF-8 with commas, one header line, `true` and `false`, and every digit of a float. Control characters in texts
are escaped (`\\n`). Otherwise texts are written as they are, also those that begin with `=`, `+`, `-` or `@`: an
apostrophe before them would change names and break joins with other tables. Spreadsheets interpret such texts as
formulas; `bench export` reports them, and `--spreadsheet` writes the apostrophe. Parquet does not have this problem,
and has units and meanings in the metadata of its columns.

| column | type | unit | meaning |
|---|---|---|---|"""

_HEAD_OF_NOT_EXPORTED = """
These columns hold whole documents and are not exported. `bench show KEY --format json` and `--format json` of
`bench run` have them.

| column | meaning |
|---|---|"""

_COMPUTED: Mapping[str, Sequence[Exported]] = {
    "scheduler": [
        Exported(
            "label",
            str,
            "",
            "`scheduler` with the parameters in which its runs in the table differ: `igniter[memory=true]`",
            lambda _, relative: relative.label,
        ),
    ],
    "value": [
        Exported("value_unit", str, "", "unit of `value` and `bound`", lambda row, _: UNITS.get(row.objective)),
    ],
    "bound_scope": [
        Exported(
            "gap",
            float,
            "fraction",
            "abs(value - bound) / max(abs(value), abs(bound)) with the best certified bound of ledger or library",
            lambda _, relative: relative.gap.gap,
        ),
        Exported(
            "own_gap", float, "fraction", "the same with the run's own bound", lambda _, relative: relative.gap.own_gap
        ),
        Exported(
            "refuted",
            str,
            "",
            "the run's claim that a feasible plan in the ledger or the library refutes; its bound counts for no gap",
            lambda _, relative: None if relative.gap.refuted is None else str(relative.gap.refuted),
        ),
    ],
}
"""Columns that are computed at the export, by the name of the column that stands before them."""


def _all_columns() -> Iterator[Exported]:
    """Yield the columns of the table in order: parts of a JSON column stand before the column itself."""
    for column in columns():
        for entry in column.about.parts:
            yield Exported(entry.name, entry.kind, entry.unit, entry.meaning, partial(_entry, column.name, entry.key))
        if column.about.exported:
            # Parquet needs plain types: a member of an enumeration becomes a text. A JSON column stays JSON text.
            kind = next((plain for plain in (bool, int, float, str) if issubclass(column.type, plain)), str)
            converted = _json if column.type is object else kind
            yield Exported(
                column.name, kind, column.about.unit, column.about.meaning, partial(_value, column.name, converted)
            )
        yield from _COMPUTED.get(column.name, ())


def _entry(column: str, key: str, row: Row, _: RelativeValues) -> Value:
    value: Value = (getattr(row, column) or {}).get(key)
    return value


def _value(column: str, converted: Callable[[Any], Value], row: Row, _: RelativeValues) -> Value:
    value = getattr(row, column)
    return None if value is None else converted(value)


def _json(value: Any) -> str:
    return dumps(to_json(value), sort_keys=True)


COLUMNS: Sequence[Exported] = tuple(_all_columns())
"""Columns of the table, in order."""
