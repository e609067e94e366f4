"""iGniter, Fig. 15 to 17: its workloads over time, with reactive tuning, with one plan, and with shadow processes."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from bench.ledger.row import Row
from bench.online.control import Pace
from bench.online.planner import Planner
from bench.online.result import OnlineRun
from bench.simulation.arrivals import Arrivals, Process, Stream
from bench.simulation.result import VIOLATIONS_ALLOWED
from instances.misspecification import misspecified
from instances.suites import suite
from reports.charts.online import serve
from reports.charts.page import COLUMN_IN, Axes, Page, page, stroke, with_legend
from reports.charts.palette import DEEP_BLUE, QUIET, VERMILLION, scheduler_look
from reports.claim import Claim, Values
from reports.figure import Figure
from reports.runs import Runs

_WEIGHT = 1.0
"""Weight of the last period in the estimate of the rates; the rates are constant."""

WORKLOAD = "W10"

_POLICIES = {"gslice+": "reactive", "igniter": "static"}
"""Policy by scheduler of the first plan."""

_SECONDS, _PERIOD_S = 120.0, 10.0
_HEIGHT_IN = 2.8

ERROR = 0.1
"""Largest relative error of the GPUs' figures in Fig. 17."""

_SHADOW_S, _SHADOW_PERIOD_S, _SWITCH_S = 10.0, 1.0, 0.5
_SHADOW_HEIGHT_IN = 1.9
_LINE_STYLES = ("-", "--", "-.", ":")


def constant_run(scheduler: str, policy: str, pace: Pace, error: float = 0.0) -> OnlineRun:
    """Serve the twelve workloads under a policy of ``bench online``, beginning with a scheduler's first plan.

    ``error`` is the largest relative error of every figure of the GPUs; the seed of the errors is 0.
    """
    (instance,) = suite("igniter-12").build()
    planner = Planner(scheduler, instance)
    requests = {
        workload.id: Stream(Arrivals(Process.CONSTANT), workload.rate_rps, 0, workload.id)
        for workload in instance.workloads
    }
    return serve(instance, planner, policy, requests, pace, _WEIGHT, misspecified(instance, error=error, seed=0))


@cache
def runs_by_scheduler() -> Mapping[str, OnlineRun]:
    """Serve the workloads under each policy, and return the runs by scheduler; the runs are shared by all figures."""
    pace = Pace(_SECONDS, _PERIOD_S, _PERIOD_S)
    return {scheduler: constant_run(scheduler, policy, pace) for scheduler, policy in _POLICIES.items()}


def _draw_two_panels(
    figure: Figure,
    rows: Sequence[Row],
    *,
    series: Callable[[OnlineRun], tuple[Sequence[float], Sequence[float]]],
    label: Callable[[Axes, Axes], None],
) -> Page:
    """Draw online runs as steps, one step per period, in two panels.

    ``series`` returns the values of the upper and the lower panel; ``label`` labels the axes of both.
    """
    sheet = page(COLUMN_IN, _HEIGHT_IN)
    panels = sheet.subplots(2, 1, sharex=True)
    handles = []
    for scheduler, run in runs_by_scheduler().items():
        look = scheduler_look(scheduler)
        for ax, values in zip(panels, series(run), strict=True):
            edges_s = [_PERIOD_S * period for period in range(len(values) + 1)]
            ax.stairs(values, edges_s, baseline=None, color=look.colour, linestyle=look.line, linewidth=1.1)
        handles.append(stroke(scheduler, color=look.colour, linestyle=look.line))
    upper, lower = panels
    label(upper, lower)
    for ax in panels:
        ax.grid()
    lower.set(xlabel="Time (s)", xlim=(0.0, _SECONDS))
    return with_legend(sheet, handles)


RATE_RPS, SLO_MS = 150.0, 25.0


def time_and_rate(run: OnlineRun) -> tuple[list[float], list[float]]:
    """Return two lists by period: mean time of W10's batches from start to result in ms, and requests per second."""
    index = run.ids.index(WORKLOAD)
    observations = [period.observation for period in run.periods]
    return (
        [float(observation.service_ms[index] / max(1, observation.served[index])) for observation in observations],
        [float(observation.throughput_rps[index]) for observation in observations],
    )


def _label_time_and_rate(latency: Axes, throughput: Axes) -> None:
    for ax, limit in ((latency, SLO_MS / 2.0), (throughput, RATE_RPS)):
        ax.axhline(limit, color=QUIET, linewidth=0.6, linestyle=":")
        ax.set_ylim(0.0, 1.25 * limit)
    latency.set_ylabel(f"Mean time of\n{WORKLOAD}'s batches (ms)")
    throughput.set_ylabel("Served (req/s)")


def share_and_batch(run: OnlineRun) -> tuple[Sequence[float], Sequence[int]]:
    """Return two lists by period: the share of the gpulet of W10 in percent of a GPU, and its batch."""
    (instance,) = suite("igniter-12").build()
    units = instance.gpus[0].type.share_units
    # The plan of a period is put into use at the end of the period, so it serves in the next period.
    plan_by_period = [run.periods[0].plan, *(period.plan for period in run.periods[:-1])]
    gpulets_and_slots = [
        (gpulet, slot) for plan in plan_by_period for _, gpulet, slot in plan.slots() if slot.workload == WORKLOAD
    ]
    return [100.0 * gpulet.share_units / units for gpulet, _ in gpulets_and_slots], [
        slot.batch for _, slot in gpulets_and_slots
    ]


def _label_share_and_batch(share: Axes, batch: Axes) -> None:
    for ax in (share, batch):
        ax.margins(y=0.25)
        ax.set_ylim(bottom=0.0)
    share.set_ylabel(f"Share of {WORKLOAD}\n(% of a GPU)")
    batch.set_ylabel(f"Batch of {WORKLOAD}")
    batch.locator_params(axis="y", integer=True)


def _draw_shadows(figure: Figure, rows: Sequence[Row]) -> Page:
    runs = {policy: run_with_wrong_figures(policy) for policy in ("static", "shadow")}
    sheet = page(COLUMN_IN, _SHADOW_HEIGHT_IN)
    ax = sheet.subplots()
    handles = []
    late_workloads = violating(runs["static"])
    for policy, colour in (("static", VERMILLION), ("shadow", DEEP_BLUE)):
        for workload, line_style in zip(late_workloads, _LINE_STYLES, strict=False):
            late_by_period = late_pct(runs[policy], workload)
            edges_s = [_SHADOW_PERIOD_S * period for period in range(len(late_by_period) + 1)]
            ax.stairs(late_by_period, edges_s, baseline=None, color=colour, linestyle=line_style, linewidth=1.1)
            handles.append(stroke(f"{workload}, {policy}", color=colour, linestyle=line_style))
    ax.axhline(100.0 * VIOLATIONS_ALLOWED, color="black", linewidth=0.6, linestyle=":")
    ax.set(ylabel="Not in time (%)", xlabel="Time (s)", xlim=(0.0, _SHADOW_S))
    ax.set_ylim(bottom=0.0)
    ax.grid()
    return with_legend(sheet, handles, 2)


@cache
def run_with_wrong_figures(policy: str) -> OnlineRun:
    """Serve iGniter's plan for ten seconds under a policy, on GPUs whose figures differ from the planned ones."""
    return constant_run("igniter", policy, Pace(_SHADOW_S, _SHADOW_PERIOD_S, _SWITCH_S), ERROR)


def violating(run: OnlineRun) -> list[str]:
    """Return the workloads with more than one request in a hundred not in time."""
    return [workload for workload, violates in zip(run.ids, run.observation.violating, strict=True) if violates]


def late_pct(run: OnlineRun, workload: str) -> list[float]:
    """Return the percentage of a workload's ended requests that were not in time, by period."""
    index = run.ids.index(workload)
    late_and_ended = [
        (
            int(period.observation.violations[index]),
            period.observation.served[index] + period.observation.dropped[index],
        )
        for period in run.periods
    ]
    return [100.0 * late / max(1, int(ended_requests)) for late, ended_requests in late_and_ended]


def _throughput(_: Runs) -> Values:
    """Return the throughput of W10 in the last period: with reactive tuning, and with iGniter's plan."""
    return tuple(time_and_rate(run)[1][-1] for run in runs_by_scheduler().values())


def _share_and_batch(_: Runs) -> Values:
    """Return share and batch of W10 in the first and the last period: with reactive tuning, and with iGniter's plan."""
    values = []
    for run in runs_by_scheduler().values():
        shares, batches = share_and_batch(run)
        values += [shares[0], batches[0], shares[-1], batches[-1]]
    return tuple(values)


@cache
def _late_by_second() -> tuple[float, ...]:
    """Return the percentage of late requests of the worst workload with shadow processes, by second."""
    static_run, shadow_run = (run_with_wrong_figures(policy) for policy in ("static", "shadow"))
    late_workloads = violating(static_run)
    return tuple(map(max, zip(*(late_pct(shadow_run, workload) for workload in late_workloads), strict=True)))


def _late_in_first_seconds(_: Runs) -> Values:
    late = _late_by_second()
    return (*late[:3], max(late[3:]))


FIG15 = Figure(
    name="igniter-fig15",
    title="Latency and throughput of W10 over time by GSLICE+ and iGniter",
    paper="iGniter, Fig. 15",
    shows="GSLICE+ finds W10's mean latency (10.7 ms) below half its SLO, reduces its share, and W10 misses its 150 "
    "req/s; iGniter keeps both.",
    look_for="The same result, from tuning each workload alone to within a tenth of its limits: W10 ends with shorter "
    "batches and below its arrival rate (dotted). iGniter's plan stays. Requests arrive at equal distances. The "
    "paper's effect of W9's growth on W10 is not reproduced.",
    cost="no runs, a few seconds",
    draws=partial(_draw_two_panels, series=time_and_rate, label=_label_time_and_rate),
    claims=(
        Claim(
            what="Fig. 15: throughput of W10 by GSLICE+ and by iGniter",
            paper="below its 150 req/s, and 150 req/s",
            ours=_throughput,
            form="{:.0f} and {:.0f} req/s",
            supports=lambda gslice, igniter: gslice < 0.99 * RATE_RPS <= igniter,
            criterion="GSLICE+ below 99 % of the rate, iGniter at or above it",
        ),
    ),
)

FIG16 = Figure(
    name="igniter-fig16",
    title="Share and batch of W10 over time by GSLICE+ and iGniter",
    paper="iGniter, Fig. 16",
    shows="GSLICE+ reduces the share of W10, and after 61 s W9 beside it has the whole GPU: the shares exceed the "
    "GPU. iGniter plans share and batch once.",
    look_for="GSLICE+ finds W10's batches of two just above half the SLO, reduces them to one and gives W10 the rest "
    "of the GPU. The share stays there, larger than iGniter's, yet with batches of one W10 misses its rate "
    "(igniter-fig15). W9 keeps its share here, since shares never exceed the GPU.",
    cost="no runs, a few seconds",
    draws=partial(_draw_two_panels, series=share_and_batch, label=_label_share_and_batch),
    claims=(
        Claim(
            what="Fig. 16: share and batch of W10 by GSLICE+",
            paper="gives share away; W9 beside it takes more share than the GPU has",
            ours=lambda runs: _share_and_batch(runs)[:4],
            form="{:g} %, {} at first; {:g} %, {} at last",
            supports=lambda first, _batch, last, _last_batch: last < first,
            criterion="the share falls",
            reason="here W10 takes the free share; no workload gets more than the GPU has",
        ),
        Claim(
            what="– by iGniter",
            paper="plans only once",
            ours=lambda runs: _share_and_batch(runs)[4:],
            form="{:g} %, {} at first; {:g} %, {} at last",
            supports=lambda first, batch, last, last_batch: (first, batch) == (last, last_batch),
            criterion="no change",
        ),
    ),
)

FIG17 = Figure(
    name="igniter-fig17",
    title="Requests not in time under wrong figures, with and without shadow processes",
    paper="iGniter, Fig. 17",
    shows="Because of a prediction error W1's P99 latency is 15.6 ms in the first second, above its SLO of 10 ms. "
    "After 1.5 s its shadow process, with a tenth more of the GPU, serves it within the SLO.",
    look_for="Figures wrong by up to 10 % break the SLOs of two workloads of iGniter's plan as long as it is kept. "
    "With shadow processes both SLOs are met from the third second on. The seed of the errors determines which "
    "workloads are late. Requests arrive at equal distances.",
    cost="no runs, a few seconds",
    draws=_draw_shadows,
    claims=(
        Claim(
            what="Fig. 17: recovery from a wrong prediction with a shadow process",
            paper="P99 of W1 within its SLO after 1.5 s",
            ours=_late_in_first_seconds,
            form="worst workload not in time: {:.0f}, {:.0f}, {:.0f} % in the first three seconds, then {:.0f} %",
            supports=lambda first, _second, _third, later: later <= 1.0 < first,
            criterion="above 1 % in the first second, at most 1 % after the third",
            note="the seed of the errors decides which workloads are late",
        ),
    ),
)

FIGURES = (FIG15, FIG16, FIG17)
