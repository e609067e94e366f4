"""Colours, markers and lines of schedulers and performance models, and colours of DNN models.

The colours are Okabe and Ito's, distinguishable with any colour vision. Some are lighter or darker, so that the
built-in schedulers, and the models, also differ in a grey print.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

BLACK = "#000000"
ORANGE = "#E69F00"
SKY_BLUE = "#56B4E9"
GREEN = "#009E73"
"""Colour of plans that hold; no scheduler has this colour."""

YELLOW = "#F0E442"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
DEEP_BLUE = "#005C94"
ROSE = "#C2528A"
BROWN = "#8C5A00"
GREY = "#7F7F7F"
DARK_PURPLE = "#56377D"

ALARM = "#B00020"
"""Colour of edges and hatches of SLO violations; the hatch is also visible in a grey print."""

ALARM_HATCH = "/////"
ALARM_EDGE = 1.2
"""Width of these edges, in points."""

OBSERVED = "#D9D9D9"
"""Fill of measured bars beside predictions."""

QUIET = "#6E6E6E"
"""Colour of notes and guide lines."""

STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 7,
    "markerfacecolor": YELLOW,
    "markeredgecolor": "black",
    "markeredgewidth": 0.5,
    "linestyle": "",
}
"""Style of a paper's values, as line properties of Matplotlib."""


@dataclass(frozen=True, slots=True)
class LineStyle:
    """Style of a scheduler or a performance model; ``marker`` and ``line`` are in Matplotlib's notation."""

    colour: str
    marker: str
    line: str

    @property
    def marked(self) -> dict[str, Any]:
        """Line properties of Matplotlib, with marks."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line}

    @property
    def unmarked(self) -> dict[str, Any]:
        """Line properties of Matplotlib, without marks."""
        return {"color": self.colour, "marker": "", "linestyle": self.line}

    @property
    def hollow(self) -> dict[str, Any]:
        """Line properties of Matplotlib for hollow marks without a line, the style of measured values."""
        return {"color": self.colour, "marker": self.marker, "linestyle": "", "markerfacecolor": "white"}


_BUILT_IN = {
    "igniter": LineStyle(DEEP_BLUE, "o", "-"),
    "ffd+": LineStyle(ORANGE, "s", "--"),
    "ffd++": LineStyle(ROSE, "^", "-."),
    "cpsat": LineStyle(BLACK, "D", ":"),
    "colgen": LineStyle(VERMILLION, "v", "-"),
    "pwl": LineStyle(PURPLE, "P", "--"),
    "minlp": LineStyle(SKY_BLUE, "X", "-."),
    "mig": LineStyle(PURPLE, "<", "-"),
    "elastic-partitioning": LineStyle(BROWN, "v", "-"),
    "ideal": LineStyle(DARK_PURPLE, "v", "-"),
    "sbp": LineStyle(GREY, "P", ":"),
    "greedy-best-fit": LineStyle(SKY_BLUE, "D", "-."),
    "guided-self-tuning": LineStyle(ORANGE, "p", ":"),
    "gpu-scaling": LineStyle(DARK_PURPLE, "d", ":"),
    "gpu-lets+": LineStyle(GREY, ">", "-."),
    "gslice+": LineStyle(PURPLE, ">", "-"),
    "mediator": LineStyle(BROWN, "h", "--"),
    "horus": LineStyle(PURPLE, "d", "--"),
    "bin-packing": LineStyle(ORANGE, "<", "-."),
    "ts": LineStyle(SKY_BLUE, "p", ":"),
    "ts-ni": LineStyle(VERMILLION, "P", "-"),
    "ts+repair": LineStyle(DARK_PURPLE, "D", "-"),
    "ts-hierarchy": LineStyle(BROWN, "^", ":"),
    "local-search": LineStyle(DARK_PURPLE, "X", ":"),
    "ruin-recreate": LineStyle(GREY, "*", "-."),
    "random": LineStyle(GREY, "p", ":"),
    "whole-gpu": LineStyle(BROWN, "d", "--"),
    "equal-shares": LineStyle(DARK_PURPLE, ">", "-."),
    "time-slicing": LineStyle(GREY, "X", "--"),
}
"""Styles of the built-in schedulers; no two have the same colour and marker."""

PERFORMANCE_LOOKS = {
    "igniter": LineStyle(DEEP_BLUE, "o", "-"),
    "inss": LineStyle(ORANGE, "D", "--"),
    "gpulet": LineStyle(PURPLE, "s", "-."),
    "hybrid": LineStyle(BLACK, "^", "-"),
}
"""Styles of the performance models."""

_MODELS = {"alexnet": "#F7F097", "resnet50": "#A8D8F4", "vgg19": "#EBAE3A", "ssd": PURPLE}

SERIES = (
    LineStyle(DEEP_BLUE, "o", "-"),
    LineStyle(ORANGE, "s", "--"),
    LineStyle(GREEN, "^", "-."),
    LineStyle(BLACK, "D", ":"),
    LineStyle(VERMILLION, "v", "-"),
    LineStyle(SKY_BLUE, "X", "--"),
    LineStyle(PURPLE, "P", "-."),
    LineStyle(BROWN, "h", ":"),
)
"""Styles of other series, such as the DNN models of curves."""

_SHADES = ((0xA9, 0xD3, 0xEE), (0x00, 0x1E, 0x33))  # the lightest and the darkest shade, as (red, green, blue)
_SHADE_MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_SPARE_COLOURS = (VERMILLION, PURPLE, SKY_BLUE, BROWN, GREY, DARK_PURPLE)
_SPARE_LOOKS = [
    (colour, marker)
    for colour in _SPARE_COLOURS
    for marker in ("v", "P", "X", "<", ">", "p", "h", "d")
    if all((look.colour, look.marker) != (colour, marker) for look in _BUILT_IN.values())
]
"""Colours and markers of other schedulers."""

_SPARE_LINES = ("-", "--", "-.", ":")

_others: dict[str, LineStyle] = {}
"""Styles of other schedulers that this process has drawn."""


def scheduler_look(scheduler: str) -> LineStyle:
    """Return the style of a scheduler.

    The style of a scheduler that is not built in is derived from its name. If another such scheduler of
    this process already has this colour and marker, the scheduler gets the next free ones; after 29 such schedulers,
    styles repeat.
    """
    if scheduler in _BUILT_IN:
        return _BUILT_IN[scheduler]
    if scheduler not in _others:
        look_byte, line_byte = sha256(scheduler.encode()).digest()[:2]
        taken = {(look.colour, look.marker) for look in _others.values()}
        first = look_byte % len(_SPARE_LOOKS)
        in_order = _SPARE_LOOKS[first:] + _SPARE_LOOKS[:first]
        colour, marker = next((look for look in in_order if look not in taken), in_order[0])
        _others[scheduler] = LineStyle(colour, marker, _SPARE_LINES[line_byte % len(_SPARE_LINES)])
    return _others[scheduler]


def shades(count: int) -> tuple[LineStyle, ...]:
    """Return the styles of up to seven ordered curves, from light to dark; for example, curves of growing batches."""
    looks = []
    for position, marker in zip(range(count), _SHADE_MARKERS, strict=False):
        fraction = position / max(1, count - 1)
        mixed = (round(light + fraction * (dark - light)) for light, dark in zip(*_SHADES, strict=True))
        looks.append(LineStyle("#" + "".join(f"{channel:02X}" for channel in mixed), marker, "-"))
    return tuple(looks)


def model_colour(model: str) -> str:
    """Return the fill colour of a DNN model, light enough for black text.

    The colour of an unknown model is derived from its name.
    """
    if model in _MODELS:
        return _MODELS[model]
    return pale(_SPARE_COLOURS[sha256(model.encode()).digest()[0] % len(_SPARE_COLOURS)])


def pale(colour: str) -> str:
    """Return ``#RRGGBB`` mixed with white, light enough below a hatch or black text."""
    return "#" + "".join(f"{round(0.4 * channel + 0.6 * 255):02X}" for channel in bytes.fromhex(colour[1:]))


def lightness(colour: str) -> float:
    """Return CIE L* of ``#RRGGBB``, its perceived lightness from 0 (black) to 100 (white), as in a grey print."""
    luminance = 0.0
    for weight, channel in zip((0.2126, 0.7152, 0.0722), bytes.fromhex(colour[1:]), strict=True):
        fraction = channel / 255.0
        luminance += weight * (fraction / 12.92 if fraction <= 0.04045 else ((fraction + 0.055) / 1.055) ** 2.4)
    return 116.0 * luminance ** (1.0 / 3.0) - 16.0 if luminance > 0.008856 else 903.3 * luminance
