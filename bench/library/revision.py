"""Files of a folder at a commit of its Git repository."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from instances import InputError
from instances.errors import FieldName

_BRANCHES = ("origin/HEAD", "origin/main")
"""Branches from which a submission starts."""


@dataclass(frozen=True, slots=True)
class Revision:
    """Commit of the repository in which a folder lies; ``commit`` is its full name."""

    folder: Path
    commit: str

    def changed(self) -> set[str]:
        """Return the names of the folder's files that differ from those of the commit, also new and removed ones.

        Raises
        ------
        InputError
            If Git cannot compare them.
        """
        differing = _git(self.folder, "diff", "--name-only", "--no-renames", "--relative", "-z", self.commit, "--", ".")
        untracked = _git(self.folder, "ls-files", "--others", "--exclude-standard", "-z")
        if differing is None or untracked is None:
            raise InputError(str(self.folder), f"cannot be compared with commit {self.commit[:12]} by git")
        return {name for output in (differing, untracked) for name in output.decode().split("\0") if name}

    def content(self, name: str) -> bytes | None:
        """Return the content of a file of the folder at the commit; ``None`` if there was no such file."""
        return _git(self.folder, "show", f"{self.commit}:./{name}")


def revision(folder: Path, name: str | None) -> Revision | None:
    """Return the commit called ``name``; without a name, the commit from which the present state starts.

    This is the last common commit with the main branch of ``origin`` or, on that branch itself, the commit before the
    present one. Without Git, a repository or an earlier commit, there is none.

    Raises
    ------
    InputError
        If there is no commit called ``name``.
    """
    if name is not None:
        commit = _commit(folder, name)
        if commit is None:
            raise InputError(FieldName("since"), f'"{name}" is no commit of the repository of {folder}')
        return Revision(folder, commit)
    head = _commit(folder, "HEAD")
    for branch in _BRANCHES:
        output = _git(folder, "merge-base", "HEAD", branch)
        if output is not None and output.decode().strip() != head:
            return Revision(folder, output.decode().strip())
    commit = _commit(folder, "HEAD^")
    return None if commit is None else Revision(folder, commit)


def _commit(folder: Path, name: str) -> str | None:
    output = _git(folder, "rev-list", "--max-count=1", "--end-of-options", name)
    return None if output is None else output.decode().strip()


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Return the output of a Git command in ``folder``; ``None`` if it fails or Git is missing."""
    git = shutil.which("git")
    if git is None:
        return None
    # A lock would disturb a concurrent commit.
    command = [git, "--no-optional-locks", "-C", str(folder), *arguments]
    process = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)  # noqa: S603
    return process.stdout if process.returncode == 0 else None
