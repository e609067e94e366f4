"""Completion of names in a shell, and the options with completed values."""

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from bench.schedulers.registry import entries
from bench.selection import known_names
from instances.catalogue import gpu_type_names
from instances.library import LIBRARY
from instances.library import MARK as LIBRARY_MARK

Complete = Callable[[Any], list[str]]


def completion_of(names: Callable[[], Iterable[str]], separators: str = "") -> Complete:
    """Return a function that completes the last name in a text, in which ``separators`` separate names."""

    def complete(incomplete: str) -> list[str]:
        last_name = re.split(f"[{separators}]", incomplete)[-1] if separators else incomplete
        before = incomplete[: len(incomplete) - len(last_name)]
        return [before + name for name in names() if name.startswith(last_name)]

    return complete


def _figure_names() -> Iterable[str]:
    from reports.papers import figure_names  # imports Numba, which other commands do without

    return figure_names()


complete_figure = completion_of(_figure_names)
complete_gpu = completion_of(gpu_type_names, ",")
complete_instance = completion_of(lambda: [*known_names(), *(f"{LIBRARY_MARK}{name}" for name in LIBRARY.names())], ",")
complete_scheduler = completion_of(entries, ",@")


PlanInstance = Annotated[
    str | None,
    typer.Argument(
        metavar="INSTANCE",
        autocompletion=complete_instance,
        help="Name or file. Default: the instance in the plan file.",
    ),
]


def instances_option(help_text: str, metavar: str = "NAME|FILE|DIR[,...]") -> Any:
    """Return the option ``--instances``, which completes known names."""
    return typer.Option("--instances", metavar=metavar, autocompletion=complete_instance, help=help_text)


def schedulers_option(help_text: str, metavar: str = "A,B,C@START") -> Any:
    """Return the option ``--schedulers``, which completes installed schedulers."""
    return typer.Option("--schedulers", metavar=metavar, autocompletion=complete_scheduler, help=help_text)
