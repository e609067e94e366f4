"""``bench max-rate``: search for the largest request rates that each scheduler can serve."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from bench.cli import options
from bench.cli.completion import instances_option, schedulers_option
from bench.cli.fields import Without, takes_fields
from bench.cli.running import end_interrupted, run_with_progress, tell_failures, told_jobs
from bench.cli.terminal import print_json, say
from bench.cli.views.tables import show, table
from bench.doctor.solvers import refuse_wrong_answers
from bench.evaluation import Trial
from bench.formatting import labels, worth
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

LEAST_STEP = 0.001
"""Smallest accepted ``--step``; a much smaller step needs too many runs."""


@takes_fields
def max_rate(
    instances: Annotated[list[str], instances_option("Instances with a GPU pool of fixed size.")],
    schedulers: Annotated[str, schedulers_option("Schedulers to compare.")],
    parameters: options.ParametersOption = None,
    step: Annotated[float, typer.Option(metavar="F", help="Relative growth of the rates per fine step.")] = 0.05,
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

    First the factor doubles while the scheduler finds a plan. Too many late requests alone do not end the doubling,
    since a plan for higher rates may serve them in time. Late requests end the doubling only at a factor of 1,024 or
    more, or if more than half of the requests are late and the plan is predicted to serve a workload below its rate.
    Then the factor grows by --step from the largest successful one until too many requests are late.

    Exit code 1 means that a run failed. A failed run ends the search for its scheduler without a result; --retry
    repeats it.
    """
    refuse_wrong_answers()
    if not LEAST_STEP <= step <= 1.0:
        raise InputError("--step", f"{step:g}; expected a fraction from {LEAST_STEP:g} to 1")
    trial = Trial(headroom, arrivals=parse_arrivals(arrivals))
    problems = [with_all_served(one) for one in find_plain_instances(instances, "--instances")]
    chosen = names_in(schedulers)
    with Ledger(ledger_file, create=True) as ledger:
        at_a_time = told_jobs(jobs, limits.threads)

        def run(tasks: list[Task]) -> list[Row]:
            rows, _, interrupted = run_with_progress(tasks, ledger, at_a_time, retry=retry)
            if interrupted:
                end_interrupted(ledger, "the finished runs")
            return rows

        tasks, notes = plan_tasks(RunOrder(problems, chosen, parameters or [], [seed], limits, trial))
        for note in notes:
            say(note)
        climbs = climb(tasks, run, step)
    if form == "json":
        print_json([_json(task, one) for task, one in zip(tasks, climbs, strict=True)])
    else:
        show(_table(tasks, climbs))
    if tell_failures([row for one in climbs for row in one.rows.values()], ledger):
        raise typer.Exit(1)


def _json(task: Task, one: Climb) -> dict[str, object]:
    return {
        "instance": one.instance.name,
        "scheduler": task.scheduler,
        "parameters": task.parameters,
        "multiple": one.reached,
        "throughput_rps": one.throughput_rps,
        "failed_at": one.failed,
        "reason": one.reason,
        "runs": {f"{multiple:g}": row.key for multiple, row in one.rows.items()},
    }


def _table(tasks: Sequence[Task], climbs: Sequence[Climb]) -> Table:
    names = labels(tasks)
    cells = [
        [
            one.instance.name,
            names[task.key],
            worth(None if one.broken_off is not None else one.reached, "scale"),
            worth(None if one.broken_off is not None else one.throughput_rps, "capacity"),
            "-" if one.failed is None else f"{worth(one.failed, 'scale')}: {one.reason}",
        ]
        for task, one in zip(tasks, climbs, strict=True)
    ]
    columns = ["instance", "scheduler", ">rates", ">throughput", "ended at"]
    return table(columns, cells, [one.instance.name for one in climbs])
