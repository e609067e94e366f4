"""``bench generate``: files of random instances."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.api import Run
from bench.cli.completion import complete_gpu
from bench.cli.files import make_folder
from bench.cli.option_names import in_options
from bench.cli.options import Format, FormatOption, output_option
from bench.cli.terminal import print_json, say
from bench.cli.views.tables import show, table
from bench.planning import parse_seeds
from bench.schedulers.parameters import instantiate
from bench.schedulers.registry import entries, load
from instances import InputError, Instance, Objective, SloRule
from instances.errors import unknown_name
from instances.files import instance_to_json, write_json
from instances.generate import FAMILIES, MOST_WORKLOADS, generate
from instances.performance import performance_model_names
from instances.pool_mix import DESCRIPTION, POOL_MIX, RateLaw, SloLaw, pool_mix
from instances.ranges import MOST_COUNT

EXAMPLES = (
    "bench generate --list",
    "bench generate igniter-mix --size 20 --seed 1 -o mix.json",
    "bench generate igniter-mix --size 20 --seed 0,1,2 -o mixes   # a file for each seed",
    "bench generate heavy-mix --size 40 --objective capacity --gpus 16 -o capacity.json",
    "bench generate pool-mix --size 80 --pool v100:12,t4:24,a100-inss:6 --slo tight --rates zipf -o three-types.json",
    "bench generate pool-mix --size 10000 --pool a100-inss,rtx2080ti --performance-model inss -o large.json",
    "bench generate igniter-mix --size 20 --slo-rule attainment --attainment 0.99 -o holds.json   # plans that hold",
)

_OBJECTIVES = ["cost", "capacity", "goodput", "scale"]
_NAMES = [*FAMILIES, POOL_MIX]


def generate_instance(
    family: Annotated[
        str | None, typer.Argument(metavar="FAMILY", help="Distribution of workloads; see --list.")
    ] = None,
    size: Annotated[int | None, typer.Option(metavar="N", min=1, help="Workloads.")] = None,
    seeds: Annotated[
        str,
        typer.Option(
            "--seed", metavar="S,...", help="Random seed; with several, a file for each in the folder --output."
        ),
    ] = "0",
    objective: Annotated[str, typer.Option(help=f"One of {', '.join(_OBJECTIVES)}.")] = "cost",
    gpus: Annotated[int | None, typer.Option(metavar="K", min=1, help="GPUs in the pool. Default: unlimited.")] = None,
    pool: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE[:COUNT],...",
            autocompletion=complete_gpu,
            help="GPU types of pool-mix, each with its number or unlimited. The first type sets SLOs and rates. "
            "Default: v100.",
        ),
    ] = None,
    slo: Annotated[
        str | None, typer.Option(help=f"SLOs of pool-mix, one of {', '.join(SloLaw)}. Default: mixed.")
    ] = None,
    rates: Annotated[
        str | None, typer.Option(help=f"Rates of pool-mix, one of {', '.join(RateLaw)}. Default: even.")
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Models of pool-mix. Default: those of all types of the pool.")
    ] = None,
    performance_model: Annotated[
        str | None,
        typer.Option(
            help=f"Performance model of pool-mix, one of {', '.join(performance_model_names())}. Default: igniter."
        ),
    ] = None,
    slo_rule: Annotated[
        str, typer.Option(help=f"Rule of the latency budgets, one of {', '.join(SloRule)}.")
    ] = SloRule.HALF_SLO,
    attainment: Annotated[
        float | None,
        typer.Option(metavar="F", help="Fraction to serve within the SLO, under --slo-rule attainment. Default: 0.99."),
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            metavar="PROCESS", help="Arrivals under --slo-rule attainment: poisson or gamma:CV. Default: poisson."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Instance name. Default: family, size and seed.")] = None,
    output: Annotated[
        Path | None, output_option("Output file, or folder of several seeds. Default: standard output.")
    ] = None,
    show_families: Annotated[bool, typer.Option("--list", help="List the families and exit.")] = False,
    form: FormatOption = "table",
) -> None:
    """Generate a random instance and write it as a file for `bench run --instances FILE`.

    Three families have workloads on V100 GPUs. `igniter-mix` has iGniter's four models with SLOs and rates around those
    of its Table 3. `heavy-mix` has higher rates: 160 workloads need about 64 GPUs. In `overload-mix` the rates are so
    high that 64 GPUs cannot serve 160 workloads.

    `pool-mix` has workloads for a pool of one or several GPU types. A GPU of the first type serves any of them alone;
    the other types may not. `--slo` is `tight` (few workloads share a GPU), `loose` (many do) or `mixed`. `--rates` is
    `even`, `few-large` (one large workload in eight) or `zipf` (a few large, most small). If cost or capacity is
    planned on a bounded pool, a greedy plan must fit on it.

    The same options always give the same workloads.
    """
    if show_families:
        _list_families(form)
        return

    if family is None:
        raise InputError("FAMILY", f"is missing; expected one of {', '.join(_NAMES)}")
    if size is None:
        raise InputError("--size", "is missing; expected a number of workloads")
    if size > MOST_WORKLOADS:
        raise InputError("--size", f"{size}; expected at most {MOST_WORKLOADS:,} workloads")
    if gpus is not None and gpus > MOST_COUNT:
        raise InputError("--gpus", f"{gpus}; expected at most {MOST_COUNT:,}")
    if objective not in _OBJECTIVES:
        raise unknown_name("--objective", "objective", objective, _OBJECTIVES)
    options = {"pool": pool, "slo": slo, "rates": rates, "models": models, "performance_model": performance_model}
    mix_options = {option: value for option, value in options.items() if value is not None}
    if slo_rule not in list(SloRule):
        raise unknown_name("--slo-rule", "SLO rule", slo_rule, list(SloRule))
    attainment_terms: dict[str, Any] = {
        term: value for term, value in (("attainment", attainment), ("arrivals", arrivals)) if value is not None
    }
    if attainment_terms and slo_rule != SloRule.ATTAINMENT:
        raise InputError(
            f"--{next(iter(attainment_terms))}", "is a term of the rule attainment; add --slo-rule attainment"
        )
    instances, distinct_seeds = [], parse_seeds(seeds)
    for seed in distinct_seeds:
        given_name = f"{name}-s{seed}" if name and len(distinct_seeds) > 1 else name
        instance = _draw_instance(family, size, seed, Objective(objective), gpus, given_name, mix_options)
        if slo_rule != instance.slo_rule:
            own_name = given_name or f"{instance.name}-{slo_rule}"
            instance = replace(instance, name=own_name, slo_rule=SloRule(slo_rule), **attainment_terms)
        if family == POOL_MIX:
            _check_pool(instance)
        instances.append(instance)
    _write(instances, output)


def _write(instances: Sequence[Instance], output: Path | None) -> None:
    """Write one instance to a file or to standard output, or several into a folder."""
    if len(instances) == 1:
        data = instance_to_json(instances[0])
        if output is None:
            print_json(data)
        else:
            write_json(output, data)
            say(f"wrote {output}")
        return
    if output is None:
        raise InputError("--output", f"is missing; expected a folder for the files of {len(instances)} seeds")
    make_folder(output, "--output")
    for instance in instances:
        write_json(output / f"{instance.name}.json", instance_to_json(instance))
    say(f"wrote {len(instances)} files into {output}")


def _draw_instance(
    family: str,
    size: int,
    seed: int,
    objective: Objective,
    gpus: int | None,
    name: str | None,
    mix_options: Mapping[str, str],
) -> Instance:
    """Draw an instance; ``mix_options`` are the given options of ``pool-mix``."""
    if family == POOL_MIX:
        if gpus is not None:
            problem = f"is no option of {family}; expected the counts in --pool, such as v100:{gpus}"
            raise InputError("--gpus", problem)
        arguments: dict[str, Any] = {**mix_options, "objective": objective, "name": name}
        arguments["models"] = [part.strip() for part in mix_options.get("models", "").split(",") if part.strip()]
        return pool_mix(size, seed, **arguments)
    if family not in FAMILIES:
        raise unknown_name("FAMILY", "instance family", family, _NAMES)
    if mix_options:
        raise InputError(
            f"--{next(iter(mix_options)).replace('_', '-')}", f"is an option of {POOL_MIX}, not of {family}"
        )
    if gpus is None and objective != Objective.COST:
        raise InputError("--gpus", f"is missing; {objective} requires the size of the pool")
    return generate(family, size, seed, objective, gpus, name)


def _check_pool(instance: Instance) -> None:
    """Check that a greedy plan fits on a bounded pool that must serve all requests."""
    bounded = any(pool.count is not None for pool in instance.gpus)
    if not bounded or instance.objective not in (Objective.COST, Objective.CAPACITY):
        return
    # Local search without rounds returns its greedy start plan.
    scheduler = instantiate(load(entries()["local-search"].target), {"rounds": "0"}, "local-search")
    outcome = scheduler.schedule(replace(instance, objective=Objective.COST), Run())
    if outcome.plan is None:
        raise InputError("--pool", f"is too small for a greedy plan: {outcome.reason}; expected more GPUs")


def _list_families(form: Format) -> None:
    families: list[dict[str, Any]] = [
        {"name": family.name, "gpu": family.gpu, "models": list(family.demands), "description": family.description}
        for family in FAMILIES.values()
    ]
    families.append({"name": POOL_MIX, "gpu": None, "models": None, "description": in_options(DESCRIPTION)})
    if form == "json":
        print_json(families)
    else:
        show(table(["name", "description"], [[family["name"], family["description"]] for family in families]))
