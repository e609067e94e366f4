"""Figures of performance models: drawn without runs, and with measurements if there are any."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Page

from instances import InputError
from instances.calibration.a100_inss import TABLE_3
from reports.measured import VARIABLE, light_profile, measured_pairs, measured_solo, missing_note
from reports.need import NothingToDrawError
from reports.papers import figure
from reports.papers.gpulet_overheads import overheads_by_equation, predicted_overheads
from tests.reports.figure_names import OF_MEASUREMENTS, OF_MODELS

Draw = Callable[..., Page]


@pytest.fixture
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def measured(few_measurements: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(few_measurements))


@pytest.fixture
def measured_on_a_v100(few_measurements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "v100-igniter").symlink_to(few_measurements / "v100-igniter")
    monkeypatch.setenv(VARIABLE, str(tmp_path))


def test_figures_of_models_need_neither_runs_nor_measurements(
    draw: Draw, nothing_measured: None, subtests: pytest.Subtests
) -> None:
    for name in OF_MODELS:
        assert figure(name).needs == ()
    for name in OF_MODELS[::4]:  # all of them are drawn with measurements
        with subtests.test(name):
            assert all(ax.lines or ax.patches for ax in draw(name, []).axes)


@pytest.mark.parametrize("name", OF_MEASUREMENTS)
def test_figures_of_measurements_alone_are_refused_without_them(
    name: str, tmp_path: Path, nothing_measured: None
) -> None:
    with pytest.raises(
        NothingToDrawError, match=rf"^{name}: no measurements to draw; set {VARIABLE} to a folder with "
    ):
        figure(name).draw([], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", OF_MEASUREMENTS)
def test_only_gpus_that_were_measured_are_drawn(name: str, draw: Draw, measured_on_a_v100: None) -> None:
    page = draw(name, [])
    assert [ax.get_title("left") for ax in page.axes] == ["V100, 8 samples"]
    assert "Measurements not drawn: a100" in page.get_supxlabel()


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("igniter-fig4", 2),
        ("igniter-fig5", 5),
        ("igniter-fig7", 10),
        ("igniter-fig9", 12),
        ("inss-fig7", 12),
    ],
)
def test_measurements_are_drawn_beside_predictions(
    name: str, points: int, draw: Draw, monkeypatch: pytest.MonkeyPatch, measured: None
) -> None:
    def counts() -> tuple[int, int]:
        lines = [line for ax in draw(name, []).axes for line in ax.lines]
        return len(lines), sum(len(line.get_xdata()) for line in lines if line.get_linestyle() == "None")

    with_measurements = counts()
    monkeypatch.delenv(VARIABLE)
    without_measurements = counts()
    assert with_measurements[0] > without_measurements[0]
    assert with_measurements[1] - without_measurements[1] == points
    assert "Measurements not drawn" in draw(name, []).get_supxlabel()


@pytest.mark.parametrize("name", ["igniter-fig11", "igniter-fig12"])
def test_panels_of_pairs_state_the_largest_errors(name: str, tmp_path: Path, measured: None) -> None:
    assert "largest error (%): igniter" in figure(name).draw([], tmp_path / "with")[1].read_text()


def test_missing_measurements_are_noted(measured_on_a_v100: None) -> None:
    assert len(measured_pairs("v100")) == 8
    assert len(measured_solo("v100")) == 1
    assert light_profile()["gpu"]["idle_power_w"] == 53.5
    assert measured_pairs("a100") == []
    assert measured_solo("a100") == []
    assert missing_note("v100") == []
    assert missing_note("v100", "a100") == [f"Measurements not drawn: a100 ({VARIABLE} names no folder with them)."]


def test_a_profile_that_is_not_json_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "v100-igniter").mkdir()
    (tmp_path / "v100-igniter" / "profile.json").write_text("nonsense")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=r"profile\.json: is not valid JSON"):
        light_profile()


def test_wrong_measurements_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a100-gpulet").mkdir()
    (tmp_path / "a100-gpulet" / "pairs.csv").write_text("nonsense")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=r"pairs\.csv: line 1: lacks the columns"):
        figure("gpulet-fig10").draw([], tmp_path)


def test_predicted_overheads_resemble_the_papers() -> None:
    overheads = predicted_overheads()

    assert len(overheads) == 2 * 1250  # 250 pairs at five layouts, both sides
    assert overheads.min() >= 0.0
    # The published constants are not far from the published distribution: 90 % below 18 %.
    assert 0.05 < np.quantile(overheads, 0.9) < 0.25


def test_the_equation_of_the_overhead_is_that_of_gpulets_model() -> None:
    assert overheads_by_equation() == pytest.approx(predicted_overheads(), abs=1e-12)


def test_overheads_are_larger_without_batching_time_and_with_the_utilisations_of_the_full_gpu() -> None:
    now = overheads_by_equation()

    assert (overheads_by_equation(batching=False) >= now).all()
    assert (overheads_by_equation(proportional=False) >= now).all()
    assert np.quantile(overheads_by_equation(proportional=False), 0.9) > 2.0 * np.quantile(now, 0.9)


def test_table_3_has_the_papers_predictions() -> None:
    assert [point.published_ms for point in TABLE_3 if point.row == "R"] == [4.923, 7.033, 10.864, 19.387]
