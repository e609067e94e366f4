"""Figures of the papers, one file each; a new file in this folder is a new figure."""

import pkgutil
from importlib import import_module

from instances.errors import unknown_name
from reports.figure import Figure


def figure_names() -> list[str]:
    """Return the names of all figures, sorted, without importing any."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def figure(name: str, where: str = "figure") -> Figure:
    """Return the figure called ``name``.

    Raises
    ------
    InputError
        If there is none; ``where`` names the place that asked.
    """
    known = figure_names()
    if name not in known:
        raise unknown_name(where, "figure", name, known)
    found: Figure = import_module(f"{__name__}.{name.replace('-', '_')}").FIGURE
    return found
