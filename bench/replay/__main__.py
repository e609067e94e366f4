"""Command line of a replay on hosts that have only NumPy and PyTorch: ``python -m bench.replay``."""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.replay.backends import BACKENDS
from bench.replay.command import COLUMNS, EXAMPLES, ReplayOrder, Values, cells, remarks, replayed, title
from bench.replay.parser import Parser
from bench.replay.plan_file import read_embedded_plan
from bench.replay.recording import ReplayFailedError, ReplayOptions
from bench.simulation.arrivals import parse_arrivals
from bench.simulation.settings import Settings
from instances import InputError

PROGRAM = "python -m bench.replay"


def _parser() -> Parser:
    parser = Parser(
        PROGRAM,
        description="Replay a plan: serve its requests in real time and measure each of them.",
        epilog="\n".join(["examples:", *(f"  {PROGRAM} plan.json {example}" for example in EXAMPLES)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plan", metavar="PLAN", type=Path, help="plan file that embeds its instance")
    parser.add_argument(
        "--backend", required=True, metavar="|".join(BACKENDS), help="hardware and how gpulets share it"
    )
    parser.add_argument("--seconds", type=float, default=30.0, metavar="N", help="measured seconds (30)")
    parser.add_argument(
        "--warmup", type=float, default=5.0, metavar="N", help="seconds served before the measurement (5)"
    )
    parser.add_argument(
        "--arrivals", default="poisson", metavar="PROCESS|TRACE", help="constant, poisson, gamma[:CV], or a trace file"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the arrivals (0)")
    parser.add_argument("--no-drop", action="store_true", help="also serve requests that already miss their SLO")
    parser.add_argument("--half", action="store_true", help="run models in half precision")
    parser.add_argument("--graphs", action="store_true", help="run batches as CUDA graphs")
    parser.add_argument(
        "--then", type=Path, metavar="PLAN", help="second plan, which replaces the first during the replay"
    )
    parser.add_argument("--switch-at", type=float, metavar="S", help="measured second at which the switch begins")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="output format (table)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; ``arguments`` default to those of the process."""
    try:
        given = _parser().parse_args(arguments)
        values = replayed(_order(given), lambda text: print(text, file=sys.stderr, flush=True))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ReplayFailedError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: the replay is incomplete and has no result", file=sys.stderr)
        return 130
    if given.format == "json":
        print(json.dumps(_finite(values), indent=2))
    else:
        print(_table(values))
    return 1 if values["failures"] else 0


def _order(given: argparse.Namespace) -> ReplayOrder:
    plans = [read_embedded_plan(path) for path in (given.plan, given.then) if path is not None]
    settings = Settings(
        parse_arrivals(given.arrivals, "--arrivals"),
        given.seconds,
        given.warmup,
        given.seed,
        dropping=not given.no_drop,
    )
    return ReplayOrder(plans, given.backend, settings, ReplayOptions(given.half, given.graphs, given.switch_at))


def _table(values: Values) -> str:
    rows = [[column.lstrip(">") for column in COLUMNS], *cells(values)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    lines = [
        "  ".join(
            cell.rjust(width) if column.startswith(">") else cell.ljust(width)
            for cell, width, column in zip(row, widths, COLUMNS, strict=True)
        ).rstrip()
        for row in rows
    ]
    return "\n".join([title(values), "", *lines, "", *remarks(values)])


def _finite(value: object) -> object:
    """Replace the numbers in JSON values that are not finite with null."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
