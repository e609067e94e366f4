"""Robustness of tested plans: late workloads under other arrivals, and on slower GPUs than planned."""

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
from reports.papers.hold import OPTIMUM, PAPERS_OPTIMUM, tested
from reports.runs import the_instance
from reports.selection import missing_notes, rows_by_label

SIMULATIONS, SECONDS = 10, 60.0
WARMUP_S, BLOCK_S = 5.0, 30.0

PLANS: Mapping[str, Need] = {
    "colgen, papers' rule": PAPERS_OPTIMUM,
    "igniter, headroom 2": tested("igniter", 2.0),
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
"""Arrivals and factor on every GPU time by condition; for ``TWITTER``, minutes of the trace replace the arrivals."""

_HEIGHT_IN = 3.6


def kept(row: Row, condition: str) -> Holding | None:
    """Return the attainment of a run's plan under a condition; ``None`` without a plan or the condition's trace."""
    trace_file = twitter_trace_file()
    if row.plan is None or (condition == TWITTER and trace_file is None):
        return None
    return _kept(row.plan, condition, trace_file)


@cache
def _kept(plan: Plan, condition: str, trace_file: Path | None) -> Holding:
    given, factor = CONDITIONS[condition]
    instance = the_instance(plan.instance)
    arrivals = _minutes(read_rate_trace(trace_file)) if condition == TWITTER and trace_file else [given] * SIMULATIONS
    truth = slowed(instance, factor)
    asked = [Settings(one, SECONDS, WARMUP_S, FIRST_SEED + n, interval_s=BLOCK_S) for n, one in enumerate(arrivals)]
    found = [simulate(plan, instance, settings, truth).series for settings in asked]
    series = [one for one in found if one is not None]
    return holding_of(series, instance, instance.dropping, SECONDS)


def _minutes(trace: Trace) -> list[Arrivals]:
    """Return minutes at equal distances in the trace; each is scaled to the rates of the workloads."""
    firsts = range(0, len(trace.rates_rps), -(-len(trace.rates_rps) // SIMULATIONS))
    seconds = round(SECONDS + WARMUP_S)
    return [Arrivals(Process.TRACE, trace=trace.part(first, seconds)) for first in firsts]


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    by_label = rows_by_label(rows, PLANS)
    full = any((label, need.instances) in by_label for label, need in PLANS.items())
    named = {label: need.instances if full else need.quick or "" for label, need in PLANS.items()}
    own = {label: by_label[label, name] for label, name in named.items() if (label, name) in by_label}
    unplanned = [row for row in own.values() if row.plan is None]
    notes = missing_notes(figure, list(own.values()), unplanned)
    planned = {label: row for label, row in own.items() if row.plan is not None}
    found = {
        (label, condition): result
        for label, row in planned.items()
        for condition in CONDITIONS
        if (result := kept(row, condition)) is not None
    }
    absent = [condition for condition in CONDITIONS if not any(of == condition for _, of in found)]
    notes += [f"Without its trace: {', '.join(absent)}."] if absent else []
    notes.append(
        f"{SIMULATIONS} simulations of {SECONDS:g} s for each bar."
        f" {'; '.join(f'{label}: {row.gpus_used} GPUs' for label, row in planned.items())}."
    )
    shown = [condition for condition in CONDITIONS if condition not in absent]
    width, group = side_by_side(zip(PLANS, _COLOURS, strict=True))
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, notes)
    late, missed = sheet.subplots(2, 1, sharex=True)
    for offset, (label, colour) in group:
        for place, condition in enumerate(shown):
            if (result := found.get((label, condition))) is not None:
                late.bar(place + offset, 100.0 * len(result.late) / len(result.workloads), width, color=colour)
                missed.bar(place + offset, 100.0 * (1.0 - result.attainment), width, color=colour)
    late.set(ylabel="Workloads late (%)", ylim=(0.0, 100.0))
    missed.set(ylabel="Requests not in time (%)")
    missed.set_xticks(range(len(shown)), shown)
    for ax in (late, missed):
        ax.grid(axis="y")
    handles = [swatch(colour, label) for label, colour in zip(PLANS, _COLOURS, strict=True) if label in planned]
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
