"""``bench replay``: measurement of a plan on hardware, beside the predictions."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import INTERRUPTED, ArrivalsOption, Format, FormatOption
from bench.cli.terminal import one_line, print_json, say, show
from bench.cli.views.tables import table
from bench.ledger.store import Ledger
from bench.plan_simulation import simulate
from bench.replay.command import COLUMNS, ReplayOrder, Values, cells, head, remarks, replayed, title
from bench.replay.ledger_row import row_of_replay
from bench.replay.prediction import predict
from bench.replay.recording import ReplayFailedError, ReplayOptions
from bench.replay.result import NOTHING_REPLAYED
from bench.selection import find_plan
from bench.simulation.arrivals import parse_arrivals
from bench.simulation.settings import Settings
from instances import InputError

EXAMPLES = (
    "bench replay plan.json --backend cpu --seconds 5   # tiny models: tests the serving, not the latencies",
    "bench replay plan.json --backend mps --half        # one process per gpulet, with its share set by MPS",
    "bench replay plan.json --backend green --graphs    # green contexts and CUDA graphs in one process",
    "bench replay plan.json --backend mps --then next.json --switch-at 10",
    "python -m bench.replay plan.json --backend mps     # the same on a host with only NumPy and PyTorch",
)


def replay_plan(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.")],
    instance_name: Annotated[
        str | None,
        typer.Argument(metavar="INSTANCE", help="Name or file. Default: the instance in the plan file."),
    ] = None,
    backend: Annotated[
        str,
        typer.Option(
            "--backend", metavar="cpu|mps|green|stream|sim", help="Device and partitioning that serve the plan."
        ),
    ] = "mps",
    seconds: Annotated[float, typer.Option("--seconds", metavar="N", help="Measured seconds.")] = 30.0,
    warmup: Annotated[float, typer.Option("--warmup", metavar="N", help="Seconds before the measurement.")] = 5.0,
    arrivals: ArrivalsOption = "poisson",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the arrivals.")] = 0,
    drop: Annotated[
        bool, typer.Option("--drop/--no-drop", help="Drop requests that can no longer meet their SLO.")
    ] = True,
    half: Annotated[bool, typer.Option("--half", help="Run models in half precision.")] = False,
    graphs: Annotated[bool, typer.Option("--graphs", help="Run batches as CUDA graphs.")] = False,
    then: Annotated[
        Path | None,
        typer.Option("--then", metavar="PLAN", help="Second plan, which replaces the first during the replay."),
    ] = None,
    switch_at: Annotated[
        float | None,
        typer.Option("--switch-at", metavar="S", help="Measured seconds until the switch to --then begins."),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", metavar="FILE", help="Ledger that stores the measurement as a run.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Serve a plan on real GPUs or CPU cores and measure every request.

    An open-loop load generator sends each request at its arrival time, even if earlier requests are late. Latencies
    count from the scheduled arrival time. Where available, the output shows the predictions of the performance model
    and of the simulator beside the measurements.
    """
    plans = [find_plan(plan_file, instance_name), *([] if then is None else [find_plan(then, instance_name)])]
    settings = Settings(parse_arrivals(arrivals, "--arrivals"), seconds, warmup, seed, dropping=drop)
    order = ReplayOrder(plans, backend, settings, ReplayOptions(half, graphs, switch_at))
    try:
        values = _simulated(order) if backend == "sim" else _replayed(order)
    except ReplayFailedError as error:
        say(f"failed: {error}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say("interrupted: the measurement is incomplete and discarded")
        raise typer.Exit(INTERRUPTED) from None
    if ledger is not None:
        _keep(ledger, order, values)
    if form is Format.JSON:
        print_json(values)
    else:
        _show(values)
    if values["failures"]:
        raise typer.Exit(1)


def _replayed(order: ReplayOrder) -> Values:
    values = replayed(order, say)
    if len(order.plans) == 1:
        predict(values, *order.plans[0], order.settings)
    return values


def _simulated(order: ReplayOrder) -> Values:
    """Simulate: a replay without hardware."""
    if len(order.plans) > 1:
        raise InputError("--then", "is not available with --backend sim; `bench online` simulates changes of the plan")
    return head(order) | simulate(*order.plans[0], order.settings).to_json() | NOTHING_REPLAYED


def _keep(ledger: Path, order: ReplayOrder, values: Values) -> None:
    _, instance = order.plans[0]
    with Ledger(ledger, create=True) as file:
        file.add(row_of_replay(order, values), instance)


def _show(values: Values) -> None:
    show(one_line(title(values)), "", table(COLUMNS, cells(values)), "", *map(one_line, remarks(values)))
