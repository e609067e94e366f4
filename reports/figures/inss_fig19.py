"""InSS, Fig. 19: what a decision takes against the number of GPUs."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from reports.canvas import COLUMN_IN, note_height_in, page, save, write_note
from reports.figure import Figure
from reports.inss_baselines import baselines
from reports.palette import QUIET, scheduler_look
from reports.selection import gaps, instances_of, own_rows
from reports.variants import made_for

if TYPE_CHECKING:
    from bench.row import Row

NEEDS = baselines("exact-scaling", quick="exact-5-s0,exact-20-s0,exact-80-s0")

INSS_BELOW_MS = 200.0
"""Sec. 6.4: InSS decides within this for 64 GPUs."""

_HEIGHT_IN = 2.6


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw the decision times of ``rows`` into ``folder``; see ``Figure.draw``."""
    from matplotlib.ticker import NullFormatter

    own = own_rows(FIGURE.name, [row for need in NEEDS.values() for row in made_for(rows, need)], FIGURE.needs)
    timed = [row for row in own if row.gpus_used and row.decision_s is not None]
    notes = gaps(own, [row for row in own if row not in timed], FIGURE.needs)
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        ax = sheet.subplots()
        ax.axhline(INSS_BELOW_MS, color=QUIET, linewidth=0.6, linestyle=":")
        ax.text(1.0, INSS_BELOW_MS * 1.1, "InSS at 64 GPUs, at most", fontsize=6, color=QUIET)
        for label, need in NEEDS.items():
            found = points(made_for(timed, need))
            look = scheduler_look(need.schedulers[0])
            ax.plot(*zip(*found, strict=True), color=look.colour, marker=look.marker, linestyle=look.line, label=label)
        ax.set(xscale="log", yscale="log", xlabel="GPUs in the plan", ylabel="Decision time (ms)", xlim=(0.9, 70.0))
        ax.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_major_formatter("{x:,g}")
        ax.grid()
        sheet.legend(loc="outside upper center", ncols=4)
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def points(rows: "Sequence[Row]") -> list[tuple[float, float]]:
    """Return the medians of GPUs in the plan and of milliseconds over the instances of each number of workloads."""
    sizes = {name: len(instance.workloads) for name, instance in instances_of(FIGURE.needs).items()}
    groups: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        if row.gpus_used is not None and row.decision_s is not None:
            groups.setdefault(sizes[row.instance], []).append((row.gpus_used, 1000.0 * row.decision_s))
    return [(median(gpus for gpus, _ in group), median(ms for _, ms in group)) for _, group in sorted(groups.items())]


FIGURE = Figure(
    name="inss-fig19",
    title="Decision times against the number of GPUs",
    paper="InSS, Fig. 19",
    shows="InSS decides within 0.2 s at 64 GPUs; the baselines take up to 2 s, growing with the number of GPUs.",
    look_for="All three baselines stay below InSS's 200 ms at 50 GPUs, where the paper has them at up to 2 s: here "
    "they are compiled. Local search stops when it proves its plan or finds nothing better. Random mixes of "
    "four models at least cost, medians of three; InSS's own agent has no policy for the V100.",
    cost="96 runs: about a minute on two cores",
    needs=tuple(NEEDS.values()),
    draw=draw,
)
