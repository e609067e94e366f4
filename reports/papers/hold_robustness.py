"""Robustness of tested plans: late workloads under other arrivals, and on GPUs slower than planned."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from bench.holding.check import holding_of
from bench.holding.verdict import Holding
from bench.holding.windows import FIRST_SEED
from bench.ledger.row import Row
from bench.plan_simulation import Settings, simulate
from bench.simulation.arrivals import Arrivals, Process
from bench.simulation.trace import Trace, read_rate_trace
from instances import Plan
from instances.misspecification import slowed
from reports.charts.groups import side_by_side
from reports.charts.page import FULL_WIDTH_IN, Page, page, swatch, with_legend
from reports.charts.palette import BLACK, DEEP_BLUE, ORANGE, SKY_BLUE
from reports.figure import Figure
from reports.measured import twitter_trace_file
from reports.need import Need
from reports.papers.hold import OPTIMUM, PAPERS_OPTIMUM, tested_need
from reports.runs import the_instance
from reports.selection import missing_notes, rows_by_label

SIMULATIONS, SECONDS = 10, 60.0
"""Number of simulations of a plan under a condition, and their duration."""

WARMUP_S, BLOCK_S = 5.0, 30.0
"""Time before a simulation counts, and time of one value in the series of the test, in seconds."""

PLANS: Mapping[str, Need] = {
    "colgen, papers' rule": PAPERS_OPTIMUM,
    "igniter, headroom 2": tested_need("igniter", 2.0),
    "colgen, attainment": OPTIMUM,
    "colgen, attainment, headroom 1.2": replace(OPTIMUM, trial=replace(OPTIMUM.trial, headroom=1.2)),
}
_COLOURS = (ORANGE, DEEP_BLUE, SKY_BLUE, BLACK)

TWITTER = "Twitter's minutes"
CONDITIONS: Mapping[str, tuple[Arrivals, float]] = {
    "Poisson": (Arrivals(), 1.0),
    "gamma, CV 2": (Arrivals(Process.GAMMA, 2.0), 1.0),
    "gamma, CV 3": (Arrivals(Process.GAMMA, 3.0), 1.0),
    TWITTER: (Arrivals(), 1.0),
    "times 10 % longer": (Arrivals(), 1.1),
    "times 20 % longer": (Arrivals(), 1.2),
}
"""Arrivals, and factor on every GPU time, by condition. Minutes of a trace replace the arrivals of ``TWITTER``."""

_HEIGHT_IN = 3.6


def holding_under(row: Row, condition: str) -> Holding | None:
    """Return the test result of a run's plan under a condition; ``None`` without a plan or without the trace."""
    trace_file = twitter_trace_file()
    if row.plan is None or (condition == TWITTER and trace_file is None):
        return None
    return _simulated_holding(row.plan, condition, trace_file)


@cache
def _simulated_holding(plan: Plan, condition: str, trace_file: Path | None) -> Holding:
    """Return the test result of a plan under a condition, from ``SIMULATIONS`` simulations."""
    condition_arrivals, time_factor = CONDITIONS[condition]
    instance = the_instance(plan.instance)
    if condition == TWITTER and trace_file:
        arrivals = _minutes(read_rate_trace(trace_file))
    else:
        arrivals = [condition_arrivals] * SIMULATIONS
    truth = slowed(instance, time_factor)
    all_settings = [
        Settings(simulation_arrivals, SECONDS, WARMUP_S, FIRST_SEED + number, interval_s=BLOCK_S)
        for number, simulation_arrivals in enumerate(arrivals)
    ]
    results = [simulate(plan, instance, settings, truth).series for settings in all_settings]
    series = [result for result in results if result is not None]
    return holding_of(series, instance, instance.dropping, SECONDS)


def _minutes(trace: Trace) -> list[Arrivals]:
    """Return minutes at equal distances in the trace, one for each simulation.

    A simulation scales its minute to the rates of the workloads.
    """
    distance_s = -(-len(trace.rates_rps) // SIMULATIONS)  # rounded up
    first_seconds = range(0, len(trace.rates_rps), distance_s)
    seconds = round(SECONDS + WARMUP_S)
    return [Arrivals(Process.TRACE, trace=trace.part(first_second, seconds)) for first_second in first_seconds]


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    # Each need names one instance; the figure shows the quick ones only if no run on the full ones exists.
    row_of = rows_by_label(rows, PLANS)
    has_full_runs = any((label, need.instances) in row_of for label, need in PLANS.items())
    instance_of = {label: need.instances if has_full_runs else need.quick or "" for label, need in PLANS.items()}
    rows_by_plan = {label: row_of[label, name] for label, name in instance_of.items() if (label, name) in row_of}
    unplanned = [row for row in rows_by_plan.values() if row.plan is None]
    notes = missing_notes(figure, list(rows_by_plan.values()), unplanned)
    planned_rows = {label: row for label, row in rows_by_plan.items() if row.plan is not None}
    results = {
        (label, condition): result
        for label, row in planned_rows.items()
        for condition in CONDITIONS
        if (result := holding_under(row, condition)) is not None
    }
    conditions_without_trace = [
        condition for condition in CONDITIONS if not any(drawn_condition == condition for _, drawn_condition in results)
    ]
    notes += [f"Without its trace: {', '.join(conditions_without_trace)}."] if conditions_without_trace else []
    notes.append(
        f"{SIMULATIONS} simulations of {SECONDS:g} s for each bar."
        f" {'; '.join(f'{label}: {row.gpus_used} GPUs' for label, row in planned_rows.items())}."
    )
    drawn_conditions = [condition for condition in CONDITIONS if condition not in conditions_without_trace]
    width, group = side_by_side(zip(PLANS, _COLOURS, strict=True))
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, notes)
    late_axes, not_in_time_axes = sheet.subplots(2, 1, sharex=True)
    for offset, (label, colour) in group:
        for position, condition in enumerate(drawn_conditions):
            if (result := results.get((label, condition))) is not None:
                late_axes.bar(position + offset, 100.0 * len(result.late) / len(result.workloads), width, color=colour)
                not_in_time_axes.bar(position + offset, 100.0 * (1.0 - result.attainment), width, color=colour)
    late_axes.set(ylabel="Workloads late (%)", ylim=(0.0, 100.0))
    not_in_time_axes.set(ylabel="Requests not in time (%)")
    not_in_time_axes.set_xticks(range(len(drawn_conditions)), drawn_conditions)
    for ax in (late_axes, not_in_time_axes):
        ax.grid(axis="y")
    handles = [swatch(colour, label) for label, colour in zip(PLANS, _COLOURS, strict=True) if label in planned_rows]
    return with_legend(sheet, handles, len(PLANS))


HOLD_ROBUSTNESS = Figure(
    name="hold-robustness",
    title="Late workloads under bursts, a trace and slower GPUs, by the rule of the plan",
    paper="ours",
    shows="No paper tests its plans under arrivals other than the planned ones; this figure is new.",
    look_for="The optimum of the papers' rule is late everywhere. The plan under the rule attainment holds under "
    "Poisson arrivals, for which it is made, and no more: bursts and longer times need additional headroom. Headroom "
    "of two on the papers' rule absorbs most of both, for more than twice the GPUs.",
    cost="four runs, tested, then 24 simulations of ten minutes: ten minutes on one core",
    needs=tuple(PLANS.values()),
    draws=_draw,
)

FIGURES = (HOLD_ROBUSTNESS,)
