"""Figures of the papers: every ``Figure`` that a module of this folder declares."""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from instances.errors import unknown_name
from reports.figure import Figure, NotDrawn, NothingToDrawError
from reports.not_drawn import NOT_DRAWN


@cache
def _figures() -> Mapping[str, Figure]:
    """Return all figures by name; their modules import drawing and simulation code only on use."""
    modules = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    declared = [value for module in modules for value in vars(module).values() if isinstance(value, Figure)]
    return {figure.name: figure for figure in sorted(declared, key=lambda figure: figure.name)}


def figure_names() -> list[str]:
    """Return the names of all figures that can be drawn, sorted."""
    return list(_figures())


def figures_not_drawn() -> Mapping[str, NotDrawn]:
    """Return by name the figures, tables and algorithms of the papers that are not drawn, paper by paper."""
    return {each.name: each for each in NOT_DRAWN}


def figure(name: str, where: str = "figure") -> Figure:
    """Return the figure called ``name``.

    Raises
    ------
    NothingToDrawError
        If the figure is not drawn; says why.
    InputError
        If there is none; ``where`` is the place that the error names.
    """
    known, missing = _figures(), figures_not_drawn()
    if name in known:
        return known[name]
    if name in missing:
        raise NothingToDrawError(name, f"not drawn: {missing[name].reason}")
    raise unknown_name(where, "figure", name, [*known, *missing], list(known))
