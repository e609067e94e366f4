"""GPUs of plans with margins under the papers' rule and under ``attainment``: the lower panels of the figure "hold"."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from bench.evaluation import Trial
from bench.ledger.row import Row
from bench.simulation.arrivals import Arrivals
from instances.instance import Instance
from reports.charts.page import Axes
from reports.charts.palette import BLACK, DEEP_BLUE, GREEN
from reports.need import Need
from reports.runs import instances_named

LEVELS = (0.0, 0.8, 0.9, 0.95, 0.99)
"""Levels of the margins; 0 for none."""

SUITE = "margins"
_SCHEDULER = "colgen"
_ATTAINMENT_SUFFIX = "-hold"
"""Suffix of the name of an instance under ``attainment``."""

_WITHOUT_MARGIN = Need(
    SUITE,
    (_SCHEDULER,),
    trial=Trial(arrivals=Arrivals(), check_holds=True),
    time_limit_s=120.0,
    work_limit=3_000_000,
)
NEEDS = tuple(replace(_WITHOUT_MARGIN, trial=replace(_WITHOUT_MARGIN.trial, margin=level)) for level in LEVELS)
"""Runs of every level, on the instances under both rules."""

_RULES = {"": ("papers' rule", DEEP_BLUE, "s"), _ATTAINMENT_SUFFIX: ("attainment", BLACK, "o")}
"""Label, colour and marker of a rule, by the suffix of its instances' names."""


@cache
def instances() -> Mapping[str, Instance]:
    """Return the instances by name."""
    return instances_named(SUITE)


def names_under_papers_rule() -> list[str]:
    """Return the names of the instances under the papers' rule; each also has an instance under ``attainment``."""
    return [name for name in instances() if not name.endswith(_ATTAINMENT_SUFFIX)]


def draw(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Draw the GPUs over the level of the margin, a panel for each GPU type; plans that hold have a green mark."""
    for ax, name in zip(panels, names_under_papers_rule(), strict=True):
        for suffix, (label, colour, marker) in _RULES.items():
            planned = [row for row in _by_level(rows, name + suffix).values() if row.gpus_used is not None]
            positions = [LEVELS.index(row.margin or 0.0) for row in planned]
            ax.plot(positions, [float(row.gpus_used or 0) for row in planned], color=colour, label=label, linewidth=0.9)
            for position, row in zip(positions, planned, strict=True):
                fill = GREEN if row.holds else "white"
                ax.plot(position, row.gpus_used or 0, color=colour, marker=marker, markerfacecolor=fill, markersize=4.5)
        ax.set_xticks(range(len(LEVELS)), [f"{100.0 * level:g} %" if level else "none" for level in LEVELS])
        ax.set(xlabel="Level of the margin", ylim=(0.0, None))
        ax.set_title(f"{instances()[name].gpus[0].type.name.upper()}, model hybrid")
        ax.grid()
        ax.legend(loc="lower right")
    panels[0].set_ylabel(f"GPUs for {len(instances()[names_under_papers_rule()[0]].workloads)} workloads")


def sentences(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each GPU type: GPUs under attainment and with the largest margin, apart and together."""
    texts = []
    for name in names_under_papers_rule():
        plain, under_attainment = (_by_level(rows, name + suffix) for suffix in _RULES)
        levels = [level for level in LEVELS[1:] if _gpus(plain, level) and _gpus(under_attainment, level)]
        if not levels or not _gpus(plain, 0.0) or not _gpus(under_attainment, 0.0):
            continue
        texts.append(
            f"{name}: {_gpus(plain, 0.0)} GPUs under the papers' rule, {_gpus(plain, levels[-1])} with margins at"
            f" {100.0 * levels[-1]:g} %, {_gpus(under_attainment, 0.0)} under attainment,"
            f" {_gpus(under_attainment, levels[-1])} with both."
        )
    return texts


def _by_level(rows: Sequence[Row], name: str) -> dict[float, Row]:
    """Return the latest row of the exact method on an instance at each level, by ascending level."""
    row_by_level = {
        row.margin or 0.0: row
        for row in rows
        if (row.instance, row.scheduler) == (name, _SCHEDULER) and (row.margin or 0.0) in LEVELS
    }
    return dict(sorted(row_by_level.items()))


def _gpus(row_by_level: Mapping[float, Row], level: float) -> int | None:
    return row_by_level[level].gpus_used if level in row_by_level else None
