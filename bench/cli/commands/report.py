"""``bench report``: a web page of a ledger, or the document that compares a ledger with the papers."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.document import write_experiments
from bench.cli.options import DEFAULT_LEDGER, JobsOption
from bench.cli.terminal import emit
from bench.gc_pause import no_collection
from bench.ledger.store import Ledger
from instances import InputError
from reports.page.output_folder import check_folder
from reports.page.site import write_site

EXAMPLES = (
    "bench report results/ledger.sqlite -o site/",
    "bench report results/demo.sqlite -o results/site",
    "bench report --experiments                      # EXPERIMENTS.md from the runs in the ledger",
    "bench report results/experiments.sqlite --experiments --run -o EXPERIMENTS.md",
)


def report(
    ledger_file: Annotated[Path, typer.Argument(metavar="LEDGER", help="Ledger to report.")] = DEFAULT_LEDGER,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR|FILE",
            help="New folder, or folder of an earlier report. Default: site. With --experiments: EXPERIMENTS.md.",
        ),
    ] = None,
    experiments: Annotated[
        bool, typer.Option("--experiments", help="Write EXPERIMENTS.md instead of a web page.")
    ] = False,
    run: Annotated[bool, typer.Option("--run", help="With --experiments: execute missing runs first.")] = False,
    jobs: JobsOption = None,
) -> None:
    """Write a ledger as a web page that opens from disk and needs no network.

    The page shows leaderboards, all plans side by side, plans and bounds over time, simulated latencies, and the
    provenance of every number. The command prints the path of the first page.

    With --experiments, the command writes the document EXPERIMENTS.md instead. It compares the papers' numbers with
    the runs in the ledger. If a README.md in the same folder shows tables of the document, they are updated.
    """
    if experiments:
        write_experiments(ledger_file, output or Path("EXPERIMENTS.md"), run, jobs)
        return
    if run:
        raise InputError("--run", "has an effect only with --experiments; add that option or omit this one")
    folder = output or Path("site")
    check_folder(folder, "-o")
    with no_collection(), Ledger(ledger_file) as ledger:
        emit(f"{write_site(ledger, folder)}\n", sys.stdout)
