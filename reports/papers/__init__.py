"""Declarations of the figures of the papers and of the bench."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from instances.errors import unknown_name
from reports.figure import Figure, NotDrawn
from reports.need import NothingToDrawError
from reports.papers.not_drawn import NOT_DRAWN

MODULES = (
    *("igniter_slowdown", "igniter_contention", "igniter_model", "igniter_online", "igniter_plans"),
    "igniter_placement",
    *("igniter_scaling", "igniter_shares", "igniter_terms", "igniter_violations"),
    *("gpulet_models", "gpulet_online", "gpulet_pairs", "gpulet_rates", "gpulet_scenarios", "gpulet_served"),
    *(
        "inss_agent",
        "inss_clusters",
        "inss_decision_times",
        "inss_errors",
        "inss_large_cluster",
        "inss_model",
        "inss_violations",
    ),
    *("mediator_contention", "mediator_groups", "mediator_throughput", "mediator_jobs"),
    *(
        "hold",
        "hold_robustness",
        "library",
        "llm_sharing",
        "model_error",
        "optimum",
        "overview",
        "rankings",
        "robustness",
    ),
)
"""Modules that declare figures; each module lists its figures in ``FIGURES``."""


@cache
def _figures() -> Mapping[str, Figure]:
    """Return all figures by name, sorted.

    The modules are imported here and not above, because they import simulation code, which takes time.
    """
    declared = [figure for name in MODULES for figure in import_module(f"{__name__}.{name}").FIGURES]
    return {figure.name: figure for figure in sorted(declared, key=lambda figure: figure.name)}


def figure_names() -> list[str]:
    """Return the names of all figures that can be drawn, sorted."""
    return list(_figures())


def figures_not_drawn() -> Mapping[str, NotDrawn]:
    """Return the figures, tables and algorithms of the papers that are not drawn, by name, ordered by paper."""
    return {entry.name: entry for entry in NOT_DRAWN}


def figure(name: str, where: str = "figure") -> Figure:
    """Return the figure called ``name``.

    Raises
    ------
    NothingToDrawError
        If the figure is not drawn; the error states the reason.
    InputError
        If there is no such figure; ``where`` is the place that the error names.
    """
    figures, not_drawn = _figures(), figures_not_drawn()
    if name in figures:
        return figures[name]
    if name in not_drawn:
        raise NothingToDrawError(name, f"not drawn: {not_drawn[name].reason}")
    raise unknown_name(where, "figure", name, [*figures, *not_drawn], list(figures))
