"""The ledger: one SQLite file with one row per run and the instances they solved. Several benches may share it."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.row import Column, JsonObject, Row, columns
from instances import InputError, Instance
from instances.errors import unknown_name
from instances.files import instance_from_json, instance_to_json

SCHEMA_VERSION = 2
"""Stored in the file; raised when columns or tables are added. Rows that are older have nothing there."""

_CHUNKS = "CREATE TABLE IF NOT EXISTS chunks (key TEXT, first INTEGER, json JSON NOT NULL, PRIMARY KEY (key, first))"
"""What is judged of scenario sets whose row is not there yet, by the key of that row."""

BUSY_TIMEOUT_S = 60.0
"""How long to wait for another bench that is writing."""

_SQL_TYPES = {float: "REAL", int: "INTEGER", bool: "INTEGER", object: "JSON"}


class Ledger:
    """A ledger file.

    Parameters
    ----------
    path
        The file.
    create
        Make the file, and the folders it is in, if there is none.

    Raises
    ------
    InputError
        If there is no such file (without ``create``), it is no ledger, or a newer version of the bench wrote it.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        if create:
            with self._explained():
                path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.is_file():
            raise InputError(str(path), "no such ledger; `bench run` writes one")
        with self._explained():
            # Write-ahead logging needs files beside this one; where there can be none, nobody writes either.
            frozen = not create and not os.access(path.parent, os.W_OK)
            target = f"{path.resolve().as_uri()}{'?immutable=1' if frozen else ''}"
            # Transactions are begun and ended by hand.
            self._database = sqlite3.connect(target, timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=True)
            try:
                self._prepare(create)
            except BaseException:
                self._database.close()
                raise

    def _prepare(self, create: bool) -> None:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            problem = (
                f"ledger version {version} is newer than this bench reads ({SCHEMA_VERSION}); update gpushare-bench"
            )
            raise InputError(str(self.path), problem)
        tables = {name for (name,) in self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if {"instances", "runs"} <= tables:
            if version < SCHEMA_VERSION:
                self._add_columns()
            return
        if tables or not create:
            raise InputError(str(self.path), "is no ledger: it lacks the tables instances and runs")
        self._database.execute("PRAGMA journal_mode = WAL")
        listed = ", ".join(f'"{column.name}" {_sql_type(column)}' for column in columns())
        with self._transaction():
            # Another bench may have done it since.
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS instances (hash TEXT PRIMARY KEY, name TEXT NOT NULL, json JSON NOT NULL)"
            )
            self._database.execute(f"CREATE TABLE IF NOT EXISTS runs ({listed}, PRIMARY KEY (key))")
            self._database.execute("CREATE INDEX IF NOT EXISTS runs_by_instance ON runs (instance_hash, scheduler)")
            self._database.execute(_CHUNKS)
            self._database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _add_columns(self) -> None:
        """Bring the file of an older bench up to date."""
        with self._transaction():
            # Another bench may have done it since.
            known = {name for _, name, *_ in self._database.execute("PRAGMA table_info(runs)")}
            for column in columns():
                if column.name not in known:
                    self._database.execute(f'ALTER TABLE runs ADD COLUMN "{column.name}" {_sql_type(column)}')
            self._database.execute(_CHUNKS)
            self._database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, row: Row, instance: Instance) -> bool:
        """Store a row and its instance, both or nothing; return whether there was no row of this key before.

        Of a scenario set the instance is the base.

        Raises
        ------
        InputError
            If no file can carry ``instance`` (see ``instance_to_json``), or the ledger cannot be written.
        """
        values = [_to_sql(column, getattr(row, column.name)) for column in columns()]
        with self._explained():
            known = self._database.execute("SELECT 1 FROM instances WHERE hash = ?", [instance.fingerprint]).fetchone()
            text = None if known else json.dumps(instance_to_json(instance))
            with self._transaction():
                if text is not None:
                    content = [instance.fingerprint, instance.name, text]
                    self._database.execute("INSERT OR IGNORE INTO instances VALUES (?, ?, ?)", content)
                # Columns that were added later stand last in the file. Their names come from Row alone.
                listed, places = ", ".join(f'"{c.name}"' for c in columns()), ", ".join("?" * len(values))
                insert = f"INSERT OR IGNORE INTO runs ({listed}) VALUES ({places})"  # noqa: S608
                added = self._database.execute(insert, values).rowcount
                self._database.execute("DELETE FROM chunks WHERE key = ?", [row.key])
        return added == 1

    def add_chunk(self, key: str, chunk: JsonObject) -> None:
        """Keep a judged chunk of a scenario set until its row is added: an interrupted run goes on behind it.

        Raises
        ------
        InputError
            If the ledger cannot be written.
        """
        with self._explained():
            values = [key, chunk["first"], json.dumps(chunk)]
            self._database.execute("INSERT OR IGNORE INTO chunks VALUES (?, ?, ?)", values)

    def chunks(self, key: str) -> list[JsonObject]:
        """Return the chunks that are kept of the run with this key."""
        with self._explained():
            found = self._database.execute("SELECT json FROM chunks WHERE key = ? ORDER BY first", [key])
            return [json.loads(text) for (text,) in found]

    def keys(self) -> set[str]:
        """Return the keys of all rows."""
        with self._explained():
            return {key for (key,) in self._database.execute("SELECT key FROM runs")}

    def rows(self, **equal: str | float | bool | None) -> list[Row]:
        """Return the rows whose columns equal what is given, oldest first: ``rows(instance="mix", seed=0)``.

        ``None`` stands for every value, so that options can be passed on.
        """
        known = [column.name for column in columns()]
        for name in equal:
            if name not in known:
                raise unknown_name("ledger", "column", name, known)
        wanted = {name: value for name, value in equal.items() if value is not None}
        condition = " AND ".join(f'"{name}" = ?' for name in wanted) or "TRUE"
        return self._select(condition, list(wanted.values()))

    def row(self, key_prefix: str) -> Row:
        """Return the one row whose key starts with ``key_prefix``.

        Raises
        ------
        InputError
            If none does, or several do.
        """
        found = self._select("substr(key, 1, ?) = ?", [len(key_prefix), key_prefix.lower()]) if key_prefix else []
        if len(found) == 1:
            return found[0]
        if not found:
            raise InputError(str(self.path), f'no run has a key that starts with "{key_prefix}"')
        several = ", ".join(row.key[: len(key_prefix) + 4] for row in found[:4])
        raise InputError(
            str(self.path), f'{len(found)} runs have a key that starts with "{key_prefix}": {several}, ...'
        )

    def instance(self, fingerprint: str) -> Instance:
        """Return a stored instance.

        Raises
        ------
        InputError
            If it is not there, or the catalogue has changed since, so that it is not the same instance any more.
        """
        with self._explained():
            found = self._database.execute("SELECT json FROM instances WHERE hash = ?", [fingerprint]).fetchone()
        if found is None:
            raise InputError(str(self.path), f"has no instance {fingerprint[:12]}")
        instance = instance_from_json(json.loads(found[0]), f"{self.path}: instance {fingerprint[:12]}")
        if instance.fingerprint != fingerprint:
            problem = f'instance "{instance.name}" was stored under another catalogue; run it again'
            raise InputError(str(self.path), problem)
        return instance

    def _select(self, condition: str, values: list[Any]) -> list[Row]:
        listed = ", ".join(f'"{column.name}"' for column in columns())
        # Column names come from Row alone.
        query = f"SELECT {listed} FROM runs WHERE {condition} ORDER BY rowid"  # noqa: S608
        with self._explained(), closing(self._database.execute(query, values)) as cursor:
            return [
                Row.from_json({c.name: _from_sql(c, value) for c, value in zip(columns(), found, strict=True)})
                for found in cursor
            ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite and the file system say into one line about this file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise InputError(str(self.path), f"cannot be used as a ledger: {error}") from None
        except sqlite3.DatabaseError as error:
            raise InputError(str(self.path), f"is no ledger: {error}") from None
        except OSError as error:
            raise InputError(str(self.path), f"cannot be used as a ledger: {error.strerror}") from None


def _sql_type(column: Column) -> str:
    return _SQL_TYPES.get(column.type, "TEXT")


def _to_sql(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.type is object:
        return json.dumps(value, allow_nan=False)
    return str(value) if isinstance(value, StrEnum) else value


def _from_sql(column: Column, value: Any) -> Any:
    return json.loads(value) if column.type is object and value is not None else value
