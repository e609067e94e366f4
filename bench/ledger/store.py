"""The ledger: one SQLite file with one row per run and the instances they solved. Several benches may share it."""

import json
import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.gc_pause import no_collection
from bench.ledger.bound_scope import Reach
from bench.ledger.row import JsonObject, Row, Termination, columns
from bench.ledger.sql import REACH, RECOVER, parsed, reach_from_sql, row_from_sql, row_to_sql, shaped, sql_columns
from instances import InputError, Instance
from instances.errors import printable, unknown_name
from instances.files import instance_from_json, instance_to_json

SCHEMA_VERSION = 1
"""Stored in the file; raised when columns or tables are added. Rows that are older have nothing there, so that every
field of ``Row`` that is added later may be ``None``."""

DETAILS = frozenset({"simulation", "violation_details", "trajectory", "log_tail", "statistics", "provenance"})
"""Columns that only a run which is shown in full is read with: most of what a ledger holds."""

_CHUNKS = "CREATE TABLE IF NOT EXISTS chunks (key TEXT, first INTEGER, json JSON NOT NULL, PRIMARY KEY (key, first))"
"""What is judged of scenario sets whose row is not there yet, by the key of that row."""

_ARRIVALS = re.compile(rb'\{"arrivals": "([ -!#-\[\]-~]*)"')
"""How a simulation begins, where plain letters do; the rest of it is most of a ledger, and is not read for this."""

_BEGINNING = 200

_FAILED = ", ".join(f"'{ended}'" for ended in Termination if ended.failed)

_MOST_BYTES = 2**28
"""Of one value: a larger one, which no run writes, is refused unread."""

BUSY_TIMEOUT_S = 60.0
"""How long to wait for another bench that is writing."""


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
                # The file may come from anybody: no function of its own is called, nothing boundless is read.
                self._database.execute("PRAGMA trusted_schema = OFF")
                self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
                self._prepare(create)
            except BaseException:
                self._database.close()
                raise

    def _prepare(self, create: bool) -> None:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if {"instances", "runs"} <= tables:
            if version != SCHEMA_VERSION:
                raise InputError(str(self.path), f"is a ledger of version {version}; this bench reads {SCHEMA_VERSION}")
            return
        if tables or not create:
            raise InputError(str(self.path), "is no ledger: it lacks the tables instances and runs")
        self._database.execute("PRAGMA journal_mode = WAL")
        listed = ", ".join(f'"{name}" {kind}' for name, kind in sql_columns().items())
        with self.transaction():
            # Another bench may have done it since.
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS instances (hash TEXT PRIMARY KEY, name TEXT NOT NULL, json JSON NOT NULL)"
            )
            self._database.execute(f"CREATE TABLE IF NOT EXISTS runs ({listed}, PRIMARY KEY (key))")
            self._database.execute("CREATE INDEX IF NOT EXISTS runs_by_instance ON runs (instance_hash, scheduler)")
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

        A run that failed was no row: one that was made again stands in its place. Of a scenario set the instance is the
        base.

        Raises
        ------
        InputError
            If no file can carry ``instance`` (see ``instance_to_json``), or the ledger cannot be written.
        """
        with self._explained():
            known = self._database.execute("SELECT 1 FROM instances WHERE hash = ?", [instance.fingerprint]).fetchone()
            text = None if known else json.dumps(instance_to_json(instance))
            with self.transaction():
                if text is not None:
                    self.insert("instances", {"hash": instance.fingerprint, "name": instance.name, "json": text})
                self._database.execute(f"DELETE FROM runs WHERE key = ? AND termination IN ({_FAILED})", [row.key])  # noqa: S608
                added = self.insert("runs", row_to_sql(row))
                self._database.execute("DELETE FROM chunks WHERE key = ?", [row.key])
        return added

    def add_chunk(self, key: str, chunk: JsonObject) -> None:
        """Keep a judged chunk of a scenario set until its row is added: an interrupted run goes on behind it.

        Raises
        ------
        InputError
            If the ledger cannot be written.
        """
        with self._explained():
            self.insert("chunks", {"key": key, "first": chunk["first"], "json": json.dumps(chunk)})

    def insert(self, table: str, values: Mapping[str, Any]) -> bool:
        """Store a record as it is, by column; return whether there was none of its key before."""
        with self._explained():
            # Columns that were added later stand last in the file. All names come from the bench itself.
            listed, places = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
            insert = f"INSERT OR IGNORE INTO {table} ({listed}) VALUES ({places})"  # noqa: S608
            return self._database.execute(insert, [*values.values()]).rowcount == 1

    def chunks(self, key: str) -> list[JsonObject]:
        """Return the chunks that are kept of the run with this key."""
        with self._explained():
            found = self._database.execute("SELECT json FROM chunks WHERE key = ? ORDER BY first", [key])
            at = f"{self.path}: a chunk of run {key[:12]}"
            return [shaped("chunks", parsed(text, dict, at), at) for (text,) in found]

    def keys(self) -> set[str]:
        """Return the keys of all rows."""
        with self._explained():
            return {key for (key,) in self._database.execute("SELECT key FROM runs")}

    def rows(
        self, *, without: Collection[str] = (), checked: bool = False, **equal: str | float | bool | None
    ) -> list[Row]:
        """Return the rows whose columns equal what is given, oldest first: ``rows(instance="mix", seed=0)``.

        ``None`` stands for every value, so that options can be passed on. Columns ``without`` which the caller gets
        along are ``None`` in all rows, whatever they are: of large ledgers, simulations take longest to read. Rows are
        checked for damage where all columns are read, or with ``checked``.
        """
        known = [column.name for column in columns()]
        for name in equal:
            if name not in known:
                raise unknown_name("ledger", "column", name, known)
        wanted = {name: value for name, value in equal.items() if value is not None}
        condition = " AND ".join(f'"{name}" = ?' for name in wanted) or "TRUE"
        return self._select(condition, list(wanted.values()), without, checked or not without)

    def reaches(self) -> dict[str, Reach]:
        """Return by key what decides which bounds hold for a plan, for all rows that have one."""
        query = f"SELECT key, {REACH}, iif({REACH} IS NULL, plan, NULL) FROM runs WHERE plan IS NOT NULL"  # noqa: S608
        found: dict[str, Reach] = {}
        with self._explained(), closing(self._database.execute(query)) as cursor:
            for key, text, plan in cursor:
                at = f"{self.path}: run {str(key)[:12]}"
                if text is None:
                    found[key] = Reach.of(shaped("plan", parsed(plan, dict, at), f"{at}: plan"))
                else:
                    found[key] = reach_from_sql(text, at)
        return found

    def arrivals(self) -> dict[str, str]:
        """Return by key under which arrivals the plan of a row was simulated, for all that were."""
        found: dict[str, str] = {}
        with self._explained():
            simulated = self._database.execute(
                "SELECT key, rowid FROM runs WHERE typeof(simulation) = 'text'"
            ).fetchall()
            for key, rowid in simulated:
                with self._database.blobopen("runs", "simulation", rowid, readonly=True) as simulation:
                    told = _ARRIVALS.match(simulation.read(_BEGINNING))
                found[key] = told[1].decode() if told else self._whole_simulation(rowid)["arrivals"]
        return found

    def _whole_simulation(self, rowid: int) -> JsonObject:
        query = "SELECT key, simulation, source FROM runs WHERE rowid = ?"
        key, text, source = self._database.execute(query, [rowid]).fetchone()
        at = f"{self.path}: run {str(key)[:12]}: simulation"
        return shaped("simulation", parsed(text, dict, at), at, source)

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
        where = f"{self.path}: instance {fingerprint[:12]}"
        instance = instance_from_json(parsed(found[0], dict, where), where)
        if instance.fingerprint != fingerprint:
            problem = f'instance "{instance.name}" was stored under another catalogue; run it again'
            raise InputError(str(self.path), problem)
        return instance

    def _select(
        self, condition: str, values: list[Any], without: Collection[str] = (), checked: bool = True
    ) -> list[Row]:
        names = [name for name in sql_columns() if checked or name not in without]
        listed = ", ".join(f'"{name}"' for name in names)
        # Column names come from Row alone.
        query = f"SELECT {listed} FROM runs WHERE {condition} ORDER BY rowid"  # noqa: S608
        with self._explained(), closing(self._database.execute(query, values)) as cursor:
            stored = (dict(zip(names, found, strict=True)) for found in cursor)
            with no_collection():
                return [row_from_sql(values, str(self.path), without, checked) for values in stored]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Store all that is inserted meanwhile, or nothing."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._database.in_transaction:  # a full disk ends it by itself
                self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite and the file system say into one line about this file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise InputError(str(self.path), printable(f"cannot be used as a ledger: {error}")) from None
        except sqlite3.DatabaseError as error:
            problem = f"is no ledger, or a damaged one: {error}; {RECOVER}"
            raise InputError(str(self.path), printable(problem)) from None
        except UnicodeDecodeError:  # of a message that quotes what is damaged
            raise InputError(str(self.path), f"is a damaged ledger: its schema is no text; {RECOVER}") from None
        except OSError as error:
            raise InputError(str(self.path), f"cannot be used as a ledger: {error.strerror}") from None
