"""SQL form of a row: one checked value per column, and a digest that detects damage."""

import json
import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any

from pydantic_core import from_json as fast_json  # twice as fast as the standard library

from bench.ledger.bound_scope import Reach
from bench.ledger.row import Column, Row, columns
from bench.ledger.row_schema import ScenarioChunk, from_json, to_json
from instances import InputError, Plan
from instances.files import plan_from_text

DIGEST = "digest"
"""Additional column with the ``digest`` of the other columns. It detects damaged rows."""

REACH = "plan_reach"
"""Additional column with the ``Reach`` (extent) of the plan, so that gaps are computed without reading plans."""

CHUNKS = "chunks"
"""Table of the judged chunks of unfinished runs of scenario sets; the row of a run replaces its chunks."""

ADDED = frozenset({"least_slack", "least_slack_bound", "margin", "then", "then_limit_s", "then_s"})
"""Columns that older ledgers lack. They are added when such a ledger is opened, and are empty in its rows."""

CONTRADICTED = """
WITH served AS (
    SELECT instance_hash AS served_hash, min(value) AS smallest, max(value) AS largest
    FROM runs WHERE feasible AND truth IS NULL AND value IS NOT NULL GROUP BY instance_hash
)
SELECT DISTINCT instance_hash FROM runs JOIN served ON served_hash = instance_hash
WHERE truth IS NULL AND (
    status = 'infeasible'
    OR objective = 'cost' AND (bound_certified AND bound > smallest OR status = 'optimal' AND value > smallest)
    OR objective <> 'cost' AND (bound_certified AND bound < largest OR status = 'optimal' AND value < largest)
)
"""
"""Query of the instances on which a plan may refute a claim."""

DETAILS = frozenset(column.name for column in columns() if column.about.bulk and column.name != "plan")
"""Columns that are read only to show a run in full; they are most of a ledger's data."""

_SQL_TYPES = {float: "REAL", int: "INTEGER", bool: "INTEGER", object: "JSON"}
"""SQL types by the type of a column; other types are texts."""

_PYTHON_TYPES: dict[type, type] = {float: float, int: int, bool: int}
"""Types of the values that SQLite returns, by the type of a column; other types are texts."""

DELETE = "delete it to use the others: sqlite3 LEDGER \"DELETE FROM runs WHERE key LIKE 'KEY%'\""
"""Remedy for a damaged row."""

RECOVER = "`sqlite3 LEDGER .recover | sqlite3 NEW` saves the undamaged rows"
"""Remedy for a damaged file."""


def row_to_sql(row: Row) -> dict[str, Any]:
    """Return the stored values of ``row`` by column, including its digest.

    Raises
    ------
    InputError
        If a value does not match its schema and could not be read again.
    """
    values = {column.name: _to_sql(column, row) for column in columns()}
    values[REACH] = None if row.plan is None else json.dumps(Reach.of(row.plan).to_json())
    return values | {DIGEST: digest(values)}


def check_digest(values: Mapping[str, Any], where: str) -> None:
    """Check that the stored ``values`` of all columns are those that the bench wrote.

    Raises
    ------
    InputError
        If the values differ from their digest; ``where`` names the file.
    """
    if values[DIGEST] != digest(values):
        raise InputError(_place(values, where), f"is damaged, or was changed outside the bench; {DELETE}")


def _place(values: Mapping[str, Any], where: str) -> str:
    key = values["key"]
    return f"{where}: run {key[:12]}" if isinstance(key, str) else f"{where}: a run without a key"


def row_from_sql(values: Mapping[str, Any], where: str, without: Collection[str] = ()) -> Row:
    """Return the row with the stored ``values`` by column; see ``Ledger.rows``.

    Raises
    ------
    InputError
        If a value does not match its schema; ``where`` names the file.
    """
    place = _place(values, where)
    fields: dict[str, Any] = {}
    for column in columns():
        if column.name in without:
            fields[column.name] = None
            continue
        try:
            fields[column.name] = _from_sql(column, values[column.name], place, values["source"])
        except ValueError as error:
            problem = error.problem if isinstance(error, InputError) else f"is damaged: {error}; {DELETE}"
            raise InputError(f"{place}: {column.name}", problem) from None
    row, reach = Row(**fields), values[REACH]
    if row.plan is not None and reach_from_sql(reach, place) != Reach.of(row.plan):
        raise InputError(f"{place}: {REACH}", f"is damaged: not that of the plan; {DELETE}")
    return row


def digest(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a stored row without its empty columns."""
    lines = [f"{name}={value!r}" for name, value in sorted(values.items()) if value is not None and name != DIGEST]
    return sha256("\n".join(lines).encode()).hexdigest()


@cache
def sql_columns() -> dict[str, str]:
    """Return the SQL type of every column by its name; the largest columns come last.

    To reach a column, SQLite reads all columns before it.
    """
    types = {column.name: _SQL_TYPES.get(column.type, "TEXT") for column in columns()}
    types |= {DIGEST: "TEXT", REACH: _SQL_TYPES[object]}
    bulk = {column.name: column.about.bulk for column in columns()}
    return dict(sorted(types.items(), key=lambda column: bulk.get(column[0], 0)))


def _to_sql(column: Column, row: Row) -> Any:
    """Return a value to store, exactly in the form in which SQLite will return it, so that the digest matches."""
    value = to_json(getattr(row, column.name))
    if value is None:
        return None
    if column.type is object:
        if (error := first_error(column.name, row.source, value)) is not None:
            raise InputError(f"run {row.key[:12]}: {column.name}", f"does not match the ledger's schema: {error}")
        return json.dumps(value, allow_nan=False)
    if issubclass(column.type, str):
        return str(value)
    number = float(value) + 0.0 if column.type is float else int(value)  # SQLite returns 0.0 for -0.0
    return number if math.isfinite(number) else None  # SQLite has no NaN


def _from_sql(column: Column, value: Any, where: str, source: object) -> Any:
    """Return the value of a row from the ``value`` that SQLite returned."""
    if value is None:
        if column.required:
            raise ValueError("a required value is missing")
        return None
    if column.about.schema is Plan and isinstance(value, str):
        with suppress(InputError):  # the code below reports the error
            return plan_from_text(value)
    if column.type is object:
        if not column.about.repeated or not isinstance(value, str):
            return checked_value(column.name, parse_json(value, column.json_type, where), where, source)
        try:
            return _shared_value(column.name, column.json_type, value, str(source))
        except InputError as error:
            raise InputError(where, error.problem) from None
    expected = _PYTHON_TYPES.get(column.type, str)
    if not isinstance(value, expected):
        raise ValueError(f"{type(value).__name__} instead of {expected.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is not finite")
    return column.read(value)


@lru_cache(maxsize=4096)
def _shared_value(column: str, kind: type, text: str, source: str) -> Any:
    """Return the parsed JSON value of a column; rows with the same text share the value."""
    return checked_value(column, parse_json(text, kind, ""), "", source)


def reach_from_sql(text: Any, where: str) -> Reach:
    """Return the ``Reach`` stored as ``text``; ``where`` names the row in errors."""
    reach: Reach = checked_value(REACH, parse_json(text, dict, where), f"{where}: {REACH}")
    return reach


def checked_value(column: str, value: Any, where: str, source: object = "plan") -> Any:
    """Return the value of a row from the JSON ``value`` of a column, after a check against the column's schema.

    ``source`` is ``Row.source``: ``plan``, or the hardware of a replay. Replays have other schemas.
    """
    try:
        return from_json(_schema(column, source != "plan"), value)
    except InputError as error:
        raise InputError(where, f"is damaged: {error}; {DELETE}") from None


def first_error(column: str, source: object, value: object) -> str | None:
    """Return place and reason of the first error in the value of a JSON column or of ``CHUNKS``, or ``None``.

    For ``source`` see ``checked_value``.
    """
    try:
        from_json(_schema(column, source != "plan"), value)
    except InputError as error:
        return str(error)
    return None


@cache
def _schema(column: str, of_replay: bool) -> Any:
    """Return the schema of a JSON column, or of the values in ``CHUNKS``."""
    about = {entry.name: entry.about for entry in columns()}.get(column)
    if about is None:
        return {REACH: Reach, CHUNKS: ScenarioChunk}[column]
    return about.replay_schema if of_replay and about.replay_schema is not None else about.schema


def _refuse_constant(text: str) -> None:
    raise ValueError(text)


def parse_json(text: Any, kind: type, where: str) -> Any:
    """Return the JSON value in ``text``; its type must be ``kind``."""
    try:
        try:
            value = fast_json(text, allow_inf_nan=False)
        except ValueError:  # only Python's parser accepts lone surrogates
            value = json.loads(text, parse_constant=_refuse_constant)
    except (TypeError, ValueError, RecursionError):
        raise InputError(where, f"is damaged: no JSON; {DELETE}") from None
    if not isinstance(value, kind):
        raise InputError(where, f"is damaged: {type(value).__name__} instead of {kind.__name__}; {DELETE}")
    return value
