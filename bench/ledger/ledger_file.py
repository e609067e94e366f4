"""File of a ledger: its SQLite connection, its tables, its compressed form, and its errors."""

import lzma
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.ledger.sql import ADDED, DELETE, RECOVER, sql_columns
from instances import InputError
from instances.errors import printable
from instances.special_files import refuse_special

SCHEMA_VERSION = 1
"""Version of the tables, stored in the file; it is incremented when columns or tables change."""

_CHUNKS = "CREATE TABLE IF NOT EXISTS chunks (key TEXT, first INTEGER, json JSON NOT NULL, PRIMARY KEY (key, first))"
"""Table of judged chunks of scenario sets that have no row yet, by the key of that row."""

_LARGEST_VALUE = 2**28
"""Largest size of one value in bytes. No run writes a larger value, so larger values are refused unread."""

_COMPRESSED = ".xz"
"""File ending of a ledger that ``xz`` compressed. Such a ledger is small enough for a repository, and read-only."""

_LARGEST_LEDGER = 2**30
"""Largest size of an unpacked ledger in bytes; SQLite has the same limit for a database in memory."""

_JOURNAL_MODE = slice(18, 20)
"""Place of the journal mode in the header of an SQLite file (https://www.sqlite.org/fileformat.html)."""

BUSY_TIMEOUT_S = 60.0
"""Time limit in seconds for the wait until another bench has written."""

_NOT_UTF8 = "Could not decode to UTF-8"
"""Beginning of Python's message about a damaged text."""


class LockedLedgerError(InputError):
    """Another process has locked the ledger."""


class DamagedLedgerError(InputError):
    """The file is damaged or is no database."""


class LostLedgerError(InputError):
    """The file was removed or replaced after it was opened."""


class UnwritableLedgerError(InputError):
    """The file cannot be written: its disk is full, broken or read-only."""


_ERROR_CLASSES: dict[int, type[InputError]] = {
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), LockedLedgerError),
    **dict.fromkeys(
        (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
        UnwritableLedgerError,
    ),
}
"""Classes of the errors to raise, by SQLite's primary error code; ``InputError`` for other codes."""


class LedgerFile:
    """Open file of a ledger.

    Parameters
    ----------
    create
        Create the file and its folders if it does not exist. A compressed ledger cannot be created.

    Attributes
    ----------
    database
        Connection to the file; transactions begin and end explicitly.

    Raises
    ------
    InputError
        If the file does not exist (without ``create``), is no ledger, or is a ledger of another version of the bench.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        refuse_special(path)
        if create and path.suffix == _COMPRESSED:
            raise InputError(str(path), "is a compressed ledger, which is only read; unpack it with `xz -dk` first")
        if create:
            with self.explained():
                path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.is_file():
            raise InputError(str(path), "no such ledger; `bench run` creates one")
        with self.explained():
            unpacked = _unpacked(path) if path.suffix == _COMPRESSED else None
            # Write-ahead logging needs files in the same folder. In a folder without write access, no bench writes.
            read_only = not create and not os.access(path.parent, os.W_OK)
            uri = f"{path.resolve().as_uri()}{'?immutable=1' if read_only else ''}" if unpacked is None else ":memory:"
            self.database = _opened(uri, unpacked)
            try:
                self._prepare(create)
            except BaseException:
                self.database.close()
                raise
        self._identity = _identity(path)

    def _prepare(self, create: bool) -> None:
        """Check the tables of the file and add columns that older ledgers lack, or create the tables."""
        # One transaction, since another bench may be creating the tables.
        self.database.execute("BEGIN")
        (version,) = self.database.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in self.database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        self.database.execute("COMMIT")
        if {"instances", "runs"} <= tables:
            if version != SCHEMA_VERSION:
                raise InputError(
                    str(self.path),
                    f"is a ledger of version {version}; this bench reads {SCHEMA_VERSION}; name another file",
                )
            missing = self._missing_columns()
            if missing & ADDED:
                if not (os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)):
                    content = self.database.serialize()
                    self.database.close()
                    self.database = _opened(":memory:", content)  # the file itself stays as it is
                with self.transaction():
                    for name in sorted(self._missing_columns() & ADDED):
                        self.database.execute(f'ALTER TABLE runs ADD COLUMN "{name}" {sql_columns()[name]}')
            if missing := missing - ADDED:
                problem = f"was written by an older bench: it lacks the columns {', '.join(sorted(missing))}"
                raise InputError(str(self.path), f"{problem}; name another file")
            return
        if tables or not create:
            raise InputError(str(self.path), "is no ledger: it lacks the tables instances and runs; name another file")
        self.database.execute("PRAGMA journal_mode = WAL")
        definitions = ", ".join(f'"{name}" {kind}' for name, kind in sql_columns().items())
        with self.transaction():
            # Another bench may have created the tables meanwhile.
            self.database.execute(
                "CREATE TABLE IF NOT EXISTS instances (hash TEXT PRIMARY KEY, name TEXT NOT NULL, json JSON NOT NULL)"
            )
            self.database.execute(f"CREATE TABLE IF NOT EXISTS runs ({definitions}, PRIMARY KEY (key))")
            self.database.execute("CREATE INDEX IF NOT EXISTS runs_by_instance ON runs (instance_hash, scheduler)")
            self.database.execute(_CHUNKS)
            self.database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _missing_columns(self) -> set[str]:
        """Return the columns that the file lacks; SQLite would read their quoted names as texts."""
        existing = {name for (_, name, *_) in self.database.execute("PRAGMA table_info(runs)")}
        return sql_columns().keys() - existing

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute one statement of SQL."""
        return self.database.execute(statement, values)

    @property
    def lost(self) -> bool:
        """Whether the file was removed or replaced since it was opened."""
        identity_now = _identity(self.path)
        return any(
            before is not None and before != after for before, after in zip(self._identity, identity_now, strict=True)
        )

    def refuse_lost(self) -> None:
        """Raise a ``LostLedgerError`` if the file is ``lost``."""
        if self.lost:
            raise LostLedgerError(str(self.path), "was removed or replaced since it was opened")

    @contextmanager
    def waiting_at_most(self, wait_s: float) -> Iterator[None]:
        """Set the longest wait for another process to ``wait_s`` in the ``with`` block, then to ``BUSY_TIMEOUT_S``."""
        self.database.execute(f"PRAGMA busy_timeout = {round(1000 * wait_s)}")
        try:
            yield
        finally:
            self.database.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_TIMEOUT_S)}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes inside the ``with`` block one transaction."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.database.execute("COMMIT")
        except BaseException:
            if self.database.in_transaction:  # SQLite may have ended the transaction itself, as on a full disk
                self.database.execute("ROLLBACK")
            raise

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Convert errors of SQLite and the file system to an ``InputError`` about this file."""
        try:
            yield
        except sqlite3.Error as error:
            if _NOT_UTF8 in str(error) and (run_key := self._run_with_damaged_text()) is not None:
                raise InputError(f"{self.path}: run {run_key}", f"is damaged: a text is not UTF-8; {DELETE}") from None
            raise _fault_of(error, self.path) from None
        except UnicodeDecodeError:  # from an error message that quotes damaged data
            raise DamagedLedgerError(str(self.path), f"is a damaged ledger: its schema is no text; {RECOVER}") from None
        except OSError as error:
            raise InputError(str(self.path), f"cannot be used as a ledger: {error.strerror}") from None

    def _run_with_damaged_text(self) -> str | None:
        """Return the start of the key of the first run with a text that is not UTF-8."""
        self.database.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        try:
            with closing(self.database.execute("SELECT * FROM runs")) as cursor:
                key_position = [name for name, *_ in cursor.description].index("key")
                for values in cursor:
                    texts = (value for value in values if isinstance(value, str))
                    if any(text.encode(errors="ignore").decode() != text for text in texts):
                        return printable(str(values[key_position])[:12])
        except sqlite3.Error:
            pass
        finally:
            self.database.text_factory = str
        return None


def _opened(uri: str, content: bytes | None) -> sqlite3.Connection:
    """Return a connection to a database, with ``content`` if this is not ``None``."""
    # isolation_level=None: the code begins and ends transactions explicitly.
    database = sqlite3.connect(uri, timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=True)
    try:
        if content is not None:
            in_memory = bytearray(content)
            in_memory[_JOURNAL_MODE] = b"\1\1"  # a database in memory has no write-ahead log
            database.deserialize(bytes(in_memory))
        # The file may come from an untrusted source: call no functions of it, and limit the size of values.
        database.execute("PRAGMA trusted_schema = OFF")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
    except BaseException:
        database.close()
        raise
    return database


def _unpacked(path: Path) -> bytes:
    """Return the SQLite database of a compressed ledger."""
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    try:
        database = unpacker.decompress(path.read_bytes(), max_length=_LARGEST_LEDGER)
    except lzma.LZMAError as error:
        raise InputError(str(path), f"is no compressed ledger, or a damaged one: {error}") from None
    if not unpacker.eof:
        too_large = len(database) == _LARGEST_LEDGER
        raise InputError(str(path), "unpacks to more than 1 GiB" if too_large else "is damaged: its end is missing")
    return database


def _fault_of(error: sqlite3.Error, path: Path) -> InputError:
    """Return the error to raise for an error of SQLite with the ledger at ``path``."""
    if _NOT_UTF8 in str(error):  # the rest of the message is damaged data
        return DamagedLedgerError(str(path), f"is a damaged ledger: a text in it is not UTF-8; {RECOVER}")
    if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
        error_class = _ERROR_CLASSES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, InputError)
        return error_class(str(path), printable(f"cannot be used as a ledger: {error}"))
    return DamagedLedgerError(str(path), printable(f"is no ledger, or a damaged one: {error}; {RECOVER}"))


def _identity(path: Path) -> list[tuple[int, int] | None]:
    """Return device and inode of the ledger at ``path`` and of its write-ahead log; ``None`` for a missing file."""
    return [_inode(Path(f"{path}{ending}")) for ending in ("", "-wal")]


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
