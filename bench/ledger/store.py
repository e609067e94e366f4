"""Ledger: one SQLite file with a row per run, and with the instances. Several bench processes may share it."""

import gc
import json
import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Self

from bench.ledger.bound_scope import Reach
from bench.ledger.ledger_file import LedgerFile, LockedLedgerError
from bench.ledger.row import CHECKED, JsonObject, Row, Termination, columns
from bench.ledger.sql import (
    CHUNKS,
    CONTRADICTED,
    DIGEST,
    REACH,
    check_digest,
    checked_value,
    digest,
    parse_json,
    reach_from_sql,
    row_from_sql,
    row_to_sql,
    sql_columns,
)
from instances import InputError, Instance
from instances.errors import unknown_name
from instances.files import instance_from_json, instance_to_json


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Disable the garbage collector while many objects without reference cycles are created.

    The collector would traverse all these objects repeatedly and find nothing. It would take three quarters of the time
    for reading ten thousand rows, and a third of the time for their report.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


_ARRIVALS = re.compile(rb'\{"arrivals": "([ -!#-\[\]-~]*)"')
"""Start of a simulation's JSON with its arrivals in plain ASCII. The rest of the JSON, which is long, is not read."""

_FIRST_BYTES = 200
"""Number of bytes of a simulation's JSON that are searched for its arrivals."""

_FAILED = ", ".join(f"'{termination}'" for termination in Termination if termination.failed)
"""Terminations of failed runs, as a list in SQL."""


class Ledger:
    """Ledger file; with ``create``, the file and its folders are created if they do not exist.

    Attributes
    ----------
    file
        Open file; after ``rescue`` it is another file.
    named
        Path by which the ledger was opened.
    notice
        One line about a fault of the file, with the path of the rows; ``None`` without a fault.

    Raises
    ------
    InputError
        If the file does not exist (without ``create``), is no ledger, or is a ledger of another version of the bench.
    """

    def __init__(self, path: Path | str, *, create: bool = False) -> None:
        self.named = Path(path)
        self.file = LedgerFile(self.named, create=create)
        self.notice: str | None = None
        self._added: list[tuple[Row, Instance]] = []  # by this object
        self._secured_count = 0  # ``secure`` has checked this many rows, the first ones of ``_added``
        self._undamaged: set[str] = set()  # keys of the rows whose digests were checked

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.file.path

    def close(self) -> None:
        """Close the file after a last ``secure``."""
        try:
            self.secure()
        finally:
            self.file.database.close()

    def secure(self) -> None:
        """Check that the file at this path has the rows added since the last check; otherwise ``rescue`` the rows."""
        if self._added and self.file.lost:
            self.rescue("was removed or replaced while runs were stored", copy_all=True)
        if not (unchecked := self._added[self._secured_count :]):
            return
        try:
            with Ledger(self.path) as reopened:  # the old connection may still see pages that the file lost
                damaged = not reopened._has_undamaged(unchecked)
        except LockedLedgerError:
            return
        except InputError:
            damaged = True
        if damaged:
            self.rescue("was damaged or changed while runs were stored")
        self._secured_count = len(self._added)

    def _has_undamaged(self, added: Sequence[tuple[Row, Instance]]) -> bool:
        """Return whether the file has all ``added`` rows; raise an ``InputError`` if one of them is damaged."""
        keys = {row.key for row, _ in added}
        return self._check("key IN (SELECT value FROM json_each(?))", [json.dumps(sorted(keys))]) == len(keys)

    def rescue(self, fault: str, *, copy_all: bool = False) -> None:
        """Continue in a new file with the rows that this object added.

        The new file lies beside the ledger, or in the folder for temporary files if that is impossible.

        Parameters
        ----------
        fault
            Fault of the file in words, for ``notice``.
        copy_all
            Whether to copy all other rows as well. A file that was removed or replaced can still be read.

        Raises
        ------
        InputError
            If no new file can be written.
        """
        try:
            new_ledger = self._saved(self.named.parent, copy_all)
        except InputError as error:
            try:
                new_ledger = self._saved(Path(gettempdir()), copy_all)
            except InputError:
                problem = f"{fault}, and their rows cannot be written beside it: {error.problem}"
                raise InputError(str(self.named), problem) from None
        self.file.database.close()
        self.notice = f"{self.named} {fault}; their rows are in {new_ledger.path}"
        self.file = new_ledger.file

    def _saved(self, folder: Path, copy_all: bool) -> Self:
        """Return a new ledger in ``folder`` with the rows that this object added; with ``copy_all``, with all rows."""
        name = f"{self.named.name}.rescued-{os.getpid()}"
        numbered_names = (name if number == 1 else f"{name}-{number}" for number in count(1))
        path = next(path for path in map(folder.joinpath, numbered_names) if not path.exists())
        try:
            new_ledger = type(self)(path, create=True)
            if copy_all and self._copied_to(new_ledger):
                return new_ledger
            if copy_all:
                new_ledger.file.database.close()
                path.unlink(missing_ok=True)
                new_ledger = type(self)(path, create=True)
            with ExitStack() as stack:
                stack.callback(new_ledger.file.database.close)
                for row, instance in self._added:
                    new_ledger.add(row, instance)
                stack.pop_all()
        except InputError:
            for ending in ("", "-wal", "-shm"):
                Path(f"{path}{ending}").unlink(missing_ok=True)
            raise
        return new_ledger

    def _copied_to(self, new_ledger: Self) -> bool:
        """Copy the whole file; return whether the copy has the rows that this object added."""
        try:
            self.file.database.backup(new_ledger.file.database)
            return new_ledger._has_undamaged(self._added)
        except (sqlite3.Error, InputError):  # another file at this path writes to the same write-ahead log
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, row: Row, instance: Instance) -> bool:
        """Store a row and its instance in one transaction; return whether the row is new.

        The row replaces a failed one of the same key. For a scenario set, the instance is the base instance.

        Raises
        ------
        InputError
            If ``instance`` has no file form (see ``instance_to_json``), or the ledger cannot be written.
        LockedLedgerError, DamagedLedgerError, LostLedgerError, UnwritableLedgerError
            Subclasses of ``InputError`` for these faults of the file.
        """
        with self.file.explained():
            self.file.refuse_lost()
            stored = self.file.execute("SELECT 1 FROM instances WHERE hash = ?", [instance.fingerprint]).fetchone()
            instance_json = None if stored else json.dumps(instance_to_json(instance))
            with self.file.transaction():
                if instance_json is not None:
                    record = {"hash": instance.fingerprint, "name": instance.name, "json": instance_json}
                    self.insert("instances", record)
                self.file.execute(f"DELETE FROM runs WHERE key = ? AND termination IN ({_FAILED})", [row.key])  # noqa: S608
                is_new = self.insert("runs", row_to_sql(row))
                self.file.execute("DELETE FROM chunks WHERE key = ?", [row.key])
        self._added.append((row, instance))
        return is_new

    def mark_checked(self, key: str) -> None:
        """Mark the run with this key: a certificate of its bound was checked.

        Raises
        ------
        InputError
            If there is no such run, or the ledger cannot be written.
        """
        full_key = self.row(key).key
        # The digest is computed from the stored texts, since another version of the bench may write other texts.
        with self._records("key = ?", [full_key], list(sql_columns())) as records:
            values = next(records) | {"proof": CHECKED}
        with self.file.explained():
            self.file.refuse_lost()
            self.file.execute(
                f"UPDATE runs SET proof = ?, {DIGEST} = ? WHERE key = ?",  # noqa: S608 - the name is a constant
                [CHECKED, digest(values), full_key],
            )

    def add_chunk(self, key: str, chunk: JsonObject) -> None:
        """Store a judged chunk of a scenario set until the row of the set is added.

        An interrupted run continues after its last stored chunk.

        Raises
        ------
        InputError
            If the ledger cannot be written.
        """
        with self.file.explained():
            self.file.refuse_lost()
            self.insert("chunks", {"key": key, "first": chunk["first"], "json": json.dumps(chunk)})

    def insert(self, table: str, values: Mapping[str, Any]) -> bool:
        """Insert a record, given by column, unless its key exists; return whether it was inserted."""
        # The table has its columns in another order. All names come from the bench itself.
        names, placeholders = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
        statement = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({placeholders})"  # noqa: S608
        return self.file.execute(statement, [*values.values()]).rowcount == 1

    def chunks(self, key: str) -> list[JsonObject]:
        """Return the stored chunks of the run with this key."""
        with self.file.explained():
            records = self.file.execute("SELECT json FROM chunks WHERE key = ? ORDER BY first", [key])
            place = f"{self.path}: a chunk of run {key[:12]}"
            return [checked_value(CHUNKS, parse_json(text, dict, place), place) for (text,) in records]

    def keys(self) -> set[str]:
        """Return the keys of all rows."""
        with self.file.explained():
            return {key for (key,) in self.file.execute("SELECT key FROM runs")}

    def rows(self, *, without: Collection[str] = (), **equal: str | float | bool | None) -> list[Row]:
        """Return the rows that match ``equal``, oldest first: ``rows(instance="mix", seed=0)``.

        A value of ``None`` matches every row. Columns listed in ``without`` are not parsed and are ``None`` in all
        rows; in large ledgers, simulations take the longest time.

        Raises
        ------
        InputError
            If one of the rows is damaged or was changed outside the bench.
        """
        names = [column.name for column in columns()]
        for name in equal:
            if name not in names:
                raise unknown_name("ledger", "column", name, names)
        conditions = {name: value for name, value in equal.items() if value is not None}
        condition = " AND ".join(f'"{name}" = ?' for name in conditions) or "TRUE"
        return self._select(condition, list(conditions.values()), without)

    def contradicted(self) -> list[str]:
        """Return the fingerprints of instances on which a feasible plan may contradict a claim of another run.

        The query does not compare the classes of the plans, so some of these instances have no refuted claim.
        """
        with self.file.explained():
            return [fingerprint for (fingerprint,) in self.file.execute(CONTRADICTED)]

    def instance_names(self) -> dict[str, str]:
        """Return the names of all stored instances by their fingerprints."""
        with self.file.explained():
            return dict(self.file.execute("SELECT hash, name FROM instances").fetchall())

    def reaches(self) -> dict[str, Reach]:
        """Return the ``Reach`` of every plan by the key of its row."""
        query = f"SELECT key, {REACH} FROM runs WHERE plan IS NOT NULL"  # noqa: S608
        with self.file.explained(), closing(self.file.execute(query)) as cursor:
            return {key: reach_from_sql(text, f"{self.path}: run {str(key)[:12]}") for key, text in cursor}

    def arrivals(self) -> dict[str, str]:
        """Return the arrivals of every simulation by the key of its row."""
        arrivals: dict[str, str] = {}
        with self.file.explained():
            records = self.file.execute("SELECT key, rowid FROM runs WHERE typeof(simulation) = 'text'").fetchall()
            for key, rowid in records:
                with self.file.database.blobopen("runs", "simulation", rowid, readonly=True) as simulation:
                    match = _ARRIVALS.match(simulation.read(_FIRST_BYTES))
                arrivals[key] = match[1].decode() if match else self._full_simulation(rowid)["arrivals"]
        return arrivals

    def _full_simulation(self, rowid: int) -> JsonObject:
        query = "SELECT key, simulation, source FROM runs WHERE rowid = ?"
        key, text, source = self.file.execute(query, [rowid]).fetchone()
        place = f"{self.path}: run {str(key)[:12]}: simulation"
        return checked_value("simulation", parse_json(text, dict, place), place, source)

    def row(self, key_prefix: str) -> Row:
        """Return the one row whose key starts with ``key_prefix``.

        Raises
        ------
        InputError
            If there is no such row, or there are several.
        """
        rows = self._select("substr(key, 1, ?) = ?", [len(key_prefix), key_prefix.lower()]) if key_prefix else []
        if len(rows) == 1:
            return rows[0]
        if not rows:
            raise InputError(str(self.path), f'no run has a key that starts with "{key_prefix}"')
        keys = ", ".join(row.key[: len(key_prefix) + 4] for row in rows[:4])
        problem = f'{len(rows)} runs have a key that starts with "{key_prefix}": {keys}, ...'
        raise InputError(str(self.path), problem)

    def instance(self, fingerprint: str) -> Instance:
        """Return a stored instance.

        Raises
        ------
        InputError
            If the ledger lacks the instance, or the stored file is another instance since a change of the catalogue.
        """
        with self.file.explained():
            record = self.file.execute("SELECT json FROM instances WHERE hash = ?", [fingerprint]).fetchone()
        if record is None:
            raise InputError(str(self.path), f"contains no instance {fingerprint[:12]}")
        where = f"{self.path}: instance {fingerprint[:12]}"
        instance = instance_from_json(parse_json(record[0], dict, where), where)
        if instance.fingerprint != fingerprint:
            problem = f'instance "{instance.name}" was stored with another version of the catalogue; run it again'
            raise InputError(str(self.path), problem)
        return instance

    def _select(self, condition: str, values: list[Any], without: Collection[str] = ()) -> list[Row]:
        """Return the rows that match an SQL condition with the ``values`` of its placeholders, oldest first."""
        if without:  # a digest covers all columns, so it is checked in a query of its own
            self._check(condition, values)
        names = [name for name in sql_columns() if name not in without]
        rows = []
        with garbage_collection_paused(), self._records(condition, values, names) as records:
            for values_of_row in records:
                if not without:
                    check_digest(values_of_row, str(self.path))
                rows.append(row_from_sql(values_of_row, str(self.path), without))
        return rows

    def _check(self, condition: str, values: list[Any]) -> int:
        """Check the digest of every matching row once per object; return the number of matching rows."""
        with self.file.explained():
            keys = {key for (key,) in self.file.execute(f"SELECT key FROM runs WHERE {condition}", values)}  # noqa: S608
        if not keys <= self._undamaged:
            with self._records(condition, values, list(sql_columns())) as records:
                for row in records:
                    if row["key"] not in self._undamaged:
                        check_digest(row, str(self.path))
                        self._undamaged.add(row["key"])
        return len(keys)

    @contextmanager
    def _records(self, condition: str, values: list[Any], names: list[str]) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the stored values of the rows that match, oldest first."""
        column_list = ", ".join(f'"{name}"' for name in names)
        # All column names come from Row.
        query = f"SELECT {column_list} FROM runs WHERE {condition} ORDER BY rowid"  # noqa: S608
        with self.file.explained(), closing(self.file.execute(query, values)) as cursor:
            yield (dict(zip(names, record, strict=True)) for record in cursor)
