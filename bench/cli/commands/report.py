"""``bench report``: a ledger as a web page, or as the document that compares it with the papers."""

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
    "bench report --experiments                      # EXPERIMENTS.md from what the ledger has",
    "bench report results/experiments.sqlite --experiments --run -o EXPERIMENTS.md",
)


def report(
    ledger_file: Annotated[Path, typer.Argument(metavar="LEDGER", help="The file with all runs.")] = DEFAULT_LEDGER,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR|FILE",
            help="New folder, or that of a former report (default: site); with --experiments EXPERIMENTS.md.",
        ),
    ] = None,
    experiments: Annotated[
        bool, typer.Option("--experiments", help="Write the document that compares the papers' numbers with the runs.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="With --experiments: make the runs that are missing first.")
    ] = False,
    jobs: JobsOption = None,
) -> None:
    """Write a ledger as a web page that opens from disk, without any other host.

    Leaderboards, all plans side by side, plans and bounds over time, simulated latencies, and where every number comes
    from. Prints the path of the first page.

    With --experiments the document EXPERIMENTS.md instead: what the papers report beside what the ledger has.
    Tables of it that a README.md in the same folder shows are made anew, too.
    """
    if experiments:
        write_experiments(ledger_file, output or Path("EXPERIMENTS.md"), run, jobs)
        return
    if run:
        raise InputError("--run", "makes the runs of --experiments, which is not asked for")
    folder = output or Path("site")
    check_folder(folder, "-o")
    with no_collection(), Ledger(ledger_file) as ledger:
        emit(f"{write_site(ledger, folder)}\n", sys.stdout)
