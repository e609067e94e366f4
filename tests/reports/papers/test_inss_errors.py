"""Claims about the errors of InSS's performance model: printed numbers, held-out points, and profiles of few points."""

import os
from pathlib import Path
from typing import Any

import pytest

from instances.calibration.a100_inss import POINTS
from reports.measured import VARIABLE
from reports.papers.inss_errors import FIGURES, PRINTED_PCT, regression_errors_pct
from reports.runs import MissingDataError

CLAIMS = {claim.what: claim for figure in FIGURES for claim in figure.claims}
NO_RUNS: Any = None
"""These queries read measurements and the catalogue, but no run."""


def test_printed_errors_are_those_of_the_printed_times() -> None:
    """The paper computes its percentages from times with more digits; they differ by up to 0.13 points."""
    for row, printed in PRINTED_PCT.items():
        errors_pct = [100.0 * abs(p.published_ms / p.observed_ms - 1.0) for p in POINTS if p.row == row]
        assert (min(errors_pct), max(errors_pct)) == pytest.approx(printed, abs=0.13)


def test_every_row_of_the_tables_has_a_claim_that_names_its_held_out_points() -> None:
    assert set(PRINTED_PCT) == {point.row for point in POINTS}
    for row in PRINTED_PCT:
        (claim,) = [claim for what, claim in CLAIMS.items() if f", {row}: errors" in what]
        smallest, largest, names = claim.ours(NO_RUNS)
        assert smallest <= largest < 5.0
        held_out = [point for point in POINTS if point.row == row and not point.pinned]
        assert names.count(" at ") == len(held_out)
        assert names.startswith("held out: " if held_out else "all points are pinned")


def test_the_largest_error_is_at_most_the_papers() -> None:
    (claim,) = [claim for what, claim in CLAIMS.items() if "all 28 points" in what]
    largest, held_out, mean, pinned_largest, pinned = claim.ours(NO_RUNS)
    assert (held_out, pinned) == (10, 18)
    assert max(largest, pinned_largest) <= 4.97
    assert mean <= largest


def test_more_profiled_points_have_smaller_errors() -> None:
    if not (Path(os.environ.get(VARIABLE, "nowhere")) / "a100-gpulet" / "solo.csv").is_file():
        pytest.skip(f"{VARIABLE} names no folder that holds a100-gpulet/solo.csv")
    few, all_points = regression_errors_pct("a100"), regression_errors_pct("a100", every_point=True)
    assert len(few) == len(all_points) == 10 * (42 - 16)  # ten models, 42 measured configurations, 16 of them profiled
    assert all_points.mean() < few.mean()


def test_without_measurements_the_regression_has_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    regression_errors_pct.cache_clear()
    with pytest.raises(MissingDataError):
        regression_errors_pct("a100")
