"""Folder of a report: written atomically, and never over other files."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex

from instances import InputError

MARK = ".gpushare-bench-report"
"""File in the folder of a report with the list of all its files."""


def write_folder(folder: Path, files: Mapping[str, str], option: str) -> None:
    """Write ``files``, by path within it, as ``folder``; replace a former report there.

    Raises
    ------
    InputError
        If ``folder`` holds anything else, or cannot be written; ``option`` is the option that the error names.
    """
    check_folder(folder, option)
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
        raise InputError(f"{option} {folder}", f"cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(former, ignore_errors=True)


def check_folder(folder: Path, option: str) -> None:
    """Check that ``folder`` does not exist, is empty, or holds a former report.

    Raises
    ------
    InputError
        If it holds anything else.
    """
    where = f"{option} {folder}"
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise InputError(where, "is a file; expected a folder for the report")
        mark = folder / MARK
        if mark.is_file():
            own = {*mark.read_text(encoding="utf-8").splitlines(), MARK}
            found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
        else:
            own, found = set(), {path.name for path in folder.iterdir()}
    except (OSError, ValueError) as error:
        raise InputError(where, f"cannot be read: {error}") from None
    if strange := sorted(found - own):
        problem = f'holds "{strange[0]}", which is not a file of a report; expected a new folder or a former report'
        raise InputError(where, problem)
