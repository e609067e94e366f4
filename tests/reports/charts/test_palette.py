"""The palette: the same look for the same name for ever, and looks that people tell apart, in grey too."""

from importlib.metadata import entry_points
from itertools import combinations

import pytest
from matplotlib.colors import is_color_like
from matplotlib.lines import Line2D

from reports.charts.palette import GREEN, LineStyle, lightness, model_colour, pale, scheduler_look

BUILT_IN = ["igniter", "ffd+", "ffd++", "cpsat"]
MODELS = ["alexnet", "resnet50", "vgg19", "ssd"]


def luma(colour):
    """Return the grey, 0 to 100, that a simple conversion (ITU-R BT.601) makes of a colour."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 2.55


@pytest.mark.parametrize(("colour", "expected"), [("#000000", 0.0), ("#FFFFFF", 100.0), ("#777777", 50.03)])
def test_lightness_of_greys(colour, expected):
    assert lightness(colour) == pytest.approx(expected, abs=0.01)


def test_lightness_of_green_exceeds_that_of_blue():
    assert lightness("#00FF00") == pytest.approx(87.7, abs=0.1)
    assert lightness("#0000FF") == pytest.approx(32.3, abs=0.1)


@pytest.mark.parametrize("grey", [lightness, luma])
def test_built_in_schedulers_differ_in_grey(grey):
    greys = [grey(scheduler_look(name).colour) for name in BUILT_IN]
    assert min(abs(a - b) for a, b in combinations(greys, 2)) >= 12.0


@pytest.mark.parametrize("grey", [lightness, luma])
def test_models_differ_in_grey(grey):
    greys = [grey(model_colour(name)) for name in MODELS]
    assert min(abs(a - b) for a, b in combinations(greys, 2)) >= 8.0


def test_built_in_schedulers_share_neither_colour_nor_marker_nor_line():
    looks = [scheduler_look(name) for name in BUILT_IN]
    for part in ("colour", "marker", "line"):
        assert len({getattr(look, part) for look in looks}) == len(BUILT_IN)


def test_no_two_schedulers_have_one_colour_and_marker(monkeypatch):
    """Any set of built-in schedulers and of plugins can stand in one figure."""
    monkeypatch.setattr("reports.charts.palette._others", {})
    built_in = [point.name for point in entry_points(group="bench.schedulers")]
    plugins = [f"plugin-{number}" for number in range(29)]
    looks = [(look.colour, look.marker) for look in map(scheduler_look, [*built_in, *plugins])]
    assert len(set(looks)) == len(looks)
    assert GREEN not in {colour for colour, _ in looks}


def test_an_unknown_scheduler_looks_the_same_in_every_process(monkeypatch):
    monkeypatch.setattr("reports.charts.palette._others", {})
    assert scheduler_look("mine@igniter") == LineStyle("#56B4E9", "P", "-.")
    assert model_colour("resnet152") == "#BBE1F6"


def test_unknown_schedulers_have_other_colours_than_those_of_the_first_figures():
    looks = [scheduler_look(f"scheduler-{number}") for number in range(200)]
    assert not {look.colour for look in looks} & {scheduler_look(name).colour for name in BUILT_IN}


def test_matplotlib_knows_every_look():
    for look in [scheduler_look(f"scheduler-{number}") for number in range(100)] + list(map(scheduler_look, BUILT_IN)):
        assert is_color_like(look.colour)
        assert look.marker in Line2D.markers
        assert look.line in Line2D.lineStyles


def test_black_text_is_legible_on_every_model():
    colours = [model_colour(name) for name in MODELS + [f"model-{number}" for number in range(50)]]
    assert min(map(lightness, colours)) > 55.0


def test_pale_keeps_the_hue():
    assert pale("#000000") == "#999999"
    assert pale("#FF0000") == "#FF9999"
