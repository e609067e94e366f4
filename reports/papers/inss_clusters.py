"""InSS, Fig. 3, 4, 10 and 12 to 18: its agent and the baselines on four GPUs and on sixty-four."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

from bench.ledger.row import Row
from bench.simulation.result import VIOLATIONS_ALLOWED
from reports.charts.page import Axes, Page
from reports.charts.palette import QUIET
from reports.charts.scheduler_bars import BarPart, draw_bars
from reports.claim import Claim, Values, query
from reports.figure import Figure
from reports.papers.inss_schedulers import NeedsByLabel, needs_of, needs_on
from reports.quantities import (
    allocated_pct,
    decision_ms,
    dropped_pct,
    fragments_pct,
    late_pct,
    mean_latency_ms,
    not_in_time_pct,
    spare_rps,
)
from reports.runs import Runs

Quantity = Callable[[Row], float | None]
"""Function that computes a quantity of a run; ``None`` if the run does not have it."""

SMALL_CLUSTER, LARGE_CLUSTER = needs_on("4gpu"), needs_on("inss-64gpu")
"""Needs on the small cluster and on the large cluster."""

BASELINES = ("gpulet", "gslice+", "igniter")
AGENT_AND_BASELINES = ("ts", *BASELINES)

_SERVED_PARTS = (
    BarPart("arriving, served in time", lambda row: row.sim_goodput_rps),
    BarPart("further possible", spare_rps, faint=True),
)
_NOT_IN_TIME_PARTS = (BarPart("late", late_pct), BarPart("dropped", dropped_pct, faint=True))
_USAGE_PARTS = (BarPart("allocated", allocated_pct), BarPart("fragments", fragments_pct, faint=True))
_DECISION_PARTS = (BarPart("decision time", lambda row: None if row.value is None else decision_ms(row)),)


def _label_decision(ax: Axes) -> None:
    ax.set(yscale="log", ylabel="Decision time (ms)")
    ax.set_ylim(bottom=0.1)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")


def _label_fragments(ax: Axes) -> None:
    ax.set(ylabel="Fragments (% of a GPU)")
    ax.set_ylim(0.0, max(10.0, ax.get_ylim()[1]))


def _label_served(ax: Axes) -> None:
    ax.set(ylabel="Requests per second")
    ax.yaxis.set_major_formatter("{x:,.0f}")


def _label_not_in_time(ax: Axes) -> None:
    ax.axhline(100.0 * VIOLATIONS_ALLOWED, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(ylabel="Not in time (%)")


def _label_latency(ax: Axes) -> None:
    ax.set(ylabel="Mean latency (ms)")


def _label_usage(ax: Axes, gpus: int) -> None:
    ax.axhline(100.0 * gpus, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(ylabel="GPUs in use (% of a GPU)", ylim=(0.0, 110.0 * gpus))
    ax.yaxis.set_major_formatter("{x:,.0f}")


def _bars(
    needs: NeedsByLabel, parts: Sequence[BarPart], label_axes: Callable[[Axes], None]
) -> Callable[[Figure, Sequence[Row]], Page]:
    return partial(draw_bars, needs=needs, parts=parts, label_axes=label_axes)


def rows_of(runs: Runs, needs_by_label: NeedsByLabel, label: str) -> list[Row]:
    """Return the runs of one label; the agent has one run for each training."""
    return [row for rows in runs.rows_of_each(needs_by_label[label]) for row in rows]


def mean_of(rows: list[Row], quantity: Quantity) -> float | None:
    """Return the mean of a quantity over the rows that have it; ``None`` without such rows."""
    values = [value for row in rows if (value := quantity(row)) is not None]
    return fmean(values) if values else None


@query
def _means(runs: Runs, needs_by_label: NeedsByLabel, labels: tuple[str, ...], quantity: Quantity) -> Values:
    """Return the mean of one quantity for each of several labels."""
    return tuple(mean_of(rows_of(runs, needs_by_label, label), quantity) for label in labels)


def _fragments_gpus(row: Row) -> float | None:
    fragments = fragments_pct(row)
    return None if fragments is None else fragments / 100.0


def _agent_ahead(runs: Runs) -> Values:
    """Return the lead of the agent over each baseline in percent, by the predicted value of their plans."""
    agent_value, *baseline_values = (
        mean_of(rows_of(runs, SMALL_CLUSTER, label), lambda row: row.value) for label in AGENT_AND_BASELINES
    )
    return tuple(
        None if agent_value is None or not value else 100.0 * (agent_value / value - 1.0) for value in baseline_values
    )


_BASELINES_FORM = "{:.1f} by gpulet, {:.1f} by `gslice+`, {:.1f} by `igniter`"
_LATENCY_FORM = "{:.0f} by `ts`, {:.0f} by gpulet, {:.0f} by `gslice+`, {:.0f} by `igniter`"


def _lowest_latency(figure: str, name: str, model: str) -> Claim:
    """Return the claim that the agent has the lowest mean latency of a model."""
    return Claim(
        what=f"{figure}: mean latency of {name}, ms",
        paper="InSS lowest",
        ours=_means(SMALL_CLUSTER, AGENT_AND_BASELINES, partial(mean_latency_ms, model=model)),
        form=_LATENCY_FORM,
        supports=lambda ours, *others: ours < min(others),
        criterion="below every baseline",
        reason="gpulet takes shares from a coarse grid; they are larger than needed",
    )


_small_figure = partial(Figure, cost="the 9 runs of inss-fig3", needs=needs_of(SMALL_CLUSTER))
_large_figure = partial(Figure, cost="the 9 runs of inss-fig18", needs=needs_of(LARGE_CLUSTER))

FIG3 = Figure(
    name="inss-fig3",
    title="Decision times for ten models on four GPUs",
    paper="InSS, Fig. 3",
    shows="All three baselines take longer than InSS, longer even than many inferences.",
    look_for="The order is the reverse of the paper's. The tables of inference times are filled before every clock "
    "starts, the baselines' rules are compiled, and `ts` runs two neural networks. Local search uses all its time.",
    cost="9 runs: a few seconds, and the time limit for local search",
    needs=needs_of(SMALL_CLUSTER),
    draws=_bars(SMALL_CLUSTER, _DECISION_PARTS, _label_decision),
    claims=(
        Claim(
            what="Fig. 3: decision time on four GPUs, ms",
            paper="baselines above InSS",
            ours=_means(SMALL_CLUSTER, AGENT_AND_BASELINES, decision_ms),
            form="{:.2g} by `ts`, {:.2g} by gpulet, {:.2g} by `gslice+`, {:.2g} by `igniter`",
            supports=lambda ours, *others: ours < min(others),
            criterion="`ts` below every baseline",
            reason="every clock starts after the tables are prepared, and the baselines are compiled; their rules take "
            "less time than a neural network",
        ),
    ),
)

FIG4 = _small_figure(
    name="inss-fig4",
    title="Resource fragments for ten models on four GPUs",
    paper="InSS, Fig. 4",
    shows="GSLICE and iGniter leave resources unused on GPUs in use; gpulet leaves little, InSS next to none.",
    look_for="The order is the paper's: gslice+ and igniter leave half a GPU. gpulet leaves less, with all four GPUs "
    "in use instead of three. `ts` leaves a tenth, since its shares are rounded down. Local search allocates "
    "everything, as iGniter would with its parameter spend_spare.",
    draws=_bars(SMALL_CLUSTER, (BarPart("fragments", fragments_pct),), _label_fragments),
    claims=(
        Claim(
            what="Fig. 4, 15: unallocated share on four GPUs, in GPUs",
            paper="GSLICE and iGniter leave much unallocated, gpulet little",
            ours=_means(SMALL_CLUSTER, BASELINES, _fragments_gpus),
            form="{:.2f} by gpulet, {:.2f} by `gslice+`, {:.2f} by `igniter`",
            supports=lambda gpulet, *others: gpulet < min(others),
            criterion="gpulet below both",
        ),
    ),
)

FIG10 = _small_figure(
    name="inss-fig10",
    title="Throughput of ten models on four GPUs, simulated and planned",
    paper="InSS, Fig. 10",
    shows="InSS serves 52.8 % more than gpulet (which serves only eight of the ten models), 26.4 % more than GSLICE "
    "and 86.1 % more than iGniter (which uses three of the four GPUs).",
    look_for="Averaged over five trainings, the planned throughput of `ts` is half as large again as that of each "
    "baseline. The lead over gpulet is that of the paper, although gpulet serves all ten models here. The requests "
    "served in time do not separate the schedulers (19 of 20 by the worst): the rates are ours, and no more requests "
    "arrive. The difference is the objective, the possible throughput beyond these requests, which the baselines do "
    "not pursue. Local search, whose plan is optimal, gets a fifth more out of four GPUs than `ts`.",
    draws=_bars(SMALL_CLUSTER, _SERVED_PARTS, _label_served),
    claims=(
        Claim(
            what="Fig. 10: lead of `ts` over gpulet, GSLICE and iGniter in throughput on four GPUs",
            paper=(52.8, 26.4, 86.1),
            ours=_agent_ahead,
            form="{:+.1f} %, {:+.1f} %, {:+.1f} %",
            not_comparable="unpublished rates and GPU times decide the percentages, so agreement is chance",
        ),
    ),
)

FIG12 = _small_figure(
    name="inss-fig12",
    title="Requests not in time of ten models on four GPUs, by simulation",
    paper="InSS, Fig. 12",
    shows="InSS has 0.7 % of the requests not in time; without its interference model 0.8 % more. gpulet and GSLICE, "
    "which ignore interference, have most.",
    look_for="`ts` is below 1 % in every training, as in the paper. Random arrivals cost most for plans without spare "
    "capacity: gslice+ and igniter, then gpulet, in the paper's order but by more. Local search is near 1 %: it "
    "spends the spare shares on the objective. Requests that cannot be in time are dropped when their batch starts, "
    "so none is late.",
    draws=_bars(SMALL_CLUSTER, _NOT_IN_TIME_PARTS, _label_not_in_time),
    claims=(
        Claim(
            what="Fig. 12: requests of `ts` not in time",
            paper=(0.7,),
            ours=_means(SMALL_CLUSTER, ("ts",), not_in_time_pct),
            form="{:.2g} %",
            supports=lambda late: late <= 0.7,
            criterion="at most 0.7 %",
            reason="random arrivals",
            note="Poisson arrivals",
        ),
        Claim(
            what="– requests of its baselines not in time",
            paper="above 1 %",
            ours=_means(SMALL_CLUSTER, BASELINES, not_in_time_pct),
            form=f"{_BASELINES_FORM} (%)",
            supports=lambda *late: min(late) > 100.0 * VIOLATIONS_ALLOWED,
            criterion="each above 1 %",
            reason="the paper does not publish rates and GPU times",
        ),
    ),
)

FIG13 = _small_figure(
    name="inss-fig13",
    title="Mean latency of ResNet-50's requests on four GPUs, by simulation",
    paper="InSS, Fig. 13",
    shows="InSS has the lowest mean latency of the four.",
    look_for="As in the paper, `ts` is lowest: it distributes all shares, so its slots are faster than needed. gpulet "
    "is next, because its shares come from a coarse grid; the others use up their latency budgets.",
    draws=_bars(SMALL_CLUSTER, (BarPart("mean latency", partial(mean_latency_ms, model="resnet50")),), _label_latency),
    claims=(_lowest_latency("Fig. 13", "ResNet-50", "resnet50"),),
)

FIG14 = _small_figure(
    name="inss-fig14",
    title="Mean latency of VGG-16's requests on four GPUs, by simulation",
    paper="InSS, Fig. 14",
    shows="InSS has the lowest mean latency of the four.",
    look_for="As in inss-fig13; the trainings of `ts` differ more.",
    draws=_bars(SMALL_CLUSTER, (BarPart("mean latency", partial(mean_latency_ms, model="vgg16")),), _label_latency),
    claims=(_lowest_latency("Fig. 14", "VGG-16", "vgg16"),),
)

FIG15 = _small_figure(
    name="inss-fig15",
    title="GPU usage and fragments for ten models on four GPUs",
    paper="InSS, Fig. 15",
    shows="InSS and gpulet use all GPUs and leave small fragments; iGniter uses three of the four and leaves the "
    "largest.",
    look_for="iGniter uses three GPUs, as in the paper; gpulet and `ts` use all four. Allocated shares are not busy "
    "all the time: bench show has the utilisation of each run.",
    draws=_bars(SMALL_CLUSTER, _USAGE_PARTS, partial(_label_usage, gpus=4)),
    claims=(
        Claim(
            what="Fig. 15: GPUs in use by gpulet, GSLICE, iGniter",
            paper=(4, 4, 3),
            ours=_means(SMALL_CLUSTER, BASELINES, lambda row: row.gpus_used),
            form="{:g}, {:g}, {:g}",
            reason="`gslice+` is iGniter's version of GSLICE and starts from iGniter's plan",
        ),
    ),
)

FIG16 = _large_figure(
    name="inss-fig16",
    title="Throughput of 160 workloads on 64 GPUs, simulated and planned",
    paper="InSS, Fig. 16",
    shows="InSS serves up to 66.0 % more than the baselines.",
    look_for="`ts` plans for nearly twice the throughput of the baselines, which stop once every workload is served: "
    "gslice+ and igniter leave 29 GPUs empty. `ts` decides each group of four GPUs separately, without a larger loss "
    "against local search than on four GPUs. The arriving requests are the same for all, and all serve most of them.",
    draws=_bars(LARGE_CLUSTER, _SERVED_PARTS, _label_served),
)

FIG17 = _large_figure(
    name="inss-fig17",
    title="Requests not in time of 160 workloads on 64 GPUs, by simulation",
    paper="InSS, Fig. 17",
    shows="InSS stays below 1 % at 64 GPUs.",
    look_for="`ts` is below 1 % at 64 GPUs, as in the paper; so is local search. gslice+, whose plan breaks SLOs, "
    "igniter and gpulet size their slots for the mean rate.",
    draws=_bars(LARGE_CLUSTER, _NOT_IN_TIME_PARTS, _label_not_in_time),
    claims=(
        Claim(
            what="Fig. 17: requests not in time on sixty-four GPUs, by `ts`, gpulet, GSLICE, iGniter",
            paper="InSS below 1 %",
            ours=_means(LARGE_CLUSTER, AGENT_AND_BASELINES, not_in_time_pct),
            form="{:.1f} %, {:.1f} %, {:.1f} %, {:.1f} %",
            supports=lambda ours, *_: ours < 1.0,
            criterion="`ts` below 1 %",
            reason="our arrivals are random at the mean of the rates",
        ),
    ),
)

FIG18 = Figure(
    name="inss-fig18",
    title="GPU usage and fragments for 160 workloads on 64 GPUs",
    paper="InSS, Fig. 18",
    shows="InSS leaves small fragments on 64 GPUs, the baselines up to eight GPUs' worth.",
    look_for="gslice+ and igniter need 35 GPUs for the arriving requests, gpulet 57; empty GPUs are not fragments. On "
    "the GPUs in use all leave one to two GPUs' worth, `ts` because shares are rounded down on each of 64.",
    cost="9 runs: a minute on two cores",
    needs=needs_of(LARGE_CLUSTER),
    draws=_bars(LARGE_CLUSTER, _USAGE_PARTS, partial(_label_usage, gpus=64)),
    claims=(
        Claim(
            what="Fig. 18: unallocated share on sixty-four GPUs, in GPUs, by GSLICE and iGniter",
            paper="up to 8",
            ours=_means(LARGE_CLUSTER, ("gslice+", "igniter"), _fragments_gpus),
            form="{:.1f} and {:.1f}",
            not_comparable="the rates decide the unallocated share, and the paper does not publish them",
        ),
    ),
)

FIGURES = (FIG3, FIG4, FIG10, FIG12, FIG13, FIG14, FIG15, FIG16, FIG17, FIG18)
