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
    DIGEST,
    REACH,
    check_digest,
    digest,
    parsed,
    reach_from_sql,
    row_from_sql,
    row_to_sql,
    shaped,
    sql_columns,
)
from instances import InputError, Instance
from instances.errors import unknown_name
from instances.files import instance_from_json, instance_to_json


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable the garbage collector while many objects without reference cycles are created.

    The collector would traverse all of them repeatedly and find nothing. It takes three quarters of the time for
    reading ten thousand rows, and a third of the time for their report.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


_CONTRADICTED = """
WITH served AS (
    SELECT instance_hash AS planned, min(value) AS least, max(value) AS most
    FROM runs WHERE feasible AND truth IS NULL AND value IS NOT NULL GROUP BY instance_hash
)
SELECT DISTINCT instance_hash FROM runs JOIN served ON planned = instance_hash
WHERE truth IS NULL AND (
    status = 'infeasible'
    OR objective = 'cost' AND (bound_certified AND bound > least OR status = 'optimal' AND value > least)
    OR objective <> 'cost' AND (bound_certified AND bound < most OR status = 'optimal' AND value < most)
)
"""
"""Query of the instances whose claims have to be compared with plans."""

_ARRIVALS = re.compile(rb'\{"arrivals": "([ -!#-\[\]-~]*)"')
"""Start of a simulation whose arrivals are plain ASCII. The rest, most of a ledger's data, need not be read."""

_BEGINNING = 200

_FAILED = ", ".join(f"'{ended}'" for ended in Termination if ended.failed)


class Ledger:
    """A ledger file; with ``create``, the file and its folders are created if they do not exist.

    Attributes
    ----------
    file
        The open file: another one after ``rescue``.
    named
        Path by which the ledger was opened.
    notice
        One line on a fault of the file and the place of its rows; ``None`` without a fault.

    Raises
    ------
    InputError
        If the file does not exist (without ``create``), is no ledger, or is one of another version of the bench.
    """

    def __init__(self, path: Path | str, *, create: bool = False) -> None:
        self.named = Path(path)
        self.file = LedgerFile(self.named, create=create)
        self.notice: str | None = None
        self._added: list[tuple[Row, Instance]] = []
        self._secured = 0
        self._whole: set[str] = set()

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
        """Check that the rows added since the last check are in the file at this path; otherwise ``rescue`` all."""
        if self._added and self.file.lost:
            self.rescue("was removed or replaced while runs were stored", whole=True)
        if not (added := self._added[self._secured :]):
            return
        try:
            with Ledger(self.path) as fresh:  # this connection may still see pages that are no longer in the file
                damaged = not fresh._holds(added)
        except LockedLedgerError:
            return
        except InputError:
            damaged = True
        if damaged:
            self.rescue("was damaged or changed while runs were stored")
        self._secured = len(self._added)

    def _holds(self, added: Sequence[tuple[Row, Instance]]) -> bool:
        keys = {row.key for row, _ in added}
        return self._check("key IN (SELECT value FROM json_each(?))", [json.dumps(sorted(keys))]) == len(keys)

    def rescue(self, happened: str, *, whole: bool = False) -> None:
        """Continue in a new file with the rows that were added here: beside the ledger or, failing that, in ``/tmp``.

        Parameters
        ----------
        happened
            Fault of the file in words, for ``notice``.
        whole
            Whether to copy all other rows as well. A file that was removed or replaced can still be read.

        Raises
        ------
        InputError
            If no new file can be written.
        """
        try:
            fresh = self._saved(self.named.parent, whole)
        except InputError as error:
            try:
                fresh = self._saved(Path(gettempdir()), whole)
            except InputError:
                problem = f"{happened}, and their rows cannot be written beside it: {error.problem}"
                raise InputError(str(self.named), problem) from None
        self.file.database.close()
        self.notice = f"{self.named} {happened}; their rows are in {fresh.path}"
        self.file = fresh.file

    def _saved(self, folder: Path, whole: bool) -> Self:
        """Return a new ledger in ``folder`` with the rows that were added here, or with all."""
        name = f"{self.named.name}.rescued-{os.getpid()}"
        path = next(path for n in count(1) if not (path := folder / (name if n == 1 else f"{name}-{n}")).exists())
        try:
            fresh = type(self)(path, create=True)
            if whole and self._copied_to(fresh):
                return fresh
            if whole:
                fresh.file.database.close()
                path.unlink(missing_ok=True)
                fresh = type(self)(path, create=True)
            with ExitStack() as stack:
                stack.callback(fresh.file.database.close)
                for row, instance in self._added:
                    fresh.add(row, instance)
                stack.pop_all()
        except InputError:
            for ending in ("", "-wal", "-shm"):
                Path(f"{path}{ending}").unlink(missing_ok=True)
            raise
        return fresh

    def _copied_to(self, fresh: Self) -> bool:
        try:
            self.file.database.backup(fresh.file.database)
            return fresh._holds(self._added)
        except (sqlite3.Error, InputError):  # a file put in the place of this one shares its log
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
            If that is the reason.
        """
        with self.file.explained():
            self.file.refuse_lost()
            known = self.file.execute("SELECT 1 FROM instances WHERE hash = ?", [instance.fingerprint]).fetchone()
            text = None if known else json.dumps(instance_to_json(instance))
            with self.file.transaction():
                if text is not None:
                    self.insert("instances", {"hash": instance.fingerprint, "name": instance.name, "json": text})
                self.file.execute(f"DELETE FROM runs WHERE key = ? AND termination IN ({_FAILED})", [row.key])  # noqa: S608
                added = self.insert("runs", row_to_sql(row))
                self.file.execute("DELETE FROM chunks WHERE key = ?", [row.key])
        self._added.append((row, instance))
        return added

    def mark_checked(self, key: str) -> None:
        """Note that a certificate of the bound of the run with this key was checked.

        Raises
        ------
        InputError
            If there is no such run, or the ledger cannot be written.
        """
        known = self.row(key).key
        # The digest is that of the stored texts: another version of the bench may have laid them out differently.
        with self._stored("key = ?", [known], list(sql_columns())) as stored:
            checked = next(stored) | {"proof": CHECKED}
        with self.file.explained():
            self.file.refuse_lost()
            self.file.execute(
                f"UPDATE runs SET proof = ?, {DIGEST} = ? WHERE key = ?",  # noqa: S608 - the name is a constant
                [CHECKED, digest(checked), known],
            )

    def add_chunk(self, key: str, chunk: JsonObject) -> None:
        """Store a judged chunk of a scenario set until its row is added; an interrupted run continues after it.

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
        listed, places = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
        insert = f"INSERT OR IGNORE INTO {table} ({listed}) VALUES ({places})"  # noqa: S608
        return self.file.execute(insert, [*values.values()]).rowcount == 1

    def chunks(self, key: str) -> list[JsonObject]:
        """Return the stored chunks of the run with this key."""
        with self.file.explained():
            found = self.file.execute("SELECT json FROM chunks WHERE key = ? ORDER BY first", [key])
            at = f"{self.path}: a chunk of run {key[:12]}"
            return [shaped(CHUNKS, parsed(text, dict, at), at) for (text,) in found]

    def keys(self) -> set[str]:
        """Return the keys of all rows."""
        with self.file.explained():
            return {key for (key,) in self.file.execute("SELECT key FROM runs")}

    def rows(self, *, without: Collection[str] = (), **equal: str | float | bool | None) -> list[Row]:
        """Return the rows that match ``equal``, oldest first: ``rows(instance="mix", seed=0)``.

        A value of ``None`` matches every row. Columns listed in ``without`` are not parsed and are ``None`` in all
        rows; in large ledgers, simulations take longest.

        Raises
        ------
        InputError
            If one of the rows is damaged or was changed outside the bench.
        """
        known = [column.name for column in columns()]
        for name in equal:
            if name not in known:
                raise unknown_name("ledger", "column", name, known)
        wanted = {name: value for name, value in equal.items() if value is not None}
        condition = " AND ".join(f'"{name}" = ?' for name in wanted) or "TRUE"
        return self._select(condition, list(wanted.values()), without)

    def contradicted(self) -> list[str]:
        """Return the fingerprints of instances on which a feasible plan may contradict a claim of another run.

        The query does not compare the classes of the plans, so many of these claims hold nevertheless.
        """
        with self.file.explained():
            return [fingerprint for (fingerprint,) in self.file.execute(_CONTRADICTED)]

    def reaches(self) -> dict[str, Reach]:
        """Return the ``Reach`` of every plan by the key of its row."""
        query = f"SELECT key, {REACH} FROM runs WHERE plan IS NOT NULL"  # noqa: S608
        with self.file.explained(), closing(self.file.execute(query)) as cursor:
            return {key: reach_from_sql(text, f"{self.path}: run {str(key)[:12]}") for key, text in cursor}

    def arrivals(self) -> dict[str, str]:
        """Return the arrivals of every simulation by the key of its row."""
        found: dict[str, str] = {}
        with self.file.explained():
            simulated = self.file.execute("SELECT key, rowid FROM runs WHERE typeof(simulation) = 'text'").fetchall()
            for key, rowid in simulated:
                with self.file.database.blobopen("runs", "simulation", rowid, readonly=True) as simulation:
                    match = _ARRIVALS.match(simulation.read(_BEGINNING))
                found[key] = match[1].decode() if match else self._whole_simulation(rowid)["arrivals"]
        return found

    def _whole_simulation(self, rowid: int) -> JsonObject:
        query = "SELECT key, simulation, source FROM runs WHERE rowid = ?"
        key, text, source = self.file.execute(query, [rowid]).fetchone()
        at = f"{self.path}: run {str(key)[:12]}: simulation"
        return shaped("simulation", parsed(text, dict, at), at, source)

    def row(self, key_prefix: str) -> Row:
        """Return the one row whose key starts with ``key_prefix``.

        Raises
        ------
        InputError
            If there is no such row, or there are several.
        """
        found = self._select("substr(key, 1, ?) = ?", [len(key_prefix), key_prefix.lower()]) if key_prefix else []
        if len(found) == 1:
            return found[0]
        if not found:
            raise InputError(str(self.path), f'no run has a key that starts with "{key_prefix}"')
        several = ", ".join(row.key[: len(key_prefix) + 4] for row in found[:4])
        problem = f'{len(found)} runs have a key that starts with "{key_prefix}": {several}, ...'
        raise InputError(str(self.path), problem)

    def instance(self, fingerprint: str) -> Instance:
        """Return a stored instance.

        Raises
        ------
        InputError
            If the ledger lacks it, or the catalogue has changed so that the stored file is a different instance now.
        """
        with self.file.explained():
            found = self.file.execute("SELECT json FROM instances WHERE hash = ?", [fingerprint]).fetchone()
        if found is None:
            raise InputError(str(self.path), f"contains no instance {fingerprint[:12]}")
        where = f"{self.path}: instance {fingerprint[:12]}"
        instance = instance_from_json(parsed(found[0], dict, where), where)
        if instance.fingerprint != fingerprint:
            problem = f'instance "{instance.name}" was stored with another version of the catalogue; run it again'
            raise InputError(str(self.path), problem)
        return instance

    def _select(self, condition: str, values: list[Any], without: Collection[str] = ()) -> list[Row]:
        if without:
            self._check(condition, values)
        names = [name for name in sql_columns() if name not in without]
        found = []
        with no_collection(), self._stored(condition, values, names) as stored:
            for one in stored:
                if not without:
                    check_digest(one, str(self.path))
                found.append(row_from_sql(one, str(self.path), without))
        return found

    def _check(self, condition: str, values: list[Any]) -> int:
        """Check the digests of the rows that match, each once in the life of this object; return their number."""
        with self.file.explained():
            keys = {key for (key,) in self.file.execute(f"SELECT key FROM runs WHERE {condition}", values)}  # noqa: S608
        if not keys <= self._whole:
            with self._stored(condition, values, list(sql_columns())) as stored:
                for row in stored:
                    if row["key"] not in self._whole:
                        check_digest(row, str(self.path))
                        self._whole.add(row["key"])
        return len(keys)

    @contextmanager
    def _stored(self, condition: str, values: list[Any], names: list[str]) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the stored values of the rows that match, oldest first."""
        listed = ", ".join(f'"{name}"' for name in names)
        # Column names come from Row alone.
        query = f"SELECT {listed} FROM runs WHERE {condition} ORDER BY rowid"  # noqa: S608
        with self.file.explained(), closing(self.file.execute(query, values)) as cursor:
            yield (dict(zip(names, found, strict=True)) for found in cursor)
