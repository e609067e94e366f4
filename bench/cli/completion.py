"""Names that a shell offers while a command is typed, and the options that take them."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import typer

from bench.schedulers.registry import entries
from bench.selection import known_names
from instances.catalogue import gpu_type_names
from instances.library import LIBRARY, MARK
from reports.papers import figure_names

Complete = Callable[[Any], list[str]]


def _offered(names: Callable[[], Iterable[str]], marks: str = "") -> Complete:
    """Return a completion of the last of the names that ``marks`` separate."""

    def complete(incomplete: str) -> list[str]:
        last = re.split(f"[{marks}]", incomplete)[-1] if marks else incomplete
        typed = incomplete[: len(incomplete) - len(last)]
        return [typed + name for name in names() if name.startswith(last)]

    return complete


complete_figure = _offered(figure_names)
complete_gpu = _offered(gpu_type_names, ",")
complete_instance = _offered(lambda: [*known_names(), *(f"{MARK}{name}" for name in LIBRARY.names())], ",")
complete_scheduler = _offered(entries, ",@")


def instances_option(help_text: str, metavar: str = "NAME|FILE|DIR[,...]") -> Any:
    """Return the option ``--instances``, which completes known names."""
    return typer.Option("--instances", metavar=metavar, autocompletion=complete_instance, help=help_text)


def schedulers_option(help_text: str, metavar: str = "A,B,C@START") -> Any:
    """Return the option ``--schedulers``, which completes installed schedulers."""
    return typer.Option("--schedulers", metavar=metavar, autocompletion=complete_scheduler, help=help_text)
