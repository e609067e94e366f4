"""InSS, Fig. 8, 9 and 11: its agent in training and under changing rates."""

import csv
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from statistics import fmean, pstdev

import numpy as np

from bench.ledger.row import Row
from bench.online.control import Pace, online_instance
from bench.online.load import WAVES_S, waves
from bench.online.planner import Planner
from bench.online.result import OnlineRun, PeriodEnd
from bench.simulation.arrivals import Arrivals, Process, Stream
from bench.simulation.trace import Trace
from instances import Instance
from instances.arrays import Floats
from instances.suites import suite
from reports.charts.online import PERIOD_S, serve
from reports.charts.page import COLUMN_IN, FULL_WIDTH_IN, Axes, Page, page, stroke, swatch, with_legend
from reports.charts.palette import QUIET, pale, scheduler_look
from reports.claim import NOTHING_PUBLISHED, Claim, Values, query
from reports.figure import Figure
from reports.need import Need
from reports.papers.inss_clusters import AGENT_AND_BASELINES, VARIANTS, mean_of, rows_of
from reports.papers.inss_schedulers import PRINTED_AGENT, TRAININGS, agent_needs, baseline_needs
from reports.quantities import not_in_time_pct
from reports.runs import Runs
from reports.statistics.inference import half_width

WINDOW = 50
"""Number of episodes in the means of the first and of the last episodes of a training."""

WINDOWS, NEAR = (20, 50, 100), (0.02, 0.05, 0.2)
"""Numbers of episodes in a mean, and fractions that count as near, of ``converged_after``."""

PRINTED_CURVE = "published-4gpu-s0"
"""Training of the agent as printed."""

_CURVE_HEIGHT_IN = 1.5
FAMILIES = {"ts-4gpu": "everything is served: capacity", "ts-4gpu-goodput": "requests are turned away: goodput"}
"""Policies with several trainings, and the problems for which they are trained, in words."""

_AGENT_COLOUR = scheduler_look("ts").colour
_CURVES_NOTE = (
    f"Mean of {len(TRAININGS)} trainings (line) and its 95 % confidence interval by Student's t (band); each training "
    "(thin lines)."
)

_NEED_TEMPLATE = Need("4gpu", ())

SCHEDULERS = {**agent_needs(_NEED_TEMPLATE), **baseline_needs(_NEED_TEMPLATE)}
"""Needs of the schedulers by label. Local search is left out, since it would use all its time in every period."""

SMALLEST_RATE = 0.5
"""Smallest rate of a workload, as a fraction of its rate in the suite. Policies are trained for rates in this range."""

_SPEED_UP = 8
"""Speed of the load, relative to the built-in waves."""

SECONDS = WAVES_S / _SPEED_UP

REALLOCATION_MS, LOADING_MS = 1.909, 2616.495
"""Times of MPS to reallocate shares, and to load and warm a model (Table 1)."""

READY_S = (REALLOCATION_MS + LOADING_MS) / 1000.0
"""Time from a decision until its plan serves: new processes are started, and then replace the old ones (Sec. 5.5)."""

_LOAD_HEIGHT_IN = 2.4


def curves(family: str, scalar: str) -> Floats:
    """Return a scalar of all trainings of one of ``FAMILIES``, shape (trainings, episodes)."""
    return np.array([_curve(f"{family}-s{training}", scalar) for training in TRAININGS])


def _curve(policy: str, scalar: str) -> list[float]:
    """Return a scalar of one training, shape (episodes,)."""
    text = (files("rl") / "policies" / f"{policy}.csv").read_text()
    return [float(row[scalar]) for row in csv.DictReader(text.splitlines())]


def converged_after(rewards: Sequence[float], window: int, near: float) -> int:
    """Return the episode from which the mean of the last ``window`` rewards stays near the mean at the end.

    Near is within the fraction ``near`` of the distance between the smallest and the largest of these means.
    """
    means = np.convolve(rewards, np.full(window, 1.0 / window), "valid")
    away = np.flatnonzero(np.abs(means - means[-1]) > near * (means.max() - means.min()))
    return window if len(away) == 0 else int(away[-1]) + 1 + window


def _convergence(_: Runs) -> Values:
    """Return the extremes of ``converged_after`` of the training as printed, over ``WINDOWS`` and ``NEAR``."""
    rewards = _curve(PRINTED_CURVE, "reward")
    episodes = [converged_after(rewards, window, near) for window in WINDOWS for near in NEAR]
    return min(episodes), max(episodes)


def _draw_curves(figure: Figure, rows: Sequence[Row], *, scalars: Mapping[str, str]) -> Page:
    """Draw a row of panels for each scalar, and a column of panels for each of ``FAMILIES``.

    ``scalars`` has the axis label of each scalar.
    """
    sheet = page(FULL_WIDTH_IN, 0.6 + _CURVE_HEIGHT_IN * len(scalars), [_CURVES_NOTE])
    grid = sheet.subplots(len(scalars), len(FAMILIES), sharex="col", squeeze=False)
    for column, (family, trained_for) in zip(grid.T, FAMILIES.items(), strict=True):
        column[0].set_title(trained_for)
        column[-1].set_xlabel("Episode")
        for ax, (scalar, label) in zip(column, scalars.items(), strict=True):
            _draw_trainings(ax, curves(family, scalar))
            ax.set(ylabel=label)
    return sheet


def _draw_trainings(ax: Axes, trainings: Floats) -> None:
    episodes = np.arange(1, trainings.shape[1] + 1)
    mean, interval_half_width = trainings.mean(axis=0), half_width(trainings)
    for training in trainings:
        ax.plot(episodes, training, color=_AGENT_COLOUR, linewidth=0.4, marker="")
    ax.fill_between(
        episodes, mean - interval_half_width, mean + interval_half_width, color=pale(_AGENT_COLOUR), linewidth=0.0
    )
    ax.plot(episodes, mean, color="black", linewidth=0.9, marker="")
    ax.set_xlim(1, len(episodes))
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.grid()


def load(instance: Instance) -> dict[str, Stream]:
    """Return the requests of each workload: the built-in waves, ``_SPEED_UP`` times as fast.

    The rate varies between ``SMALLEST_RATE`` and 1 times the workload's rate in the suite.
    """
    # The height of a wave is a multiple of the lowest rate, from 1 on.
    heights = {name: trace.rates_rps[::_SPEED_UP] for name, trace in waves(instance).items()}
    highest = max(float(height.max()) for height in heights.values())
    requests = {}
    for workload in instance.workloads:
        factor = SMALLEST_RATE + (1.0 - SMALLEST_RATE) * (heights[workload.id] - 1.0) / (highest - 1.0)
        arrivals = Arrivals(Process.TRACE, trace=Trace("waves", factor))
        mean_rps = workload.rate_rps * float(factor.mean())
        requests[workload.id] = Stream(arrivals, mean_rps, 0, workload.id)
    return requests


@cache
def served_by(label: str, training: int = 0) -> OnlineRun:
    """Serve the load with the plans of a scheduler; ``training`` selects a training of the agent."""
    need = SCHEDULERS[label][training]
    (suite_instance,) = suite(need.instances).build()
    instance = online_instance(suite_instance)
    planner = Planner(need.schedulers[0], instance, parameters=need.parameters)
    return serve(instance, planner, "reschedule", load(instance), Pace(SECONDS, PERIOD_S, READY_S))


def _draw_load(figure: Figure, rows: Sequence[Row]) -> Page:
    runs = {
        label: [served_by(label, training) for training in range(len(needs))] for label, needs in SCHEDULERS.items()
    }
    late_texts = ", ".join(
        f"{label} {100.0 * fmean(run.observation.violation_rate for run in label_runs):.2g} %"
        for label, label_runs in runs.items()
    )
    notes = [
        f"Of the requests not in time: {late_texts}.",
        "ts: mean of its trainings and its 95 % confidence interval.",
    ]
    sheet = page(COLUMN_IN, _LOAD_HEIGHT_IN, notes)
    ax = sheet.subplots()
    periods = runs["ts"][0].periods
    edges_s = [*(period.begin_s for period in periods), SECONDS]
    ax.stairs(_arriving_rps(runs["ts"][0]), edges_s, fill=True, color=pale(QUIET))
    handles = [swatch(pale(QUIET), "arriving requests")]
    for label, label_runs in runs.items():
        look = scheduler_look(SCHEDULERS[label][0].schedulers[0])
        served_by_run = np.array([served_rps(run) for run in label_runs])
        mean, interval_half_width = served_by_run.mean(axis=0), half_width(served_by_run)
        if len(label_runs) > 1:
            low, high = (np.append(edge, edge[-1]) for edge in (mean - interval_half_width, mean + interval_half_width))
            ax.fill_between(edges_s, low, high, step="post", color=look.colour, alpha=0.3, linewidth=0.0)
        ax.stairs(mean, edges_s, baseline=None, color=look.colour, linestyle=look.line, linewidth=1.1)
        handles.append(stroke(label, color=look.colour, linestyle=look.line))
    ax.set(ylabel="Served (req/s)", xlabel="Time (s)", xlim=(0.0, SECONDS))
    ax.set_ylim(bottom=0.0)
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.grid()
    return with_legend(sheet, handles, 3)


def served_rps(run: OnlineRun) -> list[float]:
    """Return the requests per second served for all workloads, by period."""
    return [float(period.observation.throughput_rps.sum()) for period in run.periods]


def _arriving_rps(run: OnlineRun) -> list[float]:
    """Return the requests per second that arrive for all workloads, by period."""
    return [float(period.observation.rate_rps.sum()) for period in run.periods]


def _variation(rates_rps: Sequence[float]) -> float:
    """Return the standard deviation of rates over their mean."""
    return pstdev(rates_rps) / fmean(rates_rps)


def _served_pct(label: str) -> tuple[float, float]:
    """Return the percentage of arriving requests that are served: over the whole load, and in the worst period."""
    run = served_by(label)
    percentages = [
        100.0 * float(period.observation.throughput_rps.sum() / period.observation.rate_rps.sum())
        for period in run.periods
    ]
    arrived = sum(float(period.observation.rate_rps.sum()) * period.observation.seconds for period in run.periods)
    served = sum(float(period.observation.throughput_rps.sum()) * period.observation.seconds for period in run.periods)
    return 100.0 * served / arrived, min(percentages)


def _without_plan(_: Runs) -> Values:
    """Return the number of the agent's decisions for whose rates it has no plan, and the number of all decisions."""
    run = served_by("ts")
    return run.count(PeriodEnd.UNSCHEDULABLE), len(run.periods) - 1


@query
def _late_at_the_end(runs: Runs) -> Values:
    """Return the percentage of late requests of the agent as printed: in its last episodes, and of its plan."""
    explored = fmean(_curve(PRINTED_CURVE, "late_pct")[-WINDOW:])
    return explored, mean_of(rows_of(runs, VARIANTS, PRINTED_AGENT), not_in_time_pct)


def _throughput_in_training(_: Runs) -> Values:
    """Return throughput and late requests of the training as printed, in its first and in its last episodes."""
    throughputs_rps, late_pct = (_curve(PRINTED_CURVE, scalar) for scalar in ("throughput_rps", "late_pct"))
    parts = slice(WINDOW), slice(-WINDOW, None)
    return tuple(fmean(scalar[part]) for part in parts for scalar in (throughputs_rps, late_pct))


FIG8 = Figure(
    name="inss-fig8",
    title="Reward of InSS's agent during training",
    paper="InSS, Fig. 8",
    shows="The rewards of both stages grow and are stable after 400 (SACD) and 800 (TD3) episodes.",
    look_for="The reward of a step is that of the whole cluster; the paper has one curve per stage. Most is learned "
    "within 250 and 400 episodes, each of 64 clusters. Left, many requests are late until exploration fades, halved "
    "every 120 episodes. Right, the agent admits hardly any request that would be late. The paper has one training.",
    cost="no runs",
    draws=partial(_draw_curves, scalars={"reward": "Reward of a step"}),
    claims=(
        Claim(
            what="Fig. 8: episodes of the training as printed until the reward of a step is stable",
            paper="400 (first stage), 800 (second stage)",
            ours=_convergence,
            form="{:,} to {:,}",
            not_comparable="the paper does not say when a curve is stable: window and tolerance decide",
            note="the rewards of both stages have the same sum",
        ),
    ),
)

FIG9 = Figure(
    name="inss-fig9",
    title="Late requests and throughput of InSS's agent during training",
    paper="InSS, Fig. 9",
    shows="Late requests become fewer, below 1 %, and throughput grows.",
    look_for="Late requests become fewer and throughput grows. During exploration late requests stay above 1 % where "
    "everything has to be served (inss-fig12 has the trained agent), and far below where requests are turned away. "
    "Trainings with other seeds end alike.",
    cost="no runs",
    draws=partial(_draw_curves, scalars={"late_pct": "Late (%)", "throughput_rps": "Throughput (req/s)"}),
    claims=(
        Claim(
            what=f"Fig. 9: late requests in the last {WINDOW} episodes as printed; of the trained agent's plan",
            paper="below 1 %",
            ours=_late_at_the_end(),
            form="{:.1f} %; {:.2g} %",
            supports=lambda explored, planned: explored < 1.0,
            criterion="below 1 % in training",
            reason="exploration, which never ends in Table 2: without it the same policy is less late, see "
            "`rl/policies/published-4gpu.md`, and the default training with exploration that does not fade is as late",
        ),
        Claim(
            what=f"– throughput in the first and in the last {WINDOW} episodes as printed",
            paper="gradually increases",
            ours=_throughput_in_training,
            form="{:,.0f} req/s with {:.0f} % late, {:,.0f} req/s with {:.0f} % late",
            supports=lambda first, _late, last, _late_at_the_end: last >= 1.05 * first,
            criterion="at least 5 % higher at the end",
            reason="throughput counts late requests, too; instead of the throughput, their part changes",
        ),
    ),
)

FIG11 = Figure(
    name="inss-fig11",
    title="Throughput of ten models on four GPUs while the rates change",
    paper="InSS, Fig. 11",
    shows="InSS adapts its decisions to what arrives and keeps a high throughput, steadier than its baselines'.",
    look_for="The same, in every training: `ts` serves nearly all arriving requests (grey); gpulet, `igniter` and "
    "`gslice+` fall behind when rates rise. All plan for the rates of the last 20 s and take 2.6 s more to be ready, "
    "as Table 1 has it. "
    "`ts` always divides nearly all of four GPUs; `igniter` and `gslice+` allocate about half as much. The load is "
    "ours: the two waves of `bench online`, eight times as fast, between half the suite's rates and all of them.",
    cost="no runs, half a minute",
    draws=_draw_load,
    claims=(
        Claim(
            what="Fig. 11: percentage of arriving requests that are served while rates change (worst 20 s)",
            paper="InSS maintains high throughput",
            ours=lambda _: tuple(part for label in AGENT_AND_BASELINES for part in _served_pct(label)),
            form="`ts` {:.1f} ({:.1f}) %, gpulet {:.1f} ({:.1f}), `gslice+` {:.1f} ({:.1f}), `igniter` {:.1f} ({:.1f})",
            supports=lambda ours, worst, *others: ours > max(others[::2]) and worst > max(others[1::2]),
            criterion="above every baseline, over the whole load and in the worst period",
            note="we chose the load; a plan serves after the time that Table 1 has for MPS",
        ),
        Claim(
            what="– standard deviation of the throughput over its mean, by `ts`, gpulet, GSLICE, iGniter",
            paper="InSS steadier",
            ours=lambda _: tuple(_variation(served_rps(served_by(label))) for label in AGENT_AND_BASELINES),
            form="{:.3f}, {:.3f}, {:.3f}, {:.3f}",
            supports=lambda ours, *others: ours < min(others),
            criterion="below every baseline",
            reason="`ts` serves nearly all that arrives, so it varies as the arrivals do, see the next line; the "
            "others fall behind where most arrives",
        ),
        Claim(
            what="– the same of the arriving requests",
            paper=NOTHING_PUBLISHED,
            ours=lambda _: (_variation(_arriving_rps(served_by("ts"))),),
            form="{:.3f}",
        ),
        Claim(
            what="– decisions for which `ts` has no plan, as a rate is outside its training range; all decisions",
            paper=NOTHING_PUBLISHED,
            ours=_without_plan,
            form="{}; {}",
        ),
    ),
)

FIGURES = (FIG8, FIG9, FIG11)
