"""EXPERIMENTS.md: rendered without and with all runs, and the committed file against its templates."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.holding.verdict import Holding
from bench.ledger.row import Row
from bench.max_rate import STEP
from bench.plan_simulation import Settings
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from reports import experiments
from reports.claim import NO_DATA, Claim
from reports.experiments import FIRST_LINE, Document, made_by, render
from reports.experiments.optimum import large_instance_need
from reports.experiments.sections import SECTIONS
from reports.measured import VARIABLE
from reports.need import Need
from reports.papers.robustness import ERRORS

COMMITTED = Path(__file__).parents[3] / "EXPERIMENTS.md"
TEMPLATES = sorted(Path(experiments.__file__).with_name("templates").iterdir())
MOST_ROUNDS = 5

SETTINGS = {f"{100.0 * part:g}" for part in (VIOLATIONS_ALLOWED, STEP, 1.0, *ERRORS)} | {f"{Settings().seconds:g}"}
"""Numbers that templates may have, since they are settings and not results."""


@pytest.fixture(scope="module", autouse=True)
def no_measurements() -> Iterator[None]:
    """Leave out slow parts: fits to published measurements, and simulations of many plans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        patch.setattr("reports.experiments.serving.holding_under", lambda *_: Holding(0.99, True, 60.0, ()))
        yield


@pytest.fixture(scope="module")
def empty(hand_made: Any) -> Document:
    """Return the document of an empty ledger."""
    return render(hand_made([]).ledger)


@pytest.fixture(scope="module")
def full(hand_made: Any, rows_for: Callable[[Need], list[Row]], empty: Document) -> Document:
    """Return the document of a ledger to which all missing runs were added, in several rounds."""
    ledger_rows, document = hand_made([]), empty
    for _ in range(MOST_ROUNDS):
        for need in document.missing:
            ledger_rows.stored_rows.extend(rows_for(need))
        document = render(ledger_rows.ledger)
        if not document.missing:
            break
    return document


def claims() -> list[Claim]:
    tables = [table for section in SECTIONS for table in section.tables.values() if isinstance(table, tuple)]
    return [claim_ for table in tables for claim_ in table]


def test_an_empty_ledger_has_every_section_and_no_run(empty: Document) -> None:
    lines = empty.text.splitlines()
    assert lines[0] == FIRST_LINE
    assert [line for line in lines if line.startswith("## ")] == [f"## {section.title}" for section in SECTIONS]
    assert "No runs." in empty.text
    missing_lines = [line for line in lines if line.startswith("- no runs: `bench ")]
    assert missing_lines
    assert {line.split()[6] for line in missing_lines} <= {need.instances for need in empty.missing}


@pytest.mark.soak
def test_with_all_runs_every_query_has_an_answer(full: Document) -> None:
    assert full.missing == []
    assert "no runs" not in full.text
    assert "2026-01-02" in full.text


@pytest.mark.parametrize(
    ("starts_s", "words"), [((0, 10, 21), "one at a time"), ((0, 10, 15), "up to 2 at a time"), ((0, 0, 0), "up to 3")]
)
def test_the_document_states_how_many_runs_were_executed_at_once(
    starts_s: tuple[int, ...], words: str, rows_for: Callable[[Need], list[Row]]
) -> None:
    (row,) = rows_for(large_instance_need("igniter", "64gpu-cost"))
    rows = [replace(row, started_at=f"2026-01-02T00:00:{start_s:02}+00:00", wall_s=10.0) for start_s in starts_s]
    assert f", {words}" in made_by(rows)


@pytest.mark.soak
def test_there_is_a_line_for_each_claim(full: Document) -> None:
    for claim in claims():
        paper = claim.paper if isinstance(claim.paper, str) else claim.formatted(claim.paper)
        assert f"| {claim.what} | {paper} | " in full.text


def test_the_committed_words_are_those_of_the_templates(empty: Document) -> None:
    """The committed document equals that of an empty ledger, except for tables and lines on runs."""

    def words(text: str) -> list[str]:
        generated = ("|", "- no runs: ", "- and ", "No runs.")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(generated)]
        return [line for line in lines if not re.match(r"[\d,]+ runs of ", line)]

    assert words(COMMITTED.read_text(encoding="utf-8")) == words(empty.text)


def test_the_committed_tables_are_those_of_the_queries(empty: Document) -> None:
    def first_cells(text: str) -> list[str]:
        return [line.split(" | ")[0] for line in text.splitlines() if line.startswith("|")]

    assert first_cells(COMMITTED.read_text(encoding="utf-8")) == first_cells(empty.text)


def test_different_and_incomparable_results_have_a_reason() -> None:
    committed_lines = COMMITTED.read_text(encoding="utf-8").splitlines()
    lines = [
        line.split(" | ") for line in committed_lines if " | different | " in line or " | not comparable | " in line
    ]
    assert lines
    assert [line[0] for line in lines if not line[-1].strip(" |")] == []


def test_the_summary_counts_the_verdicts_of_each_section() -> None:
    text = COMMITTED.read_text(encoding="utf-8")
    sections = {part.splitlines()[0]: part for part in text.split("\n## ")}
    head, *summary = [line.strip("| ").split(" | ") for line in text.split("\n## ")[0].splitlines() if " | " in line]
    section_counts = [cells for cells in summary if not cells[0].startswith("---")]
    assert section_counts
    for title, *counts in section_counts:
        lines = [line.split(" | ") for line in sections[title].splitlines() if line.startswith("|")]
        verdicts = [cells[3].partition(":")[0].strip() for cells in lines if len(cells) == 5]
        assert dict(zip(head, map(int, counts), strict=True)) == {
            verdict: verdicts.count(verdict) if verdict != NO_DATA else int(counts[-1]) for verdict in head
        }


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_templates_have_no_numbers(template: Path) -> None:
    assert numbers(template.read_text(encoding="utf-8")) <= SETTINGS


def test_reasons_and_notes_have_no_numbers() -> None:
    assert [claim.what for claim in claims() if numbers(f"{claim.reason} {claim.not_comparable} {claim.note}")] == []


def numbers(text: str) -> set[str]:
    """Return the numbers in a text, except those in code and names, and of figures, tables, equations and lines."""
    text = re.sub(r"`[^`]*`|\{[{%].*?[%}]\}", "", text, flags=re.DOTALL)
    text = re.sub(r"\b(?:Fig\.|Sec\.|Tables?|Algorithm|equation|lines?|RTX) \d+(?:\.\d+)?(?:, \d+)*", "", text)
    return set(re.findall(r"(?<![\w.-])\d[\d.,]*\d|(?<![\w.-])\d", text))
