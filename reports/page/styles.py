"""Colours of schedulers and models on the page, with counterparts for a dark background."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from reports.charts.palette import LineStyle, lightness, model_colour, scheduler_look

_LEAST_ON_DARK, _MOST_ON_LIGHT = 62.0, 60.0
"""Limits of lightness for a contrast of three to one between marks and background."""

_DASHES = {"-": "", "--": "7 4", "-.": "7 3 1.5 3", ":": "1.5 3"}


class PageLook(NamedTuple):
    """Style of a scheduler: colours on a light and a dark background, and Matplotlib's marker."""

    light: str
    dark: str
    marker: str


def page_look(scheduler: str) -> PageLook:
    """Return the style of a scheduler, with the hue and marker of all figures."""
    return style_of(scheduler_look(scheduler))


def style_of(look: LineStyle) -> PageLook:
    """Return the counterpart of a style of the figures."""
    return PageLook(*on_both(look.colour), look.marker)


def dashes_of(line: Any) -> str:
    """Return SVG's dashes for a line style of Matplotlib's."""
    return _DASHES[line] if isinstance(line, str) else " ".join(f"{1.7 * length:g}" for length in line[1])


@cache
def on_both(colour: str) -> tuple[str, str]:
    """Return the counterparts of a colour that stand out on a light and on a dark background."""
    light = _mixed(colour, 0, lambda now: now <= _MOST_ON_LIGHT)
    return light, _mixed(colour, 255, lambda now: now >= _LEAST_ON_DARK)


def model_colours(models: Iterable[str]) -> dict[str, str]:
    """Return the fill of every model's slots, light enough for black text."""
    return {model: model_colour(model) for model in models}


def _mixed(colour: str, other: int, enough: Callable[[float], bool]) -> str:
    """Mix ``#RRGGBB`` with as little black or white as is ``enough``."""
    channels = bytes.fromhex(colour[1:])
    for part in range(0, 101, 5):
        mixed = "#" + "".join(f"{round(c + (other - c) * part / 100):02X}" for c in channels)
        if enough(lightness(mixed)):
            return mixed
    raise AssertionError("black and white are dark and light enough")
