"""``bench report --experiments``: the file that it writes, the runs that it executes, and errors."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.cli.app import main
from bench.ledger.store import Ledger
from reports.experiments import Document
from reports.need import Need
from reports.runs import MissingDataError, Runs

FIRST, SECOND = (Need("igniter-3", (name,)) for name in ("igniter", "ffd+"))


@pytest.fixture(autouse=True)
def two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the document by two numbers; the second run is needed only when the first is in the ledger."""

    def render(ledger: Ledger) -> Document:
        runs = Runs(ledger)
        text = ""
        try:
            for need in (FIRST, SECOND):
                text += f"{runs.row(need).gpus_used} GPUs\n"
        except MissingDataError as missing:
            text += f"{missing}\n"
        return Document(text, {}, runs.missing, list(runs.outdated))

    monkeypatch.setattr("bench.cli.commands.report.render", render)


def report(folder: Path, options: Sequence[str]) -> int:
    return main(["report", str(folder / "ledger.sqlite"), "--experiments", "-o", str(folder / "E.md"), *options])


def test_missing_runs_are_printed_and_with_run_executed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Ledger(tmp_path / "ledger.sqlite", create=True).close()
    assert report(tmp_path, []) == 0
    assert (tmp_path / "E.md").read_text(encoding="utf-8") == "no runs\n"
    output = capsys.readouterr().err
    assert FIRST.command in output
    assert "--run" in output
    assert report(tmp_path, ["--run", "--jobs", "1"]) == 0
    assert (tmp_path / "E.md").read_text(encoding="utf-8") == "1 GPUs\n1 GPUs\n"
    assert "1 runs to execute, 1 at a time" in capsys.readouterr().err
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert [row.scheduler for row in ledger.rows()] == ["igniter", "ffd+"]


def test_runs_of_changed_code_are_repeated_with_renew_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert report(tmp_path, ["--run", "--jobs", "1"]) == 0
    monkeypatch.setattr("reports.code_age.scheduler_hash", lambda target: f"changed {target}")
    for module in ("bench.task", "reports.code_age"):
        monkeypatch.setattr(f"{module}.sources_hash", lambda packages: "changed")

    def schedulers_with(*options: str) -> list[str]:
        assert report(tmp_path, ["--run", "--jobs", "1", *options]) == 0
        with Ledger(tmp_path / "ledger.sqlite") as ledger:
            return [row.scheduler for row in ledger.rows()]

    assert schedulers_with() == ["igniter", "ffd+"]
    assert schedulers_with("--renew") == ["igniter", "ffd+", "igniter", "ffd+"]


def test_without_a_ledger_no_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path, []) == 2
    assert "no such ledger" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_file_is_an_error_of_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Ledger(tmp_path / "ledger.sqlite", create=True).close()
    (tmp_path / "E.md").mkdir()
    assert report(tmp_path, []) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'E.md'}: cannot be written")


def test_renewal_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path, ["--renew"]) == 2
    assert capsys.readouterr().err.startswith("error: --renew: has an effect only with --run")


def test_run_without_experiments_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "ledger.sqlite"), "--run"]) == 2
    assert capsys.readouterr().err.startswith("error: --run: has an effect only with --experiments")
