"""A row as SQLite keeps it: one value per column, with a digest that tells whether it is what was written."""

import json
import math
from collections.abc import Collection, Mapping
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any

from pydantic_core import from_json  # takes half the time of the standard library

from bench.ledger.bound_scope import Reach
from bench.ledger.row import Column, Row, columns
from bench.ledger.row_schema import wrong_inside
from instances import InputError

_LAST = ("provenance", "statistics", "log_tail", "trajectory", "violation_details", "plan", "simulation")
"""Columns, in this order, at the end of a row."""

DIGEST = "digest"
"""Column beside those of ``Row``: what ``digest`` says of them, so that a row which was damaged is never misread."""

REACH = "plan_reach"
"""Column beside those of ``Row``: the ``Reach`` of the plan, so that gaps need no plans, most of what lists read."""

_ALIKE = frozenset({"parameters", "bound_scope"})
"""Columns of JSON that are the same in many rows, and are read once."""

_SQL_TYPES = {float: "REAL", int: "INTEGER", bool: "INTEGER", object: "JSON"}
_STORED: dict[type, type] = {float: float, int: int, bool: int}

DELETE = "delete it to use the others: sqlite3 LEDGER \"DELETE FROM runs WHERE key LIKE 'KEY%'\""
"""Remedy for a damaged row."""

RECOVER = "`sqlite3 LEDGER .recover | sqlite3 NEW` saves what is whole"
"""Remedy for a damaged file."""


def row_to_sql(row: Row) -> dict[str, Any]:
    """Return ``row`` as it is stored, by column, its digest among them.

    Raises
    ------
    InputError
        If it could not be read again.
    """
    for column in columns():
        value = getattr(row, column.name)
        if column.type is object and value is not None and (wrong := wrong_inside(column.name, row.source, value)):
            raise InputError(f"run {row.key[:12]}: {column.name}", f"is nothing that could be read again: {wrong}")
    values = {column.name: _to_sql(column, getattr(row, column.name)) for column in columns()}
    values[REACH] = None if row.plan is None else json.dumps(Reach.of(row.plan).to_json())
    return values | {DIGEST: digest(values)}


def row_from_sql(values: Mapping[str, Any], where: str, without: Collection[str] = (), checked: bool = True) -> Row:
    """Return the row that is stored as ``values`` by column, its digest among them; see ``Ledger.rows``.

    Raises
    ------
    InputError
        If it is not what was written, or its values are none of a row; ``where`` names the file.
    """
    key = values["key"]
    at = f"{where}: run {key[:12]}" if isinstance(key, str) else f"{where}: a run without a key"
    stored = values[DIGEST]
    if checked and stored != digest(values):
        raise InputError(at, f"is damaged: its values are not those that were written; {DELETE}")
    read: dict[str, Any] = {}
    for column in columns():
        if column.name in without:
            read[column.name] = None
            continue
        try:
            read[column.name] = _from_sql(column, values[column.name], at, values["source"])
        except ValueError as error:
            problem = error.problem if isinstance(error, InputError) else f"is damaged: {error}; {DELETE}"
            raise InputError(f"{at}: {column.name}", problem) from None
    row, told = Row(**read), values.get(REACH)
    if row.plan is not None and told is not None and reach_from_sql(told, at) != Reach.of(row.plan):
        raise InputError(f"{at}: {REACH}", f"is damaged: not that of the plan; {DELETE}")
    return row


def digest(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a row as it is stored; columns that are empty, as later ones are, do not count."""
    told = [f"{name}={value!r}" for name, value in sorted(values.items()) if value is not None and name != DIGEST]
    return sha256("\n".join(told).encode()).hexdigest()


@cache
def sql_columns() -> dict[str, str]:
    """Return the type of every column of the table by its name, those that hold most at the end.

    SQLite goes through all that stands in a row before what is asked for.
    """
    types = {column.name: _SQL_TYPES.get(column.type, "TEXT") for column in columns()}
    types |= {DIGEST: "TEXT", REACH: _SQL_TYPES[object]}
    return dict(sorted(types.items(), key=lambda column: _LAST.index(column[0]) if column[0] in _LAST else -1))


def _to_sql(column: Column, value: Any) -> Any:
    """Return a value exactly as SQLite will give it back."""
    if value is None:
        return None
    if column.type is object:
        return json.dumps(value, allow_nan=False)
    if issubclass(column.type, str):
        return str(value)
    number = float(value) if column.type is float else int(value)
    return number if math.isfinite(number) else None  # SQLite has no NaN


def _from_sql(column: Column, value: Any, where: str, source: object) -> Any:
    if value is None:
        if column.required:
            raise ValueError("nothing in the place of a value")
        return None
    if column.type is object:
        if column.name not in _ALIKE or not isinstance(value, str):
            return shaped(column.name, parsed(value, column.json_type, where), where, source)
        try:
            return _shared(column.name, column.json_type, value, str(source))
        except InputError as error:
            raise InputError(where, error.problem) from None
    stored = _STORED.get(column.type, str)
    if not isinstance(value, stored):
        raise ValueError(f"{type(value).__name__} in the place of {stored.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")
    return column.read(value)


@lru_cache(maxsize=4096)
def _shared(column: str, kind: type, text: str, source: str) -> Any:
    """Return the JSON value of a column; rows in which it is the same share it."""
    return shaped(column, parsed(text, kind, ""), "", source)


def reach_from_sql(text: Any, where: str) -> Reach:
    """Return the ``Reach`` that is stored as ``text``; ``where`` names the row, for errors."""
    return Reach.from_json(shaped(REACH, parsed(text, dict, where), f"{where}: {REACH}"))


def shaped(column: str, value: Any, where: str, source: object = "plan") -> Any:
    """Return the JSON ``value`` of a column, which is what a run has there."""
    if (wrong := wrong_inside(column, source, value)) is not None:
        raise InputError(where, f"is damaged: {wrong}; {DELETE}")
    return value


def _no_number(text: str) -> None:
    raise ValueError(text)


def parsed(text: Any, kind: type, where: str) -> Any:
    """Return the JSON value of a ``kind`` that is stored as ``text``."""
    try:
        try:
            value = from_json(text, allow_inf_nan=False)
        except ValueError:  # half a surrogate pair, which only Python takes for text
            value = json.loads(text, parse_constant=_no_number)
    except (TypeError, ValueError, RecursionError):
        raise InputError(where, f"is damaged: no JSON; {DELETE}") from None
    if not isinstance(value, kind):
        raise InputError(where, f"is damaged: {type(value).__name__} in the place of {kind.__name__}; {DELETE}")
    return value
