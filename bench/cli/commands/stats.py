"""``bench stats``: statistics over the runs of a ledger."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli.completion import complete_scheduler, instances_option, schedulers_option
from bench.cli.options import DEFAULT_LEDGER
from bench.cli.terminal import emit, one_line, print_json
from bench.cli.views.tables import Fitted, show
from bench.ledger.store import Ledger
from bench.selection import names_in
from instances import InputError
from reports.plan_difference import plan_difference
from reports.statistics.instance_tables import family_table, instance_table
from reports.statistics.ledger_summary import ledger_summary
from reports.statistics.summary import Loss
from reports.statistics.tables import latex, loss_lines, markdown, sentences, stats_json, stats_tables

EXAMPLES = (
    "bench stats results/ledger.sqlite",
    "bench stats results/ledger.sqlite --instances 64gpu,mine.json --schedulers igniter,colgen",
    "bench stats results/ledger.sqlite --reference igniter --losses 10    # where igniter loses, and why",
    "bench stats results/ledger.sqlite --format latex > table.tex",
)

_OMITTED_FIRST = ("gap to bound", "rank", "1.5x", "2x", "decision", "95 % interval")
"""Columns that a narrow terminal omits, in this order."""


def stats(
    ledger_file: Annotated[Path, typer.Argument(metavar="LEDGER", help="SQLite file with the runs.")] = DEFAULT_LEDGER,
    instances: Annotated[
        list[str] | None, instances_option("Instances, suites or files. Default: all.", metavar="NAME|FILE[,...]")
    ] = None,
    schedulers: Annotated[
        str | None,
        schedulers_option(
            "Schedulers. Default: those of the largest table in which each ran on every instance.", metavar="A,B,..."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_scheduler,
            help="Scheduler compared with all others. Default: the best.",
        ),
    ] = None,
    losses: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Number of instances to list, those on which the reference loses most."),
    ] = 3,
    form: Annotated[
        Literal["table", "latex", "markdown", "json"], typer.Option("--format", help="Output format.")
    ] = "table",
) -> None:
    """Compare schedulers that ran on the same instances.

    Each run is measured by its gap to the best known value of its instance; the gap is 100 % without a feasible plan.
    The gaps of the seeds on an instance are averaged. The reference is compared with each other scheduler by Wilcoxon's
    signed-rank test over the instances, with Holm's correction. Intervals are 95 % bootstrap intervals over the
    instances; ± is half of Student's 95 % interval over the seeds. docs/metrics.md has the formulas.

    LaTeX has two more tables: the gaps by family of instances, and by instance.
    """
    with Ledger(ledger_file) as ledger:
        names = [name for text in instances or () for name in names_in(text)]
        summary = ledger_summary(ledger, names, names_in(schedulers or ""), reference)
        explained_losses = [(loss, _difference(loss, ledger)) for loss in summary.losses[:losses]]
    if form == "json":
        print_json(stats_json(summary, explained_losses))
        return
    tables = stats_tables(summary)
    if form == "latex":
        tables += [family_table(summary), instance_table(summary)]
    lines = [*sentences(summary), *loss_lines(summary, explained_losses)]
    if form != "table":
        emit(latex(tables, lines) if form == "latex" else markdown(tables, lines), sys.stdout)
        return
    for table in tables:
        heads = [f"{'>' * (column > 0)}{head}" for column, head in enumerate(table.heads)]
        show(table.caption, Fitted(heads, table.lines, None, _OMITTED_FIRST), "")
    show(*map(one_line, lines))


def _difference(loss: Loss, ledger: Ledger) -> list[str]:
    """Return the differences between the plan of a loss and the best plan, or why they cannot be compared."""
    loss_row = ledger.row(loss.worst_run.key)
    best_row = loss.best_run if loss.best_run.plan is not None else ledger.row(loss.best_run.key)
    if loss_row.plan is None or best_row.plan is None:
        return [loss_row.reason or f"no plan: {loss_row.termination}"]
    broken_constraints = [] if loss_row.feasible else [f"the plan breaks {loss_row.violations} constraints"]
    try:
        instance = ledger.instance(loss.fingerprint)
    except InputError as error:  # the catalogue has changed since the run
        return [*broken_constraints, error.problem]
    return [*broken_constraints, *plan_difference(loss_row.plan, best_row.plan, instance)]
