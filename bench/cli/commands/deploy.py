"""``bench deploy``: files that deploy a plan."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.files import make_folder
from bench.cli.options import PlanFile, output_option
from bench.cli.terminal import say
from bench.cli.views.tables import show
from bench.deploy.deployment import Deployment, deployed
from bench.deploy.placeholders import placeholders
from bench.deploy.target import Target
from bench.fleet.answer import holding_line
from bench.formatting import gpu_count
from bench.holding.check import holding
from bench.judging.judge import judge
from bench.plan_simulation import finished
from bench.planning import require_limit
from bench.selection import find_plan
from bench.simulation.arrivals import parse_arrivals
from instances import InputError
from instances.errors import FieldName
from instances.files import write_bytes

EXAMPLES = (
    "bench deploy plan.json --to compose -o out",
    "bench deploy plan.json --to device-plugin -o out   # equal shares only: the plan is solved again",
)


def deploy(
    plan_file: PlanFile,
    target: Annotated[Target, typer.Option("--to", help="Format of the files.")],
    output: Annotated[Path, output_option("Folder for the files.", "DIR")],
    instance_name: Annotated[
        str | None, typer.Option("--instance", metavar="NAME", help="Name or file. Default: that in the plan file.")
    ] = None,
    time_limit_s: Annotated[float, typer.Option("--time-limit", metavar="S", help="Seconds to solve again.")] = 30.0,
) -> None:
    """Write the files that deploy a plan: shares, memory limits, batches and timeouts.

    If the target cannot express the plan, other shares are chosen on the same GPUs, or the instance is solved again
    within the target's limits, and the added cost is printed. The plan in the files is read back, judged and simulated
    before the command ends. Names in capitals are placeholders.
    """
    require_limit(FieldName("time_limit_s"), time_limit_s)
    plan, instance = find_plan(plan_file, instance_name)
    verdict = judge(plan, instance)
    if not verdict.feasible:
        raise InputError(str(plan_file), f"breaks a constraint: {verdict.violations[0].message}; see bench verify")
    make_folder(output, "-o")
    deployment = deployed(plan, instance, target, time_limit_s)
    for path, text in deployment.files.items():
        write_bytes(output / path, text.encode())
    for note in deployment.notes:
        say(f"note: {note}")
    files = sorted(deployment.files)
    listed = f"{files[0]} and {len(files) - 1} more" if len(files) > 3 else ", ".join(files)
    judged = judge(deployment.plan, deployment.instance)
    show(
        f"wrote {listed} to {output}: {gpu_count(judged.gpus_used)}, ${judged.cost_per_hour:,.2f}/h",
        "read back and judged: every constraint holds",
        *_simulated(deployment),
        "left to you:",
        f"- fill in {', '.join(placeholders(deployment.files))}",
        *(f"- {duty}" for duty in deployment.duties),
    )


def _simulated(deployment: Deployment) -> list[str]:
    """Return a line on whether the plan in the files holds in simulations, or no line for applications."""
    plan, instance = deployment.plan, deployment.instance
    if instance.applications:
        return []
    test = finished(holding(plan, instance, parse_arrivals(instance.arrivals)))
    return [f"read back and simulated: {holding_line(test)}"]
