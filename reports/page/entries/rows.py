"""Data of the library's page: its entries, and the picture of their gaps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.formatting import percent, worth
from instances.library import LibraryLine
from instances.library.difficulty import UNMEASURED
from instances.library.entry import NONE
from reports.charts.scales import LABEL
from reports.charts.series import axes
from reports.page.inline_svg import inline_svg
from reports.page.pictures import Key, Picture, csv_address
from reports.page.styles import style_of
from reports.papers.library import GAP_TITLE, LOOKS, SIZE_TITLE, draw_gaps


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """Line of the library's table: the summary of an entry, and the texts of its cells."""

    line: LibraryLine
    gpus: str
    value: str
    bound: str
    gap: str

    @property
    def filters(self) -> dict[str, str]:
        """Texts by which the index of the library's site filters its rows."""
        return {
            "name": self.line.name,
            "objective": self.line.objective,
            "proven": "proven" if self.line.closed else "open",
            "difficulty": self.line.difficulty or UNMEASURED,
            "performance_model": self.line.performance_model,
            "slo_rule": self.line.slo_rule,
            "plan_by": self.line.plan_by or "",
        }


def library_rows(lines: Iterable[LibraryLine]) -> list[LibraryRow]:
    """Return the rows of entries."""
    return [library_row(line) for line in lines]


def library_picture(lines: Sequence[LibraryLine]) -> Picture:
    """Return the gaps of all entries with a plan over their number of workloads, as in the figure ``library``."""
    planned = {
        objective: [line for line in lines if line.objective == objective and line.value is not None]
        for objective in LOOKS
    }
    sheet, ax = axes(SIZE_TITLE, GAP_TITLE)
    draw_gaps(ax, lines)
    ax.tick_params(length=0, labelsize=LABEL["fontsize"], labelcolor=LABEL["color"], pad=6)
    ax.grid(linewidth=1.0)
    svg = inline_svg(
        sheet,
        "library",
        "Gap of every entry with a plan over its number of workloads",
        {objective: look.colour for objective, look in LOOKS.items()},
        {
            objective: [f"{line.name}: {percent(line.gap)}" for line in objective_lines]
            for objective, objective_lines in planned.items()
        },
    )
    keys = [Key(objective, style_of(look), "full", None, [objective], True) for objective, look in LOOKS.items()]
    values = [
        [line.name, line.objective, line.workloads, line.gap]
        for objective_lines in planned.values()
        for line in objective_lines
    ]
    return Picture("library", svg, keys, csv_address([["name", "objective", "workloads", "gap"], *values]))


def library_row(line: LibraryLine) -> LibraryRow:
    """Return the row of an entry."""
    bound = line.bound or "-"
    return LibraryRow(
        line=line,
        gpus=", ".join(gpu if count is None else f"{count} {gpu}" for gpu, count in line.gpus.items()),
        value=worth(line.value, line.objective),
        bound=bound if bound in ("-", NONE) else worth(float(bound), line.objective),
        gap=percent(line.gap),
    )
