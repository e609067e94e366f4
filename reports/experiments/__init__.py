"""EXPERIMENTS.md: the papers' numbers beside those of a ledger, written from templates and queries.

``templates`` has the text, one file for each section. Every number comes from a query over runs or from a function that
needs no runs. Each section is a module of this package; its template shows the module's tables and tuples of ``Claim``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from bench.ledger.row import Row
from bench.ledger.store import Ledger
from reports.experiments.claim import COUNTED, Claim, QueryTable, Tally, compare, fill, markdown
from reports.experiments.runs import Runs, merged
from reports.figure import Need

FIRST_LINE = "<!-- Written by `bench report --experiments` from reports/experiments; edit the templates there. -->"

SECTIONS = {
    "igniter": "iGniter (Xu et al., TPDS 2022)",
    "gpulet": "gpulet (ATC 2022; arXiv 2021)",
    "inss": "InSS (Han et al.)",
    "mediator": "MediatorDNN (Nabavinejad, Reda, Guo)",
    "parvagpu": "ParvaGPU (SC24)",
    "models": "Performance models",
    "optimum": "Distance from the optimum",
    "serving": "Plans under random arrivals",
    "hardware": "On hardware",
}
"""Headings by name of the module; the template has the same name."""

_COMMANDS_TOLD = 4


@dataclass(frozen=True, slots=True)
class Document:
    """The document's text, its tables by section and name (``optimum.gaps``), and the needs whose runs are missing."""

    text: str
    tables: Mapping[str, str]
    missing: "Sequence[Need]"


def render(ledger: Ledger) -> Document:
    """Return the document made from a ledger."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - Markdown without input from outside
    )
    runs, parts, lines = Runs(ledger), [], []
    made: dict[str, str] = {}
    missing: dict[Need, None] = {}
    for name, title in SECTIONS.items():
        runs.missing, tally = [], Tally()
        tables = _tables(name, runs, tally)
        made |= {f"{name}.{table}": text for table, text in tables.items()}
        text = templates.get_template(f"{name}.md.j2").render(tables)
        parts.append(f"## {title}\n\n{text.strip()}\n{_lacking(runs.missing)}")
        missing |= dict.fromkeys(runs.missing)
        if tally.total():
            lines.append((title, *(f"{tally[counted]}" for counted in COUNTED)))
    head = templates.get_template("head.md.j2").render(summary=markdown(("", *COUNTED), lines), made=_made(runs))
    return Document("\n".join([f"{FIRST_LINE}\n\n{head.strip()}\n", *parts]), made, merged(list(missing)))


def _tables(name: str, runs: Runs, tally: Tally) -> Mapping[str, str]:
    """Return the filled tables of a module by name in lower case."""
    found = {}
    for key, value in vars(import_module(f"{__name__}.{name}")).items():
        if isinstance(value, QueryTable):
            found[key.lower()] = fill(value, runs)
        elif isinstance(value, tuple) and value and all(isinstance(one, Claim) for one in value):
            found[key.lower()] = compare(value, runs, tally)
    return found


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
