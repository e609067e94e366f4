"""Parallel writing of many files' texts on all cores."""

import ctypes
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from mmap import mmap
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from bench.provenance import usable_cores

Writers = Mapping[str, Callable[[], str]]
"""Functions that return the text of each file."""

_PR_SET_PDEATHSIG = 1
_WORTH_A_PROCESS = 50
"""Least number of files per process; fewer are written before the process has started."""


def written(writers: Writers) -> dict[str, str]:
    """Return the text of every file.

    Processes are forked and inherit the writers' data; only the texts are sent. Writers must therefore not use
    resources that a fork cannot share, such as an open database. This process writes the last files, and those of a
    helper that failed or was killed, for example for lack of memory.
    """
    taken = mmap(-1, len(writers) + 1)  # memory that forked processes share; nothing may be empty
    helpers = list(_helpers(min(usable_cores() - 1, len(writers) // _WORTH_A_PROCESS), writers, taken))
    try:
        found = {name: writers[name]() for name in _untaken(list(enumerate(writers))[::-1], taken)}
        for _, texts in helpers:
            with suppress(EOFError, OSError):
                found |= texts.recv()
    finally:
        for process, texts in helpers:
            process.kill()
            process.join()
            texts.close()
    return {name: found[name] if name in found else write() for name, write in writers.items()}


def _untaken(numbered: Iterable[tuple[int, str]], taken: mmap) -> Iterator[str]:
    """Yield the files that no process has begun; two processes may both write a file, which is harmless."""
    for number, name in numbered:
        if not taken[number]:
            taken[number] = True
            yield name


def _helpers(count: int, writers: Writers, taken: mmap) -> Iterator[tuple[BaseProcess, Connection]]:
    """Start up to ``count`` processes and return the ends of the pipes with their texts."""
    fork = get_context("fork")
    for _ in range(count):
        here, there = fork.Pipe(duplex=False)
        process = fork.Process(target=_help, args=(writers, taken, here, there))
        try:
            process.start()
        except OSError:  # the system cannot start another process
            here.close()
            return
        finally:
            there.close()
        yield process, here


def _help(writers: Writers, taken: mmap, here: Connection, there: Connection) -> None:
    here.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    if sys.platform == "linux":  # end with the parent
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    found = {}
    for name in _untaken(enumerate(writers), taken):
        with suppress(Exception):  # the parent runs the same writer and raises the error
            found[name] = writers[name]()
    there.send(found)
