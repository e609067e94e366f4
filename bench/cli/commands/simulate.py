"""``bench simulate``: simulation of every request of a plan."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.cli import options
from bench.cli.completion import PlanInstance
from bench.cli.files import refuse_input, write_csv
from bench.cli.terminal import listed, one_line, print_json, told_on_interrupt
from bench.cli.views.bar import progress_bar
from bench.cli.views.tables import coloured, mark, show, table
from bench.formatting import holds_in_words, percent, servers
from bench.holding.check import holding
from bench.holding.verdict import Holding
from bench.holding.windows import SECONDS, SIMULATIONS
from bench.holding.wording import doubt_in_words, loads_in_words, power_in_words, simulations_in_words
from bench.plan_simulation import Interference, Result, Series, Served, Settings, Simulated, finished, simulation
from bench.selection import find_plan
from bench.simulation.arrivals import Arrivals, parse_arrivals
from instances import InputError, Instance, Plan
from instances.misspecification import misspecified

EXAMPLES = (
    "bench simulate plan.json",
    "bench simulate plan.json --arrivals constant --seconds 60",
    "bench simulate plan.json --check   # does it keep its attainment? exit code 1 if not",
    "bench simulate plan.json mix.json --arrivals twitter.csv.gz --seconds 600 --series seconds.csv",
    "bench simulate plan.json --truth hybrid --error 0.1   # GPUs that differ from the planner's model",
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
    truth: options.TruthOption = None,
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
    reality = misspecified(instance, truth, error, seed)
    if check:
        steps = holding(plan, instance, process, reality, dropping=drop, seconds=seconds)
        _check(steps, instance, process, form)
        return
    interval_s = None if series is None else 1.0
    asked_s = Settings().seconds if seconds is None else seconds
    settings = Settings(process, asked_s, warmup_s, seed, interference, drop, noise, interval_s)
    found = _finished(simulation(plan, instance, settings, reality), "simulation")
    if series is not None and found.series is not None:
        write_csv(series, _lines(found.series))
    if form == "json":
        head = {"instance": instance.name, "arrivals": settings.arrivals.label, "seed": seed}
        print_json(head | found.to_json())
    else:
        _show(plan, instance, settings, found)
    if strict and found.violating:
        raise typer.Exit(1)


def _check(
    steps: Generator[float, None, Holding], instance: Instance, arrivals: Arrivals, form: options.Format
) -> None:
    found = _finished(steps, "test")
    if form == "json":
        print_json({"instance": instance.name, "arrivals": arrivals.label} | found.to_json())
    else:
        _show_check(instance, arrivals, found)
    if not found.holds:
        raise typer.Exit(1)


def _show_check(instance: Instance, arrivals: Arrivals, found: Holding) -> None:
    target, slo_ms = f"{100.0 * found.target:g} %", {w.id: w.slo_ms for w in instance.workloads}
    late = f"{len(found.late)} of {len(found.workloads)}"
    if found.late:
        verdict = f"{late} workloads serve less than {target} of their requests in time"
    elif found.holds is False:
        verdict = f"all workloads together serve less than {target} of their requests in time"
    else:
        verdict = doubt_in_words(found) or f"no workload serves less than {target} of its requests in time"
    cells: list[list[object]] = [
        [
            one.workload,
            f"{slo_ms[one.workload]:g} ms",
            f"{one.requests:,}",
            f"{100.0 * one.attainment:.2f} %",
            f"{100.0 * one.standard_error:.2f}" if one.load is None else f"load {one.load:.2f}",
        ]
        for one in found.late
    ]
    columns = ["late workload", ">SLO", ">requests", ">in time", ">standard error, points"]
    words = holds_in_words(found.holds, len(found.late))
    show(
        f"plan for {one_line(instance.name)}: {simulations_in_words(found)} of {arrivals.label} arrivals,"
        f" {servers(found.dropping)}",
        "",
        *((table(columns, cells), "") if cells else ()),
        coloured(f"{mark(found.holds)} holds on {servers(found.dropping)}: {words}", found.holds),
        f"  {verdict}",
        *([f"  {loads}"] if (loads := loads_in_words(found)) else []),
        f"  {found.requests:,} requests, {100.0 * found.attainment:.2f} % of them in time",
        *([f"  {power_in_words(found)}"] if found.detectable else []),
    )


def _finished(steps: Generator[float, None, Result], what: str) -> Result:
    """Run simulations to their end, with a progress bar on a terminal; Ctrl-C ends the command."""
    with (
        told_on_interrupt(f"interrupted: the {what} is incomplete and discarded"),
        progress_bar("simulating") as update,
    ):
        return finished(steps, lambda part: update(completed=part))


def _show(plan: Plan, instance: Instance, settings: Settings, found: Simulated) -> None:
    columns = ["workload", ">SLO", ">offered", ">requests", ">P50", ">P90", ">P99", ">max"]
    columns += [">goodput", ">late", ">dropped", ""]
    cells = [_cells(one) for one in (*found.workloads, *found.applications)]
    worst = "-" if found.worst_p99 is None else f"{found.worst_p99:.2f} x its SLO"
    many = f"{found.violating} of {len(cells)}" if found.violating else "none"
    silent = [one_line(one.id) for one in found.workloads if one.offered_rps > 0.0 and not one.requests]
    serving = servers(settings.drops(instance))
    over = next((one for one in found.overloads if one.missed > instance.may_miss), None)
    if over is not None:
        held = f"no, load {over.load:.2f}: {listed([one_line(name) for name in over.workloads])}"
    else:
        held = f"unchecked, {found.missed:,} late in {settings.seconds:g} s; bench simulate PLAN --check tests it"
    show(
        f"plan for {one_line(instance.name)}: {settings.seconds:g} s of {settings.arrivals.label} arrivals,"
        f" {settings.interference} interference, seed {settings.seed}",
        "",
        table(columns, cells),
        "",
        f"{many} with more than {100.0 * instance.may_miss:g} % of the requests not in time; worst P99 {worst}",
        f"{found.requests:,} requests, {found.goodput_rps:,.1f} req/s in time, {percent(found.violation_rate)} not in"
        f" time, {percent(found.drop_rate)} dropped; simulated in {found.wall_s:.2f} s",
        coloured(f"holds on {serving}: {held}", None if over is None else False),
        *([f"no requests arrived for {listed(silent)}: simulate longer with --seconds"] if silent else []),
    )


def _cells(one: Served) -> list[object]:
    def ms(value: float | None) -> str:
        return "-" if value is None else f"{value:,.1f} ms"

    return [
        one.id,
        f"{one.slo_ms:g} ms",
        f"{one.offered_rps:,.1f}",
        f"{one.requests:,}",
        ms(one.p50_ms),
        ms(one.p90_ms),
        ms(one.p99_ms),
        ms(one.max_ms),
        f"{one.goodput_rps:,.1f}",
        percent(one.violation_rate - one.drop_rate),
        percent(one.drop_rate),
        f"> {100.0 * one.allowed:g} %" if one.violating else "",
    ]


def _lines(series: Series) -> Iterator[Sequence[object]]:
    yield ["second", "workload", "arrived", "in_time", "late", "dropped"]
    counts = (series.arrived, series.in_time, series.late, series.dropped)
    for second in range(len(series.arrived)):
        for w, workload in enumerate(series.workloads):
            yield [second, workload, *(int(count[second, w]) for count in counts)]
