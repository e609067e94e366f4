"""Colours of schedulers and models on the page, with counterparts for a dark background."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from reports.charts.palette import LineStyle, lightness, model_colour, scheduler_look

_MIN_LIGHTNESS_ON_DARK, _MAX_LIGHTNESS_ON_LIGHT = 62.0, 60.0
"""Least lightness on a dark background and largest on a light one, for a contrast of three to one."""

_DASHES = {"-": "", "--": "7 4", "-.": "7 3 1.5 3", ":": "1.5 3"}
"""SVG dashes by line style of Matplotlib."""


class PageLook(NamedTuple):
    """Style of a scheduler: colours on a light and a dark background, and Matplotlib's marker."""

    light: str
    dark: str
    marker: str


def page_look(scheduler: str) -> PageLook:
    """Return the style of a scheduler, with the hue and marker that it has in all figures."""
    return style_of(scheduler_look(scheduler))


def style_of(look: LineStyle) -> PageLook:
    """Return the page's style for a style of the figures."""
    return PageLook(*light_and_dark(look.colour), look.marker)


def dashes_of(line: Any) -> str:
    """Return SVG dashes for a line style of Matplotlib."""
    return _DASHES[line] if isinstance(line, str) else " ".join(f"{1.7 * length:g}" for length in line[1])


@cache
def light_and_dark(colour: str) -> tuple[str, str]:
    """Return two versions of a colour: one for a light background, and one for a dark background."""
    light = _mixed(colour, 0, lambda mixed_lightness: mixed_lightness <= _MAX_LIGHTNESS_ON_LIGHT)
    return light, _mixed(colour, 255, lambda mixed_lightness: mixed_lightness >= _MIN_LIGHTNESS_ON_DARK)


def model_colours(models: Iterable[str]) -> dict[str, str]:
    """Return the fill of every model's slots, light enough for black text."""
    return {model: model_colour(model) for model in models}


def model_classes(colours: Mapping[str, str]) -> dict[str, str]:
    """Return CSS classes by model; of several models with one colour, all but the first get a pattern."""
    fills = list(colours.values())
    repetition = [min(fills[:number].count(fill), 2) for number, fill in enumerate(fills)]
    return {
        model: f"m{number} again-{repetition[number]}" if repetition[number] else f"m{number}"
        for number, model in enumerate(colours)
    }


def _mixed(colour: str, grey: int, accepts: Callable[[float], bool]) -> str:
    """Return a colour ``#RRGGBB``, mixed with as little ``grey`` (0 black, 255 white) as possible.

    ``accepts`` is a test that the mixed colour's lightness must pass.
    """
    channels = bytes.fromhex(colour[1:])
    for percentage in range(0, 101, 5):
        mixed = "#" + "".join(f"{round(channel + (grey - channel) * percentage / 100):02X}" for channel in channels)
        if accepts(lightness(mixed)):
            return mixed
    raise AssertionError("black and white are dark and light enough")
