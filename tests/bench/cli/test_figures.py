"""``bench figures``: it runs what the ledger lacks, and draws."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Call

from bench.ledger.row import Row
from reports.charts.page import COLUMN_IN, Page, page
from reports.figure import Figure
from reports.need import Need, NothingToDrawError

pytestmark = pytest.mark.usefixtures("plugin")

ABOUT = {"title": "title", "paper": "paper", "shows": "shows", "look_for": "look"}


def draw(figure: Figure, rows: Sequence[Row]) -> Page:
    return page(COLUMN_IN, 1.0, [f"{row.instance} {row.scheduler}" for row in rows])


def notes(folder: Path) -> list[str]:
    return re.findall(r">([^<]+)</text>", (folder / "plain.svg").read_text())


def files(folder: str) -> str:
    return "".join(f"{folder}/plain.{suffix}\n" for suffix in ("pdf", "svg", "png"))


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = (Need("igniter-12", ("igniter",), quick="igniter-3"), Need("igniter-3", ("ffd+",)))
    figure = Figure(**ABOUT, name="plain", cost="two seconds", needs=needs, draws=draw)
    monkeypatch.setattr("reports.papers.figure_names", lambda: ["plain"])
    monkeypatch.setattr("reports.papers.figure", lambda name, where: figure)


@pytest.mark.usefixtures("one_figure")
def test_figures_run_what_the_ledger_lacks_and_draw(call: Call, tmp_path: Path) -> None:
    refused = call("figures --no-run")
    assert (refused.code, refused.out) == (2, "")
    assert "results/ledger.sqlite lacks 2 runs: igniter on igniter-12, ffd+ on igniter-3" in refused.err
    assert not (tmp_path / "results").exists()

    call("run --instances igniter-3 --schedulers bounds")
    done = call("figures --out new/figures")
    assert (done.code, done.out) == (0, files("new/figures"))
    assert "plain: two seconds\n2 runs to execute, " in done.err
    assert notes(tmp_path / "new/figures") == ["igniter-3 bounds", "igniter-12 igniter", "igniter-3 ffd+"]

    again = call("figures plain --no-run --out new/figures")
    assert again.code == 0
    assert "all runs are in the ledger" in again.err


@pytest.mark.usefixtures("one_figure")
def test_quick_figures_use_smaller_instances(call: Call, tmp_path: Path) -> None:
    assert call("figures --quick --out f").code == 0
    assert notes(tmp_path / "f") == ["igniter-3 igniter", "igniter-3 ffd+"]


def test_a_figure_without_data_says_so_in_one_line(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(figure: Figure, rows: Sequence[Row]) -> Page:
        raise NothingToDrawError("without", "no measurements to draw")

    figures = {
        "plain": Figure(**ABOUT, name="plain", draws=draw),
        "without": Figure(**ABOUT, name="without", draws=refuse),
    }
    monkeypatch.setattr("reports.papers.figure_names", lambda: list(figures))
    monkeypatch.setattr("reports.papers.figure", lambda name, where: figures[name])

    named = call("figures without plain --out f")
    assert (named.code, named.out) == (1, files("f"))
    assert named.err.splitlines()[-1] == "without: no measurements to draw"
    all_figures = call("figures --out f")  # without names, figures without data do not fail the command
    assert (all_figures.code, all_figures.out) == (0, files("f"))
    assert all_figures.err.splitlines()[-1] == "without: no measurements to draw"


@pytest.mark.parametrize("options", ["", " --from missing.sqlite"])
def test_a_figure_that_is_not_drawn_says_why(call: Call, tmp_path: Path, options: str) -> None:
    refused = call(f"figures igniter-fig14 igniter-fig1{options}")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "igniter-fig1: not drawn: a diagram of related systems\n"
    assert list(tmp_path.iterdir()) == []
