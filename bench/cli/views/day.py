"""Terminal view of a day of plans: GPUs over time, their bounds, and the cost of the sequence."""

from rich.console import RenderableType

from bench.cli.terminal import draws_unicode
from bench.cli.views.tables import table
from bench.fleet.answer import gpus_in_words
from bench.fleet.day import PlannedDay
from bench.judging.judge import judge

_WIDTH = 40
"""Characters of the bar of the dearest window."""


def day_view(day: PlannedDay, window_s: float) -> list[RenderableType]:
    """Return a table with a bar per window, and the sentences below it.

    A full block is cost that is proven necessary; a light block is the rest of the plan's cost.
    """
    full, light = ("█", "░") if draws_unicode() else ("#", ".")
    costs = [judge(window.chosen, window.instance).cost_per_hour for window in day.windows]
    blocks_per_dollar = _WIDTH / max(costs)
    rows = [
        [
            _clock(number * window_s),
            full * round(window.bound_per_hour * blocks_per_dollar)
            + light * (round(cost * blocks_per_dollar) - round(window.bound_per_hour * blocks_per_dollar)),
            gpus_in_words(window.chosen),
            f"${cost:,.2f}",
            f"${window.cost_per_hour:,.2f}",
            f"${window.bound_per_hour:,.2f}",
            f"{100.0 * (1.0 - window.bound_per_hour / window.cost_per_hour):.1f} %",
            str(window.started),
        ]
        for number, (window, cost) in enumerate(zip(day.windows, costs, strict=True))
    ]
    columns = ["from", "", "plan", ">per hour", ">least known", ">proven", ">gap", ">starts"]
    gap_pct = 100.0 * (1.0 - day.bound / day.cost) if day.cost else 0.0
    saved_pct = 100.0 * (1.0 - day.cost / day.constant) if day.constant else 0.0
    return [
        table(columns, rows),
        "",
        f"day: ${day.cost:,.2f}, of which ${day.switching:,.2f} while processes start and stop",
        f"proven: no sequence of plans costs less than ${day.bound:,.2f} (gap {gap_pct:.1f} %)",
        f"saves {saved_pct:.0f} % over the GPUs of the dearest window for the whole day (${day.constant:,.2f})",
    ]


def _clock(seconds: float) -> str:
    minutes = round(seconds / 60.0)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
