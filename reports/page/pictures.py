"""Pictures on the page: an SVG, the keys that show and hide its series, and its values as a CSV file."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from urllib.parse import quote

from markupsafe import Markup

from bench.formatting import seconds, with_percent_sign
from reports.charts.scales import Scale
from reports.charts.series import ChartSeries, Rule, draw_series
from reports.charts.tradeoff import Tradeoff, draw_tradeoffs
from reports.page.inline_svg import inline_svg
from reports.page.styles import PageLook, dashes_of, style_of

_MANY_ENTRANTS, _INITIALLY_SHOWN = 12, 8
"""A picture with more entrants than the first number initially shows only the second number of entrants."""


@dataclass(frozen=True, slots=True)
class Key:
    """Key of an entrant: its name and style, and the ``series`` (gids) that the key shows and hides.

    ``face`` is the fill of the marks (``ChartSeries.face``); ``dashes`` is ``None`` if the series has no line.
    ``shown`` tells whether the series are shown at first.
    """

    name: str
    look: PageLook
    face: str
    dashes: str | None
    series: Sequence[str]
    shown: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """Picture with a ``name`` that is unique on its page; ``csv`` is the address of its values."""

    name: str
    svg: Markup
    keys: Sequence[Key]
    csv: str


def series_picture(
    name: str, label: str, series: Sequence[ChartSeries], x: Scale, y: Scale, rules: Iterable[Rule] = ()
) -> Picture:
    """Return the picture of series; the series of one entrant share a key."""
    gids = {f"series-{number}": chart_series for number, chart_series in enumerate(series)}
    names = list(dict.fromkeys(chart_series.name for chart_series in series))
    shown = set(names[:_INITIALLY_SHOWN] if len(names) > _MANY_ENTRANTS else names)
    svg = inline_svg(
        draw_series(series, x, y, rules),
        name,
        label,
        {gid: chart_series.look.colour for gid, chart_series in gids.items()},
        {gid: [chart_series.title(point, x, y) for point in chart_series.marks] for gid, chart_series in gids.items()},
        hidden={gid for gid, chart_series in gids.items() if chart_series.name not in shown},
    )
    keys = [
        _key(
            entrant,
            [gid for gid, chart_series in gids.items() if chart_series.name == entrant],
            gids,
            entrant in shown,
        )
        for entrant in names
    ]
    return Picture(name, svg, keys, csv_address(_table(series, x, y)))


def _key(name: str, gids: Sequence[str], series_of: Mapping[str, ChartSeries], shown: bool) -> Key:
    first = series_of[gids[0]]
    return Key(name, style_of(first.look), first.face, dashes_of(first.stroke) if first.line else None, gids, shown)


def _table(series: Sequence[ChartSeries], x: Scale, y: Scale) -> list[Sequence[object]]:
    """Return the values of series as lines of a table.

    Series with equal x positions, and without kinds, remarks and spans, have a column each. Otherwise the table has a
    line for each point.
    """
    positions = [[position for position, _ in chart_series.points] for chart_series in series]
    if (
        series
        and all(series_positions == positions[0] for series_positions in positions)
        and not any(chart_series.kind or chart_series.words or chart_series.spans for chart_series in series)
    ):
        values = zip(
            positions[0], *([value for _, value in chart_series.points] for chart_series in series), strict=True
        )
        return [[x.title, *(chart_series.name for chart_series in series)], *values]
    spans = ["least", "most"] if any(chart_series.spans for chart_series in series) else []
    lines = [
        [
            chart_series.name,
            chart_series.kind,
            *point,
            *(chart_series.spans[index] if chart_series.spans else [""] * len(spans)),
            *chart_series.words[index : index + 1],
        ]
        for chart_series in series
        for index, point in enumerate(chart_series.points)
    ]
    return [
        [
            "series",
            "kind",
            x.title,
            y.title,
            *spans,
            *(["remark"] if any(chart_series.words for chart_series in series) else []),
        ],
        *lines,
    ]


def tradeoff_picture(name: str, reference: str, tradeoffs: Sequence[Tradeoff]) -> Picture:
    """Return the scatter of distance to ``reference`` over decision time."""
    x = Scale(
        "Decision time", log=True, words=lambda time_s: f"{time_s:g} s" if time_s >= 1.0 else f"{1e3 * time_s:g} ms"
    )
    largest_pct = 1.25 * max(1.0, *(tradeoff.distance_pct[1] for tradeoff in tradeoffs))
    y = Scale(f"Distance to the {reference} (%)", domain=(0.0, min(100.0, largest_pct)))
    titles = {
        f"point-{number}": [
            f"{tradeoff.name}\n{with_percent_sign(tradeoff.distance_pct[1])} away, "
            f"{seconds(tradeoff.time_s[1])}\n{tradeoff.words}"
        ]
        for number, tradeoff in enumerate(tradeoffs)
    }
    label = f"Distance to the {reference} over decision time; the table below has the numbers"
    svg = inline_svg(draw_tradeoffs(tradeoffs, x, y), name, label, {}, titles)
    spans = ("least", "typical", "largest")
    head = ["scheduler", *(f"decision time, {end} (s)" for end in spans), *(f"distance, {end} (%)" for end in spans)]
    values = [[tradeoff.name, *tradeoff.time_s, *tradeoff.distance_pct, tradeoff.words] for tradeoff in tradeoffs]
    return Picture(name, svg, [], csv_address([[*head, "holds"], *values]))


def csv_address(lines: Iterable[Sequence[object]]) -> str:
    """Return a data address with the text of a CSV file."""
    text = StringIO()
    csv.writer(text).writerows([f"{cell:.7g}" if isinstance(cell, float) else cell for cell in line] for line in lines)
    return f"data:text/csv;charset=utf-8,{quote(text.getvalue(), safe=',:;()=/')}"
