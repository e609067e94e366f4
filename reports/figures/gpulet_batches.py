"""gpulet ATC'22, Fig. 4, and arXiv'21, Fig. 3: latency of a batch by the share of the GPU."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.measurements import Configuration
from instances.performance.prediction import latencies_ms
from instances.suites.gpulet import ARXIV_SLO_MS, ATC_SLO_MS
from reports.figure import Figure
from reports.palette import STAR, shades
from reports.panels import Curve, Panel, line, panels_figure

MODELS = ("googlenet", "resnet50", "ssd-mobilenet", "vgg16")
BATCHES = (1, 2, 4, 8, 16, 32)
SHARES_PCT = (20.0, 40.0, 50.0, 60.0, 80.0, 100.0)

_LOOKS = shades(len(BATCHES))


def alone_ms(model: str, batch: int) -> Floats:
    """Return the inference time of a batch alone on an RTX 2080 Ti, by share, shape (shares,)."""
    groups = [[Configuration(model, batch, share_pct)] for share_pct in SHARES_PCT]
    return np.array([times[0] for times in latencies_ms(gpu_type("rtx2080ti"), "gpulet", groups)])


def gain(model: str, batch: int) -> float:
    """Return the ratio of a batch's time on a fifth of the GPU to its time on the whole GPU."""
    times_ms = alone_ms(model, batch)
    return float(times_ms[0] / times_ms[-1])


def _panels(slo_ms: Mapping[str, float]) -> Callable[[], Sequence[Panel]]:
    """Return a function that draws the four models; the papers' SLOs are twice a batch of 32 on the whole GPU."""

    def panels() -> Sequence[Panel]:
        found = []
        for model in MODELS:
            curves = [
                Curve(f"batch {batch}", SHARES_PCT, alone_ms(model, batch), line(look))
                for batch, look in zip(BATCHES, _LOOKS, strict=True)
            ]
            curves.append(Curve("half the paper's SLO", (100.0,), (slo_ms[model] / 2.0,), STAR))
            axes = {"xlabel": "Share (%)", "ylabel": "Latency (ms)", "xticks": SHARES_PCT}
            found.append(Panel(model, curves, axes))
        return found

    return panels


def _figure(name: str, paper: str, slo_ms: Mapping[str, float], look_for: str) -> Figure:
    return panels_figure(
        _panels(slo_ms),
        columns=2,
        name=name,
        title="Latency of a batch by the share of the GPU",
        paper=paper,
        shows="Large batches become much faster with the share, small ones hardly. SLOs are twice the latency of a "
        "batch of 32 on the whole GPU.",
        look_for=look_for,
    )


ATC = _figure(
    "gpulet-fig4",
    "gpulet ATC'22, Fig. 4",
    ATC_SLO_MS,
    "Small batches are flat and large ones steep, as in the paper. Large batches have no knee: on a fifth of the GPU "
    "they take more than four times as long. Times are calibrated: shaped like another GPU's and pinned to the stars, "
    "which therefore validate nothing.",
)
ARXIV = _figure(
    "gpulet-arxiv-fig3",
    "gpulet arXiv'21, Fig. 3",
    ARXIV_SLO_MS,
    "The curves are those of gpulet-fig4, pinned to the ATC'22 paper. The stars of this version lie below them, since "
    "it was measured with an older PyTorch.",
)
