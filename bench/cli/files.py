"""Output files of commands: atomic writes, and names that are valid on any file system."""

import csv
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from secrets import token_hex

from bench.ledger.row import Row
from instances import InputError
from instances.files import write_bytes

_NAME_LENGTH = 60
"""Largest number of characters of an instance's or a scheduler's name in a file name."""


def write_csv(path: Path, lines: Iterable[Sequence[object]]) -> None:
    """Write a table as CSV; see ``instances.files.write_bytes``."""
    buffer = StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    write_bytes(path, buffer.getvalue().encode())


def refuse_input(output: Path | None, inputs: Iterable[str | Path | None], option: str) -> None:
    """Refuse to overwrite an input file.

    Raises
    ------
    InputError
        If ``output``, the value of ``option``, is one of the files in ``inputs``. Names without a file are ignored.
    """
    for file in inputs:
        if output is not None and file is not None and _same_file(output, file):
            raise InputError(f"{option} {output}", "is also an input of this command; name another file")


def _same_file(output: Path, file: str | Path) -> bool:
    try:
        return output.samefile(file)
    except (OSError, ValueError):  # a file does not exist, or the name is not a valid path
        return False


def make_folder(folder: Path, option: str) -> None:
    """Create the folder of ``option``, and check before any run that results can be written into it.

    Raises
    ------
    InputError
        If the folder cannot be created or written into.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{token_hex(8)}.tmp"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"{option} {folder}", f"cannot be written into: {error.strerror}") from None


def plan_file_name(row: Row) -> str:
    """Return a file name that is unique to the run.

    Characters that file names must not contain are replaced, so two instances may get equal names. The start of the
    run's key distinguishes their files.
    """
    parts = (_safe(row.instance), _safe(row.scheduler), f"s{row.seed}", row.key[:12])
    return f"{'--'.join(parts)}.json"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+@-]", "_", name).lstrip(".-")[:_NAME_LENGTH] or "_"
