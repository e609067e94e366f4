"""``bench figures``: the papers' figures, and the runs that they need."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.cli import options
from bench.cli.completion import complete_figure, instances_option, schedulers_option
from bench.cli.fields import Without, takes_fields
from bench.cli.files import make_folder
from bench.cli.running import (
    announced_jobs,
    distinct_tasks,
    make_runs,
    missing_of,
    report_cost,
    report_failures,
    tasks_of,
)
from bench.cli.terminal import emit, listed, say
from bench.cli.views.bar import progress_bar
from bench.doctor.solvers import refuse_wrong_answers
from bench.ledger.refutation import ledger_refutations, upheld
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.planning import Limits
from bench.selection import names_in
from bench.task import Task
from instances import InputError
from reports import papers
from reports.charts.page import COLUMN_IN, LARGEST_WIDTH_IN, SMALLEST_WIDTH_IN, PageFormat
from reports.figure import Figure
from reports.from_ledger import LedgerRuns
from reports.need import NothingToDrawError

EXAMPLES = (
    "bench list figures",
    "bench figures igniter-fig14",
    "bench figures --quick --out results/figures",
    "bench figures --no-run",
    "bench figures --from results/demo.sqlite   # draw from another ledger without running anything",
    "bench figures performance-profiles --from mine.sqlite --schedulers igniter,mine   # any runs",
    "bench figures library --width 3.33 --no-notes   # for one column of a paper",
)


@takes_fields
def draw_figures(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", autocompletion=complete_figure, help="Figures to draw. Default: all."),
    ] = None,
    ledger_file: options.LedgerOption = options.DEFAULT_LEDGER,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder.")] = Path("results/figures"),
    no_run: Annotated[bool, typer.Option("--no-run", help="Exit with code 2 if the ledger lacks runs.")] = False,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Draw from the runs in this ledger and execute none.")
    ] = None,
    instances: Annotated[
        list[str] | None, instances_option("With --from: draw only the runs on these.", metavar="NAME|FILE[,...]")
    ] = None,
    schedulers: Annotated[
        str | None, schedulers_option("With --from: draw only runs of these.", metavar="A,B,...")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use a figure's smaller instances, if it has any.")] = False,
    width_in: Annotated[
        float | None,
        typer.Option(
            "--width",
            metavar="IN",
            min=SMALLEST_WIDTH_IN,
            max=LARGEST_WIDTH_IN,
            help=f"Width in inches; a column of a paper has {COLUMN_IN:g}. Default: the figure's own.",
        ),
    ] = None,
    notes: Annotated[bool, typer.Option(help="Print the notes below the figures.")] = True,
    *,
    limits: Annotated[Limits, Without(["work_limit"])],
    jobs: options.JobsOption = None,
) -> None:
    """Draw the papers' figures from the runs in the ledger.

    Missing runs are executed first; their expected cost is printed before they start. Runs of further schedulers on a
    figure's instances are drawn as well. The command prints the names of the written files.

    With --from, runs with other limits, versions or machines are used as well; of several runs of a scheduler on an
    instance, figures draw one with default parameters. `performance-profiles`, `primal-integral` and
    `critical-difference` then draw any runs, such as those of --instances and --schedulers.

    If a figure cannot be drawn, one line gives the reason. The exit code is then 1 if the figure was named on the
    command line.
    """
    try:
        figures = [papers.figure(name, "figures") for name in dict.fromkeys(names or papers.figure_names())]
    except NothingToDrawError as error:
        say(str(error))
        raise typer.Exit(1) from None
    page_format = PageFormat(width_in, notes)
    if source is not None:
        _draw_from(source, figures, bool(names), out, instances or [], schedulers, page_format)
        return
    if instances or schedulers:
        option = "--instances" if instances else "--schedulers"
        raise InputError(option, "chooses among the runs of a ledger; add --from")
    parallel_runs = announced_jobs(jobs, limits.threads)
    planned = tasks_of([need for figure in figures for need in figure.needs], "figures", limits, quick)
    missing, climb_runs = missing_of(planned, ledger_file)
    if no_run and (missing or climb_runs):
        lacking_tasks = [*missing, *climb_runs]
        runs = listed([f"{task.scheduler} on {task.instance.name}" for task in lacking_tasks])
        problem = f"{ledger_file} lacks {len(lacking_tasks)} runs: {runs}; omit --no-run to execute them"
        raise InputError("--no-run", problem)
    if missing or climb_runs:
        refuse_wrong_answers()
    make_folder(out, "--out")
    _report_cost(figures, missing, len(climb_runs), parallel_runs)
    with Ledger(ledger_file, create=True) as ledger:
        rows_by_task = make_runs(planned, ledger, parallel_runs)
        refuted = ledger_refutations(ledger)

        def rows_of(figure: Figure) -> list[Row]:
            tasks = distinct_tasks(planned[need] for need in figure.needs)
            needed = [row for task in tasks for row in rows_by_task[task.key]]
            return upheld([*_rows_of_other_schedulers(needed, ledger), *needed], refuted)

        reasons = _draw(figures, rows_of, out, page_format)
    for reason in reasons.values():
        say(reason)
    failed = report_failures([row for rows in rows_by_task.values() for row in rows], ledger)
    if failed or (names and reasons):
        raise typer.Exit(1)


def _draw(
    figures: Sequence[Figure], rows_of: Callable[[Figure], Sequence[Row]], out: Path, page_format: PageFormat
) -> dict[str, str]:
    """Draw figures and print the names of their files; return by name the reasons why figures cannot be drawn."""
    reasons = {}
    with progress_bar("drawing", len(figures)) as update:
        for figure in figures:
            update(description=f"drawing {figure.name}")
            try:
                for file in figure.draw(rows_of(figure), out, page_format):
                    emit(f"{file}\n", sys.stdout)
            except NothingToDrawError as error:
                reasons[figure.name] = str(error)
            update(advance=1.0)
    return reasons


def _draw_from(
    ledger_file: Path,
    figures: Sequence[Figure],
    named: bool,
    out: Path,
    instances: Sequence[str],
    schedulers: str | None,
    page_format: PageFormat,
) -> None:
    """Draw figures from the rows in a ledger; ``named`` says whether the user named the figures.

    Otherwise, figures that lack runs are skipped. If instances or schedulers are chosen, figures that need no runs are
    then skipped, too.
    """
    instance_names = [name for text in instances for name in names_in(text)]
    runs = LedgerRuns.read(ledger_file, instance_names, names_in(schedulers or ""))
    make_folder(out, "--out")
    figures_to_draw = [figure for figure in figures if named or figure.needs or not runs.chosen]
    reasons = _draw(figures_to_draw, runs.of, out, page_format)
    without_runs = (
        [] if named else [figure.name for figure in figures_to_draw if figure.name in reasons and figure.needs]
    )
    if without_runs:
        say(f"not drawn because {ledger_file} lacks their runs: {', '.join(without_runs)}")
    for name, reason in reasons.items():
        if name not in without_runs:
            say(reason)
    if named and reasons:
        raise typer.Exit(1)


def _report_cost(figures: Sequence[Figure], missing: Sequence[Task], climbs: int, jobs: int) -> None:
    if not missing and not climbs:
        if any(figure.needs for figure in figures):
            say("all runs are in the ledger")
        return
    for figure in figures:
        if figure.cost:
            say(f"{figure.name}: {figure.cost}")
    report_cost(missing, climbs, jobs)


def _rows_of_other_schedulers(rows: Sequence[Row], ledger: Ledger) -> list[Row]:
    """Return the ledger's rows of other schedulers on the instances of ``rows``."""
    schedulers = {row.scheduler for row in rows}
    instances = dict.fromkeys(row.instance_hash for row in rows)
    return [row for key in instances for row in ledger.rows(instance_hash=key) if row.scheduler not in schedulers]
