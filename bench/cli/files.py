"""Files that commands write: whole or not at all, under names that any file system takes."""

import re
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex

from bench.ledger.row import Row
from instances import InputError, Instance
from instances.files import plan_from_json, plan_to_json, write_bytes, write_json

_NAME_LENGTH = 60


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, whole or not at all, creating the folder where needed.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    write_bytes(path, text.encode())


def refuse_input(output: Path | None, inputs: Iterable[str | Path | None], option: str) -> None:
    """Refuse to write over what is read.

    Raises
    ------
    InputError
        If ``output`` of ``option`` is one of the files in ``inputs``; names that are no files do not matter.
    """
    for given in inputs:
        if output is not None and given is not None and _same(output, given):
            raise InputError(f"{option} {output}", "is what is read, too; name another file")


def _same(output: Path, given: str | Path) -> bool:
    try:
        return output.samefile(given)
    except (OSError, ValueError):  # not both are there
        return False


def make_folder(folder: Path, option: str) -> None:
    """Make the folder of ``option`` now rather than find out after the runs that it cannot be made.

    Raises
    ------
    InputError
        If it cannot be made or written into.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{token_hex(8)}.tmp"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"{option} {folder}", f"cannot be written into: {error.strerror}") from None


def write_plan(path: Path, row: "Row", instance: "Instance") -> None:
    """Write the plan of ``row`` with its instance inside, so that the file stands alone.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    write_json(path, plan_to_json(plan_from_json(row.plan), instance))


def plan_file_name(row: "Row") -> str:
    """Return a name that no other run's plan has: names of instances may hold any character, or differ in one."""
    parts = (_safe(row.instance), _safe(row.scheduler), f"s{row.seed}", row.key[:12])
    return f"{'--'.join(parts)}.json"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+@-]", "_", name).lstrip(".-")[:_NAME_LENGTH] or "_"
