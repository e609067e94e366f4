"""``bench figures`` for figures that need runs under other conditions, or searches for the largest rates."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.cli.app import main
from bench.evaluation import Trial
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.max_rate import retraced, with_all_served
from instances.suites import suite
from reports.charts.page import COLUMN_IN, Page, page
from reports.figure import Figure
from reports.need import Need

WITH_TRIAL = Need("igniter-3", ("igniter",), trial=Trial(1.1, error=0.2))
CLIMB = Need("gpulet-scen4", ("sbp",), climb=True)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """Make ``figures`` draw one figure that needs both kinds of runs; return a list that gets its rows when drawn."""
    drawn_rows: list[Row] = []

    def draw(figure: Figure, rows: Sequence[Row]) -> Page:
        drawn_rows[:] = rows
        return page(COLUMN_IN, 1.0)

    figure = Figure(
        name="both", title="title", paper="paper", shows="shows", look_for="look", needs=(WITH_TRIAL, CLIMB), draws=draw
    )
    monkeypatch.setattr("reports.papers.figure_names", lambda: ["both"])
    monkeypatch.setattr("reports.papers.figure", lambda name, where: figure)
    return drawn_rows


def test_the_runs_that_figures_need_are_executed_once(
    drawn: list[Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ledger.sqlite"
    figures = ["figures", "--ledger", str(file), "--out", str(tmp_path / "out")]
    assert main([*figures, "--no-run"]) == 2
    assert "lacks 2 runs: igniter on igniter-3, sbp on gpulet-scen4;" in capsys.readouterr().err

    assert main(figures) == 0
    said = capsys.readouterr().err
    assert "1 climbs to finish" in said
    assert "1 runs to execute, " in said
    under_trial, *climb_rows = drawn
    assert (under_trial.instance, under_trial.headroom, under_trial.truth) == (
        "igniter-3",
        1.1,
        "figures off by up to 20 %",
    )
    assert under_trial.simulation is None
    reconstructed = retraced(with_all_served(suite("gpulet-scen4").build()[0]), climb_rows)
    assert reconstructed.next is None
    assert reconstructed.largest_passed > 1.0
    assert len(reconstructed.rows) == len(climb_rows)

    with Ledger(file) as ledger:
        assert len(ledger.keys()) == 1 + len(climb_rows)
    assert main([*figures, "--no-run"]) == 0
    assert "all runs are in the ledger" in capsys.readouterr().err
    assert [row.key for row in drawn] == [under_trial.key, *(row.key for row in climb_rows)]


def test_from_another_ledger_draws_its_rows_and_runs_nothing(
    drawn: list[Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.sqlite"
    run = ["run", "--instances", "igniter-3", "--schedulers", "igniter", "--time-limit", "9", "--simulate", "off"]
    assert main([*run, "--ledger", str(file)]) == 0
    before = file.read_bytes()
    capsys.readouterr()

    assert main(["figures", "--from", str(file), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    files = [f"{tmp_path / 'out' / 'both'}.{suffix}\n" for suffix in ("pdf", "svg", "png")]
    assert (printed.out, printed.err) == ("".join(files), "")
    assert [(row.scheduler, row.time_limit_s) for row in drawn] == [("igniter", 9.0)]
    assert file.read_bytes() == before


def test_from_another_ledger_runs_with_default_parameters_are_drawn_last(
    drawn: list[Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.sqlite"
    run = ["run", "--instances", "igniter-3", "--schedulers", "random", "--simulate", "off", "--ledger", str(file)]
    assert main(run) == 0
    assert main([*run, "--param", "random.draws=2"]) == 0
    assert main(["figures", "--from", str(file), "--out", str(tmp_path / "out")]) == 0
    assert [row.parameters["random"]["draws"] == 2 for row in drawn] == [True, False]


def test_from_a_ledger_without_its_runs_a_figure_is_left_out_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reports.papers.figure_names", lambda: ["exact-gap", "gpulet-fig5", "igniter-fig11"])
    Ledger(tmp_path / "empty.sqlite", create=True).close()
    figures = ["figures", "--from", str(tmp_path / "empty.sqlite"), "--out", str(tmp_path / "out")]
    lacking = f"not drawn because {tmp_path / 'empty.sqlite'} lacks their runs: exact-gap, gpulet-fig5\n"
    assert main(figures) == 0
    printed = capsys.readouterr()
    assert {Path(line).stem for line in printed.out.splitlines()} == {"igniter-fig11"}
    assert printed.err == lacking
    assert main([*figures, "exact-gap"]) == 1
    assert capsys.readouterr().err.startswith("exact-gap: no run to draw;")
    assert main(["figures", "--from", str(tmp_path / "missing.sqlite")]) == 2
    assert "no such ledger" in capsys.readouterr().err
