"""Distribution of test files to several processes."""

from collections.abc import Collection, Iterable
from pathlib import PurePath

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

PACKAGES = ("formulations", "rl", "heuristics", "instances", "bench", "reports")
"""Folders of tests in the order in which they begin: the longest first, and last those that use the others."""


class ByPackage(LoadFileScheduling):
    """Distribution by file that keeps each process in a package of its own for as long as there is one.

    Processes in the same package would compile the same kernels at the same time; later they load them.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assign the next file to a process."""
        last = {of: next(reversed(files)) for of, files in self.assigned_work.items() if files}
        own = last.pop(node, None)
        self.workqueue.move_to_end(next_file(self.workqueue, own, last.values()), last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test that a process was in when it ended, and give its remaining tests to others.

        Only files with tests left go back: a process that was given a finished one would wait for ever. The test that
        ended the process counts as done, else it would end its successors, too.
        """
        files = self.assigned_work[node]
        running = next((test for tests in files.values() for test, done in tests.items() if not done), None)
        if running is not None:
            files[self._split_scope(running)][running] = True
        self.assigned_work[node] = {file: tests for file, tests in files.items() if not all(tests.values())}
        super().remove_node(node)
        return running


def next_file(waiting: Iterable[str], own: str | None, others: Collection[str]) -> str:
    """Return the file for a process whose last file is ``own``, beside processes that are in ``others``."""
    taken = {_package(file) for file in others}

    def rank(file: str) -> tuple[bool, bool, int]:
        package = _package(file)
        place = PACKAGES.index(package) if package in PACKAGES else len(PACKAGES)
        return own is None or package != _package(own), package in taken, place

    return min(waiting, key=rank)


def _package(file: str) -> str:
    """Return the folder of ``tests`` that a file is in."""
    return PurePath(file).parts[1]
