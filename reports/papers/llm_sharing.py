"""GPUs for language-model services: without sharing, with eighths of GPUs, and with MPS shares by each scheduler."""

from collections.abc import Mapping, Sequence

from bench.ledger.row import Row
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, page, stroke
from reports.charts.palette import QUIET, pale, scheduler_look
from reports.figure import Figure
from reports.need import Need
from reports.quantities import proven_gpus
from reports.selection import missing_notes, rows_by_label

_INSTANCES, _QUICK = "llm-4gpu,llm-16gpu,llm-mix", "llm-4gpu"
_EIGHTHS_SUFFIX = "-eighths"


def _need(scheduler: str, *parameters: str) -> Need:
    return Need(_INSTANCES, (scheduler,), quick=_QUICK, parameters=parameters)


OPTIMUM = "colgen, shares"
METHODS: Mapping[str, Need] = {
    "a GPU for each phase": _need("whole-gpu", "whole-gpu.by_service=false"),
    "a GPU for each service": _need("whole-gpu", "whole-gpu.by_service=true"),
    "equal shares": _need("equal-shares"),
    "colgen, eighths": Need("llm-eighths", ("colgen",), quick=_QUICK + _EIGHTHS_SUFFIX),
    "igniter": _need("igniter"),
    "ffd++": _need("ffd++"),
    "local-search": _need("local-search"),
    OPTIMUM: _need("colgen"),
}
"""Needs by label, from no sharing to the optimum."""

PANELS: Mapping[str, Sequence[str]] = {
    "llm-4gpu": ("llm-4gpu",),
    "llm-16gpu": ("llm-16gpu",),
    "llm-mix": tuple(f"llm-mix-{n}" for n in range(1, 6)),
}
"""Instances of each panel; the GPUs of a panel's instances are added."""

_HEIGHT_IN = 2.6
_UNMEASURED = (
    "Not measured: interference (predicted latencies are multiplied by 1.2 instead), memory, and shares below 30 % of"
    " the SMs, so that at most three gpulets share a GPU. Every gpulet has its own copy of the weights. Eighths divide"
    " the SMs as MIG would, but not the memory. Dotted: certified bound of plans with MPS shares."
)


def gpus(row_of: Mapping[tuple[str, str], Row], label: str, instances: Sequence[str]) -> int | None:
    """Return the number of GPUs of a method, summed over instances; ``None`` if an instance has no feasible plan."""
    suffix = _EIGHTHS_SUFFIX if METHODS[label].instances.endswith(_EIGHTHS_SUFFIX) else ""
    rows = [row_of.get((label, name + suffix)) for name in instances]
    gpu_counts = [row.gpus_used if row is not None and row.feasible else None for row in rows]
    return None if None in gpu_counts else sum(count or 0 for count in gpu_counts)


def bound_gpus(row_of: Mapping[tuple[str, str], Row], instances: Sequence[str]) -> int | None:
    """Return the certified bound on the number of GPUs, summed over instances; ``None`` if an instance has no bound."""
    rows = [row_of.get((OPTIMUM, name)) for name in instances]
    proven_counts = [None if row is None else proven_gpus(row) for row in rows]
    return None if None in proven_counts else sum(count or 0 for count in proven_counts)


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    row_of = rows_by_label(rows, METHODS)
    all_rows = list(row_of.values())
    fruitless = [row for row in all_rows if row.gpus_used is None or not row.feasible]
    notes = missing_notes(figure, all_rows, fruitless)
    drawn_panels = {
        name: instances
        for name, instances in PANELS.items()
        if any(gpus(row_of, label, instances) is not None for label in METHODS)
    }
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, [_UNMEASURED, *notes])
    panels = sheet.subplots(1, len(drawn_panels), sharey=True, squeeze=False).ravel()
    for ax, (name, instances) in zip(panels, drawn_panels.items(), strict=True):
        _draw_panel(ax, row_of, instances)
        ax.set_title(name if len(instances) == 1 else f"{name}: {len(instances)} instances together")
    panels[0].set_yticks(range(len(METHODS)), list(METHODS))
    panels[0].invert_yaxis()
    sheet.legend(handles=[stroke("certified bound", color="black", linestyle=":")], loc="outside upper right", ncols=1)
    return sheet


def _draw_panel(ax: Axes, row_of: Mapping[tuple[str, str], Row], instances: Sequence[str]) -> None:
    for position, (label, need) in enumerate(METHODS.items()):
        gpu_count = gpus(row_of, label, instances)
        if gpu_count is not None:
            colour = scheduler_look(need.schedulers[0]).colour
            ax.barh(position, gpu_count, 0.7, facecolor=pale(colour) if label != OPTIMUM else colour, edgecolor=colour)
            ax.text(gpu_count, position, f" {gpu_count}", va="center", fontsize="small", color=QUIET)
    bound = bound_gpus(row_of, instances)
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
