"""Files of a report: parallel writing of their texts, and a folder that is replaced as a whole."""

import ctypes
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from mmap import mmap
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from secrets import token_hex

from bench.provenance import usable_cores
from instances import InputError

Writers = Mapping[str, Callable[[], str]]
"""Functions that return the text of each file."""

_PR_SET_PDEATHSIG = 1
_WORTH_A_PROCESS = 50
"""Least number of files per process; fewer are written before the process has started."""


def written(writers: Writers) -> dict[str, str]:
    """Return the text of every file.

    Processes are forked and inherit the writers' data; only the texts are sent. Writers must therefore not use
    resources that a fork cannot share, such as an open database. This process begins with the last files, and in the
    end writes those of a helper that failed or was killed, for example for lack of memory.
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
    """Start up to ``count`` processes and yield each with the end of the pipe on which it sends its texts."""
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


MARK = ".gpushare-bench-report"
"""File in the folder of a report with the list of all its files."""


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write ``files``, by path within it, as ``folder``; replace a former report there.

    Raises
    ------
    InputError
        If ``folder`` holds anything else, or cannot be written.
    """
    check_folder(folder)
    target = folder.resolve()
    beside = target.with_name(f".{target.name}.{token_hex(8)}")
    former = beside.with_name(f"{beside.name}.former")
    try:
        for name, text in {**files, MARK: "\n".join(sorted(files)) + "\n"}.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if target.exists():
            target.rename(former)
        beside.rename(target)
    except OSError as error:
        if former.exists() and not target.exists():
            former.rename(target)
        raise InputError(str(folder), f"cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(former, ignore_errors=True)


def check_folder(folder: Path) -> None:
    """Check that ``folder`` does not exist, is empty, or holds a former report.

    Raises
    ------
    InputError
        If it holds anything else.
    """
    where = str(folder)
    try:
        if not folder.exists():
            return
        mark = folder / MARK
        if mark.is_file():
            own = {*mark.read_text(encoding="utf-8").splitlines(), MARK}
            found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
        else:
            own, found = set(), {path.name for path in folder.iterdir()}
    except NotADirectoryError:
        raise InputError(where, "is a file; expected a folder for the report") from None
    except (OSError, ValueError) as error:
        raise InputError(where, f"cannot be read: {error}") from None
    if strange := sorted(found - own):
        problem = f'holds "{strange[0]}", which is not a file of a report; expected a new folder or a former report'
        raise InputError(where, problem)
