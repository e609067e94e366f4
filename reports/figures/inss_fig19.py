"""InSS, Fig. 19: decision time against the number of GPUs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.figure_style import COLUMN_IN, note_height_in, page, save, write_note
from reports.inss_baselines import agent, baselines, needs_of
from reports.palette import QUIET, scheduler_look
from reports.selection import gaps, instances_of, nothing_to_draw, rows_by_label

_ONCE = Need("4gpu,inss-clusters", (), quick="4gpu,inss-16gpu")

NEEDS = {**agent(_ONCE), **baselines(replace(_ONCE, seeds=(0, 1, 2)))}

INSS_BELOW_MS = 200.0
"""Upper limit of InSS's decision time for 64 GPUs (Sec. 6.4)."""

_HEIGHT_IN = 2.6


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the decision times of ``rows`` into ``folder``; see ``Figure.draw``."""
    from matplotlib.ticker import NullFormatter

    own = {label: own_runs(rows, label) for label in NEEDS}
    everyone = [row for found in own.values() for row in found]
    if not everyone:
        raise nothing_to_draw(FIGURE.name, FIGURE.needs)
    notes = gaps(FIGURE.name, everyone, [row for row in everyone if not _counts(row)], FIGURE.needs)
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        ax = sheet.subplots()
        ax.axhline(INSS_BELOW_MS, color=QUIET, linewidth=0.6, linestyle=":")
        ax.text(64.0, INSS_BELOW_MS * 1.1, "InSS at 64 GPUs, at most", fontsize=6, color=QUIET, ha="right")
        for label, found in own.items():
            line = points(found)
            look = scheduler_look(NEEDS[label][0].schedulers[0])
            ax.plot(*zip(*line, strict=True), color=look.colour, marker=look.marker, linestyle=look.line, label=label)
        ax.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="Decision time (ms)", xlim=(3.5, 73.0))
        ax.set_xticks([4, 8, 16, 32, 64], ["4", "8", "16", "32", "64"])
        ax.set_ylim(bottom=1.0)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_major_formatter("{x:,g}")
        ax.grid()
        sheet.legend(loc="outside upper center", ncols=4)
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def own_runs(rows: Sequence[Row], label: str) -> list[Row]:
    """Return the latest row of each run of one of ``NEEDS``: by cluster, training and repeat."""
    return [
        row
        for need in NEEDS[label]
        for seed in need.seeds
        for row in rows_by_label([row for row in rows if row.seed == seed], {label: need}).values()
    ]


def points(rows: Sequence[Row]) -> list[tuple[int, float]]:
    """Return by number of GPUs the median milliseconds of the runs that gave a plan."""
    sizes = {name: instance.gpus[0].count or 0 for name, instance in instances_of(FIGURE.needs).items()}
    groups: dict[int, list[float]] = {}
    for row in rows:
        if _counts(row) and row.decision_s is not None:
            groups.setdefault(sizes[row.instance], []).append(1000.0 * row.decision_s)
    return [(gpus, median(group)) for gpus, group in sorted(groups.items())]


def _counts(row: Row) -> bool:
    return row.gpus_used is not None and row.decision_s is not None


FIGURE = Figure(
    name="inss-fig19",
    title="Decision times against the number of GPUs",
    paper="InSS, Fig. 19",
    shows="InSS decides within 0.2 s at 64 GPUs; the baselines take up to 2 s, growing with the number of GPUs.",
    look_for="`ts` stays far below the paper's 200 ms; its time grows with the number of groups of four GPUs, which "
    "it decides all at once. The baselines stay below it, too, since they are compiled here. Most of their time fills "
    "the table of inference times, once per process; `ts` fills it before its clock starts. Values are medians of "
    "three repeats, for `ts` of five trainings. Local search, which uses all its time, is left out.",
    cost="70 runs: about three minutes on two cores",
    needs=needs_of(NEEDS),
    draw=draw,
)
