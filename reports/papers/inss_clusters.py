"""InSS, Fig. 3, 4, 10 and 13 to 15: its agent and the baselines on four GPUs."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, median

from bench.judging.judge import judge
from bench.ledger.row import Row
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from reports.charts.page import Axes, Page
from reports.charts.palette import QUIET
from reports.charts.scheduler_bars import BarPart, draw_bars
from reports.claim import NOTHING_PUBLISHED, Claim, Values, query
from reports.figure import Figure
from reports.need import Need
from reports.papers.inss_schedulers import (
    BLIND_AGENT,
    PRINTED_AGENT,
    NeedsByLabel,
    agent_variant_needs,
    needs_of,
    needs_on,
    printed_baseline_needs,
    timed_needs,
)
from reports.quantities import (
    allocated_pct,
    decision_ms,
    fragments_pct,
    mean_latency_ms,
    spare_rps,
)
from reports.runs import Runs, the_instance

Quantity = Callable[[Row], float | None]
"""Function that computes a quantity of a run; ``None`` if the run does not have it."""

SMALL_CLUSTER = needs_on("4gpu")
"""Needs on four GPUs."""

VARIANTS = {**agent_variant_needs(Need("4gpu", ())), **printed_baseline_needs()}
"""Needs of the agent's variants, and of the baselines as InSS describes them, on the small cluster."""

TIMED_ON_FOUR_GPUS = timed_needs(Need("4gpu", ()))
"""Needs of decision times on the small cluster."""

_WITH_BLIND_AGENT = {**SMALL_CLUSTER, BLIND_AGENT: VARIANTS[BLIND_AGENT]}

TABLES_NOTE = "the tables of inference times are filled before every clock starts"

BASELINES = ("gpulet", "gslice+", "igniter")
PRINTED_BASELINES = tuple(printed_baseline_needs())
AGENT_AND_BASELINES = ("ts", *BASELINES)

SERVED_PARTS = (
    BarPart("arriving, served in time", lambda row: row.sim_goodput_rps),
    BarPart("further possible", spare_rps, faint=True),
)
USAGE_PARTS = (BarPart("allocated", allocated_pct), BarPart("fragments", fragments_pct, faint=True))
_DECISION_PARTS = (BarPart("decision time", lambda row: None if row.value is None else decision_ms(row)),)


def _label_decision(ax: Axes) -> None:
    ax.set(yscale="log", ylabel="Decision time (ms)")
    ax.set_ylim(bottom=0.1)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")


def _label_fragments(ax: Axes) -> None:
    ax.set(ylabel="Fragments (% of a GPU)")
    ax.set_ylim(0.0, max(10.0, ax.get_ylim()[1]))


def label_served(ax: Axes) -> None:
    """Label the axes of requests served and possible."""
    ax.set(ylabel="Requests per second")
    ax.yaxis.set_major_formatter("{x:,.0f}")


def label_not_in_time(ax: Axes) -> None:
    """Label the axes of requests not in time."""
    ax.axhline(100.0 * VIOLATIONS_ALLOWED, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(ylabel="Not in time (%)")


def _label_latency(ax: Axes) -> None:
    ax.set(ylabel="Mean latency (ms)")


def label_usage(ax: Axes, gpus: int) -> None:
    """Label the axes of shares on ``gpus`` GPUs."""
    ax.axhline(100.0 * gpus, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(ylabel="GPUs in use (% of a GPU)", ylim=(0.0, 110.0 * gpus))
    ax.yaxis.set_major_formatter("{x:,.0f}")


def bars(
    needs: NeedsByLabel, parts: Sequence[BarPart], label_axes: Callable[[Axes], None]
) -> Callable[[Figure, Sequence[Row]], Page]:
    """Return the function that draws a figure of ``draw_bars``."""
    return partial(draw_bars, needs=needs, parts=parts, label_axes=label_axes)


def rows_of(runs: Runs, needs_by_label: NeedsByLabel, label: str) -> list[Row]:
    """Return the runs of one label; the agent has one run for each training."""
    return [row for rows in runs.rows_of_each(needs_by_label[label]) for row in rows]


def median_decision_ms(runs: Runs, label: str) -> float | None:
    """Return the median decision time of the agent or of a baseline on the small cluster."""
    rows = rows_of(runs, TIMED_ON_FOUR_GPUS, label)
    times_ms = [time_ms for row in rows if (time_ms := decision_ms(row)) is not None]
    return median(times_ms) if times_ms else None


def mean_of(rows: list[Row], quantity: Quantity) -> float | None:
    """Return the mean of a quantity over the rows that have it; ``None`` without such rows."""
    values = [value for row in rows if (value := quantity(row)) is not None]
    return fmean(values) if values else None


@query
def means(runs: Runs, needs_by_label: NeedsByLabel, labels: tuple[str, ...], quantity: Quantity) -> Values:
    """Return the mean of one quantity for each of several labels."""
    return tuple(mean_of(rows_of(runs, needs_by_label, label), quantity) for label in labels)


def fragments_gpus(row: Row) -> float | None:
    """Return the unallocated share of the GPUs in use, in GPUs."""
    fragments = fragments_pct(row)
    return None if fragments is None else fragments / 100.0


def mean_share_pct(row: Row, model: str) -> float | None:
    """Return the mean share of the gpulets that serve a model, in percent of a GPU, weighted by their rates."""
    if row.plan is None:
        return None
    instance = the_instance(row.instance)
    rates_and_shares = [
        (slot.rate_rps, gpulet.share_units / instance.gpus[0].type.share_units)
        for _, gpulet, slot in row.plan.slots()
        if instance.model_of[slot.workload] == model
    ]
    rate_rps = sum(rate for rate, _ in rates_and_shares)
    return 100.0 * sum(rate * share for rate, share in rates_and_shares) / rate_rps if rate_rps else None


def _capacity(row: Row) -> float | None:
    return row.value


@query
def leads_pct(
    runs: Runs,
    leader: tuple[NeedsByLabel, str],
    others: NeedsByLabel,
    labels: tuple[str, ...],
    quantity: Quantity = _capacity,
) -> Values:
    """Return the lead of a scheduler over each of several labels in percent.

    ``leader`` has the needs and the label of the scheduler; ``others`` has the needs of ``labels``. ``quantity`` is by
    default the predicted value of the plans.
    """
    value = mean_of(rows_of(runs, *leader), quantity)
    other_values = (mean_of(rows_of(runs, others, label), quantity) for label in labels)
    return tuple(None if value is None or not other else 100.0 * (value / other - 1.0) for other in other_values)


def _shorter_than_decisions(runs: Runs) -> Values:
    """Return the percentage of the slots whose inference is shorter than the decision on their plan, by baseline."""
    return tuple(_shorter_pct(runs, label) for label in BASELINES)


def _shorter_pct(runs: Runs, label: str) -> float | None:
    """Return the percentage of a plan's slots whose inference is shorter than the median decision."""
    time_ms = median_decision_ms(runs, label)
    row = rows_of(runs, SMALL_CLUSTER, label)[0]
    if row.plan is None or time_ms is None:
        return None
    slots = judge(row.plan, the_instance(row.instance)).slots
    return 100.0 * fmean(slot.t_inf_ms < time_ms for slot in slots) if slots else None


def _median_decisions(runs: Runs) -> Values:
    """Return the median decision time of the agent and of each baseline on the small cluster, in ms."""
    return tuple(median_decision_ms(runs, label) for label in AGENT_AND_BASELINES)


_LATENCY_FORM = "{:.1f} by `ts`, {:.1f} by gpulet, {:.1f} by `gslice+`, {:.1f} by `igniter`"


_RATES_DECIDE = "the rates, which the paper does not publish, decide the shares and so the latencies"


def _lowest_latency(figure: str, name: str, model: str) -> tuple[Claim, ...]:
    """Return the claim that the agent has the lowest mean latency of a model, and a line with the model's shares."""
    return (
        Claim(
            what=f"{figure}: mean latency of {name}, ms",
            paper="InSS lowest",
            ours=means(SMALL_CLUSTER, AGENT_AND_BASELINES, partial(mean_latency_ms, model=model)),
            form=_LATENCY_FORM,
            not_comparable=_RATES_DECIDE,
            note="gpulet serves this model on larger shares, where it takes turns with others, see the next line",
        ),
        Claim(
            what=f"– mean share of the gpulets that serve {name}, percent of a GPU",
            paper=NOTHING_PUBLISHED,
            ours=means(SMALL_CLUSTER, AGENT_AND_BASELINES, partial(mean_share_pct, model=model)),
            form=_LATENCY_FORM,
        ),
    )


_small_figure = partial(Figure, cost="the runs of inss-fig3", needs=needs_of(SMALL_CLUSTER))
variants_figure = partial(Figure, cost="23 runs: a few seconds", needs=needs_of({**SMALL_CLUSTER, **VARIANTS}))

FIG3 = Figure(
    name="inss-fig3",
    title="Decision times for ten models on four GPUs",
    paper="InSS, Fig. 3",
    shows="All three baselines take longer than InSS, longer even than many inferences.",
    look_for="gpulet and `igniter` take less time than `ts`, unlike in the paper. The tables of inference times are "
    "filled before every clock starts, the baselines' rules are compiled, and `ts` runs two neural networks. Local "
    "search uses all its time.",
    cost="15 runs: a few seconds, and the time limit for local search",
    needs=(*needs_of(SMALL_CLUSTER), *needs_of(TIMED_ON_FOUR_GPUS)),
    draws=bars(SMALL_CLUSTER, _DECISION_PARTS, _label_decision),
    claims=(
        Claim(
            what="Fig. 3: decision time on four GPUs, ms",
            paper="baselines above InSS",
            ours=_median_decisions,
            form="{:.2g} by `ts`, {:.2g} by gpulet, {:.2g} by `gslice+`, {:.2g} by `igniter`",
            supports=lambda ours, *others: ours < min(others),
            criterion="`ts` below every baseline",
            reason="ours are compiled; without compilation and further decisions, `ts` takes less than gpulet and "
            "`gslice+` and about as long as `igniter`, see `docs/deviations.md`",
            note=TABLES_NOTE,
        ),
        Claim(
            what="– part of the inferences of its plan that are shorter than the decision, by gpulet, GSLICE, iGniter",
            paper="baselines exceed the inference latency of many tasks",
            ours=_shorter_than_decisions,
            form="{:.0f} %, {:.0f} %, {:.0f} %",
            supports=lambda *parts: min(parts) >= 25.0,
            criterion="at least a quarter for each",
            reason="cause not found; the paper does not state how its baselines are implemented",
            note=TABLES_NOTE,
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
    draws=bars(SMALL_CLUSTER, (BarPart("fragments", fragments_pct),), _label_fragments),
    claims=(
        Claim(
            what="Fig. 4, 15: unallocated share on four GPUs, in GPUs",
            paper="GSLICE and iGniter leave much unallocated, gpulet little",
            ours=means(SMALL_CLUSTER, BASELINES, fragments_gpus),
            form="{:.2f} by gpulet, {:.2f} by `gslice+`, {:.2f} by `igniter`",
            supports=lambda gpulet, *others: gpulet < min(others),
            criterion="gpulet below both",
        ),
        Claim(
            what="– by InSS",
            paper="rounding only",
            ours=means(SMALL_CLUSTER, ("ts",), fragments_gpus),
            form="{:.2f}",
            supports=lambda gpus: gpus < 10 / 54,
            criterion="below one of 54 units for each workload",
        ),
        Claim(
            what="– by gpulet",
            paper="rounding only (Sec. 2.4)",
            ours=means(SMALL_CLUSTER, ("gpulet",), fragments_gpus),
            form="{:.2f}",
            supports=lambda gpus: gpus < 8 / 54,
            criterion="below one of 54 units for each of two partitions on each GPU",
            reason="at our rates one GPU has a single partition, and the rest of it stays free; GPUs with two "
            "partitions are full, as all are on sixty-four GPUs, see the lines on Fig. 18",
        ),
        Claim(
            what="– most of it",
            paper="by iGniter",
            ours=means(SMALL_CLUSTER, AGENT_AND_BASELINES, fragments_gpus),
            form="{:.2f} by `ts`, {:.2f} by gpulet, {:.2f} by `gslice+`, {:.2f} by `igniter`",
            supports=lambda *gpus: gpus[-1] >= max(gpus[:-1]) + 1 / 54,
            criterion="more than by any other, by at least one of 54 units",
            reason="GSLICE as in iGniter's code keeps iGniter's placement, and both leave about as much",
        ),
    ),
)

FIG10 = variants_figure(
    name="inss-fig10",
    title="Throughput of ten models on four GPUs, simulated and planned",
    paper="InSS, Fig. 10",
    shows="InSS serves 52.8 % more than gpulet (which serves only eight of the ten models), 26.4 % more than GSLICE "
    "and 86.1 % more than iGniter (which uses three of the four GPUs).",
    look_for="Averaged over five trainings, the planned throughput of `ts` is about two thirds above that of each "
    "baseline; gpulet serves all ten models here. The requests served in time hardly separate the schedulers (nine of "
    "ten by the worst): the rates are ours, and no more requests arrive. The difference is the objective, the possible "
    "throughput beyond these requests, which the baselines do not pursue. Local search, whose plan is optimal, gets a "
    "fifth more out of four GPUs than `ts`.",
    draws=bars(_WITH_BLIND_AGENT, SERVED_PARTS, label_served),
    claims=(
        Claim(
            what="Fig. 10: lead of `ts` over gpulet, GSLICE and iGniter in throughput on four GPUs",
            paper=(52.8, 26.4, 86.1),
            ours=leads_pct((SMALL_CLUSTER, "ts"), SMALL_CLUSTER, BASELINES),
            form="{:+.1f} %, {:+.1f} %, {:+.1f} %",
            not_comparable="unpublished rates and GPU times decide the percentages, so agreement is chance",
        ),
        Claim(
            what="– over the baselines as in InSS: eight models, iGniter's own model",
            paper=(52.8, 26.4, 86.1),
            ours=leads_pct((SMALL_CLUSTER, "ts"), VARIANTS, PRINTED_BASELINES),
            form="{:+.1f} %, {:+.1f} %, {:+.1f} %",
            not_comparable="as above",
            note="gpulet's eight models need fewer GPUs here",
        ),
        Claim(
            what="– of `ts` over gpulet, GSLICE and iGniter in requests served in time",
            paper=(52.8, 26.4, 86.1),
            ours=leads_pct((SMALL_CLUSTER, "ts"), SMALL_CLUSTER, BASELINES, lambda row: row.sim_goodput_rps),
            form="{:+.1f} %, {:+.1f} %, {:+.1f} %",
            not_comparable="our rates decide: no more requests arrive, and each scheduler plans for all of them",
        ),
        Claim(
            what="– of the agent as printed over the same",
            paper=(52.8, 26.4, 86.1),
            ours=leads_pct((VARIANTS, PRINTED_AGENT), VARIANTS, PRINTED_BASELINES),
            form="{:+.1f} %, {:+.1f} %, {:+.1f} %",
            not_comparable="as above",
        ),
        Claim(
            what="– throughput of InSS-ni (`ts-ni`) relative to `ts`",
            paper="no significant difference",
            ours=leads_pct((VARIANTS, BLIND_AGENT), SMALL_CLUSTER, ("ts",)),
            form="{:+.1f} %",
            supports=lambda lead: abs(lead) <= 5.0,
            criterion="within 5 %",
            reason="its plans break constraints, see the table of capacity; throughput counts them too",
        ),
    ),
)

FIG13 = _small_figure(
    name="inss-fig13",
    title="Mean latency of ResNet-50's requests on four GPUs, by simulation",
    paper="InSS, Fig. 13",
    shows="InSS has the lowest mean latency of the four.",
    look_for="`ts` distributes all shares, so its slots are faster than needed; gpulet is as low, because its models "
    "take turns on large shares. The others use up their latency budgets.",
    draws=bars(SMALL_CLUSTER, (BarPart("mean latency", partial(mean_latency_ms, model="resnet50")),), _label_latency),
    claims=_lowest_latency("Fig. 13", "ResNet-50", "resnet50"),
)

FIG14 = _small_figure(
    name="inss-fig14",
    title="Mean latency of VGG-16's requests on four GPUs, by simulation",
    paper="InSS, Fig. 14",
    shows="InSS has the lowest mean latency of the four.",
    look_for="`ts` is lowest, then gpulet; the trainings of `ts` differ more than in inss-fig13.",
    draws=bars(SMALL_CLUSTER, (BarPart("mean latency", partial(mean_latency_ms, model="vgg16")),), _label_latency),
    claims=_lowest_latency("Fig. 14", "VGG-16", "vgg16"),
)

FIG15 = _small_figure(
    name="inss-fig15",
    title="GPU usage and fragments for ten models on four GPUs",
    paper="InSS, Fig. 15",
    shows="InSS uses as much as gpulet, and both leave small fragments; iGniter uses only three of the four GPUs and "
    "leaves the largest.",
    look_for="iGniter uses three GPUs, as in the paper; gpulet and `ts` use all four. Allocated shares are not busy "
    "all the time: bench show has the utilisation of each run.",
    draws=bars(SMALL_CLUSTER, USAGE_PARTS, partial(label_usage, gpus=4)),
    claims=(
        Claim(
            what="Fig. 15: GPUs in use by InSS, gpulet, iGniter",
            paper="InSS aligns with gpulet; iGniter 3",
            ours=means(SMALL_CLUSTER, ("ts", "gpulet", "igniter"), lambda row: row.gpus_used),
            form="{:g}, {:g}, {:g}",
            not_comparable="the rates decide the number of GPUs, and the paper does not publish them",
        ),
    ),
)

FIGURES = (FIG3, FIG4, FIG10, FIG13, FIG14, FIG15)
