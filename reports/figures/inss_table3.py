"""InSS, Table 3: GPU time of co-located models by batch size."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from instances.calibration.a100_inss import TABLE_3
from reports.figure import Figure
from reports.inss_points import draw_points


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the table into ``folder``; it needs no runs."""
    return draw_points(FIGURE.name, TABLE_3, "Batch", lambda point: point.own.batch, folder)


FIGURE = Figure(
    name="inss-table3",
    title="GPU time of co-located models by batch size",
    paper="InSS, Table 3",
    shows="Errors of the paper's own predictions are 0.04 to 3.3 %, at 20 % of an A100 for each model.",
    look_for="Filled marks, which the calibration did not use, lie within 5 % of the observed bars. Hollow marks were "
    "pinned and show only that the model can fit them.",
    cost="no runs, a second",
    needs=(),
    draw=draw,
)
