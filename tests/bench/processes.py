"""Watching processes from outside."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def survivors(pids: Iterable[int], patience_s: float = 10.0) -> list[int]:
    """Wait at most ``patience_s`` until all of ``pids`` are dead; return those still alive."""
    pids = list(pids)
    until(lambda: not any(map(alive, pids)), patience_s)
    return [pid for pid in pids if alive(pid)]


def with_variable(variable: str) -> list[int]:
    """Return the processes that have ``variable``, such as ``NAME=VALUE``, in their environment."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if variable.encode() in variables:
            pids.append(int(process.name))
    return pids


def until(condition: Callable[[], bool], patience_s: float = 60.0) -> bool:
    """Poll until ``condition`` holds, at most ``patience_s``; return whether it does."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def mapped(pid: int) -> str:
    """Return the memory map of a process, which names the files that it has loaded; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""


def group(leader: int) -> set[int]:
    """Return the processes in a process group."""
    return {pid for pid, group, _ in _processes() if group == leader}


def sessions(leaders: Iterable[int]) -> list[int]:
    """Return the processes in the sessions of ``leaders``."""
    leaders = set(leaders)
    return [pid for pid, _, session in _processes() if session in leaders and alive(pid)]


def _processes() -> Iterator[tuple[int, int, int]]:
    """Yield (process, group, session)."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(process.name), int(stat[2]), int(stat[3])
