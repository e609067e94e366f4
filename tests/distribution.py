"""Distribution of test files to several processes."""

from collections.abc import Collection, Iterable
from pathlib import PurePath

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

PACKAGES = ("formulations", "bench", "reports", "", "rl", "heuristics", "instances")
"""Folders of tests in the order in which they begin: the slowest first, and folders that are not here last.

The first two have few kernels in common, so that neither process waits for the other one to compile them. The empty
name stands for files outside of folders. Some of these take long, so they begin while many others wait: a process that
began one of them at the end would run it while the other processes have nothing to do.
"""


class ByPackage(LoadFileScheduling):
    """Distribution by file in which each process has a package of its own for as long as there are enough packages.

    Processes in the same package would compile the same kernels at the same time. A process that comes to a package
    later loads the compiled kernels.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assign the next file to a process."""
        last_files = {process: next(reversed(files)) for process, files in self.assigned_work.items() if files}
        previous = last_files.pop(node, None)
        self.workqueue.move_to_end(next_file(self.workqueue, previous, last_files.values()), last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test that a process was running when it ended, and give its remaining tests to other processes.

        Only files with tests left are given: a process would wait for ever for the tests of a finished file. The test
        that was running counts as done, because it may have ended the process and would end the next one too.
        """
        files = self.assigned_work[node]
        running = next((test for tests in files.values() for test, done in tests.items() if not done), None)
        if running is not None:
            files[self._split_scope(running)][running] = True
        self.assigned_work[node] = {file: tests for file, tests in files.items() if not all(tests.values())}
        super().remove_node(node)
        return running


def next_file(waiting: Iterable[str], previous: str | None, others: Collection[str]) -> str:
    """Return the next file for a process whose last file was ``previous``; other processes run the files ``others``.

    A file of the same package comes first, then one of a package in which no other process is.
    """
    packages_in_use = {_package(file) for file in others}

    def rank(file: str) -> tuple[bool, bool, int]:
        package = _package(file)
        place = PACKAGES.index(package) if package in PACKAGES else len(PACKAGES)
        return previous is None or package != _package(previous), package in packages_in_use, place

    return min(waiting, key=rank)


def _package(file: str) -> str:
    """Return the folder of ``tests`` that a file is in; an empty name for a file in no folder."""
    _, folder, *rest = PurePath(file).parts
    return folder if rest else ""
