"""``bench run``: every scheduler on every instance with every seed, each run in its own process."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli import options
from bench.cli.completion import complete_instance, instances_option, schedulers_option
from bench.cli.experiment import attributes_errors_to_file, read_experiment_argument
from bench.cli.fields import takes_fields
from bench.cli.files import make_folder, plan_file_name
from bench.cli.running import announced_jobs, end_interrupted, report_failures, run_with_progress
from bench.cli.terminal import print_json, say
from bench.cli.views.answers import answers, better_plan_notes
from bench.cli.views.run_tables import by_seeds, refuted_claims, row_json, run_tables
from bench.cli.views.tables import show
from bench.doctor.solvers import refuse_wrong_answers
from bench.ledger.gap import ledger_gaps
from bench.ledger.store import Ledger
from bench.planning import RunSettings, plan_tasks
from bench.selection import find_problems, names_in
from instances.errors import FieldName
from instances.files import plan_to_json, write_json

EXAMPLES = (
    "bench run --instances smoke --schedulers igniter,ffd+",
    "bench run --instances 64gpu-cost,mix.json,folder/,'more/*.json' --time-limit 60",
    "bench run experiment.toml --seeds 0,1,2",
    "bench run --instances smoke --schedulers igniter,./my_scheduler.py:WorstFit",
    "bench run --instances igniter-12 --schedulers igniter,cpsat@igniter --param igniter.spend_spare=no",
    "bench run --instances smoke --format json --plans plans/ > rows.json",
    "bench run --instances 64gpu-cost --truth hybrid --error 0.2 --headroom 1.1 --seeds 0,1,2",
    "bench run --instances mix.json --truth measured:measured-here/   # judged by measured latencies",
    "bench run --instances igniter-12 --schedulers colgen --then slack --then-limit 30",
    "bench run --instances 64gpu --cluster tcp://10.0.0.1:8786",
    "bench run --instances gpulet-1023 --schedulers sbp,elastic-partitioning,ideal   # a scenario set",
)


@attributes_errors_to_file
@takes_fields
def run(
    context: typer.Context,
    experiment: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT.toml|NAME|FILE",
            autocompletion=complete_instance,
            callback=read_experiment_argument,
            is_eager=True,  # parsed before the options, whose defaults come from the file
            help="TOML file of options (the command line overrides it), or a value for --instances.",
        ),
    ] = None,
    instances: Annotated[
        list[str] | None,
        instances_option(
            "Suites, scenario sets, instances, files, patterns such as 'mine/*.json', or folders of *.json files."
        ),
    ] = None,
    schedulers: Annotated[
        str | None,
        schedulers_option(
            "Schedulers to run, by name or as FILE.py:CLASS; C@START starts C from START's plan. Default: all that"
            " support the instance."
        ),
    ] = None,
    *,
    settings: RunSettings,
    simulate: Annotated[
        Literal["on", "off"], typer.Option(help="Simulate every plan under random arrivals with the run's seed.")
    ] = "on",
    ledger_file: options.LedgerOption = options.DEFAULT_LEDGER,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the Dask cluster at this address.")
    ] = None,
    retry: options.RetryOption = False,
    plans: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write every plan, with its instance, to this folder.")
    ] = None,
    each_seed: Annotated[
        bool, typer.Option("--each-seed", help="Show a line per seed instead of the spread over the seeds.")
    ] = False,
    form: options.FormatOption = "table",
) -> None:
    """Run schedulers on instances and store the results in the ledger.

    Every run has its own process with its own limits. Results that are already in the ledger are reused; --retry
    repeats failed runs. After Ctrl-C, the same command executes the remaining runs.

    A built-in name takes precedence over a file or folder of the same name; write ./NAME for the file.

    Exit code 1 means that a run failed: it crashed, raised an exception, exceeded its memory limit or returned an
    invalid plan, or that a feasible plan in the ledger refutes its bound or its claim. A run that reaches its time
    limit, finds no plan or finds an infeasible plan has not failed.
    """
    refuse_wrong_answers()
    settings = settings if simulate == "on" else replace(settings, arrivals=None)
    specs = None if schedulers is None else names_in(schedulers)
    problems = find_problems([*(instances or ()), *(experiment or ())], FieldName("instances"))
    tasks, notes = plan_tasks(settings.order(problems, specs))
    if plans is not None:
        make_folder(plans, "--plans")
    with Ledger(ledger_file, create=True) as ledger:
        for note in notes:
            say(note)
        jobs = announced_jobs(settings.jobs, settings.threads) if cluster is None else 1
        rows, reused, interrupted = run_with_progress(tasks, ledger, jobs, cluster, retry)
        gaps = ledger_gaps(rows, ledger)
        notes = []
        if form != "json":
            notes = [*better_plan_notes(rows, gaps, ledger), *answers(rows, gaps, ledger)]
        instances_of = {task.key: task.instance for task in tasks}
        for row in rows:
            if plans is not None and row.plan is not None:
                data = plan_to_json(row.plan, instances_of[row.key])
                write_json(plans / plan_file_name(row), data)
    if form == "json":
        print_json([row_json(row, gaps) for row in rows])
    else:
        runs_of_seeds = {} if each_seed else by_seeds(rows)
        lines = [row for row in rows if each_seed or row.key in runs_of_seeds]
        show(*run_tables(lines, gaps, each_seed, runs_of_seeds), *notes)
    say(f"{len(rows)} run{'s' * (len(rows) != 1)}, {reused} already in the ledger ({ledger.path})")
    if interrupted:
        end_interrupted(ledger, f"{len(rows)} of {len(tasks)} runs")
    failures = report_failures(rows, ledger)
    if failures and reused and not retry:
        say("failed runs that the ledger has are not repeated; --retry repeats them")
    if failures or refuted_claims(rows, gaps):
        raise typer.Exit(1)
