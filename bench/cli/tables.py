"""Tables and cells: how values, bounds, gaps and times read."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from bench.cli.terminal import draws_unicode, one_line
from bench.labels import labels

if TYPE_CHECKING:
    from rich.table import Table

    from bench.ledger.gap import Gap
    from bench.ledger.row import Row

_LEAST_WIDTH = 24
"""Up to this length names are never folded."""

_UNITS = {"cost": "$/h", "capacity": "req/s", "goodput": "req/s", "scale": "x", "colocation": "req/s"}
_MOST_CLOCK_S = 1e9
_DIGITS = {"cost": 2, "capacity": 1, "goodput": 1, "scale": 3, "colocation": 1, "scenarios": 0}


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], groups: Sequence[object] | None = None) -> "Table":
    """Return a table.

    Parameters
    ----------
    columns
        Their names. One that starts with ``>`` is aligned right, and not folded where the terminal is narrow.
    rows
        Their values.
    groups
        What each row belongs to: a blank line parts the groups.
    """
    from rich import box
    from rich.table import Table

    cells = [[cell(value) for value in row] for row in rows]
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for position, column in enumerate(columns):
        number = column.startswith(">")
        widest = max((len(row[position]) for row in cells), default=0)
        made.add_column(
            column.lstrip(">"),
            justify="right" if number else "left",
            no_wrap=number,
            overflow="fold",
            min_width=min(widest, _LEAST_WIDTH),
        )
    for position, row in enumerate(cells):
        last = groups is not None and position + 1 < len(cells) and groups[position] != groups[position + 1]
        made.add_row(*row, end_section=last)
    return made


def cell(value: object) -> str:
    """Return a value as the text of a cell; ``None`` is a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return mark(value)
    return one_line(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def mark(good: bool | None) -> str:
    """Return a tick or a cross, or a dash where there is nothing to judge."""
    if good is None:
        return "-"
    ticks = ("✓", "✗") if draws_unicode() else ("yes", "no")
    return ticks[0] if good else ticks[1]


def worth(value: float | None, objective: str) -> str:
    """Return an objective's value with its unit."""
    if value is None:
        return "-"
    return f"{value:,.{_DIGITS.get(objective, 3)}f} {_UNITS.get(objective, '')}".strip()


def objective_of(row: "Row") -> str:
    """Return the objective of a row's instance in one word."""
    return row.throughput_of or row.objective


def bound(row: "Row") -> str:
    """Return a row's bound; the bound of a mere model is said to be one."""
    if row.bound is None:
        return "-"
    minimised = row.objective == "cost"
    signs = ("≥", "≤") if draws_unicode() else (">=", "<=")
    model = "" if row.bound_certified else " (model)"
    return f"{signs[0] if minimised else signs[1]} {worth(row.bound, objective_of(row)).split()[0]}{model}"


def percent(fraction: float | None) -> str:
    """Return a fraction as percent."""
    return pct(None if fraction is None else 100.0 * fraction)


def pct(value: float | None) -> str:
    """Return a number of percent."""
    return "-" if value is None else f"{value:.1f} %"


def seconds(duration_s: float | None) -> str:
    """Return a duration to about three digits."""
    if duration_s is None:
        return "-"
    if duration_s < 1.0:
        return f"{1000.0 * duration_s:.3g} ms"
    return f"{duration_s:.2f} s" if duration_s < 100.0 else clock(duration_s)


def clock(duration_s: float) -> str:
    """Return a duration as hours, minutes and seconds; one that no clock ran for, as a ledger may say, as a number."""
    if duration_s > _MOST_CLOCK_S:
        return f"{duration_s:.3g} s"
    text = str(timedelta(seconds=round(duration_s)))
    return text.removeprefix("0:")


def result(row: "Row") -> str:
    """Return what the scheduler said and, where it did not simply finish, how the run ended."""
    if row.termination.failed or row.termination == "skipped":
        return str(row.termination)
    return str(row.status) if row.termination == "finished" else f"{row.status} ({row.termination})"


def run_table(rows: Sequence["Row"], gaps: Mapping[str, "Gap"], seeds: bool = False) -> "Table":
    """Return runs as a table, those of an instance together; with their ``seeds`` where these differ.

    Schedulers that run with several parameters are named with those: ``colgen[plan_class=split]``.

    Where one is of ``colocation``, its third score stands beside value and GPUs: the time over capacity.
    """
    scored = any(row.over_capacity_pct is not None for row in rows)
    simulated = any(row.simulation is not None for row in rows)
    columns = [
        "instance",
        "scheduler",
        *([">seed"] if seeds else []),
        "status",
        ">value",
        ">GPUs",
        *([">over capacity"] if scored else []),
        ">bound",
        ">gap",
        ">decision",
        ">judged",
        *([">not in time"] if simulated else []),
        "run",
    ]
    names = labels(rows)
    cells = [
        [
            row.instance,
            names[row.key],
            *([row.seed] if seeds else []),
            result(row),
            worth(row.value, objective_of(row)),
            row.gpus_used,
            *([pct(row.over_capacity_pct)] if scored else []),
            bound(row),
            percent(gaps[row.key].gap),
            seconds(row.decision_s),
            "-" if row.feasible is None else f"{row.violations} {mark(row.feasible)}",
            *([percent(row.sim_violation_rate)] if simulated else []),
            short(row),
        ]
        for row in rows
    ]
    return table(columns, cells, [row.instance_hash for row in rows])


def short(row: "Row") -> str:
    """Return as much of a row's key as names it for people."""
    return row.key[:8]
