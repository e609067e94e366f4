"""``bench library withdraw``: degenerate entries leave the library."""

from typing import Annotated

import typer

from bench.cli.options import LibraryOption
from bench.cli.terminal import say
from bench.cli.views.library import open_library
from bench.library.review import write_record
from instances import InputError

EXAMPLES = ("bench library withdraw 'scale-turing-*'",)

REASON = "its bound proves that nothing can be served"
"""Reason that the library records for a degenerate entry."""


def withdraw(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Entries, such as 'scale-turing-*'.")],
    folder: LibraryOption = None,
) -> None:
    """Remove degenerate entries: their bound proves that no plan exists, or that none serves anything.

    Other entries that match are left as they are. `withdrawn.json` lists the names, which are never used again.
    """
    library = open_library(folder, written=True)
    degenerate = [name for name in library.names(pattern) if library.entry(name).degenerate]
    if not degenerate:
        raise InputError("PATTERN", f'"{pattern}" matches no degenerate entry')
    for name in degenerate:
        library.withdraw(name, REASON)
        say(f"{name} is withdrawn: {REASON}")
    write_record(library, {})
