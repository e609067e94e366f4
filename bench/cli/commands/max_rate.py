"""``bench max-rate``: search for the largest request rates that each scheduler can serve."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from bench.cli import options
from bench.cli.completion import instances_option, schedulers_option
from bench.cli.fields import Without, takes_fields
from bench.cli.running import announced_jobs, end_interrupted, report_failures, run_with_progress
from bench.cli.terminal import print_json, say
from bench.cli.views.tables import show, table
from bench.doctor.solvers import refuse_wrong_answers
from bench.evaluation import Trial
from bench.formatting import worth
from bench.ledger.labels import labels
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.max_rate import Climb, climb, with_all_served
from bench.planning import Limits, RunOrder, plan_tasks
from bench.selection import find_plain_instances, names_in
from bench.simulation.arrivals import parse_arrivals
from bench.task import Task
from instances import InputError

EXAMPLES = (
    "bench max-rate --instances gpulet-scen1 --schedulers sbp,elastic-partitioning,ideal",
    "bench max-rate --instances 4gpu --schedulers igniter,local-search --headroom 1.2",
)

SMALLEST_STEP = 0.001
"""Smallest accepted ``--step``; a much smaller step needs too many runs."""


@takes_fields
def max_rate(
    instances: Annotated[list[str], instances_option("Instances with a GPU pool of fixed size.")],
    schedulers: Annotated[str, schedulers_option("Schedulers to compare.")],
    parameters: options.ParametersOption = None,
    step: Annotated[
        float, typer.Option(metavar="F", help="Relative growth of the rates per step after the doubling.")
    ] = 0.05,
    from_above: Annotated[
        bool,
        typer.Option(
            "--from-above", help="Lower the rates from the end of the doubling, in more runs, to the largest."
        ),
    ] = False,
    arrivals: options.ArrivalsOption = "poisson",
    headroom: options.HeadroomOption = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of schedulers and arrivals.")] = 0,
    *,
    limits: Annotated[Limits, Without(["work_limit"])],
    jobs: options.JobsOption = None,
    retry: options.RetryOption = False,
    ledger_file: options.LedgerOption = options.DEFAULT_LEDGER,
    form: options.FormatOption = "table",
) -> None:
    """Find the largest rates at which at most 1 % of the requests are late.

    All rates of an instance are multiplied by the same factor. At every factor the scheduler makes a plan and the plan
    is simulated. Every such run is stored in the ledger, so the same command continues after an interruption.

    First the factor doubles while the scheduler finds a plan that breaks no constraint but those of time. Too many late
    requests alone do not end the doubling, since a plan for higher rates may serve them in time. Late requests end the
    doubling only at a factor of 1,024 or more, or if more than half of the requests are late and the plan is predicted
    to serve a workload below its rate. If no factor has passed, the factor is halved until one passes. Then the factor
    grows by --step from the largest that passed, until one fails for any of these reasons or the next one would reach a
    factor that has failed. With --from-above, it is divided by the same step instead, from the end of the doubling,
    until one passes: the largest of that grid.

    Exit code 1 means that a run failed. A failed run ends the search for its scheduler on that instance. The table then
    shows no rates, and JSON has the largest that passed before; --retry repeats the run.
    """
    refuse_wrong_answers()
    if not SMALLEST_STEP <= step <= 1.0:
        raise InputError("--step", f"{step:g}; expected a fraction from {SMALLEST_STEP:g} to 1")
    trial = Trial(headroom, arrivals=parse_arrivals(arrivals))
    problems = [with_all_served(instance) for instance in find_plain_instances(instances, "--instances")]
    specs = names_in(schedulers)
    with Ledger(ledger_file, create=True) as ledger:
        parallel_runs = announced_jobs(jobs, limits.threads)

        def run(tasks: list[Task]) -> list[Row]:
            rows, _, interrupted = run_with_progress(tasks, ledger, parallel_runs, retry=retry)
            if interrupted:
                end_interrupted(ledger, "the finished runs")
            return rows

        tasks, notes = plan_tasks(RunOrder(problems, specs, parameters or [], [seed], limits, trial))
        for note in notes:
            say(note)
        searches = climb(tasks, run, step, from_above)
    if form == "json":
        print_json([_json(task, search) for task, search in zip(tasks, searches, strict=True)])
    else:
        show(_table(tasks, searches))
    if report_failures([row for search in searches for row in search.rows.values()], ledger):
        raise typer.Exit(1)


def _json(task: Task, search: Climb) -> dict[str, object]:
    return {
        "instance": search.instance.name,
        "scheduler": task.scheduler,
        "parameters": task.parameters,
        "multiple": search.largest_passed,
        "throughput_rps": search.throughput_rps,
        "failed_at": search.smallest_failed,
        "reason": search.reason,
        "runs": {f"{multiple:g}": row.key for multiple, row in search.rows.items()},
    }


def _table(tasks: Sequence[Task], searches: Sequence[Climb]) -> Table:
    names = labels(tasks)
    cells = [
        [
            search.instance.name,
            names[task.key],
            worth(None if search.failed_run is not None else search.largest_passed, "scale"),
            worth(None if search.failed_run is not None else search.throughput_rps, "capacity"),
            "-" if search.smallest_failed is None else f"{worth(search.smallest_failed, 'scale')}: {search.reason}",
        ]
        for task, search in zip(tasks, searches, strict=True)
    ]
    columns = ["instance", "scheduler", ">rates", ">throughput", "ended at"]
    return table(columns, cells, [search.instance.name for search in searches])
