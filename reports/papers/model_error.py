"""GPUs and late workloads that the error of a performance model costs on measured co-locations."""

from collections.abc import Sequence
from functools import cache, partial

from bench.ledger.row import Row
from instances.catalogue import gpu_type
from instances.files.light_profile import light_profile_in
from instances.model_error.cells import read_cells
from instances.model_error.experiment import MEASURED, NO_INTERFERENCE, Experiment, ModelCost, fit_beside, model_cost
from instances.performance import interference_model_names
from instances.performance.profile_fit import GpuFacts
from reports.charts.page import Page
from reports.charts.palette import PERFORMANCE_LOOKS, QUIET
from reports.charts.panels import MEASURED as MEASURED_LOOK
from reports.charts.panels import Curve, Panel, Style, draw_panels
from reports.figure import Figure
from reports.measured import measured_solo, measurement_folder, missing_note, nothing_measured
from reports.runs import MissingDataError

GPUS = ("v100", "a100")

MOST_SLACK = {"v100": 1.6, "a100": 1.8}
"""Largest slack of a random workload.

Measured slowdowns of the A100 are larger: with less slack, every workload would need a GPU of its own.
"""

MARGINS = {"v100": (1.02, 1.04, 1.07, 1.1, 1.15, 1.2), "a100": (1.04, 1.08, 1.12, 1.18, 1.25, 1.35, 1.5, 1.8)}
"""Margins of the curves, besides none."""

NO_INTERFERENCE_LOOK: Style = {"color": QUIET, "marker": "x", "linestyle": ":"}


@cache
def model_costs(gpu: str, margins: Sequence[float] = ()) -> list[ModelCost]:
    """Return GPUs, late workloads and margins by performance model on the measured pairs of a GPU type.

    Parameters
    ----------
    gpu
        Name of the GPU type.
    margins
        Margins of further plans, beside plans without a margin and plans with the calibrated one.

    Raises
    ------
    MissingDataError
        If the measurements are not available.
    """
    folder = measurement_folder(gpu)
    if folder is None:
        raise MissingDataError("no measurements")
    solo = measured_solo(gpu)
    # Share units, memory and price have no effect on latencies.
    facts = GpuFacts(gpu, 100, 1.0, 1.0, gpu_type(gpu).hardware.pcie_bytes_per_ms)
    setting = Experiment(most_slack=MOST_SLACK[gpu], margins=margins, left_out=("cell",))
    return model_cost(read_cells(folder, solo), solo, fit_beside(facts, gpu, solo, light_profile_in(folder)), setting)


def _panel(gpu: str, costs: Sequence[ModelCost]) -> Panel:
    curves = []
    for name in (NO_INTERFERENCE, *interference_model_names()):
        uncalibrated = sorted(
            (cost for cost in costs if cost.model == name and cost.level is None), key=lambda cost: cost.margin.value
        )
        style = NO_INTERFERENCE_LOOK if name == NO_INTERFERENCE else PERFORMANCE_LOOKS[name].marked
        curves.append(_curve(name, uncalibrated, style))
    optimum = [cost for cost in costs if cost.model == MEASURED]
    curves.append(_curve("measured latencies: the optimum", optimum, MEASURED_LOOK))
    return Panel(
        gpu.upper(), curves, {"xlabel": "Late workloads (%)", "ylabel": "GPUs for twelve workloads", "ylim": (6, 12)}
    )


def _curve(label: str, costs: Sequence[ModelCost], style: Style) -> Curve:
    return Curve(label, [100.0 * cost.violations.value for cost in costs], [cost.gpus.value for cost in costs], style)


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    panels = []
    for gpu in GPUS:
        try:
            panels.append(_panel(gpu, model_costs(gpu, MARGINS[gpu])))
        except MissingDataError:
            continue
    if not panels:
        raise nothing_measured(figure, GPUS)
    return draw_panels(figure, rows, panels=lambda: panels, notes=partial(missing_note, *GPUS), columns=2)


FIGURES = (
    Figure(
        name="model-error",
        title="GPUs over late workloads, by performance model, as the margin grows",
        paper="ours",
        shows="The papers state errors of their performance models, but not what these cost; this figure is new.",
        look_for="Every curve begins at the right without a margin; a larger margin makes fewer workloads late and "
        "takes more GPUs. The circle is the least number of GPUs that the measured latencies permit. A curve "
        "that is nearer to it belongs to a model whose errors cost less.",
        cost="no runs; the fits and plans take a minute and a half on one core",
        draws=_draw,
    ),
)
