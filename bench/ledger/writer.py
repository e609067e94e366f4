"""Writer of finished runs.

Rows wait while the ledger is locked. If the ledger is lost or fails, the rows are saved in a file beside the ledger.
"""

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from multiprocessing.connection import wait
from pathlib import Path

from bench.ledger import ledger_file
from bench.ledger.ledger_file import DamagedLedgerError, LockedLedgerError, LostLedgerError, UnwritableLedgerError
from bench.ledger.row import JsonObject, Row
from bench.ledger.store import Ledger
from instances import InputError, Instance

_WAIT_S = 0.05
"""Longest time in seconds that an attempt waits for another process; during the wait, the bench does nothing else."""

_RETRY_S = 0.2
"""Time between two attempts to write into a locked ledger."""

_NOTIFY_AFTER_S = 5.0
"""Time for which the ledger must be locked until the writer says so."""

_MAX_WAITING = 100
"""Number of waiting rows and chunks at which no further runs should start."""

_FAULTS: dict[type[InputError], str] = {
    LostLedgerError: "was removed or replaced",
    DamagedLedgerError: "was damaged",
}
"""Fault in the report of a rescue, by error; other errors describe the fault themselves."""


class Writer:
    """Writer into a ledger. A lock of another process delays the writing but not the caller.

    Parameters
    ----------
    ledger
        Ledger to write into; ``None`` if the rows are not stored.
    held_up
        Function that is called with the ledger's path if the ledger stays locked for ``_NOTIFY_AFTER_S``.
    """

    def __init__(self, ledger: Ledger | None, held_up: Callable[[Path], None]) -> None:
        self._ledger = ledger
        self._notify = held_up
        self._waiting: deque[Callable[[Ledger], None]] = deque()
        self._locked_at = self._notify_at = inf

    @property
    def retry_at(self) -> float:
        """Time of the next attempt on the monotonic clock; infinite if everything is written."""
        return self._locked_at + _RETRY_S

    @property
    def full(self) -> bool:
        """Whether too many rows wait for the ledger, so that no further runs should start."""
        return len(self._waiting) >= _MAX_WAITING

    def add(self, row: Row, instance: Instance, stored: Callable[[Row], None]) -> None:
        """Write a row, now or when the ledger is free. Then call ``stored`` with the row that the ledger has.

        Raises
        ------
        InputError
            If neither the ledger nor a file beside it can be written.
        """
        if self._ledger is None:
            stored(row)
        else:
            self._write(partial(_add, row, instance, stored), self._ledger)

    def add_chunk(self, key: str, chunk: JsonObject) -> None:
        """Write a judged chunk of a scenario set, now or when the ledger is free."""
        if self._ledger is not None:
            self._write(lambda ledger: ledger.add_chunk(key, chunk), self._ledger)

    def retry(self) -> None:
        """Make the next attempt if it is due."""
        if self._ledger is None or time.monotonic() < self.retry_at:
            return
        self._attempt(self._ledger)
        if time.monotonic() >= self._notify_at:
            self._notify_at = inf
            self._notify(self._ledger.path)

    def settle(self, wakeup: int) -> None:
        """Wait at most ``BUSY_TIMEOUT_S`` until everything is written; then save the unwritten rows beside the ledger.

        The wait also ends when the descriptor ``wakeup`` becomes readable.
        """
        if self._ledger is None:
            return
        deadline = time.monotonic() + ledger_file.BUSY_TIMEOUT_S
        while self._waiting and time.monotonic() < deadline and not wait([wakeup], _RETRY_S):
            self.retry()
        if self._waiting:
            self._ledger.rescue("stayed locked by another process while runs were stored")
            self._attempt(self._ledger)
        self._ledger.secure()

    def _write(self, write: Callable[[Ledger], None], ledger: Ledger) -> None:
        self._waiting.append(write)
        if self._locked_at == inf:
            self._attempt(ledger)

    def _attempt(self, ledger: Ledger) -> None:
        """Write the waiting rows and chunks until the ledger is locked or none waits."""
        rescued = False
        while self._waiting:
            try:
                with ledger.file.waiting_at_most(_WAIT_S):
                    self._waiting[0](ledger)
            except LockedLedgerError:
                if self._locked_at == inf:
                    self._notify_at = time.monotonic() + _NOTIFY_AFTER_S
                self._locked_at = time.monotonic()
                return
            except (LostLedgerError, DamagedLedgerError, UnwritableLedgerError) as error:
                if rescued:  # the new file fails as well
                    raise InputError(str(ledger.named), error.problem) from None
                fault = _FAULTS.get(type(error), error.problem)
                ledger.rescue(f"{fault} while runs were stored", copy_all=isinstance(error, LostLedgerError))
                rescued = True
            else:
                self._waiting.popleft()
                rescued = False
        self._locked_at = self._notify_at = inf


def _add(row: Row, instance: Instance, stored: Callable[[Row], None], ledger: Ledger) -> None:
    # If another bench has stored a row of this key first, that row counts.
    (final_row,) = [row] if ledger.add(row, instance) else ledger.rows(key=row.key)
    stored(final_row)
