"""History of the library: every value and bound that was once the best of an entry, with its finder.

``history.json`` lies beside the index and has one line for each finding, sorted by entry; the findings of an entry are
in the order in which they were made. Lines are added and never changed, so a finder keeps the credit after another one
is better.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from instances.errors import InputError
from instances.library.entry import Credit, LibraryEntry

HISTORY = "history.json"
"""File with all findings."""


@dataclass(frozen=True, slots=True)
class LibraryFinding:
    """Best value or best bound of an entry, at the time when it was found.

    Attributes
    ----------
    entry, kind
        Name of the entry, and whether a plan or a bound was found.
    value
        Value of the plan, or the bound as text, as in ``LibraryEntry``.
    by, version, date, machine, work
        Finder, as in ``Credit``.
    proof
        Kind of the proof in the certificate that the checker accepted; ``None`` for a plan, which the judge accepted.
    """

    entry: str
    kind: Literal["plan", "bound"]
    value: float | str
    by: str
    version: str
    date: str
    machine: str | None
    work: str | None
    proof: str | None

    @property
    def accepted_by(self) -> str:
        """The judge of plans, or the checker of certificates with the kind of the proof."""
        return "judge" if self.proof is None else f"checker ({self.proof})"


def findings_of(entry: LibraryEntry) -> list[LibraryFinding]:
    """Return the findings that an entry states: its plan and its bound."""
    name, findings = entry.instance.name, list[LibraryFinding]()
    if entry.value is not None and entry.plan_credit is not None:
        findings.append(_finding(name, "plan", entry.value, entry.plan_credit, None))
    if entry.bound is not None and entry.proof is not None and entry.proof_credit is not None:
        findings.append(_finding(name, "bound", entry.bound, entry.proof_credit, str(entry.proof["kind"])))
    return findings


def _finding(
    name: str, kind: Literal["plan", "bound"], value: float | str, credit: Credit, proof: str | None
) -> LibraryFinding:
    return LibraryFinding(name, kind, value, **asdict(credit), proof=proof)


def latest(history: Iterable[LibraryFinding], name: str) -> list[LibraryFinding]:
    """Return the last plan and the last bound in the history of the entry called ``name``."""
    last = {finding.kind: finding for finding in history if finding.entry == name}
    return [last[kind] for kind in ("plan", "bound") if kind in last]


def extended(history: Iterable[LibraryFinding], entry: LibraryEntry) -> list[LibraryFinding]:
    """Return a history to which the findings of an entry are added, unless they are the latest ones."""
    findings = list(history)
    known = latest(findings, entry.instance.name)
    findings += [finding for finding in findings_of(entry) if finding not in known]
    return sorted(findings, key=lambda finding: finding.entry)


def read_history(folder: Path) -> list[LibraryFinding]:
    """Return the findings in the history of the library in ``folder``; none without a history.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    file = folder / HISTORY
    return history_from_json(file.read_text(encoding="utf-8")) if file.is_file() else []


def history_from_json(text: str) -> list[LibraryFinding]:
    """Return the findings in the text of a history file; errors are those of ``read_history``."""
    try:
        return [LibraryFinding(**line) for line in json.loads(text)]
    except (TypeError, ValueError) as error:
        raise InputError(HISTORY, f"is damaged: {error}; take the file of the last commit") from None


def history_to_json(history: Iterable[LibraryFinding]) -> str:
    """Return the text of a history file."""
    lines = ",\n".join(json.dumps(asdict(finding)) for finding in history)
    return f"[\n{lines}\n]\n"
