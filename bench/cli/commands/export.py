"""``bench export``: conversion of a ledger to one flat, documented table."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli.options import DEFAULT_LEDGER, output_option
from bench.cli.terminal import emit, say
from bench.ledger.export_table import documentation, like_formulas, table, to_csv, to_parquet
from bench.ledger.store import Ledger
from instances import InputError
from instances.files import write_bytes

EXAMPLES = (
    "bench export results/ledger.sqlite -o runs.csv",
    "bench export results/ledger.sqlite -o runs.parquet",
    "bench export --columns     # meaning and unit of every column",
)


def export(
    ledger_file: Annotated[Path, typer.Argument(metavar="LEDGER", help="Ledger to export.")] = DEFAULT_LEDGER,
    form: Annotated[
        Literal["csv", "parquet"] | None,
        typer.Option(
            "--format",
            help="parquet requires pip install 'gpushare-bench[parquet]'. Default: by the suffix of the file, or csv.",
        ),
    ] = None,
    output: Annotated[Path | None, output_option("Output file. Default for CSV: standard output.")] = None,
    spreadsheet: Annotated[
        bool, typer.Option("--spreadsheet", help="CSV: write an apostrophe before texts that look like formulas.")
    ] = False,
    columns: Annotated[
        bool, typer.Option("--columns", help="Print only the meaning of the columns (docs/columns.md).")
    ] = False,
) -> None:
    """Write a ledger as one table with a line per run, for analysis with other tools.

    Without --spreadsheet, texts are written unchanged except for control characters, even if a spreadsheet would read
    them as formulas. The table has no plans, trajectories or full simulations; `bench show KEY --format json` prints
    these.
    """
    if columns:
        emit(documentation(), sys.stdout)
        return
    by_suffix: Literal["csv", "parquet"] = "parquet" if output and output.suffix == ".parquet" else "csv"
    if form == "csv" and by_suffix == "parquet":
        raise InputError("--format", f"is csv, but {output} is named as Parquet; omit --format or change the name")
    form = form or by_suffix
    if form == "parquet" and output is None:
        raise InputError("--output", "is missing; expected a file for Parquet")
    if form == "parquet" and spreadsheet:
        raise InputError("--spreadsheet", "has an effect only with --format csv; omit it")
    with Ledger(ledger_file) as ledger:
        lines = list(table(ledger))
    data = to_parquet(lines) if form == "parquet" else to_csv(lines, spreadsheet).encode()
    if output is None:
        emit(data.decode(), sys.stdout)
    else:
        write_bytes(output, data)
        say(f"{len(lines)} runs in {output}")
    formula_count = like_formulas(lines)
    if formula_count and form == "csv" and not spreadsheet:
        say(f"{formula_count} texts begin with =, +, - or @; for a spreadsheet, repeat the command with --spreadsheet")
