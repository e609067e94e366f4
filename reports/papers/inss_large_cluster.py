"""InSS, Fig. 16 to 18: its agent and the baselines on sixty-four GPUs."""

from dataclasses import replace
from functools import partial

from bench.ledger.row import Row
from reports.claim import NOTHING_PUBLISHED, Claim, Values, query
from reports.figure import Figure
from reports.papers.inss_clusters import (
    AGENT_AND_BASELINES,
    BASELINES,
    SERVED_PARTS,
    USAGE_PARTS,
    bars,
    fragments_gpus,
    label_not_in_time,
    label_served,
    label_usage,
    leads_pct,
    mean_of,
    means,
    rows_of,
)
from reports.papers.inss_schedulers import needs_of, needs_on
from reports.papers.inss_violations import NOT_IN_TIME_PARTS
from reports.quantities import not_in_time_pct
from reports.runs import Runs

LARGE_CLUSTER = needs_on("inss-64gpu")
"""Needs on sixty-four GPUs."""

_SPENDING_IGNITER = {
    "igniter": tuple(replace(need, parameters=("igniter.spend_spare=true",)) for need in LARGE_CLUSTER["igniter"])
}


@query
def _largest_lead(runs: Runs) -> Values:
    """Return the largest lead over a baseline on the large cluster, and the lead over iGniter with ``spend_spare``."""
    leads = leads_pct((LARGE_CLUSTER, "ts"), LARGE_CLUSTER, BASELINES)(runs)
    spending = leads_pct((LARGE_CLUSTER, "ts"), _SPENDING_IGNITER, ("igniter",))(runs)
    return (None if None in leads else max(leads), *spending)


@query
def _leads_per_gpu(runs: Runs) -> Values:
    """Return the lead over each baseline on the large cluster, in percent of the throughput per GPU in use."""
    agent, *others = (mean_of(rows_of(runs, LARGE_CLUSTER, label), _capacity_per_gpu) for label in ("ts", *BASELINES))
    return tuple(None if agent is None or not other else 100.0 * (agent / other - 1.0) for other in others)


def _capacity_per_gpu(row: Row) -> float | None:
    return None if row.value is None or not row.gpus_used else row.value / row.gpus_used


_large_figure = partial(Figure, cost="the 9 runs of inss-fig18", needs=needs_of(LARGE_CLUSTER))

FIG16 = Figure(
    name="inss-fig16",
    title="Throughput of 160 workloads on 64 GPUs, simulated and planned",
    paper="InSS, Fig. 16",
    shows="InSS serves up to 66.0 % more than the baselines.",
    look_for="`ts` plans for nearly twice the throughput of the baselines, which stop once every workload is served: "
    "gslice+ and igniter leave 30 GPUs empty. `ts` decides each group of four GPUs separately, without a larger loss "
    "against local search than on four GPUs. The arriving requests are the same for all, and all serve most of them.",
    cost="10 runs: a minute on two cores",
    needs=(*needs_of(LARGE_CLUSTER), *needs_of(_SPENDING_IGNITER)),
    draws=bars(LARGE_CLUSTER, SERVED_PARTS, label_served),
    claims=(
        Claim(
            what="Fig. 16: largest lead of `ts` over a baseline on sixty-four GPUs, and its lead over `igniter` that "
            "spends its spare shares",
            paper="up to +66.0 %",
            ours=_largest_lead(),
            form="{:+.1f} %; {:+.1f} %",
            supports=lambda lead, _: abs(lead - 66.0) <= 6.6,
            criterion="within a tenth",
            reason="`gslice+` and `igniter` leave GPUs empty at our rates, see the next line; the lead over gpulet has "
            "another cause, which was not found",
        ),
        Claim(
            what="– the same per GPU in use, over gpulet, GSLICE and iGniter",
            paper=NOTHING_PUBLISHED,
            ours=_leads_per_gpu(),
            form="{:+.1f} %, {:+.1f} %, {:+.1f} %",
        ),
    ),
)

FIG17 = _large_figure(
    name="inss-fig17",
    title="Requests not in time of 160 workloads on 64 GPUs, by simulation",
    paper="InSS, Fig. 17",
    shows="InSS stays below 1 % at 64 GPUs.",
    look_for="`ts` is below 1 % at 64 GPUs, as in the paper; so is local search. gslice+, whose plan breaks SLOs, "
    "igniter and gpulet size their slots for the mean rate.",
    draws=bars(LARGE_CLUSTER, NOT_IN_TIME_PARTS, label_not_in_time),
    claims=(
        Claim(
            what="Fig. 17: requests not in time on sixty-four GPUs, by `ts`, gpulet, GSLICE, iGniter",
            paper="InSS below 1 %",
            ours=means(LARGE_CLUSTER, AGENT_AND_BASELINES, not_in_time_pct),
            form="{:.1f} %, {:.1f} %, {:.1f} %, {:.1f} %",
            supports=lambda ours, *_: ours < 1.0,
            criterion="`ts` below 1 %",
            reason="cause not found",
        ),
    ),
)

FIG18 = Figure(
    name="inss-fig18",
    title="GPU usage and fragments for 160 workloads on 64 GPUs",
    paper="InSS, Fig. 18",
    shows="InSS leaves small fragments on 64 GPUs, the baselines up to eight GPUs' worth.",
    look_for="gslice+ and igniter need 34 GPUs for the arriving requests, gpulet 54; empty GPUs are not fragments. On "
    "the GPUs in use gpulet leaves nothing, since its two parts fill a GPU; the others leave one to two GPUs' worth, "
    "`ts` because shares are rounded down on each of 64.",
    cost="9 runs: a minute on two cores",
    needs=needs_of(LARGE_CLUSTER),
    draws=bars(LARGE_CLUSTER, USAGE_PARTS, partial(label_usage, gpus=64)),
    claims=(
        Claim(
            what="Fig. 18: unallocated share on sixty-four GPUs, in GPUs, by gpulet, GSLICE and iGniter",
            paper="up to 8",
            ours=means(LARGE_CLUSTER, BASELINES, fragments_gpus),
            form="{:.1f}, {:.1f}, {:.1f}",
            not_comparable="the rates decide the unallocated share, and the paper does not publish them",
        ),
        Claim(
            what="– by InSS",
            paper="only a small amount",
            ours=means(LARGE_CLUSTER, ("ts",), fragments_gpus),
            form="{:.1f}",
            supports=lambda gpus: gpus < 160 / 54,
            criterion="below one of 54 units for each of 160 workloads",
        ),
        Claim(
            what="– less by InSS than by each baseline: InSS, gpulet, GSLICE, iGniter",
            paper="InSS only a small amount, the baselines up to 8",
            ours=means(LARGE_CLUSTER, AGENT_AND_BASELINES, fragments_gpus),
            form="{:.1f}, {:.1f}, {:.1f}, {:.1f}",
            supports=lambda ours, *others: ours < min(others),
            criterion="InSS below every baseline",
            reason="the two parts of gpulet fill every GPU, and `gslice+` and `igniter` use fewer GPUs; `ts` uses all, "
            "and rounding its shares down leaves at least a unit on most of them, see the next line",
        ),
        Claim(
            what="– the same in percent of the GPUs in use",
            paper=NOTHING_PUBLISHED,
            ours=means(LARGE_CLUSTER, AGENT_AND_BASELINES, lambda row: row.fragments_pct),
            form="{:.1f} %, {:.1f} %, {:.1f} %, {:.1f} %",
        ),
    ),
)

FIGURES = (FIG16, FIG17, FIG18)
