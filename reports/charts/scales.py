"""Scales of the page's charts: limits that enclose the values, and ticks whose labels have room."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any

from reports.charts.page import Axes
from reports.charts.palette import QUIET

BENT_AT = 10.0
"""Approximate value at which a bent scale changes from linear to logarithmic."""

LABEL: dict[str, Any] = {"fontsize": 11.0, "color": QUIET}
"""Style of the labels; the page enlarges labels on a phone."""

_LARGEST_DRAWN = 1e15
"""Largest drawn number; its inverse is the smallest. Numbers outside this range, of forged ledgers, could overflow."""

_GRID: dict[str, Any] = {"color": "#D9D9D9", "linewidth": 1.0, "zorder": 0.5}


def plain(value: float) -> str:
    """Return a number with at most four significant digits; very small and very large numbers have an exponent."""
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    digits = max(0, 3 - floor(log10(abs(value)))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale of one axis.

    Attributes
    ----------
    title
        Title with the unit.
    log, bent
        Whether the scale is logarithmic, and whether it is bent: linear near zero and logarithmic elsewhere.
    domain
        Limits. Without a domain, the limits are the nearest ticks that enclose all values.
    words, unit
        Function that writes a value, and the unit after the value in the title of a mark.
    """

    title: str
    log: bool = False
    bent: bool = False
    domain: tuple[float, float] | None = None
    words: Callable[[float], str] = plain
    unit: str = ""

    def fitted(self, values: Iterable[float], tick_count: int) -> tuple[tuple[float, float], list[float]]:
        """Return limits for ``values``, and about ``tick_count`` ticks within the limits, at least two."""
        drawn_values = [_limited(value) for value in values if isfinite(value) and (value > 0.0 or not self.log)]
        low, high = self._limits(drawn_values)
        ticks = bent_ticks(low, high, tick_count) if self.bent else []
        while len(_within(ticks, low, high)) < 2:
            ticks = log_ticks(low, high, tick_count) if self.log else linear_ticks(low, high, tick_count)
            tick_count *= 2
            if self.domain is None:
                low, high = min(low, ticks[0]), max(high, ticks[-1])
        return (low, high), _within(ticks, low, high)

    def _limits(self, drawn_values: Sequence[float]) -> tuple[float, float]:
        """Return two different limits that the scale can draw: the domain, or the extremes of the values."""
        low, high = map(_limited, self.domain or (min(drawn_values, default=1.0), max(drawn_values, default=1.0)))
        if high < low or (self.log and high <= 0.0):  # limits from a forged ledger
            return (1.0, 10.0) if self.log else (0.0, 1.0)
        if self.log and low <= 0.0:
            low = min([high, *drawn_values]) / 2.0
        if low < high:
            return low, high
        return (low / 2.0, high * 2.0) if self.log else (low - 1.0, high + 1.0)

    def set_x(self, ax: Axes, values: Iterable[float], tick_count: int) -> tuple[float, float]:
        """Set the horizontal scale of ``ax``, draw its grid and labels, and return its limits."""
        limits, ticks = self.fitted(values, tick_count)
        ax.set_xscale(self._kind, **self._bend)
        ax.set_xlim(limits)
        ax.xaxis.set_visible(False)  # Matplotlib's ticks would take most of the drawing time
        transform = ax.get_xaxis_transform()
        ax.vlines(ticks, 0.0, 1.0, transform=transform, **_GRID)
        for tick in ticks:
            ax.text(tick, -0.1, self.words(tick), transform=transform, ha="center", **LABEL)
        return limits

    def set_y(self, ax: Axes, values: Iterable[float], tick_count: int) -> tuple[float, float]:
        """Set the vertical scale of ``ax``, draw its grid and labels, and return its limits."""
        limits, ticks = self.fitted(values, tick_count)
        ax.set_yscale(self._kind, **self._bend)
        ax.set_ylim(limits)
        ax.yaxis.set_visible(False)
        transform = ax.get_yaxis_transform()
        ax.hlines(ticks, 0.0, 1.0, transform=transform, **_GRID)
        for tick in ticks:
            ax.text(-0.012, tick, self.words(tick), transform=transform, ha="right", va="center_baseline", **LABEL)
        return limits

    @property
    def _kind(self) -> str:
        """Name of the scale in Matplotlib."""
        if self.log:
            return "log"
        return "asinh" if self.bent else "linear"

    @property
    def _bend(self) -> dict[str, Any]:
        """Parameters of the scale in Matplotlib."""
        return {"linear_width": BENT_AT} if self.bent else {}


def _limited(value: float) -> float:
    """Return a value between ``1 / _LARGEST_DRAWN`` and ``_LARGEST_DRAWN`` with the same sign; 0 remains 0."""
    magnitude = min(max(abs(value), 1.0 / _LARGEST_DRAWN), _LARGEST_DRAWN)
    if value > 0.0:
        return magnitude
    return -magnitude if value < 0.0 else 0.0


def _within(ticks: Iterable[float], low: float, high: float) -> list[float]:
    slack = 1e-9
    return [tick for tick in ticks if low - slack * abs(low) <= tick <= high + slack * abs(high)]


def linear_ticks(low: float, high: float, tick_count: int) -> list[float]:
    """Return round numbers in equal steps, from at most ``low`` to at least ``high``."""
    least_step = (high - low) / tick_count
    power = 10.0 ** floor(log10(least_step))
    step = next(factor for factor in (1, 2, 5, 10) if factor * power >= least_step * (1.0 - 1e-9)) * power
    return [float(f"{multiple * step:.12g}") for multiple in range(floor(low / step), ceil(high / step) + 1)]


def log_ticks(low: float, high: float, tick_count: int) -> list[float]:
    """Return ticks from the last one before a range to the first one after it, about ``tick_count`` at most."""
    first_power, last_power = floor(log10(low)), ceil(log10(high))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        candidates = [
            float(f"{factor * 10.0**power:.3g}") for power in range(first_power, last_power + 1) for factor in factors
        ]
        ticks = candidates[max(0, bisect_right(candidates, low) - 1) : bisect_left(candidates, high) + 1]
        if len(ticks) < 4:  # the range is too short for powers of ten
            return [tick for tick in linear_ticks(low, high, tick_count) if tick > 0.0]
        if len(ticks) <= tick_count + 2:
            return ticks
    step = ceil((last_power - first_power) / tick_count)
    return [
        float(f"1e{power}")
        for power in range(first_power, first_power + step * (ceil((last_power - first_power) / step)) + 1, step)
    ]


def bent_ticks(low: float, high: float, tick_count: int) -> list[float]:
    """Return zero and positive and negative powers of ten, about ``tick_count`` at most."""
    last_power = ceil(log10(max(-low, high, BENT_AT)))
    step = max(1, ceil(2 * last_power / tick_count))
    powers = [10.0**power for power in range(round(log10(BENT_AT)), last_power + 1, step)]
    return sorted([0.0, *powers, *(-power for power in powers)])
