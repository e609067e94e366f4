"""``bench report --experiments``: EXPERIMENTS.md from the runs in a ledger, and its tables in README.md."""

from pathlib import Path

import typer

from bench.cli.files import refuse_input, write_text
from bench.cli.needed_runs import each_once, make_runs, missing_of, tasks_of, tell_cost
from bench.cli.running import tell_failures
from bench.cli.terminal import listed, say
from bench.doctor.known_bad import refuse_wrong_answers
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.planning import Limits, default_jobs
from reports.experiments import render
from reports.experiments.blocks import refreshed
from reports.figure import Need


def write_experiments(ledger_file: Path, out: Path, run: bool, jobs: int | None = None) -> None:
    """Write the document to ``out`` and report the runs that the ledger lacks; with ``run``, execute them first.

    A ``README.md`` in the same folder may show tables of the document (``reports.experiments.blocks``). These are
    updated.

    Raises
    ------
    InputError
        If ``out`` is the ledger, or a block of the ``README.md`` names no table.
    typer.Exit
        With code 1 if a run failed, and after Ctrl-C.
    """
    refuse_input(out, [ledger_file], "-o")
    made: set[Need] = set()
    rows: list[Row] = []
    with Ledger(ledger_file, create=run) as ledger:
        document = render(ledger)
        # A line of the document may need further runs once it has its first ones.
        while run and (needs := [need for need in document.missing if need not in made]):
            rows += _make(needs, ledger, jobs or default_jobs(threads=1))
            made.update(needs)
            document = render(ledger)
    readme = out.parent / "README.md"
    before = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    after = refreshed(before, document.tables, str(readme))
    write_text(out, document.text)
    if after != before:
        write_text(readme, after)
    if document.missing:
        advice = "" if run else "; --run executes them first"
        say(f"{out} lacks the runs of {listed([f'`{need.command}`' for need in document.missing])}{advice}")
    if tell_failures(rows, ledger_file):
        raise typer.Exit(1)


def _make(needs: list[Need], ledger: Ledger, jobs: int) -> list[Row]:
    """Report the cost of the runs of ``needs`` that the ledger lacks, then execute them."""
    refuse_wrong_answers()
    limits = Limits(time_limit_s=10.0, memory_limit_gb=8.0, threads=1)
    planned = tasks_of(needs, "--experiments", limits)
    tasks, climbing = (
        each_once(found for need, found in planned.items() if need.climb is climb) for climb in (False, True)
    )
    missing, unended = missing_of(tasks, climbing, ledger.path)
    tell_cost(missing, len(unended), jobs)
    return [row for rows in make_runs(tasks, climbing, ledger, jobs).values() for row in rows]
