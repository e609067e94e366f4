"""``bench online``: simulation of a changing load with replanning."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.completion import complete_scheduler, instances_option
from bench.cli.files import refuse_input, write_csv
from bench.cli.options import (
    INTERRUPTED,
    ErrorOption,
    FormatOption,
    ParametersOption,
    TimeLimitOption,
    TruthOption,
    output_option,
)
from bench.cli.terminal import listed, one_line, print_json, say
from bench.cli.views.bar import progress_bar
from bench.cli.views.tables import mark, show, table
from bench.formatting import pct, percent
from bench.online.control import POLICIES, Online, Pace, online_instance
from bench.online.load import read_rate_traces, streams, waves
from bench.online.planner import Planner, SchedulerError
from bench.online.result import OnlineRun, PeriodEnd
from bench.selection import find_instance
from bench.simulation.result import VIOLATIONS_ALLOWED
from instances import InputError
from instances.errors import unknown_name
from instances.misspecification import misspecified

EXAMPLES = (
    "bench online --instances gpulet-scen3 --rates 2.3 --scheduler gpu-scaling --headroom 1.2",
    "bench online --instances gpulet-scen3 --rates 2.3 --scheduler gpu-scaling --policy static",
    "bench online --instances mix.json --scheduler igniter --trace day.csv.gz --trace w1=other.csv -o series.csv",
    "bench online --instances igniter-12 --scheduler igniter --policy shadow --error 0.1 --trace flat.csv --seconds 60",
)

REORGANISATION_S = 12.0
"""Time from a decision until new processes are ready: within the 10 to 15 s of gpulet (arXiv'21, Sec. 5)."""

WEIGHT = 0.8
"""Weight of the last period in the rate estimate; the papers give none. Rates that change within minutes need a large
weight."""

_ROWS = 24
"""Most rows of the table; each row covers one or more periods."""

_COLUMNS = 8
"""Largest number of workloads with a column each; with more workloads, the table shows only their total."""


def online(
    instance_name: Annotated[
        str, instances_option("One instance; its rates are the mean rates of the run.", metavar="NAME|FILE")
    ],
    scheduler: Annotated[
        str,
        typer.Option(metavar="NAME", autocompletion=complete_scheduler, help="Scheduler, or C@START as in bench run."),
    ],
    policy: Annotated[
        str, typer.Option(metavar="static|reschedule|shadow|reactive", help="Rule that changes the plan; see above.")
    ] = "reschedule",
    traces: Annotated[
        list[str] | None,
        typer.Option(
            "--trace",
            metavar="[WORKLOAD=]FILE",
            help="Load trace with a rate for every second, scaled to the mean rate; repeatable. Default: two waves.",
        ),
    ] = None,
    rates: Annotated[float, typer.Option(metavar="F", help="Factor on the instance's rates.")] = 1.0,
    period_s: Annotated[
        float | None,
        typer.Option("--period", metavar="S", help="Seconds between decisions. Default: 20; 1 for shadow."),
    ] = None,
    reorganisation_s: Annotated[
        float,
        typer.Option("--reorganisation", metavar="S", help="Seconds from a decision until new processes are ready."),
    ] = REORGANISATION_S,
    weight: Annotated[
        float, typer.Option(metavar="W", help="Weight of the last period in the rate estimate.")
    ] = WEIGHT,
    headroom: Annotated[
        float,
        typer.Option(
            metavar="F", help="Plan with every predicted latency multiplied by F, or by 1 if no plan is found with F."
        ),
    ] = 1.0,
    seconds: Annotated[
        float | None, typer.Option(metavar="N", help="Simulated seconds. Default: length of the longest trace.")
    ] = None,
    parameters: ParametersOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of scheduler, arrivals and --error.")] = 0,
    truth: TruthOption = None,
    error: ErrorOption = 0.0,
    time_limit_s: TimeLimitOption = 10.0,
    form: FormatOption = "table",
    output: Annotated[Path | None, output_option("CSV file with one line per period.")] = None,
) -> None:
    """Simulate every request of a changing load while a policy changes the plan.

    The first plan is for the instance's rates. After every period the policy decides on the next plan. `static` keeps
    the first plan. `reschedule` (gpulet) calls the scheduler with the observed rates. `shadow` (iGniter) gives a larger
    share of the GPU to workloads that violate their SLO. `reactive` (GSLICE) adjusts shares and batches to the
    measurements.

    The old plan serves requests until the new processes are ready. The scheduler's decisions take no simulated time.

    After Ctrl-C, the results up to that point are shown.
    """
    given = [option.rpartition("=")[2] for option in (*(traces or ()), *(parameters or ()))]
    refuse_input(output, [instance_name, *given], "--output")
    if policy not in POLICIES:
        raise unknown_name("--policy", "policy", policy, list(POLICIES))
    if not 0.0 < rates < math.inf:
        raise InputError("--rates", f"{rates:g}; expected a finite factor greater than 0")
    instance = online_instance(find_instance(instance_name, "--instances"))
    if rates != 1.0:
        instance = instance.scaled(rates)
    load = read_rate_traces(traces, instance) if traces else waves(instance)
    try:
        planner = Planner(
            scheduler, instance, parameters=parameters or [], headroom=headroom, time_limit_s=time_limit_s, seed=seed
        )
        chosen = POLICIES[policy](instance, planner, weight)
        pace = Pace(
            seconds if seconds is not None else max(len(trace.rates_rps) for trace in load.values()),
            period_s if period_s is not None else chosen.period_s,
            reorganisation_s,
        )
        requests = streams(load, instance, pace.seconds, seed)
        first, reality = planner.first(), misspecified(instance, truth, error, seed)
        run = Online(first, instance, chosen, requests, pace, seed, reality, planner.without_headroom)
        interrupted = True
        with suppress(KeyboardInterrupt), progress_bar("serving", pace.seconds) as update:
            for each in run.run():
                update(completed=each.begin_s + each.observation.seconds)
            interrupted = False
    except SchedulerError as failure:
        say(f"failed: {failure}")
        raise typer.Exit(1) from None
    if run.periods:
        found = OnlineRun(tuple(workload.id for workload in instance.workloads), tuple(run.periods))
        if form == "json":
            head = {"instance": instance.name, "scheduler": scheduler, "policy": policy, "seed": seed}
            print_json(head | found.to_json())
        else:
            _show(found, f"{instance.name}, {scheduler}, {policy}, seed {seed}")
        if output is not None:
            write_csv(output, _lines(found))
    if interrupted:
        say(f"interrupted after {len(run.periods)} periods")
        raise typer.Exit(INTERRUPTED)


def _show(found: OnlineRun, head: str) -> None:
    many = math.ceil(len(found.periods) / _ROWS)
    starts = range(0, len(found.periods), many)
    groups = [OnlineRun(found.ids, found.periods[start : start + many]) for start in starts]
    shown = found.ids if len(found.ids) <= _COLUMNS else ()
    columns = [">from", ">requests/s", *(f">{name}" for name in shown), ">GPUs", ">share", ">violations", ">drops"]
    total = found.to_json()
    worst = max(total["workloads"], key=lambda workload: workload["violation_rate"])
    answers = ", ".join(f"{found.count(answer)} {answer}" for answer in PeriodEnd if found.count(answer))
    least, most = total["gpus_used"]
    silent = [one_line(workload["id"]) for workload in total["workloads"] if not workload["requests"]]
    kept = total["violation_rate"] <= VIOLATIONS_ALLOWED
    bare = f"{mark(False)} {found.without_headroom} periods used a plan without headroom: none was found with it"
    overfull = f"{mark(False)} in {found.overfull} periods the processes on a GPU exceeded its memory"
    show(
        f"{one_line(head)}: {total['seconds']:g} s in {len(found.periods)} periods",
        "",
        table(columns, [_cells(group, len(shown)) for group in groups]),
        "",
        f"{mark(None if silent and kept else kept)} {percent(total['violation_rate'])} of"
        f" {total['requests']:,} requests not in time; at worst {percent(worst['violation_rate'])} of"
        f" {one_line(worst['id'])}; {total['dropped']:,} dropped, {total['unfinished']:,} unfinished",
        f"  {found.gpus_held:.2f} GPUs held on average, {least} to {most} in use; largest memory use of a GPU"
        f" {pct(found.memory_pct)}; decisions after periods: {answers}",
        *([bare] if found.without_headroom else []),
        *([f"  no requests arrived for {listed(silent)}: simulate longer with --seconds"] if silent else []),
        *([overfull] if found.overfull else []),
    )


def _cells(found: OnlineRun, shown: int) -> list[object]:
    seen, last = found.observation, found.periods[-1]
    return [
        f"{found.periods[0].begin_s:g} s",
        f"{seen.rate_rps.sum():,.1f}",
        *(f"{rate:,.1f}" for rate in seen.throughput_rps[:shown]),
        last.gpus_used,
        last.share_units,
        percent(seen.violation_rate),
        int(seen.dropped.sum()),
    ]


def _lines(found: OnlineRun) -> Iterator[Sequence[object]]:
    """Yield the lines of the CSV file: the columns of a period, then the throughput of every workload."""
    periods = [period.to_json(found.ids) for period in found.periods]
    columns = [name for name in periods[0] if name != "workloads"]
    yield [*columns, *(f"throughput_rps {name}" for name in found.ids)]
    for period in periods:
        throughput = [period["workloads"][name]["throughput_rps"] for name in found.ids]
        yield [*(period[name] for name in columns), *throughput]
