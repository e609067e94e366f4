"""The page of the library: a line for every entry, and a mark for every entry with a plan."""

import re
from pathlib import Path

from bench.ledger.store import Ledger
from instances.library import LIBRARY
from reports.charts.page import styled
from reports.charts.series import HEIGHT, WIDTH
from reports.page.entries.rows import library_picture
from reports.page.site import site_files


def test_every_entry_has_a_line_and_every_plan_a_mark(tmp_path: Path) -> None:
    lines = LIBRARY.summaries()
    with Ledger(tmp_path / "empty.sqlite", create=True) as ledger:
        files = site_files(ledger)
    page = files["library.html"]
    assert re.findall(r'<tr><th scope="row">([^<]+)</th>', page) == [line.name for line in lines]
    assert page.count("</title></use>") == sum(line.value is not None for line in lines)
    assert page.count("<td>proven") == sum(line.closed for line in lines)
    assert 'href="library.html"' in files["index.html"]


def test_marks_lie_inside_the_drawing() -> None:
    with styled():
        svg = library_picture(LIBRARY.summaries()).svg
    marks = re.findall(r'<use x="([-\d.]+)" y="([-\d.]+)"', svg)
    assert len(marks) == sum(line.value is not None for line in LIBRARY.summaries())
    assert all(0.0 < float(x) < WIDTH and 0.0 < float(y) < HEIGHT for x, y in marks)
