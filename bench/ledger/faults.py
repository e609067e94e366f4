"""Faults of a ledger's file that finished runs survive."""

import sqlite3
from pathlib import Path

from bench.ledger.sql import RECOVER
from instances import InputError
from instances.errors import printable


class LockedLedgerError(InputError):
    """Another process has the ledger locked."""


class DamagedLedgerError(InputError):
    """The file is damaged or no database."""


class LostLedgerError(InputError):
    """The file was removed or replaced after it was opened."""


class UnwritableLedgerError(InputError):
    """The file cannot be written: its disk is full, broken or read-only."""


NO_TEXT = "Could not decode to UTF-8"
"""Beginning of Python's message about a damaged text."""

_KINDS: dict[int, type[InputError]] = {
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), LockedLedgerError),
    **dict.fromkeys(
        (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
        UnwritableLedgerError,
    ),
}
"""Errors to raise, by SQLite's primary error code."""


def fault_of(error: sqlite3.Error, path: Path) -> InputError:
    """Return the error to raise for an error of SQLite with the ledger at ``path``."""
    if NO_TEXT in str(error):  # the message goes on with the data
        return DamagedLedgerError(str(path), f"is a damaged ledger: a text in it is not UTF-8; {RECOVER}")
    if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
        kind = _KINDS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, InputError)
        return kind(str(path), printable(f"cannot be used as a ledger: {error}"))
    return DamagedLedgerError(str(path), printable(f"is no ledger, or a damaged one: {error}; {RECOVER}"))


Identity = tuple[tuple[int, int] | None, ...]
"""Device and inode of a ledger and of its write-ahead log; ``None`` for a file that does not exist."""


def identity(path: Path) -> Identity:
    """Return which files the names of the ledger at ``path`` stand for now."""
    return tuple(_inode(Path(f"{path}{ending}")) for ending in ("", "-wal"))


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
