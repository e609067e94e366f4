"""Limits of exact methods: instances solved and certified gaps over the number of workloads."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.ledger.row import Row
from instances.costs import next_cost
from reports.figure import Figure, Need
from reports.figure_style import COLUMN_IN, note_height_in, page, save, stroke, write_note
from reports.palette import scheduler_look
from reports.selection import gaps, instances_of, own_rows

_QUICK = "exact-5-s0,exact-10-s0,exact-20-s0"
WORK = {"cpsat": 2, "colgen": 2_000_000}
"""Work limits: about ten seconds of one core."""

_GENEROUS_S = 300.0
NEEDS = tuple(
    Need("exact-scaling", (scheduler,), quick=_QUICK, time_limit_s=_GENEROUS_S, work_limit=work)
    for scheduler, work in WORK.items()
)
_HEIGHT_IN = 3.2


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw solved share and gap of ``rows`` into ``folder``; see ``Figure.draw``."""
    own = own_rows(FIGURE.name, rows, NEEDS)
    notes = gaps(FIGURE.name, own, [row for row in own if row.value is None], NEEDS)
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        solved, gap = sheet.subplots(2, 1, sharex=True)
        handles = []
        for scheduler in dict.fromkeys(row.scheduler for row in own):
            look = scheduler_look(scheduler)
            mine = [row for row in own if row.scheduler == scheduler]
            for axes, figure_of in ((solved, solved_pct), (gap, gap_pct)):
                points = figure_of(mine)
                axes.plot(
                    list(points), list(points.values()), color=look.colour, marker=look.marker, linestyle=look.line
                )
            spread = gaps_pct(mine)
            least, most = [min(values) for values in spread.values()], [max(values) for values in spread.values()]
            gap.fill_between(list(spread), least, most, color=look.colour, alpha=0.15, linewidth=0.0)
            handles.append(stroke(scheduler, color=look.colour, marker=look.marker, linestyle=look.line))
        solved.set(ylabel="Proven optimal (%)", ylim=(-5, 105))
        gap.set(ylabel="Median gap (%)", xlabel="Number of workloads", xscale="log")
        gap.set_ylim(bottom=-0.5)
        ticks = sorted({size_of(row) for row in own})
        gap.set_xticks(ticks, [str(tick) for tick in ticks])
        gap.minorticks_off()
        for axes in (solved, gap):
            axes.grid()
        sheet.legend(handles=handles, loc="outside upper center", ncols=3)
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def size_of(row: Row) -> int:
    """Return the number of workloads of a row's instance."""
    return len(instances_of(NEEDS)[row.instance].workloads)


def solved_pct(rows: Sequence[Row]) -> dict[int, float]:
    """Return by number of workloads the percentage of runs that ended with a proven optimum."""
    sizes = sorted({size_of(row) for row in rows})
    return {
        size: 100.0
        * sum(row.status == "optimal" for row in rows if size_of(row) == size)
        / sum(1 for row in rows if size_of(row) == size)
        for size in sizes
    }


def gap_pct(rows: Sequence[Row]) -> dict[int, float]:
    """Return by number of workloads the median gap to the run's own certified bound, in percent: see ``gaps_pct``."""
    return {size: median(values) for size, values in gaps_pct(rows).items()}


def gaps_pct(rows: Sequence[Row]) -> dict[int, list[float]]:
    """Return by number of workloads the gaps to the runs' own certified bounds, whole GPUs counted, in percent."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if row.value is not None and row.feasible and row.bound is not None and row.bound_certified:
            bound = next_cost(row.bound, instances_of(NEEDS)[row.instance])
            found.setdefault(size_of(row), []).append(100.0 * (row.value - bound) / row.value)
    return dict(sorted(found.items()))


FIGURE = Figure(
    name="exact-scaling",
    title="Proven optima and certified gaps against the number of workloads",
    paper="ours",
    shows="No paper solves its problem exactly beyond a handful of workloads; this figure is new.",
    look_for="Compact models stop proving optimality at some tens of workloads; column generation continues. Where "
    "the upper panel drops, the lower one shows the remaining gap. Bands span the three instances of a size.",
    cost="48 runs of at most some ten seconds each: about 3 minutes on two cores",
    needs=NEEDS,
    draw=draw,
)
