"""Pictures on the page: an SVG, the keys that switch its series, and its values as a file."""

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

_MANY, _FIRST = 12, 8
"""With more entrants than the first number, a picture shows the second number of them until others are switched on."""


@dataclass(frozen=True, slots=True)
class Key:
    """Key of an entrant: its name and style, and the ``series`` that it switches."""

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
    """Return the picture of series; those of one entrant share a key."""
    gids = {f"series-{number}": one for number, one in enumerate(series)}
    names = list(dict.fromkeys(one.name for one in series))
    shown = set(names[:_FIRST] if len(names) > _MANY else names)
    svg = inline_svg(
        draw_series(series, x, y, rules),
        name,
        label,
        {gid: one.look.colour for gid, one in gids.items()},
        {gid: [one.title(at, x, y) for at in one.marks] for gid, one in gids.items()},
        off={gid for gid, one in gids.items() if one.name not in shown},
    )
    keys = [_key(name, [gid for gid, one in gids.items() if one.name == name], gids, name in shown) for name in names]
    return Picture(name, svg, keys, csv_address(_table(series, x, y)))


def _key(name: str, own: Sequence[str], series: Mapping[str, ChartSeries], shown: bool) -> Key:
    first = series[own[0]]
    return Key(name, style_of(first.look), first.face, dashes_of(first.stroke) if first.line else None, own, shown)


def _table(series: Sequence[ChartSeries], x: Scale, y: Scale) -> list[Sequence[object]]:
    """Return the values of series: a column for each if they share their places, otherwise a line for each point."""
    places = [[place for place, _ in one.points] for one in series]
    if (
        series
        and all(own == places[0] for own in places)
        and not any(one.kind or one.words or one.spans for one in series)
    ):
        values = zip(places[0], *([value for _, value in one.points] for one in series), strict=True)
        return [[x.title, *(one.name for one in series)], *values]
    spans = ["least", "most"] if any(one.spans for one in series) else []
    lines = [
        [one.name, one.kind, *point, *(one.spans[at] if one.spans else [""] * len(spans)), *one.words[at : at + 1]]
        for one in series
        for at, point in enumerate(one.points)
    ]
    return [
        ["series", "kind", x.title, y.title, *spans, *(["remark"] if any(one.words for one in series) else [])],
        *lines,
    ]


def tradeoff_picture(name: str, to: str, found: Sequence[Tradeoff]) -> Picture:
    """Return the scatter of distance to ``to`` over decision time."""
    x = Scale(
        "Decision time", log=True, words=lambda time_s: f"{time_s:g} s" if time_s >= 1.0 else f"{1e3 * time_s:g} ms"
    )
    most = 1.25 * max(1.0, *(one.distance_pct[1] for one in found))
    y = Scale(f"Distance to the {to} (%)", domain=(0.0, min(100.0, most)))
    titles = {
        f"point-{number}": [
            f"{one.name}\n{with_percent_sign(one.distance_pct[1])} away, {seconds(one.time_s[1])}\n{one.words}"
        ]
        for number, one in enumerate(found)
    }
    label = f"Distance to the {to} over decision time; the table below has the numbers"
    svg = inline_svg(draw_tradeoffs(found, x, y), name, label, {}, titles)
    spans = ("least", "typical", "largest")
    head = ["scheduler", *(f"decision time, {end} (s)" for end in spans), *(f"distance, {end} (%)" for end in spans)]
    values = [[one.name, *one.time_s, *one.distance_pct, one.words] for one in found]
    return Picture(name, svg, [], csv_address([[*head, "holds"], *values]))


def csv_address(lines: Iterable[Sequence[object]]) -> str:
    """Return an address that holds a CSV file."""
    text = StringIO()
    csv.writer(text).writerows([f"{cell:.7g}" if isinstance(cell, float) else cell for cell in line] for line in lines)
    return f"data:text/csv;charset=utf-8,{quote(text.getvalue(), safe=',:;()=/')}"
