"""Comparison of the rows of two ledgers, in every field that depends on the code alone.

``python -m tests.regression.rows BEFORE.sqlite AFTER.sqlite`` prints the differences and exits with 1 if there are any.
Keys, times, memory, versions and prose are left out. The files are read without code of the bench, since a change of
that code is what the comparison tests.
"""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

LEFT_OUT = frozenset(
    {
        "key",
        "digest",
        "reason",
        "decision_s",
        "import_s",
        "warm_s",
        "overhead_s",
        "wall_s",
        "overshoot_s",
        "peak_memory_mb",
        "memory_limit_mb",
        "time_limit_s",
        "then_limit_s",
        "started_at",
        "log_tail",
        "provenance",
        "trajectory",
        "violation_details",
    }
)
"""Columns that differ from run to run, or contain prose."""

NAMED_BY = (
    "instance",
    "instance_hash",
    "scheduler",
    "parameters",
    "seed",
    "headroom",
    "truth",
    "work_limit",
    "threads",
)
"""Columns that identify a run in both ledgers."""

Fields = dict[str, Any]
"""Values of a row by column."""


def rows(ledger: Path) -> dict[tuple[str, ...], Fields]:
    """Return the compared fields of every row, by the values of ``NAMED_BY``."""
    with closing(sqlite3.connect(f"{ledger.resolve().as_uri()}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        stored = [dict(row) for row in database.execute("SELECT * FROM runs ORDER BY rowid")]
    return {tuple(str(row[name]) for name in NAMED_BY): compared(row) for row in stored}


def compared(row: Fields) -> Fields:
    """Return the compared fields of a stored row; JSON is parsed, and times in it are left out."""
    return {
        name: _untimed(json.loads(value)) if isinstance(value, str) and value[:1] in "[{" else value
        for name, value in row.items()
        if name not in LEFT_OUT
    }


def _untimed(value: Any) -> Any:
    """Return a JSON value without fields that end in ``_s``, which are measured times except ``warmup_s``."""
    if isinstance(value, dict):
        return {key: _untimed(part) for key, part in value.items() if not key.endswith("_s") or key == "warmup_s"}
    return [_untimed(part) for part in value] if isinstance(value, list) else value


def differences(before: dict[tuple[str, ...], Fields], after: dict[tuple[str, ...], Fields]) -> Iterator[str]:
    """Yield a line for each run that is in only one ledger, and for each field that differs."""
    for run in sorted(before.keys() ^ after.keys()):
        yield f"{' '.join(run[:1] + run[2:])}: only {'before' if run in before else 'after'}"
    for run in sorted(before.keys() & after.keys()):
        for name in sorted(before[run].keys() | after[run].keys()):
            old, new = before[run].get(name), after[run].get(name)
            if old != new:
                yield f"{' '.join(run[:1] + run[2:])}: {name}: {str(old)[:200]} -> {str(new)[:200]}"


def main(before: str, after: str) -> int:
    """Print the differences; return 1 if there are any."""
    old, new = rows(Path(before)), rows(Path(after))
    lines = list(differences(old, new))
    print("\n".join(lines) or f"{len(old)} rows are the same")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
