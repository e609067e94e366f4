"""Terminal view of one run in full."""

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from json import dumps
from typing import Any

from rich.table import Table
from rich.text import Text

from bench.cli.terminal import draws_unicode, many_lines, one_line
from bench.cli.views.run_tables import bound_cell, judged, scenarios_in_words
from bench.cli.views.tables import cell, coloured, mark, show, table
from bench.formatting import (
    ON_PAPER_MEANS,
    beaten_by,
    holds_on,
    objective_of,
    percent,
    result,
    seconds,
    short_hash,
    short_key,
    with_percent_sign,
    worth,
)
from bench.ledger.better_plans import BetterPlan, ledger_better_plans
from bench.ledger.gap import Gap, reachable
from bench.ledger.row import Row
from bench.ledger.row_schema import to_json
from bench.ledger.store import Ledger
from instances import InputError, Instance, Objective, PlacedGpu, Plan
from instances.performance import performance_in_words

_COLUMNS = ("=GPU", "=share", ">", "=workload", "=model", ">batch", ">rate", "=cycle")
"""Columns of the picture, with marks of alignment as in ``table``; the one without a name has the bars."""

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")
_WIDEST, _NARROWEST = 56, 10
"""Largest and smallest width of the bar of a whole GPU, in characters."""

_LONG_HASH = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
"""Hashes of sources and commits, of which the beginning is shown; JSON has all digits."""

_GPUS_SHOWN = 100
_WIDTH_BESIDE_BAR = 65
"""Width in characters of all cells but the bar, if names are short."""


def plan_picture(plan: Plan, instance: Instance) -> Table:
    """Return a picture of ``plan`` in which bars are shares of the GPU, in the order of the plan.

    Under ``colocation`` all bars begin at the left, since every job can use the whole GPU. A large plan is cut after
    ``_GPUS_SHOWN`` GPUs, with the number of the omitted GPUs.
    """
    lines_by_gpu = [list(_gpulets(position, gpu, instance)) for position, gpu in enumerate(plan.gpus[:_GPUS_SHOWN])]
    groups = [position for position, lines in enumerate(lines_by_gpu) for _ in lines]
    picture = table(_COLUMNS, [line for lines in lines_by_gpu for line in lines], groups)
    if len(plan.gpus) > _GPUS_SHOWN:
        picture.caption = f"and {len(plan.gpus) - _GPUS_SHOWN:,} more GPUs"
    return picture


def _gpulets(position: int, gpu: PlacedGpu, instance: Instance) -> Iterator[list[object]]:
    """Yield the cells of every slot and of the free share."""
    pool = instance.pool(gpu.type)
    units = pool.type.share_units if pool is not None else max(1, gpu.share_units)
    full, free = ("█", "░") if draws_unicode() else ("#", ".")
    name, start = f"{position} {one_line(gpu.type)}", 0
    all_from_left = instance.objective is Objective.COLOCATION
    for gpulet_index, gpulet in enumerate(gpu.gpulets):
        bar = _bar(0 if all_from_left else start, gpulet.share_units, units, full)
        share = with_percent_sign(100.0 * gpulet.share_units / units)
        cycle = "" if gpulet.duty_cycle_ms is None else f"{gpulet.duty_cycle_ms:g} ms"
        start += gpulet.share_units
        for slot in gpulet.slots:
            model = one_line(instance.model_of.get(slot.workload, "-"))
            slot_cells = [one_line(slot.workload), model, str(slot.batch), f"{slot.rate_rps:,.5g} req/s", cycle]
            yield [name, Text(bar, style=_COLOURS[gpulet_index % len(_COLOURS)]), share, *slot_cells]
            name = bar = share = cycle = ""  # shown once for all slots of a gpulet
    if start < units:
        free_units = units - start
        free_bar = Text(_bar(start, free_units, units, free), style="dim")
        yield [name, free_bar, with_percent_sign(100.0 * free_units / units), "free", "", "", "", ""]


def _bar(start: int, width: int, units: int, block: str) -> str:
    scale = min(1.0, _bar_width() / units)
    # Shares that sum to more than the GPU extend to at most twice its bar.
    first, end = (min(round(unit * scale), 2 * _bar_width()) for unit in (start, start + width))
    return " " * first + block * max(1, end - first)


def _bar_width() -> int:
    if not sys.stdout.isatty():
        return _WIDEST
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns - _WIDTH_BESIDE_BAR))


_POINTS_SHOWN = 20
"""Largest number of points of a trajectory that are shown before its last point."""


def show_run(row: Row, gap: Gap, ledger: Ledger, every_line: bool = False) -> None:
    """Show everything that the ledger stores about a run."""
    better_plans = {} if gap.refuted else ledger_better_plans([row], ledger)
    holds_text = holds_on(row, None if row.holds is None else _instance(row, ledger))
    lines = [
        [name, value]
        for name, value in _facts(row, gap, better_plans.get(row.key), holds_text)
        if value not in ("", None)
    ]
    show(table(["run", short_key(row)], lines), *([ON_PAPER_MEANS] if row.feasible and row.holds is False else []), "")
    if row.trajectory:
        show(table([">after", ">value", "feasible", ">bound"], _trajectory(row, _instance(row, ledger))), "")
    if violations := row.violation_details:
        show(
            "violations",
            *(
                f"  {mark(False)} {one_line(violation['kind'])}: {one_line(violation['message'])}"
                for violation in violations
            ),
        )
        if row.violations is not None and row.violations > len(violations):
            show(f"  and {row.violations - len(violations)} more")
        show("")
    if row.log_tail:
        show("end of the output", *(f"  {line}" for line in many_lines(row.log_tail).split("\n")), "")
    if row.plan is not None:
        _show_plan(row.plan, row, ledger, every_line)


def _facts(row: Row, gap: Gap, better: BetterPlan | None, holds_text: str) -> list[list[object]]:
    objective = objective_of(row)
    lines: list[list[object]] = [
        ["key", row.key],
        ["instance", f"{row.instance} ({short_hash(row.instance_hash)})"],
        ["objective", f"{objective}, rule {row.slo_rule}, model {performance_in_words(row.performance_model)}"],
        ["scheduler", row.scheduler],
        ["parameters", _pairs(row.parameters)],
        ["seed", row.seed],
        ["result", result(row) + (f": {row.reason}" if row.reason else "")],
        ["better plan", None if better is None else beaten_by(better)],
        ["scenarios", None if row.scenarios is None else ", ".join(scenarios_in_words(row.scenarios))],
        ["value", worth(row.value, objective)],
        ["feasible", judged(row, row.feasible, row.violations)],
        ["holds", coloured(holds_text, row.holds)],
        ["GPUs", row.gpus_used],
        ["cost", worth(row.cost_per_hour, "cost")],
        ["throughput", worth(row.throughput_rps, "capacity")],
        ["goodput", worth(row.goodput_rps, "goodput")],
        ["fragments, utilisation", f"{with_percent_sign(row.fragments_pct)}, {with_percent_sign(row.utilisation_pct)}"],
        ["time over capacity", None if row.over_capacity_pct is None else with_percent_sign(row.over_capacity_pct)],
        ["least slack", None if row.least_slack is None else percent(row.least_slack)],
        ["simulated", _simulated(row)],
        ["headroom, truth", f"{row.headroom:g}, {row.truth or 'as planned'}" if row.headroom is not None else None],
        ["margin", row.margin],
        ["plan class", row.plan_class],
        ["bound", bound_cell(row, gap) + (f" ({_pairs(to_json(row.bound_scope))})" if row.bound_scope else "")],
        ["refuted", None if gap.refuted is None else str(gap.refuted)],
        ["gap, own gap", f"{percent(gap.gap)}, {percent(gap.own_gap)}"],
        ["decision", f"{seconds(row.decision_s)} of {row.time_limit_s:g} s, overshoot {seconds(row.overshoot_s)}"],
        ["second objective", _second_objective(row)],
        ["work limit", None if row.work_limit is None else f"{row.work_limit:,}"],
        [
            "wall",
            f"{seconds(row.wall_s)}: import {seconds(row.import_s)}, warm {seconds(row.warm_s)}, "
            f"overhead {seconds(row.overhead_s)}",
        ],
        ["memory", f"{_mib(row.peak_memory_mb)} resident, {_mib(row.memory_limit_mb)} address space allowed"],
        ["threads", row.threads],
        ["statistics", _pairs(row.statistics)],
        ["started", row.started_at],
    ]
    return lines + [[key, _pairs(value)] for key, value in row.provenance.items()]


def _second_objective(row: Row) -> str | None:
    if not row.second_objective:
        return None
    limit = "" if row.then_limit_s is None else f" of {row.then_limit_s:g} s"
    return f"{row.second_objective}, {seconds(row.then_s)}{limit}"


def _simulated(row: Row) -> str | None:
    simulation = row.simulation
    if simulation is None:
        return None
    worst_p99 = "-" if row.sim_worst_p99 is None else f"{row.sim_worst_p99:.2f} x its SLO"
    return (
        f"{simulation['seconds']:g} s of {simulation['arrivals']} arrivals:"
        f" {worth(row.sim_goodput_rps, 'goodput')} in time, {percent(row.sim_violation_rate)} not in time,"
        f" {percent(row.sim_drop_rate)} dropped;"
        f" {row.sim_violating} workloads above the permitted fraction, worst P99 {worst_p99}"
    )


def _pairs(value: object) -> str:
    """Return nested JSON as ``a=1, b=(c=2)``."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{key}=({_pairs(inner)})" if isinstance(inner, Mapping) else f"{key}={_pairs(inner)}"
            for key, inner in value.items()
            if inner != {}
        )
    if isinstance(value, list | tuple):
        return "; ".join(map(_pairs, value))
    if value is None or isinstance(value, bool):
        return dumps(value)
    if isinstance(value, str) and _LONG_HASH.fullmatch(value):
        return short_hash(value)
    return f"{value:g}" if isinstance(value, float) else str(cell(value))


def _instance(row: Row, ledger: Ledger) -> Instance | None:
    """Return the instance of a row, or ``None`` for a scenario set and after a change of the catalogue."""
    try:
        return ledger.instance(row.instance_hash)
    except InputError:
        return None


def _trajectory(row: Row, instance: Instance | None) -> list[list[object]]:
    points = row.trajectory
    step = max(1, -(-len(points) // _POINTS_SHOWN))
    shown: list[Mapping[str, Any]] = [*points[:-1:step], points[-1]]
    objective = objective_of(row)

    def bound_of(point: Mapping[str, Any]) -> float | None:
        return None if point["bound"] is None else reachable(point["bound"], row.objective == "cost", instance)

    return [
        [
            seconds(point["t_s"]),
            worth(point["value"], objective),
            judged(row, point["feasible"]),
            worth(bound_of(point), objective),
        ]
        for point in shown
    ]


def _show_plan(plan: Plan, row: Row, ledger: Ledger, every_line: bool) -> None:
    try:
        show(plan_picture(plan, ledger.instance(row.instance_hash)), every_line=every_line)
    except InputError as error:  # the catalogue has changed since the run; the lines above are still valid
        show(f"no picture of the plan: {one_line(str(error))}")


def _mib(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} MiB"
