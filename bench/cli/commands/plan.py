"""``bench plan``: the cheapest GPUs for a user's own services."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.files import refuse_input
from bench.cli.option_names import in_options
from bench.cli.options import output_option
from bench.cli.plan_answer import PlanRequest, SolveProgress, answer
from bench.cli.terminal import emit, message_on_interrupt, say
from bench.cli.views.day import day_view
from bench.cli.views.tables import show
from bench.compile_ahead import compiling_ahead
from bench.deploy.deployment import instance_for
from bench.deploy.target import Target
from bench.fleet.budget import Preferences
from bench.fleet.day import planned_day
from bench.fleet.example import write_example
from bench.fleet.mig_headroom import with_headroom
from bench.fleet.trace import read_day_of_traffic, window_instances
from bench.holding.check import holding
from bench.holding.windows import SECONDS
from bench.plan_simulation import finished
from bench.simulation.arrivals import parse_arrivals
from bench.then import Then
from instances import InputError, Instance, Partition, Plan
from instances.compiled import is_compiled
from instances.files import plan_to_json, read_plan, write_json
from instances.inputs import instance_from_tables
from instances.inputs.interference import DEFAULT_LEVEL
from instances.least_shares import raise_to_feasible

EXAMPLES = (
    "bench plan --example demo-services     # writes the tables of the next line",
    "bench plan services.csv --profile profile.csv --gpus gpus.csv -o plan.json",
    "bench plan language-models.csv --gpus gpus.csv   # columns prompt_tokens, output_tokens, ttft_ms, tpot_ms",
    "bench plan services.csv --profile profile.csv --gpus gpus.csv --then none   # do not seek more slack",
    "bench plan services.csv --profile profile.csv --pairs pairs.csv --gpus gpus.csv --margin 0.99",
    "bench plan services.csv --profile profile.csv --pairs pairs.csv --gpus gpus.csv --attainment 0.999 --page page/",
)


class DealingOut(StrEnum):
    """Ways in which the servers of a service get its requests."""

    TURNS = "turns"
    RANDOM = "random"


COMPILATION_S = 35
"""Time in which two processes compile the kernels of a plan, measured once."""

MOST_WINDOWS = 1_000
"""Largest number of windows of a trace."""


def plan(
    services: Annotated[
        Path | None, typer.Argument(metavar="SERVICES", help="Table: service, model, rate_rps, slo_ms (docs/plan.md).")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table: gpu, model, batch, share_pct, latency_ms, memory_mib.")
    ] = None,
    gpus: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table: gpu, count, price_per_hour, memory_mib, sms.")
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of latencies of two models on one GPU.")
    ] = None,
    attainment: Annotated[
        float | None, typer.Option(metavar="A", help="Fraction of requests in time. Default: 0.99.")
    ] = None,
    arrivals: Annotated[
        str | None, typer.Option(metavar="PROCESS", help="poisson or gamma:CV. Default: the table's.")
    ] = None,
    drop: Annotated[
        bool,
        typer.Option(
            "--drop/--no-drop", help="Whether your servers drop requests that can no longer be in time, or serve all."
        ),
    ] = True,
    routing: Annotated[
        DealingOut, typer.Option(help="How a service with several servers deals its requests out to them.")
    ] = DealingOut.TURNS,
    slowdown: Annotated[
        float | None,
        typer.Option(
            "--interference",
            metavar="F",
            help="Slowdown by one neighbour. Default: measured, else a guess.",
        ),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(
            metavar="LEVEL", help="Fraction of measured times that margins on times beside others cover; 0: no margins."
        ),
    ] = DEFAULT_LEVEL,
    target: Annotated[
        Target | None,
        typer.Option(metavar="NAME", help="Plan in the shares of a target of bench deploy. Default: whole percents."),
    ] = None,
    model: Annotated[str, typer.Option("--performance-model", metavar="NAME", help="Performance model.")] = "hybrid",
    time_limit_s: Annotated[
        float, typer.Option("--time-limit", metavar="S", help="Seconds for all solves; with --trace, per window.")
    ] = 60.0,
    then: Annotated[
        Then | None,
        typer.Option(help="Second objective: among plans of equal cost, most slack (the default), or none."),
    ] = None,
    output: Annotated[Path | None, output_option("Plan file, with its instance.")] = None,
    plan_in_use_file: Annotated[
        Path | None, typer.Option("--from", metavar="PLAN", help="Plan in use: keep services on their GPUs.")
    ] = None,
    max_moves: Annotated[
        int, typer.Option(metavar="N", min=0, help="With --from: most services that change their GPU.")
    ] = 3,
    survive: Annotated[
        int, typer.Option("--survive-gpus", metavar="N", min=0, max=1, help="GPUs that may fail: 0 or 1.")
    ] = 0,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plan a day of traffic: rates or timestamps.")
    ] = None,
    window_h: Annotated[float, typer.Option("--window", metavar="H", help="Hours of a window of the trace.")] = 1.0,
    page: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a web page of all runs.")] = None,
    example: Annotated[Path | None, typer.Option(metavar="DIR", help="Write example tables to DIR and stop.")] = None,
) -> None:
    """Find the cheapest GPUs that serve all services in time, and answer in five lines.

    The plan is the best of local search and column generation in the time allowed. Today's practice (a GPU per service,
    equal shares, time slices) is planned for comparison. Tables are CSV, TOML or JSON files.

    Most servers drop late requests only if told to; --no-drop plans for servers that serve every request.

    If the GPUs on offer (column count) do not suffice, the answer says who is served at what rate and who is turned
    away; the columns weight and priority of SERVICES decide.

    Exit code 1 means that no plan serves everything, or that the plan is not known to hold in the simulations.
    """
    if example is not None:
        tables = write_example(example)
        options = f"{tables[0]} --profile {tables[1]} --gpus {tables[2]}"
        emit(f"wrote {', '.join(map(str, tables))}; next: bench plan {options} -o plan.json\n", sys.stdout)
        return
    missing = [name for name, argument in (("SERVICES", services), ("--gpus", gpus)) if argument is None]
    if services is None or gpus is None:
        raise InputError(missing[0], f"is missing; the command needs {' and '.join(missing)}; see bench plan --example")
    if trace is not None and then is Then.SLACK:
        raise InputError("--then", "is slack; a day is planned for the least cost only; leave it out")
    refuse_input(output, [services, profile, gpus, pairs], "-o")
    question = instance_from_tables(
        services,
        profile,
        gpus,
        pairs=pairs,
        attainment=attainment,
        arrivals=arrivals,
        dropping=drop,
        slowdown=slowdown,
        model=model,
        margin=margin,
    )

    def with_routing(instance: Instance) -> Instance:
        return replace(instance, random_routing=routing is DealingOut.RANDOM)

    def in_target_shares(instance: Instance) -> Instance:
        return instance_for(instance, target)

    practice_instance = with_routing(question.instance)
    instance = in_target_shares(practice_instance)
    for note in question.notes:
        say(f"note: {in_options(note)}")
    if trace is not None and instance.services:
        raise InputError("--trace", "is given; a day of traffic is planned for services without language models only")
    kernels_missing = not is_compiled(raise_to_feasible)
    if kernels_missing:
        say(f"note: compiling kernels, once per installation: about {COMPILATION_S} s of two cores")
    with compiling_ahead() if kernels_missing else nullcontext():
        if trace is not None:
            _plan_day(instance, trace, window_h, time_limit_s, output)
            return
        with message_on_interrupt("interrupted: no plan was written"):
            if instance.partition is Partition.MIG:
                instance = _with_headroom(instance, time_limit_s)
            request = PlanRequest(
                instance=instance,
                practice_instance=practice_instance,
                preferences=Preferences(question.weight, question.priority),
                time_limit_s=time_limit_s,
                plan_in_use=None if plan_in_use_file is None else read_plan(plan_in_use_file)[0],
                max_moves=max_moves,
                survives=survive > 0,
                output=output,
                page=page,
                then=then or Then.SLACK,
                variants={name: in_target_shares(with_routing(variant)) for name, variant in question.instead.items()},
                guessed=question.guessed,
                next_pairs=question.next_pairs,
            )
            holds = answer(request)
    if not holds:
        raise typer.Exit(1)


def _with_headroom(instance: Instance, time_limit_s: float) -> Instance:
    """Return an instance on MIG with the least latency buffer tried with which a plan holds; print a note on it.

    If no such buffer is found, the instance is returned unchanged.
    """

    def seems_to_hold(plan: Plan, candidate: Instance) -> bool:
        # The answer tests the plan again, and its unclear services for longer.
        arrivals = parse_arrivals(candidate.arrivals)
        return finished(holding(plan, candidate, arrivals, seconds=SECONDS)).holds is not False

    buffered = with_headroom(instance, time_limit_s, seems_to_hold)
    if buffered is None:
        say("note: no plan with longer batches was found that holds; batches are planned as measured")
        return instance
    factor = buffered.latency_buffer
    if factor > 1.0:
        say(f"note: batches are planned {factor:g} times as long as measured, the least factor tried that holds")
    return buffered


def _plan_day(instance: Instance, trace: Path, window_h: float, time_limit_s: float, output: Path | None) -> None:
    if not 1.0 / 60.0 <= window_h <= 24.0:
        raise InputError("--window", f"{window_h:g}; expected hours from a minute to a day")
    if instance.partition is Partition.MIG:
        name = instance.gpus[0].type.name
        raise InputError("--trace", f"days are planned in shares; {name} is cut into MIG instances")
    traffic = read_day_of_traffic(trace, instance, 3600.0 * window_h)
    if len(traffic.rates_rps) > MOST_WINDOWS:
        raise InputError("--window", f"{window_h:g} h gives {len(traffic.rates_rps)} windows; at most {MOST_WINDOWS}")
    say(f"note: {trace}: {traffic.words}; a window has the rate of its busiest minute, in steps of 5 %")
    day = planned_day(window_instances(traffic, instance), traffic.window_s, time_limit_s, SolveProgress())
    show(*day_view(day, traffic.window_s))
    if output is not None:
        write_json(output, [plan_to_json(window.chosen, window.instance) for window in day.windows])
        say(f"wrote {output}: the plans of all windows")
