"""GPUs that sharing saves for language-model services: whole GPUs, eighths, and MPS shares by each scheduler."""

from collections.abc import Mapping, Sequence

from bench.ledger.row import Row
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, page, stroke
from reports.charts.palette import QUIET, pale, scheduler_look
from reports.figure import Figure
from reports.need import Need
from reports.quantities import proven_gpus
from reports.selection import missing_notes, rows_by_label

_INSTANCES, _QUICK = "llm-4gpu,llm-16gpu,llm-mix", "llm-4gpu"
_EIGHTHS = "-eighths"


def _shared(scheduler: str, *parameters: str) -> Need:
    return Need(_INSTANCES, (scheduler,), quick=_QUICK, parameters=parameters)


OPTIMUM = "colgen, shares"
METHODS: Mapping[str, Need] = {
    "a GPU for each phase": _shared("whole-gpu", "whole-gpu.by_service=false"),
    "a GPU for each service": _shared("whole-gpu", "whole-gpu.by_service=true"),
    "equal shares": _shared("equal-shares"),
    "colgen, eighths": Need("llm-eighths", ("colgen",), quick=_QUICK + _EIGHTHS),
    "igniter": _shared("igniter"),
    "ffd++": _shared("ffd++"),
    "local-search": _shared("local-search"),
    OPTIMUM: _shared("colgen"),
}
"""Needs by label, from no sharing to the optimum."""

PANELS: Mapping[str, Sequence[str]] = {
    "llm-4gpu": ("llm-4gpu",),
    "llm-16gpu": ("llm-16gpu",),
    "llm-mix": tuple(f"llm-mix-{n}" for n in range(1, 6)),
}
"""Instances of each panel; their GPUs are added up."""

_HEIGHT_IN = 2.6
_UNMEASURED = (
    "Not measured: interference (predicted latencies are multiplied by 1.2 instead), memory, and shares below 30 % of"
    " the SMs, so that at most three gpulets share a GPU. Every gpulet has its own copy of the weights. Eighths divide"
    " the SMs as MIG would, but not the memory. Dotted: certified bound of plans with MPS shares."
)


def gpus(found: Mapping[tuple[str, str], Row], label: str, instances: Sequence[str]) -> int | None:
    """Return the GPUs of a method on some instances together; ``None`` if a feasible plan of one is missing."""
    suffix = _EIGHTHS if METHODS[label].instances.endswith(_EIGHTHS) else ""
    rows = [found.get((label, name + suffix)) for name in instances]
    used = [row.gpus_used if row is not None and row.feasible else None for row in rows]
    return None if None in used else sum(each or 0 for each in used)


def fewest(found: Mapping[tuple[str, str], Row], instances: Sequence[str]) -> int | None:
    """Return the certified bound on the GPUs of some instances together; ``None`` if one is missing."""
    rows = [found.get((OPTIMUM, name)) for name in instances]
    proven = [None if row is None else proven_gpus(row) for row in rows]
    return None if None in proven else sum(each or 0 for each in proven)


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    found = rows_by_label(rows, METHODS)
    own = list(found.values())
    fruitless = [row for row in own if row.gpus_used is None or not row.feasible]
    notes = missing_notes(figure, own, fruitless)
    drawn = {
        name: instances
        for name, instances in PANELS.items()
        if any(gpus(found, label, instances) is not None for label in METHODS)
    }
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, [_UNMEASURED, *notes])
    panels = sheet.subplots(1, len(drawn), sharey=True, squeeze=False).ravel()
    for ax, (name, instances) in zip(panels, drawn.items(), strict=True):
        _draw_panel(ax, found, instances)
        ax.set_title(name if len(instances) == 1 else f"{name}: {len(instances)} instances together")
    panels[0].set_yticks(range(len(METHODS)), list(METHODS))
    panels[0].invert_yaxis()
    sheet.legend(handles=[stroke("certified bound", color="black", linestyle=":")], loc="outside upper right", ncols=1)
    return sheet


def _draw_panel(ax: Axes, found: Mapping[tuple[str, str], Row], instances: Sequence[str]) -> None:
    for place, (label, need) in enumerate(METHODS.items()):
        used = gpus(found, label, instances)
        if used is not None:
            colour = scheduler_look(need.schedulers[0]).colour
            ax.barh(place, used, 0.7, facecolor=pale(colour) if label != OPTIMUM else colour, edgecolor=colour)
            ax.text(used, place, f" {used}", va="center", fontsize="small", color=QUIET)
    bound = fewest(found, instances)
    if bound is not None:
        ax.axvline(bound, color="black", linestyle=":", linewidth=0.8)
    ax.set_xlabel("GPUs")
    ax.set_xlim(0.0, ax.get_xlim()[1] * 1.08)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")


SHARING = Figure(
    name="llm-sharing",
    title="GPUs for language-model services, shared and not",
    paper="ours",
    shows="Decoding barely needs the SMs that prefill wants, so services share GPUs.",
    look_for="Bars of MPS shares that end at the certified bound, far left of whole GPUs and left of eighths.",
    cost="56 runs, two minutes",
    needs=tuple(METHODS.values()),
    draws=_draw,
)

FIGURES = (SHARING,)
