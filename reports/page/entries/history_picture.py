"""Picture of an entry's history: its best value and its best bound over the days."""

from collections.abc import Sequence
from datetime import date, timedelta

from bench.ledger.row import UNITS
from instances.library import LibraryFinding
from instances.library.entry import NONE
from reports.charts.palette import DEEP_BLUE, ORANGE, LineStyle
from reports.charts.scales import Scale
from reports.charts.series import ChartSeries
from reports.page.pictures import Picture, series_picture

_LOOKS = {"plan": LineStyle(DEEP_BLUE, "o", "-"), "bound": LineStyle(ORANGE, "v", ":")}
_NAMES = {"plan": "best value", "bound": "best bound"}
_FEWEST_DAYS = 7
"""Smallest number of days of the axis; with fewer, several ticks would name the same day."""


def history_picture(history: Sequence[LibraryFinding], objective: str) -> Picture | None:
    """Return the findings of an entry over the days; ``None`` without a finding that has a value.

    A finding whose day is not known is left out.
    """
    dated = [finding for finding in history if finding.date and finding.value != NONE]
    if not dated:
        return None
    days = [date.fromisoformat(finding.date).toordinal() for finding in dated]
    first, last = min(days) - 1, max(max(days) + 1, min(days) + _FEWEST_DAYS - 1)
    series = [
        ChartSeries(
            _NAMES[kind],
            look,
            [(float(date.fromisoformat(finding.date).toordinal()), float(finding.value)) for finding in of_kind],
            words=[finding.by for finding in of_kind],
            line="dotted steps" if kind == "bound" else "steps",
            until=float(last),
        )
        for kind, look in _LOOKS.items()
        if (of_kind := [finding for finding in dated if finding.kind == kind])
    ]
    values = [float(finding.value) for finding in dated]
    # A value and its bound may differ by less than an axis can show.
    margin = max(0.1 * (max(values) - min(values)), 0.05 * max(map(abs, values))) or 1.0
    unit = UNITS.get(objective, "")
    return series_picture(
        "history",
        "Best value and best bound over the days; the table below has the numbers",
        series,
        Scale("Day", domain=(float(first), float(last)), words=_day),
        Scale(
            f"Value and bound ({unit})",
            domain=(min(values) - margin, max(values) + margin),
            unit=f" {unit}",
        ),
    )


def _day(number: float) -> str:
    """Return a day such as ``25 Nov 26``."""
    return (date.min + timedelta(days=round(number) - 1)).strftime("%-d %b %y")
