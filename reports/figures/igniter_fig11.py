"""iGniter, Fig. 11: latency of VGG-19 beside SSD by share."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.colocation_panel import draw_both
from reports.figure import Figure

MODELS = ("vgg19", "ssd")
SHARES_PCT = (20.0, 40.0, 50.0, 60.0, 80.0)
BATCH = 4
"""Batch of both models; the paper has batch 3, but the published pairs have powers of two only."""


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw both models into ``folder``; they need no runs."""
    settings = {f"{share:g}": ((BATCH, share), (BATCH, 100.0 - share)) for share in SHARES_PCT}
    return draw_both(FIGURE.name, MODELS, settings, "Share (%)", folder)


FIGURE = Figure(
    name="igniter-fig11",
    title="Latency of VGG-19 beside SSD by share",
    paper="iGniter, Fig. 11",
    shows="iGniter's errors are 0.04 to 2.32 % for VGG-19 and 0.89 to 7.61 % for SSD; those of gpu-lets+ 1.30 to "
    "4.19 % and 0.02 to 4.43 %.",
    look_for="Bars are measured (three runs, standard deviation); marks are predicted by each performance model. The "
    "measured pairs come from another publication of the authors' data, not from the paper's own runs.",
    cost="no runs, a second",
    needs=(),
    draw=draw,
)
