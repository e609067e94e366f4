"""iGniter, Fig. 13: latency of four co-located models."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from instances.measurements import Configuration
from reports.colocation_panel import draw_colocated
from reports.figure import Figure
from reports.figure_style import COLUMN_IN, note_height_in, page, save, write_note

MODELS = ("alexnet", "resnet50", "vgg19", "ssd")
BATCH, SHARE_PCT = 3, 25.0
_HEIGHT_IN = 2.6
_NOTES = ["Only the paper measures four co-located models; its errors are 1.53 to 5.02 % for iGniter."]


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the four models into ``folder``; they need no runs."""
    places = [Configuration(model, BATCH, SHARE_PCT) for model in MODELS]
    groups = [(own, *(other for other in places if other != own)) for own in places]
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(_NOTES, COLUMN_IN)) as sheet:
        ax = sheet.subplots()
        draw_colocated(ax, groups, MODELS, ())
        ax.set(title=f"Batch {BATCH} at {SHARE_PCT:g} % each", ylabel="Latency (ms)")
        ax.legend()
        write_note(sheet, _NOTES)
        return save(sheet, FIGURE.name, folder)


FIGURE = Figure(
    name="igniter-fig13",
    title="Latency of four co-located models",
    paper="iGniter, Fig. 13",
    shows="iGniter predicts the latency of four co-located models with errors of 1.53 to 5.02 %; gpu-lets+ has no "
    "prediction for more than two.",
    look_for="Predictions of the models differ; only the paper's range of errors is known. Its text states an active "
    "time of 22.31 ms for VGG-19. gpulet's growths are those of the three pairs, added up.",
    cost="no runs, a second",
    needs=(),
    draw=draw,
)
