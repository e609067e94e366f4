"""Control groups (version 2), which limit all processes of a run together on systems that permit it.

Only the run's own processes are moved. Therefore a group can be created in two places: below the group of this
process, if that delegates the memory controller; or beside it, as under ``systemd-run --user --scope``.
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
    """Control group of one run; it limits memory, swap included, and the CPU time to as many cores as threads.

    Parameters
    ----------
    folder
        Folder of the group in the kernel's file system; created here.
    memory_mb
        Memory limit in MiB.
    threads
        CPU limit in cores.
    process
        Process to put into the group, with all that it starts.

    Raises
    ------
    OSError
        If the group or its memory limit cannot be created.
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
            (
                "memory.oom.group",
                "1",
            ),  # kill all processes: a scheduler that lost only a child would report another error
            ("cpu.max", f"{threads * _PERIOD_US} {_PERIOD_US}"),
        ):
            with suppress(OSError):  # the controller may not be delegated
                self._write(file, value)

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel has killed the processes because of the memory limit."""
        lines = _text(self._folder / "memory.events").splitlines()
        return any(line.startswith("oom_kill ") and int(line.split()[1]) > 0 for line in lines)

    def remove(self) -> None:
        """Remove the group; its processes must be dead or dying."""
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
    """Return a group with ``process`` in it, or ``None`` if there is no limit or no group can be created."""
    if memory_mb is None:
        return None
    for place in _places():
        with suppress(OSError):
            return ControlGroup(place / f"{MARK}-{os.getpid()}-{process}", memory_mb, threads, process)
    return None


def in_control_group() -> bool:
    """Return whether this process is in a group created by ``control_group``."""
    return f"/{MARK}-" in _text(MEMBERSHIP)


def _places() -> Iterator[Path]:
    """Yield the groups in which groups with a memory limit can be created."""
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
