"""Charts of series on the page: marks of points, corners of lines, spans, fills and keys."""

import re
from html import unescape

import pytest

from reports.charts.page import styled
from reports.charts.palette import scheduler_look
from reports.charts.scales import Scale
from reports.charts.series import HEIGHT, WIDTH, ChartSeries
from reports.page.pictures import series_picture

LOOK = scheduler_look("igniter")


def marks(svg):
    """Return (x, y, title lines) of all marks."""
    uses = re.findall(r'<use x="([-\d.]+)" y="([-\d.]+)" [^>]*><title>(.*?)</title>', svg, flags=re.S)
    return [(float(x), float(y), unescape(title).split("\n")) for x, y, title in uses]


def test_points_far_outside_the_axes_have_marks_inside_the_drawing():
    points = {"near": [(0.0, 3.0), (1.0, 0.0)], "far": [(0.0001, 900.0)], "below": [(2.0, -5000.0)]}
    series = [
        ChartSeries(name, LOOK, points_of_series, line="steps", until=10.0) for name, points_of_series in points.items()
    ]
    x, y = Scale("Time", log=True, domain=(0.001, 10.0), unit=" s"), Scale("Distance", bent=True, unit=" %")
    with styled():
        picture = series_picture("drawn", "Drawn", series, x, y)
    drawn = marks(picture.svg)
    assert [title for *_, title in drawn] == [
        ["near", "0 s: 3 %"],
        ["near", "1 s: 0 %"],
        ["far", "0.0001 s: 900 %"],
        ["below", "2 s: -5,000 %"],
    ]
    assert all(0.0 < left < WIDTH and 0.0 < top < HEIGHT for left, top, _ in drawn)


def test_corners_are_the_ends_the_changes_and_the_marks_of_a_line():
    values = [0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 5.0]
    series = ChartSeries("a", LOOK, list(enumerate(values)), marked=(5,))
    assert series.corners() == [0, 2, 3, 5, 6]


def test_spans_and_fills_are_drawn_with_their_series():
    series = [
        ChartSeries("a", LOOK, [(1.0, 2.0), (2.0, 3.0)], spans=[(1.0, 4.0), (3.0, 3.0)], words=["one run", "two runs"]),
        ChartSeries("b", LOOK, [(1.0, 9.0)], line="", fill="#009E73", variant=1),
    ]
    with styled():
        picture = series_picture("drawn", "Drawn", series, Scale("x"), Scale("y"))
    assert {title[0] for *_, title in marks(picture.svg)} == {"a", "b"}
    assert marks(picture.svg)[0][2] == ["a", "one run", "1: 2"]
    assert picture.svg.count('data-series="series-0"') == 2  # the line and the spans
    assert "var(--good)" in picture.svg
    assert "#009e73" not in picture.svg.lower()
    assert [(key.name, key.dashes is None) for key in picture.keys] == [("a", False), ("b", True)]


def test_pictures_are_reproducible_and_names_are_escaped():
    series = [ChartSeries("</title><script>", LOOK, [(1.0, 2.0)])]
    with styled():
        first, second = (series_picture("drawn", 'A "label"', series, Scale("<x>"), Scale("y")) for _ in range(2))
    assert first == second
    assert "<script>" not in first.svg
    assert 'aria-label="A &#34;label&#34;"' in first.svg


@pytest.mark.parametrize("count", [12, 13])
def test_of_many_series_the_first_are_shown(count):
    series = [ChartSeries(f"s{number}", LOOK, [(1.0, float(number))], variant=number) for number in range(count)]
    with styled():
        picture = series_picture("drawn", "Drawn", series, Scale("x"), Scale("y"))
    shown = count if count == 12 else 8
    assert sum(key.shown for key in picture.keys) == shown
    assert picture.svg.count("series off") == count - shown
