"""InSS, Table 4: GPU time of co-located models by share."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from instances.calibration.a100_inss import TABLE_4, PublishedTime
from reports.figure import Figure
from reports.inss_points import draw_points


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the table into ``folder``; it needs no runs."""
    return draw_points(FIGURE.name, TABLE_4, "Share (%)", lambda point: _share_pct(point), folder)


def _share_pct(point: PublishedTime) -> float:
    """Return the share that varies along a row: the neighbour's where the observed model's is fixed."""
    return point.others[0].share_pct if point.row == "E*&M1" else point.own.share_pct


FIGURE = Figure(
    name="inss-table4",
    title="GPU time of co-located models by share",
    paper="InSS, Table 4",
    shows="Errors of the paper's own predictions are 0.03 to 5 %, at batch 8 for each model.",
    look_for="Filled marks, which the calibration did not use, lie within 5 % of the observed bars. Hollow marks were "
    "pinned and show only that the model can fit them.",
    cost="no runs, a second",
    needs=(),
    draw=draw,
)
