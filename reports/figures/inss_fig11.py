"""InSS, Fig. 11: throughput over time of ten models on four GPUs, under rates that change."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np

from bench.ledger.row import Row
from bench.online.control import Online, Pace, online_instance
from bench.online.load import WAVES_S, waves
from bench.online.planner import Planner
from bench.online.policies import POLICIES
from bench.online.result import OnlineRun
from bench.simulation.arrivals import Arrivals, Process, Stream
from bench.simulation.trace import Trace
from instances import Instance
from instances.suites import suite
from reports.figure import Figure, Need
from reports.figure_style import COLUMN_IN, note_height_in, page, save, stroke, swatch, write_note
from reports.inss_baselines import agent, baselines
from reports.online_plot import PERIOD_S, REORGANISATION_S, WEIGHT
from reports.palette import QUIET, pale, scheduler_look
from reports.statistics.student_t import half_width

_RUNS = Need("4gpu", ())

SCHEDULERS = {**agent(_RUNS), **baselines(_RUNS)}
"""Schedulers by label, without local search, which would use all its time in every period."""

LEAST = 0.5
"""Range of the rates, relative to the suite's rates, at most 1. The shipped policies are trained for this range."""

_FASTER = 8
"""Speed of the load relative to the built-in waves."""

SECONDS = WAVES_S / _FASTER

_HEIGHT_IN = 2.4


def load(instance: Instance) -> dict[str, Stream]:
    """Return the requests of each workload: faster built-in waves, between half its rate and all of it."""
    heights = {name: trace.rates_rps[::_FASTER] for name, trace in waves(instance).items()}
    highest = max(float(height.max()) for height in heights.values())
    requests = {}
    for workload in instance.workloads:
        factor = LEAST + (1.0 - LEAST) * (heights[workload.id] - 1.0) / (highest - 1.0)
        arrivals = Arrivals(Process.TRACE, trace=Trace("waves", factor))
        mean_rps = workload.rate_rps * float(factor.mean())
        requests[workload.id] = Stream(arrivals, mean_rps, 0, workload.id)
    return requests


@cache
def course(label: str, training: int = 0) -> OnlineRun:
    """Serve the load by plans of one scheduler, or of one training of the agent."""
    need = SCHEDULERS[label][training]
    (found,) = suite(need.instances).build()
    instance = online_instance(found)
    planner = Planner(need.schedulers[0], instance, parameters=need.parameters)
    chosen = POLICIES["reschedule"](instance, planner, WEIGHT)
    run = Online(planner.first(), instance, chosen, load(instance), Pace(SECONDS, PERIOD_S, REORGANISATION_S))
    return OnlineRun(tuple(workload.id for workload in instance.workloads), tuple(run.run()))


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the load that is served online into ``folder``; it needs no runs."""
    courses = {label: [course(label, at) for at in range(len(needs))] for label, needs in SCHEDULERS.items()}
    late = ", ".join(
        f"{label} {100.0 * fmean(one.seen.violation_rate for one in found):.2g} %" for label, found in courses.items()
    )
    notes = [
        f"Of the requests not in time: {late}.",
        "ts: mean of its trainings and its 95 % confidence interval.",
    ]
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        ax = sheet.subplots()
        periods = courses["ts"][0].periods
        edges_s = [*(period.begin_s for period in periods), SECONDS]
        came_rps = [float(period.seen.rate_rps.sum()) for period in periods]
        ax.stairs(came_rps, edges_s, fill=True, color=pale(QUIET))
        handles = [swatch(pale(QUIET), "arriving requests")]
        for label, found in courses.items():
            look = scheduler_look(SCHEDULERS[label][0].schedulers[0])
            each_rps = np.array([served_rps(one) for one in found])
            mean, half = each_rps.mean(axis=0), half_width(each_rps)
            if len(found) > 1:
                low, high = (np.append(edge, edge[-1]) for edge in (mean - half, mean + half))
                ax.fill_between(edges_s, low, high, step="post", color=look.colour, alpha=0.3, linewidth=0.0)
            ax.stairs(mean, edges_s, baseline=None, color=look.colour, linestyle=look.line, linewidth=1.1)
            handles.append(stroke(label, color=look.colour, linestyle=look.line))
        ax.set(ylabel="Served (req/s)", xlabel="Time (s)", xlim=(0.0, SECONDS))
        ax.set_ylim(bottom=0.0)
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.grid()
        sheet.legend(handles=handles, loc="outside upper center", ncols=3)
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def served_rps(found: OnlineRun) -> list[float]:
    """Return by period the requests per second that were served, of all workloads together."""
    return [float(period.seen.throughput_rps.sum()) for period in found.periods]


FIGURE = Figure(
    name="inss-fig11",
    title="Throughput of ten models on four GPUs while the rates change",
    paper="InSS, Fig. 11",
    shows="InSS adapts its decisions to what arrives and keeps a high throughput, steadier than its baselines'.",
    look_for="The same, in every training: `ts` serves nearly all arriving requests (grey); gpulet, `igniter` and "
    "`gslice+` fall behind when rates rise. All plan for the rates of the last 20 s and take 12 s more to be ready. "
    "`ts` always divides nearly all of four GPUs; `igniter` and `gslice+` allocate about half as much. The load is "
    "ours: the two waves of `bench online`, eight times as fast, between half the suite's rates and all of them.",
    cost="no runs, half a minute",
    needs=(),
    draw=draw,
)
