"""EXPERIMENTS.md: the papers' numbers beside the numbers of a ledger, written from templates and queries.

``templates`` has the text, a file for each section. A number comes from a query over runs, or from a function without
runs. The queries belong to the claims of the figures and to the tables in the modules of this package.
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
from reports.code_age import age_sentence
from reports.need import Need
from reports.runs import Runs, merged

_COMMAND = command_line("report", experiments=True)

FIRST_LINE = f"<!-- Written by `{_COMMAND}` from reports/experiments; edit the templates there. -->"

_COMMANDS_NAMED = 4
"""Largest number of commands in the list of a section's missing runs."""

_CLOCK_S = 0.005
"""Inaccuracy of the recorded start and end of a run, in seconds."""


@dataclass(frozen=True, slots=True)
class Document:
    """Document with its tables.

    Attributes
    ----------
    tables
        Tables by section and name (``optimum.gaps``).
    missing, outdated
        Needs whose runs the ledger lacks; needs with runs of schedulers whose code has changed since.
    """

    text: str
    tables: Mapping[str, str]
    missing: Sequence[Need]
    outdated: Sequence[Need] = ()


def render(ledger: Ledger) -> Document:
    """Return the document made from a ledger."""
    from reports.experiments.sections import SECTIONS  # this import takes seconds, and web pages do not need it

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - Markdown without input from outside
    )
    runs, section_texts, summary_lines = Runs(ledger), [], []
    table_texts: dict[str, str] = {}
    missing: dict[Need, None] = {}
    for section in SECTIONS:
        runs.missing, tally = [], Tally()
        tables = {
            name: fill(table, runs) if isinstance(table, QueryTable) else compare(table, runs, tally)
            for name, table in section.tables.items()
        }
        table_texts |= {f"{section.name}.{name}": text for name, text in tables.items()}
        text = templates.get_template(f"{section.name}.md.j2").render(tables)
        section_texts.append(f"## {section.title}\n\n{text.strip()}\n{_missing_runs_text(runs.missing)}")
        missing |= dict.fromkeys(runs.missing)
        if tally.total():
            summary_lines.append((section.title, *(f"{tally[verdict]}" for verdict in COUNTED)))
    used_rows = list(runs.used.values())
    run_sentence = " ".join(filter(None, (made_by(used_rows), age_sentence(used_rows))))
    head = templates.get_template("head.md.j2").render(
        summary=markdown(("", *COUNTED), summary_lines), made=run_sentence
    )
    return Document(
        "\n".join([f"{FIRST_LINE}\n\n{head.strip()}\n", *section_texts]),
        table_texts,
        merged(list(missing)),
        merged(list(runs.outdated)),
    )


def _missing_runs_text(needs: Sequence[Need]) -> str:
    """Return the commands that make the missing runs of a section."""
    commands = [f"\n- no runs: `{need.command}`" for need in merged(needs)]
    unnamed = len(commands) - _COMMANDS_NAMED
    more_text = f"\n- and {unnamed} more; `{_COMMAND} {option('run')}` makes all of them" if unnamed > 0 else ""
    return "".join([*commands[:_COMMANDS_NAMED], more_text, "\n" if commands else ""])


def made_by(rows: Sequence[Row]) -> str:
    """Return a sentence on runs: their number, dates, code and machines, and the load of the machines."""
    if not rows:
        return "No runs."
    dates = sorted({row.started_at[:10] for row in rows})
    date_text = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    code_texts = sorted({_code(row) for row in rows})
    machines = sorted({f"{row.provenance['cpu']} ({row.provenance['cores']} cores)" for row in rows})
    largest_parallel = _at_once(rows)
    parallel_text = "one at a time" if largest_parallel == 1 else f"up to {largest_parallel} at a time"
    loads = [row.provenance["load_average"] for row in rows if row.provenance["load_average"] is not None]
    load_text = f"; the median load average was {median(loads):.1f}" if loads else ""
    runs_text = f"{len(rows):,} runs of {date_text} by {' and '.join(code_texts)} on {' and '.join(machines)}"
    return f"{runs_text}, {parallel_text}{load_text}."


def _at_once(rows: Sequence[Row]) -> int:
    """Return the largest number of runs that were executed at the same time."""
    run_count_changes: list[tuple[float, int]] = []
    for row in rows:
        start_s = datetime.fromisoformat(row.started_at).timestamp()
        run_count_changes += [(start_s, 1), (start_s + (row.wall_s or 0.0) - _CLOCK_S, -1)]
    return max(accumulate(change for _, change in sorted(run_count_changes)))


def _code(row: Row) -> str:
    """Return the commit that made a run, in words."""
    commit = row.provenance["commit"]
    return "no commit" if commit is None else f"{commit[:9]}{' with changes' if row.provenance['dirty'] else ''}"
