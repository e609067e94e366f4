"""EXPERIMENTS.md: the papers' numbers beside those of a ledger, written from templates and queries.

``templates`` has the text, one file for each section. Every number comes from a query over runs or from a function that
needs no runs: those of the figures' claims, and those of further tables in the modules of this package.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.ledger.row import Row
from bench.ledger.store import Ledger
from reports.claim import COUNTED, QueryTable, Tally, compare, fill, markdown
from reports.need import Need
from reports.runs import Runs, merged

FIRST_LINE = "<!-- Written by `bench report --experiments` from reports/experiments; edit the templates there. -->"

_COMMANDS_TOLD = 4


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
    head = templates.get_template("head.md.j2").render(summary=markdown(("", *COUNTED), lines), made=_made(runs))
    return Document("\n".join([f"{FIRST_LINE}\n\n{head.strip()}\n", *parts]), made, merged(list(missing)))


def _lacking(needs: Sequence[Need]) -> str:
    """Return the commands that make the missing runs of a section."""
    commands = [f"\n- no runs: `{need.command}`" for need in merged(needs)]
    more = len(commands) - _COMMANDS_TOLD
    others = f"\n- and {more} more; `bench report --experiments --run` makes all of them" if more > 0 else ""
    return "".join([*commands[:_COMMANDS_TOLD], others, "\n" if commands else ""])


def _made(runs: Runs) -> str:
    """Return a sentence with the number of runs, their dates, their code and their machines."""
    if not runs.used:
        return "No runs."
    rows = runs.used.values()
    days = sorted({row.started_at[:10] for row in rows})
    when = " to ".join(dict.fromkeys((days[0], days[-1])))
    code = sorted({_code(row) for row in rows})
    where = sorted({f"{row.provenance['cpu']} ({row.provenance['cores']} cores)" for row in rows})
    return f"{len(runs.used):,} runs of {when} by {' and '.join(code)} on {' and '.join(where)}; cores were shared."


def _code(row: Row) -> str:
    """Return the commit that made a run, in words."""
    commit = row.provenance["commit"]
    return "no commit" if commit is None else f"{commit[:9]}{' with changes' if row.provenance['dirty'] else ''}"
