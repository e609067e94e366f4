"""The texts of many files, written by all cores at once."""

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
"""What makes the text of each file."""

_PR_SET_PDEATHSIG = 1
_WORTH_A_PROCESS = 50
"""Files; fewer are written before it has begun."""


def written(writers: Writers) -> dict[str, str]:
    """Return the text of every file.

    What the writers write from stays where it is: processes are forked, and only the texts are sent. Hence they must
    not use what cannot be shared with a parent, such as an open database. The last ones are written in this process,
    and so is what a helper that failed or was killed, for want of memory perhaps, has left.
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
    """Yield what no process has begun. Two that look at the same moment both write it, which does no harm."""
    for number, name in numbered:
        if not taken[number]:
            taken[number] = True
            yield name


def _helpers(count: int, writers: Writers, taken: mmap) -> Iterator[tuple[BaseProcess, Connection]]:
    """Begin up to ``count`` processes, each with the end of a pipe from which its texts come."""
    fork = get_context("fork")
    for _ in range(count):
        here, there = fork.Pipe(duplex=False)
        process = fork.Process(target=_help, args=(writers, taken, here, there))
        try:
            process.start()
        except OSError:  # no process to be had
            here.close()
            return
        finally:
            there.close()
        yield process, here


def _help(writers: Writers, taken: mmap, here: Connection, there: Connection) -> None:
    here.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    if sys.platform == "linux":  # and whatever ends that one ends this
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    found = {}
    for name in _untaken(enumerate(writers), taken):
        with suppress(Exception):  # the process that waits meets it, too, and says so
            found[name] = writers[name]()
    there.send(found)
