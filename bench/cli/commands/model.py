"""``bench model``: the model of an instance as a file for other solvers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bench.api import refusal
from bench.cli.completion import complete_instance
from bench.cli.terminal import say
from bench.schedulers.registry import entries, load
from bench.selection import find_instance
from instances import InputError
from instances.files import write_bytes

EXAMPLES = (
    "bench model smoke-cost -o model.mps            # piecewise linear, for MILP solvers",
    "bench model library/cost-t4-10 -o model.nl     # nonlinear, for MINLP solvers",
)

_SCHEDULERS = ("pwl", "minlp")


def write_model(
    name: Annotated[
        str, typer.Argument(metavar="INSTANCE", autocompletion=complete_instance, help="Name or file of an instance.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="File: .mps, .lp or .nl.")],
) -> None:
    """Write the optimisation model of an instance for a solver of your own.

    The models are those of the schedulers `pwl` (.mps, .lp: mixed-integer linear) and `minlp` (.nl: nonlinear). They
    use no more GPUs than a plan as good as first fit. Variable v(o,t,k) places option o (a workload on a GPU type) on
    GPU k of type t; b(o) is its batch and r(o) its share.
    """
    known = entries()
    schedulers: list[Any] = [load(known[each].target)() for each in _SCHEDULERS]
    made = next((each for each in schedulers if output.suffix in each.model_formats), None)
    if made is None:
        endings = sorted(ending for each in schedulers for ending in each.model_formats)
        raise InputError("-o", f'"{output}" has no known ending; expected {", ".join(endings)}')
    instance = find_instance(name, "INSTANCE")
    if reason := refusal(made, instance):
        raise InputError(instance.name, f"has no {output.suffix} model: {made.name} {reason}")
    write_bytes(output, b"")  # says in one line why a file cannot be written
    made.write_model(instance, output)
    say(f"wrote {output}")
