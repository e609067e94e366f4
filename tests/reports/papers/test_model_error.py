"""Figure of the cost of performance models' errors, and the table of EXPERIMENTS.md."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest
from matplotlib.figure import Figure as Page

from instances.model_error.experiment import MEASURED, NO_INTERFERENCE, ModelCost
from instances.performance import interference_model_names
from reports.experiments import error_costs
from reports.measured import VARIABLE
from reports.need import NothingToDrawError
from reports.papers import figure, model_error
from reports.runs import MissingDataError, Runs
from tests.reports.model_costs import made_up_costs

Draw = Callable[..., Page]


def test_without_measurements_the_figure_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(NothingToDrawError, match=r"^model-error: no measurements to draw"):
        figure("model-error").draw([], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_curves_follow_the_margin_and_the_optimum_is_a_point(monkeypatch: pytest.MonkeyPatch, draw: Draw) -> None:
    def costs(gpu: str, margins: Sequence[float]) -> list[ModelCost]:
        if gpu == "a100":
            raise MissingDataError("no measurements")
        return made_up_costs(margins)

    monkeypatch.setattr(model_error, "model_costs", costs)
    monkeypatch.delenv(VARIABLE, raising=False)
    page = draw("model-error", [])
    (ax,) = page.axes
    assert ax.get_title("left") == "V100"
    assert "a100" in page.get_supxlabel()
    *curves, optimum = ax.lines
    assert len(curves) == len((NO_INTERFERENCE, *interference_model_names()))
    for curve in curves:
        gpus, late_pct = list(curve.get_ydata()), list(curve.get_xdata())
        assert len(gpus) == 1 + len(model_error.MARGINS["v100"])
        assert gpus == sorted(gpus)
        assert late_pct == sorted(late_pct, reverse=True)
    assert (list(optimum.get_xdata()), list(optimum.get_ydata())) == ([0.0], [8.0])


def test_the_table_has_both_kinds_of_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_costs, "model_costs", lambda gpu: made_up_costs())
    cells_of = {
        (gpu, plans): [cell if isinstance(cell, str) else cell(cast(Runs, None)) for cell in cells]
        for gpu, plans, *cells in error_costs.PRICES.lines
    }
    assert cells_of["a100", "`hybrid`"] == ["9.00 ± 0.12, 10.0 % late", "10.50 ± 0.12, 0.8 % late, margin 1.25"]
    assert cells_of["v100", "measured latencies (optimum)"] == ["8.00 ± 0.12, 0.0 % late", ""]
    assert {plans for gpu, plans in cells_of if gpu == "v100"} == {plans for gpu, plans in cells_of if gpu == "a100"}
    assert MEASURED not in {plans.strip("`") for _, plans in cells_of}
