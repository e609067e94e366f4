"""Options that several commands share, and the examples at the end of their help."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bench.then import Then

DEFAULT_LEDGER = Path("results/ledger.sqlite")

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

GAVE_UP = 3
"""Exit code of a check that reached a limit."""

CRASHED = 70
"""Exit code after a fault of the bench itself (``EX_SOFTWARE`` of ``sysexits.h``)."""


Format = Literal["table", "json"]
"""Output format: a table for people or JSON for programs."""

FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]
LedgerOption = Annotated[Path, typer.Option("--ledger", metavar="FILE", help="SQLite file with all runs.")]
LibraryOption = Annotated[
    Path | None,
    typer.Option("--library", metavar="DIR", help="Folder of the entries. Default: the library of this checkout."),
]
TimeLimitOption = Annotated[float, typer.Option("--time-limit", metavar="S", help="Seconds per run for the scheduler.")]
CheckLimitOption = Annotated[
    float, typer.Option("--check-limit", metavar="S", help="Seconds of computing for the check of a certificate.")
]
WorkLimitOption = Annotated[
    int | None,
    typer.Option(
        "--work-limit",
        metavar="N",
        min=0,
        max=2**63 - 1,
        help="Limit in the scheduler's own unit of work (see bench list schedulers). With a generous --time-limit, the "
        "result does not depend on the machine's speed. Schedulers without a unit ignore it.",
    ),
]
MemoryLimitOption = Annotated[
    float, typer.Option("--memory-limit", metavar="GB", help="Address space per run; imports alone may take 2 GB.")
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", metavar="N", min=1, max=1024, help="Threads per run, for scheduler and solver.")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, help="Parallel runs. Default: cores / threads.")
]
RetryOption = Annotated[bool, typer.Option("--retry", help="Repeat the failed runs in the ledger.")]
ArrivalsOption = Annotated[
    str,
    typer.Option(
        "--arrivals",
        metavar="PROCESS|TRACE",
        help="Arrival process: constant, poisson, gamma[:CV], or a trace file of requests per second.",
    ),
]
OwnArrivalsOption = Annotated[
    str | None,
    typer.Option(
        "--arrivals",
        metavar="PROCESS|TRACE",
        help="Arrival process: constant, poisson, gamma[:CV], or a trace file. Default: the instance's, else poisson.",
    ),
]
HeadroomOption = Annotated[
    float, typer.Option("--headroom", metavar="F", help="Plan with every predicted latency multiplied by F.")
]
MarginOption = Annotated[
    float,
    typer.Option(
        "--margin",
        metavar="LEVEL",
        help="Plan with margins that cover this fraction of measured times beside others; 0: no margins.",
    ),
]
ThenOption = Annotated[
    Then, typer.Option("--then", help="Second objective: among plans of equal cost, most slack, or none.")
]
ThenLimitOption = Annotated[
    float, typer.Option("--then-limit", metavar="S", help="Seconds for the second objective, after the first.")
]
ParametersOption = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME.PARAMETER=VALUE", help="Scheduler parameter; repeatable."),
]
SweptParametersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME.PARAMETER=VALUE[,...]",
        help="Scheduler parameter; repeatable. With several values, every combination is a run.",
    ),
]
SeedsOption = Annotated[str, typer.Option("--seeds", metavar="0,1,...", help="Seeds; one run each.")]
CheckHoldsOption = Annotated[
    bool,
    typer.Option(
        "--check-holds",
        help="Test in 10 long simulations whether every plan holds: no workload misses its attainment.",
    ),
]
DropOption = Annotated[
    bool | None,
    typer.Option(
        "--drop/--no-drop",
        help="Whether servers drop requests that can no longer meet their SLO. Default: as the instance says.",
    ),
]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.")]
TruthOption = Annotated[
    str | None,
    typer.Option(
        "--truth",
        metavar="MODEL|measured:FOLDER",
        help="True performance model of the GPUs, or measured latencies of the plans' configurations. Default: the"
        " planner's model.",
    ),
]
ErrorOption = Annotated[
    float, typer.Option("--error", metavar="E", help="The true GPU figures differ from the planner's by up to E.")
]


def output_option(help_text: str, metavar: str = "FILE") -> Any:
    """Return the option ``--output``."""
    return typer.Option("-o", "--output", metavar=metavar, help=help_text)


def examples(lines: Sequence[str]) -> str:
    """Return the end of a command's help: ``lines`` under a heading, without rewrapping."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
