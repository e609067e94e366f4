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
    output_option,
)
from bench.cli.terminal import listed, one_line, print_json, say
from bench.cli.views.bar import progress_bar
from bench.cli.views.tables import mark, show, table
from bench.formatting import percent, with_percent_sign
from bench.online.control import POLICIES, Online, Pace, online_instance
from bench.online.load import read_rate_traces, streams, waves
from bench.online.planner import Planner, SchedulerError
from bench.online.result import OnlineRun, PeriodEnd
from bench.selection import find_instance
from bench.simulation.allowance import VIOLATIONS_ALLOWED
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
"""Largest number of rows of the table; each row covers one or more periods."""

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
    truth: Annotated[
        str | None, typer.Option(metavar="MODEL", help="True performance model of the GPUs. Default: the planner's.")
    ] = None,
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
    input_files = [option.rpartition("=")[2] for option in (*(traces or ()), *(parameters or ()))]
    refuse_input(output, [instance_name, *input_files], "--output")
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
        chosen_policy = POLICIES[policy](instance, planner, weight)
        pace = Pace(
            seconds if seconds is not None else max(len(trace.rates_rps) for trace in load.values()),
            period_s if period_s is not None else chosen_policy.period_s,
            reorganisation_s,
        )
        request_streams = streams(load, instance, pace.seconds, seed)
        first_plan, reality = planner.first(), misspecified(instance, truth, error, seed)
        run = Online(
            first_plan, instance, chosen_policy, request_streams, pace, seed, reality, planner.without_headroom
        )
        interrupted = True
        with suppress(KeyboardInterrupt), progress_bar("serving", pace.seconds) as update:
            for period in run.run():
                update(completed=period.begin_s + period.observation.seconds)
            interrupted = False
    except SchedulerError as failure:
        say(f"failed: {failure}")
        raise typer.Exit(1) from None
    if run.periods:
        result = OnlineRun(tuple(workload.id for workload in instance.workloads), tuple(run.periods))
        if form == "json":
            head = {"instance": instance.name, "scheduler": scheduler, "policy": policy, "seed": seed}
            print_json(head | result.to_json())
        else:
            _show(result, f"{instance.name}, {scheduler}, {policy}, seed {seed}")
        if output is not None:
            write_csv(output, _lines(result))
    if interrupted:
        say(f"interrupted after {len(run.periods)} periods")
        raise typer.Exit(INTERRUPTED)


def _show(result: OnlineRun, head: str) -> None:
    periods_per_row = math.ceil(len(result.periods) / _ROWS)
    starts = range(0, len(result.periods), periods_per_row)
    groups = [OnlineRun(result.ids, result.periods[start : start + periods_per_row]) for start in starts]
    shown_ids = result.ids if len(result.ids) <= _COLUMNS else ()
    columns = [">from", ">requests/s", *(f">{name}" for name in shown_ids), ">GPUs", ">share", ">violations", ">drops"]
    total = result.to_json()
    worst = max(total["workloads"], key=lambda workload: workload["violation_rate"])
    decisions = ", ".join(f"{result.count(decision)} {decision}" for decision in PeriodEnd if result.count(decision))
    lowest, highest = total["gpus_used"]
    without_requests = [one_line(workload["id"]) for workload in total["workloads"] if not workload["requests"]]
    slos_kept = total["violation_rate"] <= VIOLATIONS_ALLOWED
    headroom_warning = (
        f"{mark(False)} {result.without_headroom} periods used a plan without headroom: none was found with it"
    )
    memory_warning = f"{mark(False)} in {result.overfull} periods the processes on a GPU exceeded its memory"
    show(
        f"{one_line(head)}: {total['seconds']:g} s in {len(result.periods)} periods",
        "",
        table(columns, [_cells(group, len(shown_ids)) for group in groups]),
        "",
        f"{mark(None if without_requests and slos_kept else slos_kept)} {percent(total['violation_rate'])} of"
        f" {total['requests']:,} requests not in time; at worst {percent(worst['violation_rate'])} of"
        f" {one_line(worst['id'])}; {total['dropped']:,} dropped, {total['unfinished']:,} unfinished",
        f"  {result.gpus_held:.2f} GPUs held on average, {lowest} to {highest} in use; largest memory use of a GPU"
        f" {with_percent_sign(result.memory_pct)}; decisions after periods: {decisions}",
        *([headroom_warning] if result.without_headroom else []),
        *(
            [f"  no requests arrived for {listed(without_requests)}: simulate longer with --seconds"]
            if without_requests
            else []
        ),
        *([memory_warning] if result.overfull else []),
    )


def _cells(result: OnlineRun, shown_count: int) -> list[object]:
    observation, last = result.observation, result.periods[-1]
    return [
        f"{result.periods[0].begin_s:g} s",
        f"{observation.rate_rps.sum():,.1f}",
        *(f"{rate:,.1f}" for rate in observation.throughput_rps[:shown_count]),
        last.gpus_used,
        last.share_units,
        percent(observation.violation_rate),
        int(observation.dropped.sum()),
    ]


def _lines(result: OnlineRun) -> Iterator[Sequence[object]]:
    """Yield the lines of the CSV file: the columns of a period, then the throughput of every workload."""
    periods = [period.to_json(result.ids) for period in result.periods]
    columns = [name for name in periods[0] if name != "workloads"]
    yield [*columns, *(f"throughput_rps {name}" for name in result.ids)]
    for period in periods:
        throughput = [period["workloads"][name]["throughput_rps"] for name in result.ids]
        yield [*(period[name] for name in columns), *throughput]
