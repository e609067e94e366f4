"""Files of a site: their contents, made in parallel, and their folder, which is replaced as a whole."""

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
from typing import TypeVar

from bench.provenance import usable_cores
from instances import InputError

Content = TypeVar("Content", bound=str | bytes)
"""Content of a file; a text is written in UTF-8."""

_PR_SET_PDEATHSIG = 1
_FILES_PER_PROCESS = 50
"""Smallest number of files per process; fewer files take less time than the start of a process."""


def file_contents(
    makers: Mapping[str, Callable[[], Content]], report: Callable[[float], None] | None = None
) -> dict[str, Content]:
    """Return the content of every file, by name; a maker is a function that returns it.

    Helper processes are forked. They inherit the makers' data and send only the contents. A maker must therefore use
    no resource that a fork cannot share, such as an open database. Helpers begin with the first files, this process
    with the last ones. A helper can fail or be killed, for example for lack of memory; this process then makes its
    files. ``report`` is called after each file of this process, with the fraction of the files that are begun.
    """
    begun = mmap(-1, len(makers) + 1)  # shared by forked processes; one byte more, since an empty mmap is an error
    helpers = list(_helpers(min(usable_cores() - 1, len(makers) // _FILES_PER_PROCESS), makers, begun))
    try:
        content_of: dict[str, Content] = {}
        for name in _unbegun(list(enumerate(makers))[::-1], begun):
            content_of[name] = makers[name]()
            if report is not None:
                report(sum(begun[: len(makers)]) / len(makers))
        for _, connection in helpers:
            with suppress(EOFError, OSError):
                content_of |= connection.recv()
    finally:
        for process, connection in helpers:
            process.kill()
            process.join()
            connection.close()
    return {name: content_of[name] if name in content_of else make() for name, make in makers.items()}


def _unbegun(numbered: Iterable[tuple[int, str]], begun: mmap) -> Iterator[str]:
    """Yield the files that no process has begun, and mark them as begun.

    Two processes may rarely begin the same file, which is harmless: their contents are equal.
    """
    for number, name in numbered:
        if not begun[number]:
            begun[number] = True
            yield name


def _helpers(
    count: int, makers: Mapping[str, Callable[[], Content]], begun: mmap
) -> Iterator[tuple[BaseProcess, Connection]]:
    """Start up to ``count`` processes; yield each with the connection that receives its files."""
    fork = get_context("fork")
    for _ in range(count):
        receiver, sender = fork.Pipe(duplex=False)
        process = fork.Process(target=_send_files, args=(makers, begun, receiver, sender))
        try:
            process.start()
        except OSError:  # the system cannot start another process
            receiver.close()
            return
        finally:
            sender.close()
        yield process, receiver


def _send_files(
    makers: Mapping[str, Callable[[], Content]], begun: mmap, receiver: Connection, sender: Connection
) -> None:
    receiver.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    if sys.platform == "linux":  # end with the parent
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    content_of: dict[str, Content] = {}
    for name in _unbegun(enumerate(makers), begun):
        with suppress(Exception):  # the parent runs the same maker and raises the error
            content_of[name] = makers[name]()
    sender.send(content_of)


MARK = ".gpushare-bench-report"
"""File that lists all files of a report's folder; a folder with this file is a report."""


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write ``files``, by path within the folder, as ``folder``, and replace a former report there.

    Raises
    ------
    InputError
        If ``folder`` contains other files than a former report, or cannot be written.
    """
    check_folder(folder)
    target = folder.resolve()
    new_folder = target.with_name(f".{target.name}.{token_hex(8)}")
    former_folder = new_folder.with_name(f"{new_folder.name}.former")
    try:
        for name, content in {**files, MARK: "\n".join(sorted(files)) + "\n"}.items():
            path = new_folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        if target.exists():
            target.rename(former_folder)
        new_folder.rename(target)
    except OSError as error:
        if former_folder.exists() and not target.exists():
            former_folder.rename(target)
        raise InputError(str(folder), f"cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(new_folder, ignore_errors=True)
        shutil.rmtree(former_folder, ignore_errors=True)


def check_folder(folder: Path) -> None:
    """Check that ``folder`` does not exist, is empty, or is a former report.

    Raises
    ------
    InputError
        If ``folder`` contains other files.
    """
    where = str(folder)
    try:
        if not folder.exists():
            return
        mark = folder / MARK
        if mark.is_file():
            report_files = {*mark.read_text(encoding="utf-8").splitlines(), MARK}
            present_files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
        else:
            report_files, present_files = set(), {path.name for path in folder.iterdir()}
    except NotADirectoryError:
        raise InputError(where, "is a file; expected a folder for the report") from None
    except (OSError, ValueError) as error:
        raise InputError(where, f"cannot be read: {error}") from None
    if foreign_files := sorted(present_files - report_files):
        problem = (
            f'holds "{foreign_files[0]}", which is not a file of a report; expected a new folder or a former report'
        )
        raise InputError(where, problem)
