"""Colours of schedulers and models on the page, with counterparts for a dark background."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from reports.charts.palette import lightness, model_colour, scheduler_look

_LEAST_ON_DARK, _MOST_ON_LIGHT = 62.0, 60.0
"""Limits of lightness for a contrast of three to one between marks and background."""

_DASHES = {"-": "", "--": "7 4", "-.": "7 3 1.5 3", ":": "1.5 3"}


class PageLook(NamedTuple):
    """Style of a scheduler: colours on a light and a dark background, Matplotlib's marker, and SVG's dashes."""

    light: str
    dark: str
    marker: str
    dashes: str


def page_look(scheduler: str) -> PageLook:
    """Return the style of a scheduler, with the hue and marker of all figures."""
    look = scheduler_look(scheduler)
    return PageLook(
        _mixed(look.colour, 0, lambda now: now <= _MOST_ON_LIGHT),
        _mixed(look.colour, 255, lambda now: now >= _LEAST_ON_DARK),
        look.marker,
        _DASHES[look.line],
    )


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
