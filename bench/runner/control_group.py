"""A control group (version 2) for each run, where some may be made: it limits all processes of a run together.

Nothing is moved that is not the run's own, so that groups can be made in two places: below the group of this process if
that hands the memory controller on, and beside it, as in what ``systemd-run --user --scope`` makes.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "gpushare-bench"

ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
MEMBERSHIP = Path("/proc/self/cgroup")

_PERIOD_US = 100_000
_PATIENCE_S = 1.0


class ControlGroup:
    """The group of one run: no more memory than its limit, swap included, and no more cores than its threads.

    Parameters
    ----------
    folder
        Its place in the file system of the kernel; made here.
    memory_mb
        Limit in MiB.
    threads
        Cores' worth of time that it may take.
    process
        To be held, with all that it starts.

    Raises
    ------
    OSError
        If it cannot be made or limited.
    """

    def __init__(self, folder: Path, memory_mb: float, threads: int, process: int) -> None:
        self._folder = folder
        folder.mkdir()
        try:
            self._write("memory.max", f"{int(memory_mb * 2**20)}")
            self._write("cgroup.procs", str(process))
        except OSError:
            self.remove()
            raise
        for file, value in (
            ("memory.swap.max", "0"),
            ("memory.oom.group", "1"),  # all or none: a scheduler that lost a child would say something else
            ("cpu.max", f"{threads * _PERIOD_US} {_PERIOD_US}"),
        ):
            with suppress(OSError):  # of a controller that is not handed on
                self._write(file, value)

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has killed the processes for want of memory."""
        lines = _text(self._folder / "memory.events").splitlines()
        return any(line.startswith("oom_kill ") and int(line.split()[1]) > 0 for line in lines)

    def remove(self) -> None:
        """Remove the group, whose processes are dead or dying."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.001)

    def _write(self, file: str, value: str) -> None:
        (self._folder / file).write_text(value, encoding="ascii")


def control_group(process: int, memory_mb: float | None, threads: int) -> ControlGroup | None:
    """Return a group that holds ``process``, ``None`` where there is no limit or none can be made."""
    if memory_mb is None:
        return None
    for place in _places():
        with suppress(OSError):
            return ControlGroup(place / f"{MARK}-{os.getpid()}-{process}", memory_mb, threads, process)
    return None


def in_control_group() -> bool:
    """Whether this process is held by a group that ``control_group`` made."""
    return f"/{MARK}-" in _text(MEMBERSHIP)


def _places() -> Iterator[Path]:
    """Yield the groups in which groups with a memory limit may be made."""
    own = next((line[3:] for line in _text(MEMBERSHIP).splitlines() if line.startswith("0::")), None)
    if own is None:
        return
    for root in ROOTS:
        group = root / own.lstrip("/")
        for place in (group, group.parent) if group != root else (group,):
            if "memory" in _text(place / "cgroup.subtree_control").split():
                yield place


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
