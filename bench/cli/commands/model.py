"""``bench model``: the model of an instance as a file for other solvers."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from bench.api import refusal
from bench.cli.completion import complete_instance
from bench.cli.files import refuse_input
from bench.cli.options import output_option
from bench.cli.terminal import say
from bench.formatting import gpu_count
from bench.judging.judge import judge
from bench.schedulers.registry import entries, load
from bench.selection import find_instance
from instances import InputError
from instances.files import plan_to_json, read_text, write_bytes, write_json

EXAMPLES = (
    "bench model smoke-cost -o model.mps            # piecewise linear, for MILP solvers",
    "bench model library/cost-t4-10 -o model.nl     # nonlinear, for MINLP solvers",
    "bench model smoke-cost --solution model.sol -o plan.json",
)

_SCHEDULERS = ("pwl", "minlp")
"""Schedulers whose models are written; the first one also reads solutions."""


def write_model(
    name: Annotated[
        str, typer.Argument(metavar="INSTANCE", autocompletion=complete_instance, help="Name or file of an instance.")
    ],
    output: Annotated[Path, output_option("File: .mps, .lp or .nl; .json for a plan.")],
    solution: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan of this solution of the linear model instead.")
    ] = None,
) -> None:
    """Write the optimisation model of an instance for a solver of your own, or the plan of a solution that it found.

    The models are those of the schedulers `pwl` (.mps, .lp: mixed-integer linear) and `minlp` (.nl: nonlinear). They
    cover plans with one slot per gpulet and each workload on one GPU and, for cost, with no more GPUs than a plan as
    good as first fit can use. Variable v(o,t,k) places option o (a workload on a GPU type) on GPU k of type t; b(o) is
    its batch and r(o) its share. Files .mps and .lp begin with a legend of all variables; a file .nl has it beside it
    (.legend). docs/model.md states the equations, and what the linear model puts in their place.

    --solution reads files of HiGHS, SCIP, Gurobi, CBC and CPLEX. The linear model is an approximation: the plan is
    judged, and repaired where its workloads would be late.
    """
    registered = entries()
    schedulers: list[Any] = [load(registered[candidate].target)() for candidate in _SCHEDULERS]
    if solution is not None:
        _write_plan(schedulers[0], name, solution, output)
        return
    scheduler = next((candidate for candidate in schedulers if output.suffix in candidate.model_formats), None)
    if scheduler is None:
        endings = sorted(ending for candidate in schedulers for ending in candidate.model_formats)
        raise InputError("-o", f'"{output}" has no known ending; expected {", ".join(endings)}')
    instance = find_instance(name, "INSTANCE")
    if reason := refusal(scheduler, instance):
        raise InputError(instance.name, f"has no {output.suffix} model: {scheduler.name} {reason}")
    with TemporaryDirectory() as folder:  # if there is no model, an earlier file stays as it is
        scheduler.write_model(instance, Path(folder) / output.name)
        for file in sorted(
            Path(folder).iterdir()
        ):  # beside a file .nl: its legend, and the names of its rows and columns
            write_bytes(output.with_name(file.name), file.read_bytes())
    say(f"wrote {output}")


def _write_plan(scheduler: Any, name: str, solution: Path, output: Path) -> None:
    refuse_input(output, [solution], "-o")
    if output.suffix != ".json":
        raise InputError("-o", f'"{output}" is no file for a plan; expected .json with --solution')
    instance = find_instance(name, "INSTANCE")
    if reason := refusal(scheduler, instance):
        raise InputError(instance.name, f"has no model: {scheduler.name} {reason}")
    plan, gpus_repaired = scheduler.plan_of_solution(instance, read_text(solution), str(solution))
    if plan is None:
        say(f"{solution}: its placement is infeasible and could not be repaired")
        raise typer.Exit(1)
    verdict = judge(plan, instance)
    write_json(output, plan_to_json(plan, instance))
    as_solved = f"{gpu_count(gpus_repaired)} repaired" if gpus_repaired else "as solved, nothing repaired"
    feasible = "feasible" if verdict.feasible else "infeasible"
    say(f"wrote {output}: {feasible}, value {verdict.value:.10g}; {as_solved}")
