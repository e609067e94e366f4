"""Listener to the events of runs; progress displays inherit from it."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from bench.runner.record import Incumbent
from bench.task import Task


class Listener:
    """Listener to the runner's events; every method does nothing by default."""

    def started(self, task: Task) -> None:
        """Handle the start of ``task`` in a worker."""

    def incumbent(self, task: Task, incumbent: Incumbent) -> None:
        """Handle a plan or a bound that the scheduler reported; it is not judged yet."""

    def finished(self, task: Task, row: Row) -> None:
        """Handle the end of a run, successful or not; its row is in the ledger."""

    def repeated(self, task: Task, reason: str) -> None:
        """Handle a run that a failure of the bench ended; the run is repeated."""

    def advanced(self, task: Task, decided: int) -> None:
        """Handle progress of a scenario set: ``decided`` scenarios are judged, including those of interrupted runs."""

    def skipped(self, task: Task, row: Row) -> None:
        """Handle a row that is reused from the ledger."""

    def held_up(self, ledger: Path) -> None:
        """Handle a ledger that another process has locked for some seconds; rows wait until it is free."""

    def interrupted(self, tasks: Sequence[Task]) -> None:
        """Handle runs that Ctrl-C or SIGTERM ended. They have no row, so the same command repeats them.

        A scenario set continues after its last judged chunk.
        """
