"""Figures of performance models: drawn without runs, with measured pairs where these are at hand."""

from pathlib import Path

import numpy as np
import pytest

from instances import InputError
from instances.calibration.a100_inss import TABLE_3
from reports.figures import figure, gpulet_fig7
from reports.measured import VARIABLE, measured_pairs, missing_note
from tests.reports.figure_names import OF_MODELS

HEAD = "model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms,latency_b_ms,std_a_ms,std_b_ms"


@pytest.fixture
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def one_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One measured pair on the V100, of Figures 11 and 12 each, and none on the A100."""
    folder = tmp_path / "measured" / "v100-igniter"
    folder.mkdir(parents=True)
    rows = ["vgg19,4,40,ssd,4,60,19.2,20.1,0.1,0.1", "alexnet,2,50,resnet50,2,50,1.4,4.6,0.1,0.1"]
    (folder / "pairs.csv").write_text("\n".join([HEAD, *rows]))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "measured"))


@pytest.mark.parametrize("name", OF_MODELS)
def test_they_need_no_runs_and_no_measurements(name: str, tmp_path: Path, nothing_measured: None) -> None:
    assert figure(name).needs == ()
    files = figure(name).draw([], tmp_path / "new")

    assert [file.name for file in files] == [f"{name}.pdf", f"{name}.svg", f"{name}.png"]
    assert files[1].read_bytes().count(b"<text") > 8


@pytest.mark.parametrize("name", ["gpulet-fig10", "gpulet-fig7", "igniter-fig11", "igniter-fig12"])
def test_measured_pairs_are_drawn_where_they_are_at_hand(name: str, tmp_path: Path, one_pair: None) -> None:
    svg = figure(name).draw([], tmp_path / "with")[1].read_text()

    assert ("largest error (%): igniter" in svg) == name.startswith("igniter")
    assert ("Measured pairs not drawn: a100" in svg) == name.startswith("gpulet")


def test_what_is_missing_is_noted(one_pair: None) -> None:
    assert len(measured_pairs("v100")) == 4
    assert measured_pairs("a100") == []
    assert missing_note("v100") == []
    assert missing_note("v100", "a100") == [f"Measured pairs not drawn: a100 ({VARIABLE} names no folder with them)."]


def test_wrong_measurements_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a100-gpulet").mkdir()
    (tmp_path / "a100-gpulet" / "pairs.csv").write_text("nonsense")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=r"pairs\.csv: line 1: lacks the columns"):
        figure("gpulet-fig10").draw([], tmp_path)


def test_gpulets_scenarios_are_the_papers() -> None:
    overheads = gpulet_fig7.predicted_overheads()

    assert len(overheads) == 2 * 1250  # 250 pairs at five layouts, both sides
    assert overheads.min() >= 0.0
    # The published constants are not far from the published distribution: 90 % below 18 %.
    assert 0.05 < np.quantile(overheads, 0.9) < 0.25


def test_a_table_has_the_papers_own_predictions() -> None:
    assert [point.published_ms for point in TABLE_3 if point.row == "R"] == [4.923, 7.033, 10.864, 19.387]
