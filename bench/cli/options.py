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
TimeLimitOption = Annotated[
    float, typer.Option("--time-limit", metavar="S", help="Seconds that a scheduler may take for one run.")
]
WorkLimitOption = Annotated[
    int | None,
    typer.Option(
        "--work-limit",
        metavar="N",
        min=0,
        max=2**63 - 1,
        help="Units of work, each scheduler's own (see bench list schedulers): the result is then the same on a slow "
        "or busy machine, as long as --time-limit is generous. Schedulers without a unit end by themselves.",
    ),
]
MemoryLimitOption = Annotated[
    float,
    typer.Option("--memory-limit", metavar="GB", help="Address space of a run; the imports alone may take 2 GB."),
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", metavar="N", min=1, max=1024, help="That a scheduler and its solver may use.")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, help="Runs at a time; default: cores / threads.")
]
RetryOption = Annotated[bool, typer.Option("--retry", help="Run again those in the ledger that failed.")]
ArrivalsOption = Annotated[
    str,
    typer.Option(
        "--arrivals", metavar="PROCESS|TRACE", help="constant, poisson, gamma[:CV], or a file of requests per second."
    ),
]
HeadroomOption = Annotated[
    float, typer.Option("--headroom", metavar="F", help="Plan as if every latency were F times as long.")
]
TruthOption = Annotated[
    str | None,
    typer.Option("--truth", metavar="MODEL", help="Performance model by which the GPUs really behave."),
]
ErrorOption = Annotated[
    float,
    typer.Option("--error", metavar="E", help="Every figure of the GPUs is really off by up to this fraction."),
]


def examples(lines: Sequence[str]) -> str:
    """Return the end of a command's help: ``lines`` under a heading, kept as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
