"""Number of scenarios that each scheduler serves: bars, with the paper's counts."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.ledger.row import Row
from bench.scenarios import unpack
from instances.suites import SCENARIO_SUITES
from reports.charts.page import COLUMN_IN, Page, page, stroke, swatch, with_legend
from reports.charts.palette import STAR, pale, scheduler_look
from reports.figure import Figure
from reports.need import Need, rows_matching
from reports.selection import nothing_to_draw

_BAR_IN = 0.34
_MARGINS_IN = 0.85


def set_rows(figure: Figure, rows: Sequence[Row], needs: Mapping[str, Need]) -> dict[str, Row]:
    """Return by label the latest row of each need; a need names a scenario set, a scheduler and its parameters.

    All rows are of the whole set or, if it has none, of the set for a first look. ``rows`` are oldest first.

    Raises
    ------
    NothingToDrawError
        If there is none; the error names the commands to run.
    """
    (sets,) = {(need.instances, need.quick) for need in needs.values()}
    for name in filter(None, sets):
        fingerprint = SCENARIO_SUITES[name].build().fingerprint
        found = {
            label: row
            for label, need in needs.items()
            for row in rows_matching(rows, need)
            if row.instance_hash == fingerprint and row.scenarios is not None
        }
        if found:
            return found
    raise nothing_to_draw(figure)


def missed(rows: Mapping[str, Row], label: str, reference: str, paper: int) -> list[str]:
    """Return a note on the number of scenarios that ``reference`` plans and ``label`` does not."""
    if label not in rows or reference not in rows:
        return []
    found = count_missed(rows[label], rows[reference])
    return [f"{label} misses {found:,} of the scenarios of {reference}; in the paper {paper}."]


def count_missed(row: Row, reference: Row) -> int:
    """Return the number of scenarios with a plan of ``reference`` and without one of ``row``."""
    return int((_accepted(reference) & ~_accepted(row)).sum())


def _accepted(row: Row) -> NDArray[np.bool_]:
    counts = row.scenarios or {}
    found = np.zeros(counts["count"], dtype=bool)
    found[: counts["decided"]] = unpack(counts["accepted_bits"], counts["decided"])
    return found


def draw_counts(
    figure: Figure,
    rows: Sequence[Row],
    *,
    needs: Mapping[str, Need],
    paper: Mapping[str, int] | None = None,
    notes_on: Callable[[Mapping[str, Row]], list[str]] = lambda _: [],
) -> Page:
    """Draw for each label the scenarios with a plan, and those that the judge confirms; see ``Figure.draw``.

    Parameters
    ----------
    needs
        Needs by label, all on the same scenario set.
    paper
        The paper's counts by label, if it states them.
    notes_on
        Function that returns notes on the rows by label.
    """
    found = set_rows(figure, rows, needs)
    count = next(row.scenarios["count"] for row in found.values() if row.scenarios is not None)
    notes = _notes(found, needs) + notes_on(found)
    whole = len(SCENARIO_SUITES[next(iter(needs.values())).instances].build())
    if count < whole:
        notes.append(f"Only {count:,} of the {whole:,} scenarios of the paper's figures.")
        paper = None
    sheet = page(COLUMN_IN, _BAR_IN * len(needs) + _MARGINS_IN, notes)
    ax = sheet.subplots()
    for place, (label, need) in enumerate(needs.items()):
        colour = scheduler_look(need.schedulers[0]).colour
        if label in found:
            counts = found[label].scenarios or {}
            ax.barh(place, counts["accepted"], 0.7, facecolor=pale(colour), edgecolor=colour)
            ax.barh(place, counts["served"], 0.7, facecolor=colour)
            ax.text(count * 1.04, place, f"{counts['accepted']:,}\n{counts['served']:,}", va="center", fontsize=6)
        if paper is not None and label in paper:
            ax.plot(paper[label], place, **STAR, zorder=3)
    ax.axvline(count, color="black", linewidth=0.6, linestyle=":")
    ax.set_yticks(range(len(needs)), list(needs))
    ax.set(ylim=(len(needs) - 0.5, -0.5), xlim=(0, count * 1.2), xlabel=f"Scenarios, of {count:,}")
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=4, steps=[1, 2, 5, 10])
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.grid(axis="x")
    handles = [swatch(pale("#000000"), "has a plan", edgecolor="black"), swatch("black", "confirmed by the judge")]
    if paper:
        handles.append(stroke("the paper", **STAR))
    return with_legend(sheet, handles, 3)


def _notes(found: Mapping[str, Row], needs: Mapping[str, Need]) -> list[str]:
    notes = []
    missing = [label for label in needs if label not in found]
    if missing:
        notes.append(f"Not run: {', '.join(missing)}.")
    for label, row in found.items():
        counts = row.scenarios or {}
        if counts["decided"] < counts["count"]:
            ended = str(row.termination).replace("_", " ")
            notes.append(f"{label} ended ({ended}) after {counts['decided']:,} scenarios.")
    return notes
