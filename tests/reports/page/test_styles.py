"""Looks of schedulers on light and dark backgrounds, and patterns of models."""

from bench.schedulers.registry import entries
from reports.charts.palette import lightness, scheduler_look
from reports.page.instance_page import InstancePage
from reports.page.styles import page_look


def test_marks_stand_out_on_either_background(subtests):
    for name in (*sorted(entries()), "somebody-elses", "cpsat@igniter"):
        with subtests.test(scheduler=name):
            look = page_look(name)
            assert lightness(look.light) <= 60.0
            assert lightness(look.dark) >= 62.0
            assert look.marker == scheduler_look(name).marker


def test_colours_with_enough_contrast_are_not_changed():
    assert page_look("igniter").light == scheduler_look("igniter").colour


def test_models_that_share_a_colour_differ_in_their_pattern():
    colours = {"a": "#CCCCCC", "b": "#AAAAAA", "c": "#CCCCCC", "d": "#CCCCCC"}
    page = InstancePage(None, [], colours, None, None, None, None, [], {})
    assert page.classes == {"a": "m0", "b": "m1", "c": "m2 again-1", "d": "m3 again-2"}
