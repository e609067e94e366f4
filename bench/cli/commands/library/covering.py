"""``bench library covering``: the covering problem of a small entry for other solvers."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import LibraryOption, output_option
from bench.cli.terminal import say
from bench.cli.views.bar import progress_bar
from bench.cli.views.library import open_library
from bench.library.covering import as_mps, as_opb, better_than, covering_problem
from instances import InputError, Objective
from instances.files import write_bytes

EXAMPLES = (
    "bench library covering cost-t4-4 -o cost-t4-4.mps            # for solvers of integer programs",
    "bench library covering cost-t4-4 --better -o cost-t4-4.opb   # for a proof of a pseudo-Boolean solver",
)

_FORMATS = {".opb": as_opb, ".mps": as_mps}


def covering(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Entry with up to ten workloads.")],
    output: Annotated[Path, output_option("File: .opb or .mps.")],
    better: Annotated[
        bool,
        typer.Option(
            "--better",
            help="Only solutions that are better than the best plan: without a solution, the plan is proven best.",
        ),
    ] = False,
    folder: LibraryOption = None,
) -> None:
    """Write the patterns of an entry and the covering problem over them.

    The checker of certificates lists the patterns: the sets of workloads that one GPU of a type can serve. The best
    choice among them is the best spatial plan. All numbers are whole, so another solver can prove the bound with its
    own certificate; only the list must be trusted. Comments in the file tell the pattern of every variable.

    Under scale, the rates are multiplied by the bound of the entry, and the problem has no solution if the bound holds.
    """
    if output.suffix not in _FORMATS:
        raise InputError("-o", f'"{output}" has no known ending; expected {", ".join(_FORMATS)}')
    entry = open_library(folder).entry(name)
    with progress_bar("listing patterns") as update:
        problem = covering_problem(entry.instance, entry.bound, lambda part: update(advance=part))
    if better:
        if entry.value is None or entry.instance.objective is Objective.SCALE:
            raise InputError("--better", f"{name} has no value of a plan that the patterns can exceed; omit the option")
        problem = better_than(problem, entry.value)
    write_bytes(output, _FORMATS[output.suffix](problem).encode())
    say(f"wrote {output}: {len(problem.patterns)} patterns")
