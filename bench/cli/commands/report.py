"""``bench report``: a web page of a ledger, or the document that compares a ledger with the papers."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.files import refuse_input
from bench.cli.options import DEFAULT_LEDGER, JobsOption, output_option
from bench.cli.running import make_runs, missing_of, report_cost, report_failures, tasks_of
from bench.cli.terminal import emit, listed, say
from bench.doctor.solvers import refuse_wrong_answers
from bench.ledger.row import Row
from bench.ledger.store import Ledger, garbage_collection_paused
from bench.planning import Limits, default_jobs
from instances import InputError
from instances.files import write_bytes
from reports.experiments import Document, render
from reports.experiments.blocks import refreshed
from reports.need import Need
from reports.page.files import check_folder
from reports.page.site import write_site
from reports.runs import merged

EXAMPLES = (
    "bench report results/ledger.sqlite -o site/",
    "bench report results/demo.sqlite -o results/site",
    "bench report --experiments                      # EXPERIMENTS.md from the runs in the ledger",
    "bench report results/experiments.sqlite --experiments --run -o EXPERIMENTS.md",
    "bench report results/experiments.sqlite --experiments --run --renew",
)


def report(
    ledger_file: Annotated[Path, typer.Argument(metavar="LEDGER", help="Ledger to report.")] = DEFAULT_LEDGER,
    output: Annotated[
        Path | None,
        output_option(
            "New folder, or folder of an earlier report. Default: site. With --experiments: EXPERIMENTS.md.", "DIR|FILE"
        ),
    ] = None,
    experiments: Annotated[
        bool, typer.Option("--experiments", help="Write EXPERIMENTS.md instead of a web page.")
    ] = False,
    run: Annotated[bool, typer.Option("--run", help="With --experiments: execute missing runs first.")] = False,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew", help="With --run: also repeat the runs of schedulers whose code has changed or is not stated."
        ),
    ] = False,
    jobs: JobsOption = None,
) -> None:
    """Write a ledger as a web page that opens from disk and needs no network.

    The page shows leaderboards, all plans side by side, plans and bounds over time, simulated latencies, and the
    provenance of every number. The command prints the path of the first page.

    With --experiments, the command writes the document EXPERIMENTS.md instead. It compares the papers' numbers with
    the runs in the ledger. Tables of the document in a README.md beside it, or in docs/*.md, are updated.
    """
    if renew and not run:
        raise InputError("--renew", "has an effect only with --run; add that option or omit this one")
    if experiments:
        _write_experiments(ledger_file, output or Path("EXPERIMENTS.md"), run, renew, jobs)
        return
    if run:
        raise InputError("--run", "has an effect only with --experiments; add that option or omit this one")
    folder = output or Path("site")
    check_folder(folder)
    with garbage_collection_paused(), Ledger(ledger_file) as ledger:
        emit(f"{write_site(ledger, folder)}\n", sys.stdout)


def _write_experiments(ledger_file: Path, out: Path, run: bool, renew: bool, jobs: int | None) -> None:
    """Write the document to ``out`` and report the runs that the ledger lacks; with ``run``, execute them first.

    With ``renew``, runs are also executed again if the code of their schedulers has changed or is not stated.
    Tables of the document in ``README.md`` and ``docs/*.md`` beside it are updated.
    """
    refuse_input(out, [ledger_file], "-o")
    executed: set[Need] = set()
    rows: list[Row] = []
    with Ledger(ledger_file, create=run) as ledger:
        document = render(ledger)
        # A line of the document may need further runs after its first runs.
        while run and (needs := [need for need in _wanted(document, renew) if need not in executed]):
            rows += _execute(needs, ledger, jobs or default_jobs(threads=1))
            executed.update(needs)
            document = render(ledger)
    beside = [out.parent / "README.md", *sorted((out.parent / "docs").glob("*.md"))]
    pages = {page: page.read_text(encoding="utf-8") for page in beside if page.is_file()}
    refreshed_pages = {page: refreshed(text, document.tables, str(page)) for page, text in pages.items()}
    write_bytes(out, document.text.encode())
    for page, text in refreshed_pages.items():
        if text != pages[page]:
            write_bytes(page, text.encode())
    if document.missing:
        advice = "" if run else "; --run executes them first"
        say(f"{out} lacks the runs of {listed([f'`{need.command}`' for need in document.missing])}{advice}")
    if report_failures(rows, ledger):
        raise typer.Exit(1)


def _wanted(document: Document, renew: bool) -> list[Need]:
    """Return the needs whose runs are missing; with ``renew``, also those whose runs are outdated."""
    return merged([*document.missing, *(document.outdated if renew else ())])


def _execute(needs: list[Need], ledger: Ledger, jobs: int) -> list[Row]:
    """Report the cost of the runs of ``needs`` that the ledger lacks, then execute them."""
    refuse_wrong_answers()
    limits = Limits(time_limit_s=10.0, memory_limit_gb=8.0, threads=1)
    planned = tasks_of(needs, "--experiments", limits)
    missing, climb_runs = missing_of(planned, ledger.path)
    report_cost(missing, len(climb_runs), jobs)
    return [row for rows in make_runs(planned, ledger, jobs).values() for row in rows]
