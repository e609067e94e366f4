"""Two panels of W10 of iGniter's twelve workloads over time, tuned reactively and planned ahead."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.online.control import Pace
from bench.online.result import OnlineRun
from reports.constant_load import constant_course
from reports.figure_style import COLUMN_IN, page, save, stroke
from reports.palette import scheduler_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WORKLOAD = "W10"

_POLICIES = {"gslice+": "reactive", "igniter": "static"}
"""Policies by scheduler of the first plan."""

_SECONDS, _PERIOD_S = 120.0, 10.0
_HEIGHT_IN = 2.8


@cache
def courses() -> Mapping[str, OnlineRun]:
    """Serve the workloads under each policy, once for all figures."""
    pace = Pace(_SECONDS, _PERIOD_S, _PERIOD_S)
    return {scheduler: constant_course(scheduler, policy, pace) for scheduler, policy in _POLICIES.items()}


def draw_two_panels(
    name: str,
    folder: Path,
    series: Callable[[OnlineRun], tuple[Sequence[float], Sequence[float]]],
    label: "Callable[[Axes, Axes], None]",
) -> list[Path]:
    """Draw online runs as steps, one per period.

    Parameters
    ----------
    name, folder
        Name and folder of the figure's files.
    series
        Values by period of the upper and the lower panel.
    label
        Function that labels both panels.
    """
    with page(COLUMN_IN, _HEIGHT_IN) as sheet:
        panels = sheet.subplots(2, 1, sharex=True)
        handles = []
        for scheduler, course in courses().items():
            look = scheduler_look(scheduler)
            for ax, values in zip(panels, series(course), strict=True):
                edges_s = [_PERIOD_S * period for period in range(len(values) + 1)]
                ax.stairs(values, edges_s, baseline=None, color=look.colour, linestyle=look.line, linewidth=1.1)
            handles.append(stroke(scheduler, color=look.colour, linestyle=look.line))
        upper, lower = panels
        label(upper, lower)
        for ax in panels:
            ax.grid()
        lower.set(xlabel="Time (s)", xlim=(0.0, _SECONDS))
        sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        return save(sheet, name, folder)
