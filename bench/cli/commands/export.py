"""``bench export``: a ledger as one flat, documented table."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import DEFAULT_LEDGER
from bench.cli.terminal import emit, say
from bench.ledger.export_table import documentation, like_formulas, table, to_csv, to_parquet
from bench.ledger.store import Ledger
from instances import InputError
from instances.files import write_bytes

EXAMPLES = (
    "bench export results/ledger.sqlite -o runs.csv",
    "bench export results/ledger.sqlite --format parquet -o runs.parquet",
    "bench export --columns     # what the columns mean, in which units",
)


class TableFormat(StrEnum):
    """A format of tables."""

    CSV = "csv"
    PARQUET = "parquet"


def export(
    ledger_file: Annotated[Path, typer.Argument(metavar="LEDGER", help="The file with the runs.")] = DEFAULT_LEDGER,
    form: Annotated[
        TableFormat, typer.Option("--format", help="Parquet needs pyarrow: pip install 'gpushare-bench[parquet]'.")
    ] = TableFormat.CSV,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; default for CSV: standard output.")
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Only say what the columns mean: the text of docs/columns.md.")
    ] = False,
) -> None:
    """Write every run of a ledger as a line of one table, a column per figure, for analysis elsewhere.

    Texts are written as they are, also those that a spreadsheet would take for formulas. Plans, trajectories and
    simulations in full are in `bench show KEY --format json`.
    """
    if columns:
        emit(documentation(), sys.stdout)
        return
    if form is TableFormat.PARQUET and output is None:
        raise InputError("--output", "is missing; Parquet goes into a file")
    with Ledger(ledger_file) as ledger:
        lines = list(table(ledger))
    data = to_parquet(lines) if form is TableFormat.PARQUET else to_csv(lines).encode()
    if output is None:
        emit(data.decode(), sys.stdout)
    else:
        write_bytes(output, data)
        say(f"{len(lines)} runs in {output}")
    formulas = like_formulas(lines)
    if formulas and form is TableFormat.CSV:
        say(f"{formulas} texts begin with =, +, - or @; where a spreadsheet opens the file, import them as text")
