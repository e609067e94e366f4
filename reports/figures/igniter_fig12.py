"""iGniter, Fig. 12: latency of AlexNet beside ResNet-50 by batch size."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.colocation_panel import draw_both
from reports.figure import Figure

MODELS = ("alexnet", "resnet50")
BATCHES = (2, 4, 8, 16, 32)
"""Batches; the paper also has 1, but the published pairs begin at 2."""

SHARE_PCT = 50.0


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw both models into ``folder``; they need no runs."""
    settings = {f"{batch}": ((batch, SHARE_PCT), (batch, SHARE_PCT)) for batch in BATCHES}
    return draw_both(FIGURE.name, MODELS, settings, "Batch", folder)


FIGURE = Figure(
    name="igniter-fig12",
    title="Latency of AlexNet beside ResNet-50 by batch size",
    paper="iGniter, Fig. 12",
    shows="iGniter's errors are 3.91 to 5.90 % for AlexNet and 1.10 to 9.29 % for ResNet-50; those of gpu-lets+ "
    "2.67 to 6.23 % and 0.78 to 9.76 %.",
    look_for="Bars are measured (three runs, standard deviation); marks are predicted by each performance model. The "
    "measured pairs come from another publication of the authors' data, not from the paper's own runs.",
    cost="no runs, a second",
    needs=(),
    draw=draw,
)
