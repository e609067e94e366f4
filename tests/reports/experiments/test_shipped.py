"""The shipped ledger, from which EXPERIMENTS.md and all figures are made without further runs."""

import os
from pathlib import Path

import pytest

from bench.cli import main
from bench.ledger.store import Ledger
from reports.experiments import render
from reports.measured import VARIABLE
from reports.papers import figure, figure_names

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "docs" / "experiments.sqlite.xz"


@pytest.mark.soak
def test_the_shipped_ledger_has_no_failed_run() -> None:
    with Ledger(SHIPPED) as ledger:
        rows = ledger.rows()
    assert rows
    assert not [(row.scheduler, row.instance, row.reason) for row in rows if row.termination.failed]


@pytest.mark.soak
@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"the document was written with measurements; set {VARIABLE}")
def test_the_document_is_written_from_the_shipped_ledger() -> None:
    with Ledger(SHIPPED) as ledger:
        document = render(ledger)
    assert not document.missing
    assert document.text == (ROOT / "EXPERIMENTS.md").read_text()


@pytest.mark.soak
def test_every_figure_with_runs_is_drawn_from_the_shipped_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figures", "--from", str(SHIPPED), "--out", str(tmp_path)]) == 0
    assert "lacks their runs" not in capsys.readouterr().err
    drawn = {file.stem for file in tmp_path.iterdir()}
    assert {name for name in figure_names() if figure(name, "figures").needs} <= drawn
