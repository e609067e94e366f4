"""Plots of online runs under a changing load, by period: throughput, GPUs, shares and violations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bench.command_text import command_line
from bench.ledger.row import Row
from bench.online.control import POLICIES, Online, Pace, online_instance
from bench.online.load import WAVES_S, streams, waves
from bench.online.planner import Planner
from bench.online.result import OnlineRun
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from bench.simulation.arrivals import Stream
from instances import Instance
from instances.suites import suite
from reports.charts.page import COLUMN_IN, Axes, Page, page, stroke, swatch, with_legend
from reports.charts.palette import GREEN, ORANGE, PURPLE, QUIET, SKY_BLUE, YELLOW
from reports.figure import Figure

PERIOD_S, REORGANISATION_S, WEIGHT = 20.0, 12.0, 0.8
"""gpulet's settings, the defaults of ``bench online``.

They are the period, the time of a reorganisation, and the weight of a new period in the moving average of the rates.
"""

_HEIGHT_IN = 4.6
_COLOURS = (SKY_BLUE, ORANGE, GREEN, YELLOW, PURPLE)


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting of an online run: load, scheduler and duration.

    Attributes
    ----------
    instance
        Name of a suite of one instance, with up to five workloads and GPUs of one type.
    rates
        Factor on the rates of the instance; the scaled rates are the means over the whole load.
    scheduler, headroom, parameters
        As in ``bench online``.
    seconds
        Duration in seconds, from the start of the two waves of ``bench.online.load``.
    """

    instance: str
    rates: float
    scheduler: str
    headroom: float = 1.0
    parameters: tuple[str, ...] = ()
    seconds: float = float(WAVES_S)

    def command(self, policy: str) -> str:
        """Return the command of the same online run under a policy."""
        return command_line(
            "online",
            instances=self.instance,
            rates=self.rates,
            scheduler=self.scheduler,
            headroom=self.headroom,
            seconds=self.seconds,
            policy=policy,
            param=self.parameters,
        )


def serve(
    instance: Instance,
    planner: Planner,
    policy: str,
    requests: Mapping[str, Stream],
    pace: Pace,
    weight: float = WEIGHT,
    truth: Instance | None = None,
) -> OnlineRun:
    """Serve requests under a policy of ``bench online``, beginning with the planner's first plan.

    ``requests`` has the stream of every workload. ``truth`` is the instance with the true figures of the GPUs; by
    default they are those of ``instance``.
    """
    chosen_policy = POLICIES[policy](instance, planner, weight)
    online = Online(planner.first(), instance, chosen_policy, requests, pace, truth=truth)
    return OnlineRun(tuple(workload.id for workload in instance.workloads), tuple(online.run()))


@cache
def online_run(setting: Setting, policy: str) -> OnlineRun:
    """Serve the load of a setting under a policy."""
    (suite_instance,) = suite(setting.instance).build()
    instance = online_instance(suite_instance).scaled(setting.rates)
    planner = Planner(setting.scheduler, instance, parameters=setting.parameters, headroom=setting.headroom)
    requests = streams(waves(instance), instance, setting.seconds, seed=0)
    return serve(instance, planner, policy, requests, Pace(setting.seconds, PERIOD_S, REORGANISATION_S))


def draw_online_runs(figure: Figure, rows: Sequence[Row], *, setting: Setting) -> Page:
    """Draw two online runs of a setting: with plans that follow the load, and with the first plan throughout."""
    runs = {"reschedule": online_run(setting, "reschedule"), "static": online_run(setting, "static")}
    following_pct, static_pct = (100.0 * run.observation.violation_rate for run in runs.values())
    late_pct = f"Following the load {following_pct:.2f} %, with the first plan {static_pct:.1f} %"
    notes = [f"{late_pct} of the requests not in time. Command: {setting.command('reschedule')}"]
    (instance,) = suite(setting.instance).build()
    units = instance.gpus[0].type.share_units
    colours = dict(zip((workload.id for workload in instance.workloads), _COLOURS, strict=False))
    sheet = page(COLUMN_IN, _HEIGHT_IN, notes)
    throughput, gpus, shares, late = sheet.subplots(4, 1, sharex=True, height_ratios=(1.5, 1.0, 1.0, 1.2))
    _draw_throughput(throughput, runs["reschedule"], colours)
    for policy, line in (("reschedule", "-"), ("static", ":")):
        periods = runs[policy].periods
        starts = [period.begin_s for period in periods]
        style = {"color": "black", "linestyle": line, "drawstyle": "steps-post"}
        gpus.plot(starts, [period.gpus_used for period in periods], **style)
        shares.plot(starts, [100.0 * period.share_units / units for period in periods], **style)
        late.plot(starts, [100.0 * period.observation.violation_rate for period in periods], **style)
    late.axhline(100.0 * VIOLATIONS_ALLOWED, color=QUIET, linewidth=0.6)
    throughput.set(ylabel="Served\n(req/s)")
    gpus.set(ylabel="GPUs\nin use")
    shares.set(ylabel="Shares\n(% of a GPU)")
    late.set(ylabel="Not in time\n(%)", xlabel="Time (s)", xlim=(0.0, setting.seconds))
    for ax in (throughput, gpus, shares, late):
        ax.set_ylim(bottom=0.0)
        ax.grid()
    handles = [swatch(colour, model) for model, colour in colours.items()]
    handles += [stroke("following the load", color="black"), stroke("first plan", color="black", linestyle=":")]
    return with_legend(sheet, handles, 3)


def _draw_throughput(ax: Axes, run: OnlineRun, colours: Mapping[str, str]) -> None:
    starts = [period.begin_s for period in run.periods]
    series = [
        [period.observation.throughput_rps[workload] for period in run.periods] for workload in range(len(run.ids))
    ]
    ax.stackplot(starts, series, colors=list(colours.values()), step="post", linewidth=0.0)
