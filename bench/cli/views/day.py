"""Terminal view of a day of plans: GPUs over time, their bounds, and the cost of the sequence."""

from rich.console import RenderableType

from bench.cli.terminal import draws_unicode
from bench.cli.views.tables import table
from bench.fleet.answer import gpus_in_words
from bench.fleet.day import PlannedDay
from bench.judging.judge import judge

_WIDTH = 40


def day_view(day: PlannedDay, window_s: float) -> list[RenderableType]:
    """Return a table with a bar per window, and the sentences below it.

    A full block is cost that is proven necessary; a light one is the rest of the plan's cost.
    """
    full, light = ("█", "░") if draws_unicode() else ("#", ".")
    cost = [judge(each.chosen, each.instance).cost_per_hour for each in day.windows]
    scale = _WIDTH / max(cost)
    rows = [
        [
            _clock(number * window_s),
            full * round(each.bound_per_hour * scale)
            + light * (round(paid * scale) - round(each.bound_per_hour * scale)),
            gpus_in_words(each.chosen),
            f"${paid:,.2f}",
            f"${each.cost_per_hour:,.2f}",
            f"${each.bound_per_hour:,.2f}",
            f"{100.0 * (1.0 - each.bound_per_hour / each.cost_per_hour):.1f} %",
            str(each.started),
        ]
        for number, (each, paid) in enumerate(zip(day.windows, cost, strict=True))
    ]
    columns = ["from", "", "plan", ">per hour", ">least known", ">proven", ">gap", ">starts"]
    gap = 100.0 * (1.0 - day.bound / day.cost) if day.cost else 0.0
    saved = 100.0 * (1.0 - day.cost / day.constant) if day.constant else 0.0
    return [
        table(columns, rows),
        "",
        f"day: ${day.cost:,.2f}, of which ${day.switching:,.2f} while processes start and stop",
        f"proven: no sequence of plans costs less than ${day.bound:,.2f} (gap {gap:.1f} %)",
        f"saves {saved:.0f} % over the GPUs of the dearest window for the whole day (${day.constant:,.2f})",
    ]


def _clock(seconds: float) -> str:
    minutes = round(seconds / 60.0)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
