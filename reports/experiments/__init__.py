"""EXPERIMENTS.md: the papers' numbers beside those of a ledger, written from templates and queries.

``templates`` has the text, one file for each section. Every number comes from a query over runs or from a function that
needs no runs. The claims of the figures have such queries, and so have further tables in the modules of this package.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from statistics import median

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.command_text import command_line, option
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from reports.claim import COUNTED, QueryTable, Tally, compare, fill, markdown
from reports.need import Need
from reports.runs import Runs, merged

_COMMAND = command_line("report", experiments=True)

FIRST_LINE = f"<!-- Written by `{_COMMAND}` from reports/experiments; edit the templates there. -->"

_COMMANDS_TOLD = 4

_CLOCK_S = 0.005
"""Inaccuracy of the times at which runs start and end."""


@dataclass(frozen=True, slots=True)
class Document:
    """The document's text, its tables by section and name (``optimum.gaps``), and the needs whose runs are missing."""

    text: str
    tables: Mapping[str, str]
    missing: Sequence[Need]


def render(ledger: Ledger) -> Document:
    """Return the document made from a ledger."""
    from reports.experiments.sections import SECTIONS  # takes seconds; writing web pages does without it

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - Markdown without input from outside
    )
    runs, parts, lines = Runs(ledger), [], []
    made: dict[str, str] = {}
    missing: dict[Need, None] = {}
    for section in SECTIONS:
        runs.missing, tally = [], Tally()
        tables = {
            name: fill(table, runs) if isinstance(table, QueryTable) else compare(table, runs, tally)
            for name, table in section.tables.items()
        }
        made |= {f"{section.name}.{name}": text for name, text in tables.items()}
        text = templates.get_template(f"{section.name}.md.j2").render(tables)
        parts.append(f"## {section.title}\n\n{text.strip()}\n{_lacking(runs.missing)}")
        missing |= dict.fromkeys(runs.missing)
        if tally.total():
            lines.append((section.title, *(f"{tally[counted]}" for counted in COUNTED)))
    origin = made_by(list(runs.used.values()))
    head = templates.get_template("head.md.j2").render(summary=markdown(("", *COUNTED), lines), made=origin)
    return Document("\n".join([f"{FIRST_LINE}\n\n{head.strip()}\n", *parts]), made, merged(list(missing)))


def _lacking(needs: Sequence[Need]) -> str:
    """Return the commands that make the missing runs of a section."""
    commands = [f"\n- no runs: `{need.command}`" for need in merged(needs)]
    more = len(commands) - _COMMANDS_TOLD
    others = f"\n- and {more} more; `{_COMMAND} {option('run')}` makes all of them" if more > 0 else ""
    return "".join([*commands[:_COMMANDS_TOLD], others, "\n" if commands else ""])


def made_by(rows: Sequence[Row]) -> str:
    """Return a sentence on runs: their number, dates, code and machines, and how busy these were."""
    if not rows:
        return "No runs."
    days = sorted({row.started_at[:10] for row in rows})
    when = " to ".join(dict.fromkeys((days[0], days[-1])))
    code = sorted({_code(row) for row in rows})
    where = sorted({f"{row.provenance['cpu']} ({row.provenance['cores']} cores)" for row in rows})
    together = _at_once(rows)
    pace = "one at a time" if together == 1 else f"up to {together} at a time"
    loads = [row.provenance["load_average"] for row in rows if row.provenance["load_average"] is not None]
    busy = f"; the median load average was {median(loads):.1f}" if loads else ""
    made = f"{len(rows):,} runs of {when} by {' and '.join(code)} on {' and '.join(where)}"
    return f"{made}, {pace}{busy}."


def _at_once(rows: Sequence[Row]) -> int:
    """Return the largest number of runs that were executed at the same time."""
    changes: list[tuple[float, int]] = []
    for row in rows:
        start_s = datetime.fromisoformat(row.started_at).timestamp()
        changes += [(start_s, 1), (start_s + (row.wall_s or 0.0) - _CLOCK_S, -1)]
    return max(accumulate(change for _, change in sorted(changes)))


def _code(row: Row) -> str:
    """Return the commit that made a run, in words."""
    commit = row.provenance["commit"]
    return "no commit" if commit is None else f"{commit[:9]}{' with changes' if row.provenance['dirty'] else ''}"
