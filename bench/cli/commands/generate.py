"""``bench generate``: files of random instances."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import Format, FormatOption
from bench.cli.terminal import print_json, say
from bench.cli.views.tables import show, table
from instances import InputError, Objective, SloRule
from instances.errors import unknown_name
from instances.files import instance_to_json, write_json
from instances.files.models import MOST_COUNT
from instances.generate import FAMILIES, MOST_WORKLOADS, generate

EXAMPLES = (
    "bench generate --list",
    "bench generate igniter-mix --size 20 --seed 1 -o mix.json",
    "bench generate heavy-mix --size 40 --objective capacity --gpus 16 -o capacity.json",
    "bench generate igniter-mix --size 20 --slo-rule attainment --attainment 0.99 -o holds.json   # plans that hold",
)

_OBJECTIVES = ["cost", "capacity", "goodput", "scale"]


def generate_instance(
    family: Annotated[
        str | None, typer.Argument(metavar="FAMILY", help="Distribution of workloads; see --list.")
    ] = None,
    size: Annotated[int | None, typer.Option("--size", metavar="N", min=1, help="Workloads.")] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", min=0, help="Random seed.")] = 0,
    objective: Annotated[str, typer.Option("--objective", help=f"One of {', '.join(_OBJECTIVES)}.")] = "cost",
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="K", min=1, help="GPUs in the pool. Default: unlimited.")
    ] = None,
    slo_rule: Annotated[
        str, typer.Option("--slo-rule", help=f"Rule of the latency budgets, one of {', '.join(SloRule)}.")
    ] = SloRule.HALF_SLO,
    attainment: Annotated[
        float | None,
        typer.Option(
            "--attainment",
            metavar="F",
            help="Fraction to serve within the SLO, under --slo-rule attainment. Default: 0.99.",
        ),
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            "--arrivals",
            metavar="PROCESS",
            help="Its arrivals: poisson or gamma:CV. Default: poisson.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Instance name. Default: family, size and seed.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Output file. Default: standard output.")
    ] = None,
    show_families: Annotated[bool, typer.Option("--list", help="List the families and exit.")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Generate a random instance and write it as a file for `bench run --instances FILE`.

    All families have workloads on V100 GPUs. `igniter-mix` has iGniter's four models with SLOs and rates around those
    of its Table 3. `heavy-mix` has higher rates: 160 workloads need about 64 GPUs. In `overload-mix`
    the rates are so high that 64 GPUs cannot serve 160 workloads. The same family, size and seed always give the same
    workloads.
    """
    if show_families:
        _list(form)
        return

    if family is None:
        raise InputError("FAMILY", f"is missing; expected one of {', '.join(FAMILIES)}")
    if size is None:
        raise InputError("--size", "is missing; expected a number of workloads")
    if size > MOST_WORKLOADS:
        raise InputError("--size", f"{size}; expected at most {MOST_WORKLOADS:,} workloads")
    if gpus is not None and gpus > MOST_COUNT:
        raise InputError("--gpus", f"{gpus}; expected at most {MOST_COUNT:,}")
    if objective not in _OBJECTIVES:
        raise unknown_name("--objective", "objective", objective, _OBJECTIVES)
    if gpus is None and objective != Objective.COST:
        raise InputError("--gpus", f"is missing; {objective} requires the size of the pool")
    if slo_rule not in list(SloRule):
        raise unknown_name("--slo-rule", "SLO rule", slo_rule, list(SloRule))
    terms = {name: value for name, value in (("attainment", attainment), ("arrivals", arrivals)) if value is not None}
    if terms and slo_rule != SloRule.ATTAINMENT:
        raise InputError(f"--{next(iter(terms))}", "is a term of the rule attainment; add --slo-rule attainment")
    made = generate(family, size, seed, Objective(objective), gpus, name)
    if slo_rule != made.slo_rule:
        made = replace(made, name=name or f"{made.name}-{slo_rule}", slo_rule=SloRule(slo_rule), **terms)  # type: ignore[arg-type]
    data = instance_to_json(made)
    if output is None:
        print_json(data)
    else:
        write_json(output, data)
        say(f"wrote {output}")


def _list(form: Format) -> None:
    families = [
        {"name": family.name, "gpu": family.gpu, "models": list(family.demands), "description": family.description}
        for family in FAMILIES.values()
    ]
    if form is Format.JSON:
        print_json(families)
    else:
        columns = ["name", "gpu", "models", "description"]
        show(
            table(columns, [[f["name"], f["gpu"], f["models"], f["description"]] for f in families]), stream=sys.stdout
        )
