"""The texts of many files, written by all cores at once."""

import ctypes
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from bench.provenance import usable_cores

Writers = Mapping[str, Callable[[], str]]
"""What makes the text of each file."""

_PR_SET_PDEATHSIG = 1
_WORTH_A_PROCESS = 50
"""Files; fewer are written before it has begun."""

_writers: Writers = {}
"""In the processes beside this one, which are given it once."""


def written(writers: Writers) -> dict[str, str]:
    """Return the text of every file.

    What the writers write from stays where it is: processes are forked, and only the texts are sent. Hence they must
    not use what cannot be shared with a parent, such as an open database. The last ones are written in this process.
    """
    helpers = min(usable_cores() - 1, len(writers) // _WORTH_A_PROCESS)
    if helpers < 1:
        return {name: write() for name, write in writers.items()}
    pool = ProcessPoolExecutor(helpers, get_context("fork"), initializer=_begin, initargs=(writers,))
    try:
        begun = {name: pool.submit(_text, name) for name in writers}
        found = {}
        for name in list(writers)[::-1]:  # what nobody has begun: the others begin at the start
            found[name] = writers[name]() if begun[name].cancel() else begun[name].result()
    except (BrokenProcessPool, OSError):  # no process to be had, or one was killed, for want of memory perhaps
        return {name: write() for name, write in writers.items()}
    finally:
        pool.shutdown(cancel_futures=True)
    return {name: found[name] for name in writers}


def _begin(writers: Writers) -> None:
    global _writers
    _writers = writers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    if sys.platform == "linux":  # and whatever ends that one ends this
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _text(name: str) -> str:
    return _writers[name]()
