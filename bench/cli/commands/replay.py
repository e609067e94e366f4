"""``bench replay``: measurement of a plan on hardware, beside the predictions."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.completion import PlanInstance
from bench.cli.options import ArrivalsOption, DropOption, FormatOption, PlanFile
from bench.cli.running import report_loss
from bench.cli.terminal import message_on_interrupt, one_line, print_json, say
from bench.cli.views.tables import show, table
from bench.formatting import servers
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.ledger.writer import Writer
from bench.replay.order import ReplayOrder, Values, measured, row_of_replay, simulated
from bench.replay.serving import ReplayFailedError, ReplayOptions
from bench.replay.settings import ReplaySettings
from bench.runner.interruption import signals_noted
from bench.selection import find_plan
from bench.simulation.arrivals import parse_arrivals
from instances import InputError, Instance

EXAMPLES = (
    "bench replay plan.json --backend cpu --seconds 5   # tiny models: tests the serving, not the latencies",
    "bench replay plan.json --backend mps --half        # one process per gpulet, with its share set by MPS",
    "bench replay plan.json --backend green --graphs    # green contexts and CUDA graphs in one process",
    "bench replay plan.json --backend mps --then next.json --switch-at 10",
)

COLUMNS = (
    *("workload", ">SLO", ">offered", ">P50", ">P99", ">queue", ">upload", ">compute", ">feedback"),
    *(">goodput", ">not in time", ">predicted P99", ""),
)
"""Column heads of the table; ``>`` marks right alignment."""


def replay_plan(
    plan_file: PlanFile,
    instance_name: PlanInstance = None,
    backend: Annotated[
        str,
        typer.Option(
            metavar="cpu|mps|green|time-slicing|stream|sim",
            help="mps, green, time-slicing or stream: how GPUs are shared; cpu: tiny models on CPU cores;"
            " sim: simulation only.",
        ),
    ] = "mps",
    seconds: Annotated[float, typer.Option(metavar="N", help="Measured seconds.")] = 30.0,
    warmup_s: Annotated[float, typer.Option("--warmup", metavar="N", help="Seconds before the measurement.")] = 5.0,
    arrivals: ArrivalsOption = "poisson",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the arrivals.")] = 0,
    drop: DropOption = None,
    half: Annotated[bool, typer.Option("--half", help="Run models in half precision.")] = False,
    graphs: Annotated[bool, typer.Option("--graphs", help="Run batches as CUDA graphs.")] = False,
    then: Annotated[
        Path | None, typer.Option(metavar="PLAN", help="Second plan, which replaces the first during the replay.")
    ] = None,
    switch_at_s: Annotated[
        float | None,
        typer.Option("--switch-at", metavar="S", help="Measured seconds until the switch to --then begins."),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ledger that stores the measurement as a run.")
    ] = None,
    form: FormatOption = "table",
) -> None:
    """Serve a plan on real GPUs or CPU cores and measure every request.

    An open-loop load generator sends each request at its arrival time, even if earlier requests are late. Latencies
    count from the scheduled arrival time. Where available, the output shows the predictions of the performance model
    and of the simulator beside the measurements.
    """
    plans = [find_plan(plan_file, instance_name), *([] if then is None else [find_plan(then, instance_name)])]
    dropping = _dropping([instance for _, instance in plans]) if drop is None else drop
    settings = ReplaySettings(parse_arrivals(arrivals), seconds, warmup_s, seed, dropping)
    order = ReplayOrder(plans, backend, settings, ReplayOptions(half, graphs, switch_at_s))
    # The ledger is opened first: a wrong file name then fails before the measurement, not after it.
    with nullcontext() if ledger is None else Ledger(ledger, create=True) as open_ledger:
        try:
            with message_on_interrupt("interrupted: the measurement is incomplete and discarded"):
                values = simulated(order) if backend == "sim" else measured(order, say)
        except ReplayFailedError as error:
            say(f"failed: {error}")
            raise typer.Exit(1) from None
        if open_ledger is not None:
            _store(row_of_replay(order, values), order.plans[0][1], open_ledger)
    if form == "json":
        print_json(values)
    else:
        conditions = f"{values['backend']}, {values['arrivals']} arrivals, seed {values['seed']}"
        serving = f"{servers(dropping)}; times in ms"
        title = f"plan for {values['instance']}, {values['seconds']:g} s on {conditions}, {serving}"
        cells = [_cells(workload, plans[0][1].may_miss) for workload in values["workloads"]]
        show(one_line(title), "", table(COLUMNS, cells), "", *map(one_line, remarks(values)))
    ledger_lost = open_ledger is not None and report_loss(open_ledger)
    if values["failures"] or ledger_lost:
        raise typer.Exit(1)


def _dropping(instances: Sequence[Instance]) -> bool:
    """Return whether the servers of all instances drop late requests; the instances must agree."""
    if len({instance.dropping for instance in instances}) > 1:
        raise InputError("--then", "its servers and the first plan's differ in dropping; give --drop or --no-drop")
    return instances[0].dropping


def _store(row: Row, instance: Instance, ledger: Ledger) -> None:
    """Store the measurement; Ctrl-C ends the wait for a locked ledger and saves the row in a file beside it."""
    writer = Writer(ledger, lambda path: say(f"{path} is locked by another process; the measurement waits for it"))
    with signals_noted() as interrupted:
        writer.add(row, instance, lambda _: None)
        writer.settle(interrupted.wakeup)


def _cells(workload: Values, may_miss: float) -> list[str]:
    """Return a workload's row of the table, in the order of ``COLUMNS``.

    Means are shown for the times in the queue, in upload, in compute and in feedback.
    """
    time_parts = workload.get("split") or {}
    mean_times = [time_parts.get(f"{name}_ms") for name in ("queue", "upload", "compute", "feedback")]
    predicted = workload.get("predicted") or {}
    return [
        workload["id"],
        f"{workload['slo_ms']:g}",
        f"{workload['offered_rps']:,.1f}",
        _ms(workload["p50_ms"]),
        _ms(workload["p99_ms"]),
        *(_ms(None if mean is None else mean["mean"]) for mean in mean_times),
        f"{workload['goodput_rps']:,.1f}",
        f"{100.0 * workload['violation_rate']:.1f} %",
        _ms(predicted.get("p99_ms")),
        f"> {100.0 * may_miss:g} %" if workload["violating"] else "",
    ]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def remarks(values: Values) -> list[str]:
    """Return the lines below the table."""
    lines = [
        f"{values['requests']:,} requests, {values['goodput_rps']:,.1f} req/s in time,"
        f" {100.0 * values['violation_rate']:.1f} % not in time, {100.0 * values['drop_rate']:.1f} % dropped"
    ]
    if values["backend"] == "cpu":
        lines.append("tiny models replace those of the plan: this tests the serving, not the times")
    if values["generator"] is not None:
        lines.append(
            f"the load generator sent requests {values['generator']['p99']:.2f} ms after their arrival time (P99)"
        )
    if not values["valid"]:
        lines.append(f"NOT VALID: {values['invalid_reason']}")
    lines += [
        f"{slot['workload']}: a full batch took {_ms(slot['gpu_ms'])} ms, predicted {_ms(slot['predicted_gpu_ms'])}"
        for slot in values["slots"]
        if "predicted_gpu_ms" in slot and values["backend"] != "cpu"
    ]
    lines += [
        f"GPU {gpu['gpu']}: {gpu['power_w']:.0f} W, {gpu['frequency_mhz']:.0f} MHz, busy {gpu['utilisation_pct']:.0f} %"
        for gpu in values["gpus"]
        if None not in gpu.values()
    ]
    if (switch := values["switch"]) is not None:
        lines += _switch_lines(switch)
    lines += [
        f"FAILED: GPU {failure['gpu']}, gpulet {failure['gpulet']} ({', '.join(failure['workloads'])}):"
        f" {failure['reason']}"
        for failure in values["failures"]
    ]
    return lines


def _switch_lines(switch: Values) -> list[str]:
    if switch["drained_s"] is None:
        return ["the second plan did not take over"]
    took_s = switch["switched_s"] - switch["began_s"]
    return [
        f"the second plan took over {took_s:.1f} s after the switch began at {switch['began_s']:.1f} s;"
        f" the first plan finished at {switch['drained_s']:.1f} s",
        *(
            f"{workload['id']}: {_ms(workload['without_service_ms'])} ms without service,"
            f" P99 {_ms(workload['p99_ms'])} ms in the switch"
            for workload in switch["workloads"]
        ),
    ]
