"""Scales of the page's charts: limits and ticks that enclose the values, with room for every label."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any

from reports.charts.page import Axes
from reports.charts.palette import QUIET

BENT_AT = 10.0
"""Approximate transition of a bent scale from linear to logarithmic."""


LABEL: dict[str, Any] = {"fontsize": 11.0, "color": QUIET}
"""Style of the labels; the page enlarges them on a phone."""

_MOST = 1e15
"""Largest drawn number, and the inverse of the least; only forged ledgers have others, whose differences overflow."""

_GRID: dict[str, Any] = {"color": "#D9D9D9", "linewidth": 1.0, "zorder": 0.5}


def plain(value: float) -> str:
    """Return a number with at most four significant digits, without an exponent where it is readable."""
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
        Whether the scale is logarithmic, or linear around zero and logarithmic further out.
    domain
        Limits. Without a domain the scale ends at the first ticks that enclose all values.
    words, unit
        Text of a value, and the unit that follows it in the title of a mark.
    """

    title: str
    log: bool = False
    bent: bool = False
    domain: tuple[float, float] | None = None
    words: Callable[[float], str] = plain
    unit: str = ""

    def fitted(self, values: Iterable[float], most: int) -> tuple[tuple[float, float], list[float]]:
        """Return the limits for ``values`` and at least two ticks within, about ``most`` of them."""
        known = [_drawn(value) for value in values if isfinite(value) and (value > 0.0 or not self.log)]
        low, high = self._limits(known)
        ticks = bent_ticks(low, high, most) if self.bent else []
        while len(_within(ticks, low, high)) < 2:
            ticks = log_ticks(low, high, most) if self.log else linear_ticks(low, high, most)
            most *= 2
            if self.domain is None:
                low, high = min(low, ticks[0]), max(high, ticks[-1])
        return (low, high), _within(ticks, low, high)

    def _limits(self, known: Sequence[float]) -> tuple[float, float]:
        low, high = map(_drawn, self.domain or (min(known, default=1.0), max(known, default=1.0)))
        if high < low or (self.log and high <= 0.0):  # a forged ledger's limits
            return (1.0, 10.0) if self.log else (0.0, 1.0)
        if self.log and low <= 0.0:
            low = min([high, *known]) / 2.0
        if low < high:
            return low, high
        return (low / 2.0, high * 2.0) if self.log else (low - 1.0, high + 1.0)

    def set_x(self, ax: Axes, values: Iterable[float], most: int) -> tuple[float, float]:
        """Set the horizontal scale of ``ax``, draw its grid and labels, and return its limits."""
        limits, ticks = self.fitted(values, most)
        ax.set_xscale(self._kind, **self._bend)
        ax.set_xlim(limits)
        ax.xaxis.set_visible(False)  # its ticks would take most of the time of a drawing
        across = ax.get_xaxis_transform()
        ax.vlines(ticks, 0.0, 1.0, transform=across, **_GRID)
        for tick in ticks:
            ax.text(tick, -0.1, self.words(tick), transform=across, ha="center", **LABEL)
        return limits

    def set_y(self, ax: Axes, values: Iterable[float], most: int) -> tuple[float, float]:
        """Set the vertical scale of ``ax``, draw its grid and labels, and return its limits."""
        limits, ticks = self.fitted(values, most)
        ax.set_yscale(self._kind, **self._bend)
        ax.set_ylim(limits)
        ax.yaxis.set_visible(False)
        up = ax.get_yaxis_transform()
        ax.hlines(ticks, 0.0, 1.0, transform=up, **_GRID)
        for tick in ticks:
            ax.text(-0.012, tick, self.words(tick), transform=up, ha="right", va="center_baseline", **LABEL)
        return limits

    @property
    def _kind(self) -> str:
        return "log" if self.log else "asinh" if self.bent else "linear"

    @property
    def _bend(self) -> dict[str, Any]:
        return {"linear_width": BENT_AT} if self.bent else {}


def _drawn(value: float) -> float:
    nearest = min(max(abs(value), 1.0 / _MOST), _MOST)
    return nearest if value > 0.0 else -nearest if value < 0.0 else 0.0


def _within(ticks: Iterable[float], low: float, high: float) -> list[float]:
    slack = 1e-9
    return [tick for tick in ticks if low - slack * abs(low) <= tick <= high + slack * abs(high)]


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers in even steps from at most ``low`` to at least ``high``."""
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * (1.0 - 1e-9)) * power
    return [float(f"{place * step:.12g}") for place in range(floor(low / step), ceil(high / step) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return ticks from the last one before a range to the first one after it, as dense as ``most`` permits."""
    first, last = floor(log10(low)), ceil(log10(high))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        every = [float(f"{factor * 10.0**power:.3g}") for power in range(first, last + 1) for factor in factors]
        ticks = every[max(0, bisect_right(every, low) - 1) : bisect_left(every, high) + 1]
        if len(ticks) < 4:  # too short a range for powers of ten
            return [tick for tick in linear_ticks(low, high, most) if tick > 0.0]
        if len(ticks) <= most + 2:
            return ticks
    step = ceil((last - first) / most)
    return [float(f"1e{power}") for power in range(first, first + step * (ceil((last - first) / step)) + 1, step)]


def bent_ticks(low: float, high: float, most: int) -> list[float]:
    """Return zero and powers of ten on both sides, as dense as ``most`` permits."""
    last = ceil(log10(max(-low, high, BENT_AT)))
    step = max(1, ceil(2 * last / most))
    powers = [10.0**power for power in range(round(log10(BENT_AT)), last + 1, step)]
    return sorted([0.0, *powers, *(-power for power in powers)])
