"""Bars of the number of scenarios that each scheduler serves, with the paper's counts."""

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


def scenario_set_rows(figure: Figure, rows: Sequence[Row], needs: Mapping[str, Need]) -> dict[str, Row]:
    """Return the latest row of each need, by label; a need names a scenario set, a scheduler and its parameters.

    All rows are of the whole scenario set. If that set has no rows, all are of the smaller set ``Need.quick``. ``rows``
    are oldest first.

    Raises
    ------
    NothingToDrawError
        If neither set has rows; the error names the commands to run.
    """
    (set_names,) = {(need.instances, need.quick) for need in needs.values()}
    for name in filter(None, set_names):
        fingerprint = SCENARIO_SUITES[name].build().fingerprint
        row_of = {
            label: row
            for label, need in needs.items()
            for row in rows_matching(rows, need)
            if row.instance_hash == fingerprint and row.scenarios is not None
        }
        if row_of:
            return row_of
    raise nothing_to_draw(figure)


def missed_note(rows: Mapping[str, Row], label: str, reference: str, paper: int) -> list[str]:
    """Return a note on the number of scenarios that have a plan of ``reference`` but no plan of ``label``."""
    if label not in rows or reference not in rows:
        return []
    missed_count = count_missed(rows[label], rows[reference])
    return [f"{label} misses {missed_count:,} of the scenarios of {reference}; in the paper {paper}."]


def count_missed(row: Row, reference: Row) -> int:
    """Return the number of scenarios that have a plan of ``reference`` but no plan of ``row``."""
    return int((_accepted(reference) & ~_accepted(row)).sum())


def _accepted(row: Row) -> NDArray[np.bool_]:
    counts = row.scenarios or {}
    accepted = np.zeros(counts["count"], dtype=bool)
    accepted[: counts["decided"]] = unpack(counts["accepted_bits"], counts["decided"])
    return accepted


def draw_counts(
    figure: Figure,
    rows: Sequence[Row],
    *,
    needs: Mapping[str, Need],
    paper: Mapping[str, int] | None = None,
    notes_on: Callable[[Mapping[str, Row]], list[str]] = lambda _: [],
) -> Page:
    """Draw the number of scenarios with a plan, and with a plan that the judge confirms; see ``Figure.draw``.

    Parameters
    ----------
    needs
        Needs by label, all on the same scenario set.
    paper
        The paper's counts, by label; only for labels whose count the paper states.
    notes_on
        Function that returns notes on the rows by label.
    """
    row_of = scenario_set_rows(figure, rows, needs)
    count = next(row.scenarios["count"] for row in row_of.values() if row.scenarios is not None)
    notes = _notes(row_of, needs) + notes_on(row_of)
    full_count = len(SCENARIO_SUITES[next(iter(needs.values())).instances].build())
    if count < full_count:
        notes.append(f"Only {count:,} of the {full_count:,} scenarios of the paper's figures.")
        paper = None
    sheet = page(COLUMN_IN, _BAR_IN * len(needs) + _MARGINS_IN, notes)
    ax = sheet.subplots()
    for position, (label, need) in enumerate(needs.items()):
        colour = scheduler_look(need.schedulers[0]).colour
        if label in row_of:
            counts = row_of[label].scenarios or {}
            ax.barh(position, counts["accepted"], 0.7, facecolor=pale(colour), edgecolor=colour)
            ax.barh(position, counts["served"], 0.7, facecolor=colour)
            ax.text(count * 1.04, position, f"{counts['accepted']:,}\n{counts['served']:,}", va="center", fontsize=6)
        if paper is not None and label in paper:
            ax.plot(paper[label], position, **STAR, zorder=3)
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


def _notes(row_of: Mapping[str, Row], needs: Mapping[str, Need]) -> list[str]:
    notes = []
    missing = [label for label in needs if label not in row_of]
    if missing:
        notes.append(f"Not run: {', '.join(missing)}.")
    for label, row in row_of.items():
        counts = row.scenarios or {}
        if counts["decided"] < counts["count"]:
            termination = str(row.termination).replace("_", " ")
            notes.append(f"{label} ended ({termination}) after {counts['decided']:,} scenarios.")
    return notes
