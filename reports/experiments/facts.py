"""Facts measured once, because measuring them takes too long for every document."""

import tomllib
from pathlib import Path

from reports.experiments.claim import QueryTable


def measured_once(section: str) -> QueryTable:
    """Return the facts of a section in ``measured.toml`` as a table."""
    facts = tomllib.loads(Path(__file__).with_name("measured.toml").read_text(encoding="utf-8"))["fact"]
    own = [fact for fact in facts if fact["section"] == section]
    return QueryTable(
        ("measured once", "", "command", "when, with"),
        [(f["what"], f["value"], f"`{f['command']}`", f"{f['date']}, {f['versions']}") for f in own],
    )
