"""``bench check-plugin``: conformance check of a scheduler."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from bench.cli.completion import complete_scheduler, instances_option
from bench.cli.options import FormatOption, JobsOption, MemoryLimitOption, ParametersOption, ThreadsOption
from bench.cli.terminal import message_on_interrupt, print_json, say
from bench.cli.views.tables import mark, show, table
from bench.conformance import HURRIED_S, CheckResult, CheckSettings, check
from bench.doctor.solvers import refuse_wrong_answers
from bench.planning import Limits
from bench.runner.inspection import inspect_schedulers
from bench.schedulers.parameters import parse_overrides
from bench.schedulers.registry import entries, parse_spec
from bench.selection import find_plain_instances
from instances import InputError

EXAMPLES = (
    "bench check-plugin ./my_scheduler.py:WorstFit",
    "bench check-plugin igniter",
    "bench check-plugin local-search --param local-search.rounds=200",
    "bench check-plugin ts --instances 4gpu    # a scheduler that supports few instances",
)


def check_plugin(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", autocompletion=complete_scheduler, help="Name of a registered scheduler, or FILE.py:CLASS."
        ),
    ],
    instances: Annotated[list[str] | None, instances_option("Instances to use instead of the built-in ones.")] = None,
    parameters: ParametersOption = None,
    time_limit_s: Annotated[
        float, typer.Option("--time-limit", metavar="S", help="Seconds for each run on a small instance.")
    ] = 10.0,
    memory_limit_gb: MemoryLimitOption = 8.0,
    threads: ThreadsOption = 1,
    jobs: JobsOption = None,
    form: FormatOption = "table",
) -> None:
    """Check on small instances with known optima that a scheduler conforms to the interface.

    The checks are: the scheduler loads; it solves every objective that it declares; its plans serve every workload;
    the judge accepts plans that it reports as feasible; no known plan beats a result that it reports as optimal or a
    bound that it certifies; it does not modify the instance; the same seed gives the same plan; it meets its deadline
    on a large instance; and it reports no plan where none exists. Nothing is written to a ledger.

    Exit code 1 means that a check failed.
    """
    refuse_wrong_answers()
    registered = entries()
    stages = parse_spec(name, registered, "NAME")
    if len(stages) > 1:
        raise InputError("NAME", f'"{name}" is {len(stages)} schedulers; expected one')
    (entry,) = stages
    name = entry.name
    overrides = parse_overrides(parameters or [], [*registered, name])
    if unexpected := [other for other in overrides if other != name]:
        raise InputError(f"--param {unexpected[0]}", f'"{unexpected[0]}" is not "{name}", the scheduler to check')
    own_instances = find_plain_instances(instances, "--instances") if instances else []
    Limits(time_limit_s, memory_limit_gb, threads)  # raises if a limit is out of range
    check_settings = CheckSettings(
        time_limit_s, min(time_limit_s, HURRIED_S), memory_limit_mb=1024.0 * memory_limit_gb, threads=threads, jobs=jobs
    )
    info = inspect_schedulers([entry], overrides)[name]
    results: list[CheckResult] = []
    with message_on_interrupt("interrupted"):
        for result in check(info, check_settings, own_instances):
            results.append(result)
            if sys.stderr.isatty():  # all checks together may take a minute
                say(f"{mark(result.passed)} {result.check}")
    if form == "json":
        print_json([asdict(result) for result in results])
    else:
        show(table(["check", "passed", "why"], [[result.check, result.passed, result.why] for result in results]))
    failed = sum(not result.passed for result in results)
    say(f"{name}: {len(results) - failed} of {len(results)} checks passed")
    if failed:
        raise typer.Exit(1)
