"""Marks of plans that hold, in the run table, ``bench show`` and the page: only tested plans have one."""

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.cli.views import run, run_tables, tables
from bench.formatting import HOLDS_MEANS, holds
from bench.ledger.gap import ledger_gaps
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from heuristics.igniter.igniter import IGniter
from reports.page.site import site_files
from tests.reports.page.runs_made_here import BOUND, TWELVE, run_of

GREEN = "\x1b[32m"
LATE = {"sim_violating": 7, "sim_violation_rate": 0.123}
CASES = {
    "unchecked": {"sim_violating": 0, "sim_violation_rate": 0.0},
    "unchecked, 12.3 % late": LATE,
    "no, 3 late": LATE | {"holds": False, "late_workloads": 3},
    "no, late in total": LATE | {"holds": False, "late_workloads": 0},
    "yes": LATE | {"holds": True, "late_workloads": 0},
}


@pytest.fixture(scope="module")
def optimal() -> Row:
    return run_of(IGniter(), TWELVE, status="optimal", violations=0, **BOUND)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """Return a fake of a terminal with colours, to which ``show`` prints."""
    out = StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", width=300, markup=False, highlight=False)

    def show(*renderables: object) -> None:
        for thing in renderables:
            console.print(thing)

    monkeypatch.setattr(run, "show", show)
    monkeypatch.setattr(tables, "draws_unicode", lambda: True)
    out.show = show  # type: ignore[attr-defined]
    return out


@pytest.mark.parametrize(("words", "figures"), CASES.items(), ids=CASES)
def test_only_a_tested_plan_is_green_or_red(
    words: str, figures: dict[str, object], optimal: Row, terminal: StringIO, tmp_path: Path
) -> None:
    row = replace(optimal, **figures)  # type: ignore[arg-type]
    fails = words.startswith("no")
    assert holds(row) == words

    with Ledger(tmp_path / "one.sqlite", create=True) as ledger:
        ledger.add(row, TWELVE)
        gaps = ledger_gaps([row], ledger)
        terminal.show(*run_tables.run_tables([row], gaps))  # type: ignore[attr-defined]
        terminal.show(*run_tables.best_tables([row], gaps, {}))  # type: ignore[attr-defined]
        run.show_run(replace(row, plan=None), gaps[row.key], ledger)  # without the plan, whose bars have other colours
        files = site_files(ledger)
    printed = terminal.getvalue()

    assert (GREEN in printed) == (words == "yes")
    assert ("✓" in printed) == (not fails)
    assert ("on paper" in printed) == fails
    assert ("\x1b[31m" + words in printed) == fails
    assert words in printed
    tested = row.holds is not None
    assert (HOLDS_MEANS in run_tables.run_tables([row], gaps)) == tested  # a caption that names the servers
    servers = ", on servers that drop late requests" if tested else ""
    page = next(text for name, text in files.items() if name.startswith("instances/"))
    shown = "yes" if words == "yes" else "no" if fails else ""
    assert f'<dd class="holds" data-holds="{shown}">{words}{servers}</dd>' in page
    assert (">optimal (spatial), on paper<" in page) == fails
    assert f'<td class="number holds" data-holds="{shown}"' in files["index.html"]
    assert f'"holds":["{words}"]' in files["runs.html"]


def test_the_page_has_green_and_ticks_only_for_plans_that_hold(site: Path) -> None:
    css = (site / "assets" / "page.css").read_text()

    assert re.findall(r"^(.*?) \{[^}]*(?:var\(--good\)|✓)", css, re.MULTILINE) == [
        '.holds[data-holds="yes"]',
        '.holds[data-holds="yes"]::before',
        '.held[data-held="yes"]',
    ]
