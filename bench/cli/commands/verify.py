"""``bench verify``: verdict of the judge on a plan file."""

from typing import Annotated

import typer

from bench.cli.completion import PlanInstance
from bench.cli.options import FormatOption, PlanFile
from bench.cli.terminal import one_line, print_json
from bench.cli.views.run import plan_picture
from bench.cli.views.tables import mark, show
from bench.evaluation import true_performance
from bench.formatting import gpu_count, percent, worth
from bench.judging.judge import judge
from bench.judging.verdict import Verdict
from bench.selection import find_plan
from instances import Instance, Plan

EXAMPLES = (
    "bench verify plan.json",
    "bench verify plan.json mix.json --format json",
    "bench verify plan.json 64gpu-cost --strict",
    "bench verify plan.json --truth measured:measured-here/   # were its latencies measured so?",
)


def verify(
    plan_file: PlanFile,
    instance_name: PlanInstance = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if the plan is infeasible.")] = False,
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL|measured:FOLDER",
            help="Judge by another performance model, or by measured latencies of exactly the plan's configurations.",
        ),
    ] = None,
    form: FormatOption = "table",
) -> None:
    """Judge a plan and show its feasibility, its objective value and the constraints that it violates.

    With --truth measured:FOLDER, latencies are those of a folder of measurements (solo.csv, pairs.csv). A plan with a
    configuration that was not measured, alone or beside its neighbour, is refused.

    An infeasible plan changes the exit code only with --strict.
    """
    plan, instance = find_plan(plan_file, instance_name)
    verdict = judge(plan, *true_performance(instance, truth))
    if form == "json":
        head = {"instance": instance.name, "objective": str(instance.objective), "plan_class": str(plan.plan_class)}
        print_json(head | verdict.to_json())
    else:
        _show(plan, instance, verdict)
    if strict and not verdict.feasible:
        raise typer.Exit(1)


def _show(plan: Plan, instance: Instance, verdict: Verdict) -> None:
    over_capacity_pct = verdict.over_capacity_pct
    verdict_text = "feasible" if verdict.feasible else "infeasible"
    show(
        f"{mark(verdict.feasible)} {verdict_text}: plan for {one_line(instance.name)}",
        f"  {instance.objective}: {worth(verdict.value, instance.objective)} on "
        f"{gpu_count(verdict.gpus_used)}, "
        f"{verdict.fragments_pct:.1f} % fragments, {verdict.utilisation_pct:.1f} % utilised"
        + ("" if verdict.least_slack is None else f", least slack {percent(verdict.least_slack)}")
        + ("" if over_capacity_pct is None else f", {over_capacity_pct:.1f} % of the time over capacity"),
        *(["  holds: unchecked; bench simulate PLAN --check tests it"] if over_capacity_pct is None else []),
        "",
        plan_picture(plan, instance),
        "",
        *(f"{mark(False)} {violation.kind}: {one_line(violation.message)}" for violation in verdict.violations),
    )
