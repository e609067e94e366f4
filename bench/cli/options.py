"""Options that several commands share, and how their help shows examples."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_LEDGER = Path("results/ledger.sqlite")

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


class Format(StrEnum):
    """For people or for programs."""

    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="For people or for programs.")]
LedgerOption = Annotated[Path, typer.Option("--ledger", metavar="FILE", help="The file with all runs.")]


def examples(lines: Sequence[str]) -> str:
    """Return the end of a command's help: ``lines`` under a heading, kept as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
