"""``bench simulate``: simulation of every request of a plan."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.cli import options
from bench.cli.completion import PlanInstance
from bench.cli.files import refuse_input, write_csv
from bench.cli.terminal import listed, message_on_interrupt, one_line, print_json, say
from bench.cli.views.bar import progress_bar
from bench.cli.views.tables import coloured, mark, show, table
from bench.evaluation import true_performance
from bench.formatting import holds_in_words, percent, servers
from bench.holding.check import holding
from bench.holding.verdict import Holding
from bench.holding.windows import SECONDS, SIMULATIONS
from bench.holding.wording import doubt_in_words, loads_in_words, power_in_words, simulations_in_words
from bench.plan_simulation import Interference, Result, Series, Served, Settings, Simulated, finished, simulation
from bench.selection import find_plan
from bench.simulation.arrivals import Arrivals, parse_arrivals
from instances import InputError, Instance, Plan

EXAMPLES = (
    "bench simulate plan.json",
    "bench simulate plan.json --arrivals constant --seconds 60",
    "bench simulate plan.json --check   # does it keep its attainment? exit code 1 if not",
    "bench simulate plan.json mix.json --arrivals twitter.csv.gz --seconds 600 --series seconds.csv",
    "bench simulate plan.json --truth hybrid --error 0.1   # GPUs that differ from the planner's model",
    "bench simulate plan.json --check --truth measured:measured-here/   # measured latencies of its configurations",
)


def simulate_plan(
    plan_file: options.PlanFile,
    instance_name: PlanInstance = None,
    arrivals: options.OwnArrivalsOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help=f"Simulated seconds that are measured. Default: 30; with --check {SECONDS:g}, longer where needed.",
        ),
    ] = None,
    warmup_s: Annotated[
        float | None,
        typer.Option(
            "--warmup",
            metavar="N",
            help="Simulated seconds before the measurement. Default: 5, or what queues need to settle.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of arrivals, --noise and --error.")] = 0,
    interference: Annotated[
        Interference,
        typer.Option(
            metavar="dynamic|static",
            help="Slowdown by overlapping batches only, or by all gpulets of the GPU at all times.",
        ),
    ] = Interference.DYNAMIC,
    drop: options.DropOption = None,
    noise: Annotated[
        float, typer.Option(metavar="S", help="Standard deviation of a random factor on batch times.")
    ] = 0.0,
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL|measured:FOLDER",
            help="True performance model of the GPUs, or measured latencies of the plan's configurations."
            " Default: the planner's model.",
        ),
    ] = None,
    error: options.ErrorOption = 0.0,
    series: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV file with counts for every second.")] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help=f"Test in {SIMULATIONS} long simulations whether every workload keeps its attainment."
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if a workload is late in this simulation.")
    ] = False,
    form: options.FormatOption = "table",
) -> None:
    """Simulate every request of a plan and show latencies, goodput and SLO violations per workload.

    Arrival traces are scaled to each workload's rate. With the same seed, every plan gets the same requests. With
    --check, a trace is covered from its begin to its end, or ten parts of it with --seconds. A late workload changes
    the exit code only with --strict or --check.
    """
    refuse_input(series, [plan_file, instance_name, arrivals], "--series")
    if check and (warmup_s, seed, interference, noise, series) != (None, 0, Interference.DYNAMIC, 0.0, None):
        problem = "has its own warm-up, seeds and settings; only --seconds, --drop and --no-drop go with it"
        raise InputError("--check", problem)
    plan, instance = find_plan(plan_file, instance_name)
    process = parse_arrivals(instance.arrivals if arrivals is None else arrivals)
    reality, measured = true_performance(instance, truth, error, seed)
    if measured is not None:
        plan, instance, reality = measured.simulated(plan, instance)
        say("note: full batches take the measured times; times of smaller batches are interpolated by the solo profile")
    if check:
        steps = holding(plan, instance, process, reality, dropping=drop, seconds=seconds)
        _test(steps, instance, process, form)
        return
    interval_s = None if series is None else 1.0
    measured_s = Settings().seconds if seconds is None else seconds
    settings = Settings(process, measured_s, warmup_s, seed, interference, drop, noise, interval_s)
    result = _run_to_end(simulation(plan, instance, settings, reality), "simulation")
    if series is not None and result.series is not None:
        write_csv(series, _lines(result.series))
    if form == "json":
        head = {"instance": instance.name, "arrivals": settings.arrivals.label, "seed": seed}
        print_json(head | result.to_json())
    else:
        _show(plan, instance, settings, result)
    if strict and result.violating:
        raise typer.Exit(1)


def _test(steps: Generator[float, None, Holding], instance: Instance, arrivals: Arrivals, form: options.Format) -> None:
    """Test whether the plan holds, and show the result; end with exit code 1 unless it is known to hold."""
    result = _run_to_end(steps, "test")
    if form == "json":
        print_json({"instance": instance.name, "arrivals": arrivals.label} | result.to_json())
    else:
        _show_test(instance, arrivals, result)
    if not result.holds:
        raise typer.Exit(1)


def _show_test(instance: Instance, arrivals: Arrivals, result: Holding) -> None:
    target, slo_ms = f"{100.0 * result.target:g} %", {workload.id: workload.slo_ms for workload in instance.workloads}
    late_workloads = f"{len(result.late)} of {len(result.workloads)}"
    if result.late:
        verdict = f"{late_workloads} workloads serve less than {target} of their requests in time"
    elif result.holds is False:
        verdict = f"all workloads together serve less than {target} of their requests in time"
    else:
        verdict = doubt_in_words(result) or f"no workload serves less than {target} of its requests in time"
    # If the load of a workload proves that it is late, the line shows this load instead of the standard error.
    cells: list[list[object]] = [
        [
            workload.workload,
            f"{slo_ms[workload.workload]:g} ms",
            f"{workload.requests:,}",
            f"{100.0 * workload.attainment:.2f} %",
            f"{100.0 * workload.standard_error:.2f}" if workload.load is None else f"load {workload.load:.2f}",
        ]
        for workload in result.late
    ]
    columns = ["late workload", ">SLO", ">requests", ">in time", ">standard error, points"]
    answer = holds_in_words(result.holds, len(result.late))
    show(
        f"plan for {one_line(instance.name)}: {simulations_in_words(result)} of {arrivals.label} arrivals,"
        f" {servers(result.dropping)}",
        "",
        *((table(columns, cells), "") if cells else ()),
        coloured(f"{mark(result.holds)} holds on {servers(result.dropping)}: {answer}", result.holds),
        f"  {verdict}",
        *([f"  {loads}"] if (loads := loads_in_words(result)) else []),
        f"  {result.requests:,} requests, {100.0 * result.attainment:.2f} % of them in time",
        *([f"  {power_in_words(result)}"] if result.detectable else []),
    )


def _run_to_end(steps: Generator[float, None, Result], name: str) -> Result:
    """Run simulations to their end, with a progress bar on a terminal; Ctrl-C ends the command."""
    with (
        message_on_interrupt(f"interrupted: the {name} is incomplete and discarded"),
        progress_bar("simulating") as update,
    ):
        return finished(steps, lambda fraction: update(completed=fraction))


def _show(plan: Plan, instance: Instance, settings: Settings, result: Simulated) -> None:
    columns = ["workload", ">SLO", ">offered", ">requests", ">P50", ">P90", ">P99", ">max"]
    columns += [">goodput", ">late", ">dropped", ""]
    cells = [_cells(served) for served in (*result.workloads, *result.applications)]
    worst_p99 = "-" if result.worst_p99 is None else f"{result.worst_p99:.2f} x its SLO"
    late = f"{result.violating} of {len(cells)}" if result.violating else "none"
    without_requests = [
        one_line(served.id) for served in result.workloads if served.offered_rps > 0.0 and not served.requests
    ]
    serving = servers(settings.drops(instance))
    overload = next((served for served in result.overloads if served.missed > instance.may_miss), None)
    if overload is not None:
        answer = f"no, load {overload.load:.2f}: {listed([one_line(name) for name in overload.workloads])}"
    else:
        answer = f"unchecked, {result.missed:,} late in {settings.seconds:g} s; bench simulate PLAN --check tests it"
    show(
        f"plan for {one_line(instance.name)}: {settings.seconds:g} s of {settings.arrivals.label} arrivals,"
        f" {settings.interference} interference, seed {settings.seed}",
        "",
        table(columns, cells),
        "",
        f"{late} with more than {100.0 * instance.may_miss:g} % of the requests not in time; worst P99 {worst_p99}",
        f"{result.requests:,} requests, {result.goodput_rps:,.1f} req/s in time,"
        f" {percent(result.violation_rate)} not in time, {percent(result.drop_rate)} dropped;"
        f" simulated in {result.wall_s:.2f} s",
        coloured(f"holds on {serving}: {answer}", None if overload is None else False),
        *(
            [f"no requests arrived for {listed(without_requests)}: simulate longer with --seconds"]
            if without_requests
            else []
        ),
    )


def _cells(served: Served) -> list[object]:
    def ms(value: float | None) -> str:
        return "-" if value is None else f"{value:,.1f} ms"

    return [
        served.id,
        f"{served.slo_ms:g} ms",
        f"{served.offered_rps:,.1f}",
        f"{served.requests:,}",
        ms(served.p50_ms),
        ms(served.p90_ms),
        ms(served.p99_ms),
        ms(served.max_ms),
        f"{served.goodput_rps:,.1f}",
        percent(served.violation_rate - served.drop_rate),
        percent(served.drop_rate),
        f"> {100.0 * served.allowed:g} %" if served.violating else "",
    ]


def _lines(series: Series) -> Iterator[Sequence[object]]:
    yield ["second", "workload", "arrived", "in_time", "late", "dropped"]
    counts = (series.arrived, series.in_time, series.late, series.dropped)
    for second in range(len(series.arrived)):
        for position, workload in enumerate(series.workloads):
            yield [second, workload, *(int(count[second, position]) for count in counts)]
