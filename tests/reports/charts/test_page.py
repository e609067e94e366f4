"""Pages of figures: they have our style whatever the user's settings are, which stay unchanged."""

import matplotlib
import pytest

from reports.charts.page import COLUMN_IN, FULL_WIDTH_IN, PageFormat, page, stroke, styled, with_legend


def test_the_style_applies_to_the_page_and_to_nothing_else():
    with matplotlib.rc_context({"font.size": 31.0, "axes.facecolor": "green"}):
        with styled():
            sheet = page(COLUMN_IN, 2.0)
            assert matplotlib.rcParams["font.size"] == 7.0
            assert matplotlib.rcParams["axes.facecolor"] == "white"
            assert matplotlib.rcParams["svg.fonttype"] == "none"
            assert matplotlib.rcParams["pdf.fonttype"] == 42
        assert matplotlib.rcParams["font.size"] == 31.0
    assert tuple(sheet.get_size_inches()) == pytest.approx((COLUMN_IN, 2.0))
    assert sheet.get_layout_engine() is not None


def test_a_page_format_has_its_own_width_and_may_omit_the_notes():
    with styled(PageFormat(COLUMN_IN, notes=False)):
        sheet = page(FULL_WIDTH_IN, 2.0, ["a note"])
        with_legend(sheet, [stroke(f"a long name of a scheduler {number}") for number in range(5)])
        sheet.subplots()
        sheet.draw_without_rendering()
        (legend,) = sheet.legends
        assert legend.get_window_extent().width <= sheet.bbox.width
    assert tuple(sheet.get_size_inches()) == pytest.approx((COLUMN_IN, 2.0))
    assert not sheet.texts
    assert sheet.get_supxlabel() == ""
    with styled():
        assert page(FULL_WIDTH_IN, 2.0).get_figwidth() == FULL_WIDTH_IN


def test_a_dollar_sign_is_a_price():
    with styled():
        sheet = page(COLUMN_IN, 1.0)
        text = sheet.text(0.0, 0.0, "$1/h or $2/h")
        assert not text.get_parse_math()


def test_notes_are_wrapped_to_the_page_and_add_to_its_height():
    lines = ["a note that is somewhat longer than the width of one column of a paper, much longer", "a short one"]
    with styled():
        sheet = page(COLUMN_IN, 2.0, lines)
        sheet.subplots()
        sheet.draw_without_rendering()
        extent = sheet.texts[0].get_window_extent() if sheet.texts else sheet._supxlabel.get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= sheet.bbox.width
    assert extent.height <= (sheet.get_figheight() - 2.0) * sheet.dpi


def test_a_page_without_notes_has_the_given_height():
    with styled():
        sheet = page(COLUMN_IN, 1.0)
        assert sheet.get_supxlabel() == ""
        assert sheet.get_figheight() == 1.0
