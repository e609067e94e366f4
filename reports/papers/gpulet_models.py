"""gpulet ATC'22, Fig. 4, 7, 9 and 10, and arXiv'21, Fig. 3, 6, 8 and 9: latencies, shares and interference."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from bench.ledger.row import Row
from heuristics.gpulet.elastic_partitioning import (
    PROFILED_PCT,
    EfficientShare,
    max_efficient_partition,
    min_required_partition,
)
from heuristics.gpulet.state import Gpulets
from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.measurements import Configuration
from instances.performance import interference_model_names
from instances.performance.model import batching_ms
from instances.performance.validation import latencies_ms, validate
from instances.suites import SCENARIO_SUITES
from instances.suites.gpulet import ARXIV_SLO_MS, ATC_SLO_MS
from instances.view import View
from reports.charts.page import COLUMN_IN, FULL_WIDTH_IN, Page, page
from reports.charts.palette import BLACK, DEEP_BLUE, ORANGE, PERFORMANCE_LOOKS, QUIET, STAR, LineStyle, shades
from reports.charts.panels import Curve, Panel, draw_panels
from reports.charts.predictions import cumulate
from reports.claim import NOTHING_PUBLISHED, Claim, Values, query
from reports.figure import Figure
from reports.measured import measured_pairs, missing_note, nothing_measured
from reports.papers.gpulet_overheads import measured_overheads, predicted_overheads
from reports.restated import restated_note, restated_overheads
from reports.runs import Runs

MODELS = ("googlenet", "resnet50", "ssd-mobilenet", "vgg16")
BATCHES = (1, 2, 4, 8, 16, 32)
SHARES_PCT = (20.0, 40.0, 50.0, 60.0, 80.0, 100.0)

OVERHEAD_IN_PAPER = (18.0, 0.9)
"""Point of the paper's distribution of overheads: overhead in percent, and fraction of the scenarios (Sec. 3.4)."""

ERRORS_IN_PAPER_PCT = ((10.26, 0.9), (13.98, 0.95))
"""Points (error in percent, fraction of the samples) on the paper's validation set: P90 and P95 (Sec. 4.4)."""

MEASURED_GPUS = ("v100", "a100")
_LARGEST_DRAWN_PCT = 100.0
_OVERHEAD_HEIGHT_IN, _ERRORS_HEIGHT_IN = 2.6, 2.8
_LOOKS = shades(len(BATCHES))


def alone_ms(model: str, batch: int, gpu: str = "rtx2080ti") -> Floats:
    """Return the inference times of a batch alone on a GPU type at ``SHARES_PCT``, in ms, shape (shares,)."""
    groups = [[Configuration(model, batch, share_pct)] for share_pct in SHARES_PCT]
    return np.array([times[0] for times in latencies_ms(gpu_type(gpu), "gpulet", groups)])


def fifth_gpu_ratio(model: str, batch: int, with_assembly: bool = True, gpu: str = "rtx2080ti") -> float:
    """Return the ratio of a batch's time on a fifth of a GPU to its time on all of it.

    Without ``with_assembly``, the time to assemble the batch on the host is left out.
    """
    host_ms = 0.0 if with_assembly else float(batching_ms(gpu_type(gpu).models[model], np.array(float(batch))))
    times_ms = alone_ms(model, batch, gpu) - host_ms
    return float(times_ms[0] / times_ms[-1])


def _latency_panels(slo_ms: Mapping[str, float], gpu: str) -> Sequence[Panel]:
    """Return a panel for each model; the papers' SLOs are twice the time of a batch of 32 on the whole GPU."""
    panels = []
    for model in MODELS:
        curves = [
            Curve(f"batch {batch}", SHARES_PCT, alone_ms(model, batch, gpu), look.marked)
            for batch, look in zip(BATCHES, _LOOKS, strict=True)
        ]
        curves.append(Curve("half the paper's SLO", (100.0,), (slo_ms[model] / 2.0,), STAR))
        axes = {"xlabel": "Share (%)", "ylabel": "Latency (ms)", "xticks": SHARES_PCT}
        panels.append(Panel(model, curves, axes))
    return panels


def _draw_overheads(figure: Figure, rows: Sequence[Row]) -> Page:
    model_label = "gpulet's model, RTX 2080 Ti"
    overheads_by_label = {model_label: predicted_overheads()}
    style_by_label = {model_label: PERFORMANCE_LOOKS["gpulet"]}
    for gpu, line_style in (("v100", "-"), ("a100", "--")):
        samples, label = measured_pairs(gpu), f"measured, {gpu.upper()}"
        overheads_by_label[label] = measured_overheads(gpu, samples) if samples else restated_overheads(gpu)
        style_by_label[label] = LineStyle(QUIET, "", line_style)
    # Without the files of measurements, quantiles that ``reports.restated`` has copied from them stand in.
    restated = [gpu for gpu in MEASURED_GPUS if not measured_pairs(gpu)]
    largest = max(float(values.max()) for values in overheads_by_label.values())
    notes = [restated_note(*restated)] if restated else []
    notes.append(f"The axis ends at {_LARGEST_DRAWN_PCT:g} %; the largest slowdown is {100.0 * largest:.0f} %.")
    sheet = page(COLUMN_IN, _OVERHEAD_HEIGHT_IN, notes)
    ax = sheet.subplots()
    cumulate(ax, overheads_by_label, style_by_label)
    ax.plot(*OVERHEAD_IN_PAPER, **STAR, label="the paper, RTX 2080 Ti")
    ax.set(xlabel="Slower than alone (%)", xlim=(0.0, _LARGEST_DRAWN_PCT), ylim=(0.0, 1.03))
    ax.legend(loc="lower right")
    return sheet


def _draw_errors(figure: Figure, rows: Sequence[Row]) -> Page:
    measured = {gpu: samples for gpu in MEASURED_GPUS if (samples := measured_pairs(gpu))}
    if not measured:
        raise nothing_measured(figure, MEASURED_GPUS)
    notes = missing_note(*MEASURED_GPUS)
    sheet = page(FULL_WIDTH_IN, _ERRORS_HEIGHT_IN, notes)
    panels = sheet.subplots(1, len(measured), sharey=True, squeeze=False).ravel()
    for ax, (gpu, samples) in zip(panels, measured.items(), strict=True):
        errors_by_label, style_by_label = {}, {}
        for model in interference_model_names():
            errors = validate(gpu_type(gpu), model, samples)
            label = f"{model}: P95 {100.0 * errors.summary['p95']:.1f} %"
            errors_by_label[label], style_by_label[label] = np.abs(errors.relative), PERFORMANCE_LOOKS[model]
        cumulate(ax, errors_by_label, style_by_label)
        ax.plot(*zip(*ERRORS_IN_PAPER_PCT, strict=True), "k*", label="the paper's model on its GPU")
        ax.set(title=f"{gpu.upper()}, {len(samples)} samples", xlim=(0.0, 60.0 if gpu == "a100" else 20.0))
        ax.legend(loc="lower right")
    return sheet


@query
def _fifth_of_the_gpu(_: Runs, batch: int, with_assembly: bool, gpu: str) -> Values:
    """Return ``fifth_gpu_ratio`` of each of ``MODELS``."""
    return tuple(fifth_gpu_ratio(model, batch, with_assembly, gpu) for model in MODELS)


def _claims_on_a_fifth(figure: str, gpu: str) -> tuple[Claim, ...]:
    """Return the claims on the times on a fifth of a GPU type, for large and for small batches."""
    return tuple(
        claim
        for batch, statement, supports, criterion, reason in (
            (
                32,
                '"the latency significantly drops"',
                lambda *gains: min(gains) >= 3.0,
                "at least 3 times for each",
                "the share does not shorten the time to assemble a batch; the next line leaves it out",
            ),
            (
                1,
                '"the latency is not largely affected"',
                lambda *gains: max(gains) <= 2.0,
                "at most twice for each",
                "an image on a fifth takes as long as five on the whole GPU; five of VGG-16 take far longer than one",
            ),
        )
        for claim in (
            Claim(
                what=f"{figure}: time on a fifth of a GPU over time on all of it, batch {batch}: {', '.join(MODELS)}",
                paper=statement,
                ours=_fifth_of_the_gpu(batch, True, gpu),
                form="{:.1f}, {:.1f}, {:.1f}, {:.1f} times",
                supports=supports,
                criterion=criterion,
                reason=reason,
            ),
            Claim(
                what=f"– batch {batch} without the time to assemble it",
                paper=NOTHING_PUBLISHED,
                ours=_fifth_of_the_gpu(batch, False, gpu),
                form="{:.1f}, {:.1f}, {:.1f}, {:.1f} times",
            ),
        )
    )


FIG4 = Figure(
    name="gpulet-fig4",
    title="Latency of a batch by the share of the GPU",
    paper="gpulet ATC'22, Fig. 4",
    shows="Large batches become much faster with the share, small ones hardly. SLOs are twice the latency of a batch "
    "of 32 on the whole GPU.",
    look_for="Large batches gain more from the share than small ones, as in the paper, but less than in proportion: "
    "the time to assemble a batch on the host does not depend on the share. Times on the whole GPU follow from "
    "published durations of kernels. The number of kernels is chosen so that a batch of 32 meets the star, which "
    "therefore validates nothing. Times at smaller shares are inferred.",
    draws=partial(draw_panels, panels=partial(_latency_panels, ATC_SLO_MS, "rtx2080ti"), columns=2),
    claims=_claims_on_a_fifth("ATC Fig. 4", "rtx2080ti"),
)

ARXIV_FIG3 = replace(
    FIG4,
    name="gpulet-arxiv-fig3",
    paper="gpulet arXiv'21, Fig. 3",
    look_for="The SLOs are those of this version, which was measured with an older PyTorch. The number of kernels is "
    "chosen so that a batch of 32 on the whole GPU takes half the SLO.",
    draws=partial(draw_panels, panels=partial(_latency_panels, ARXIV_SLO_MS, "rtx2080ti-arxiv"), columns=2),
    claims=_claims_on_a_fifth("arXiv Fig. 3", "rtx2080ti-arxiv"),
)

FIG7 = Figure(
    name="gpulet-fig7",
    title="Slowdown of inference by co-location",
    paper="gpulet ATC'22, Fig. 7",
    shows="In 90 % of the scenarios the overhead is below 18 %, with a long tail; measured on a GeForce RTX 2080 Ti.",
    look_for="Compare the line of gpulet's model, with its published constants, with the star. Other GPUs differ "
    "widely from it: on the A100 small batches are bound by kernel launches and slow down by half and more.",
    draws=_draw_overheads,
)

ARXIV_FIG6 = replace(FIG7, name="gpulet-arxiv-fig6", paper="gpulet arXiv'21, Fig. 6")
"""Figure of the same experiment in the arXiv version."""

FIG10 = Figure(
    name="gpulet-fig10",
    title="Errors of the performance models on measured pairs",
    paper="gpulet ATC'22, Fig. 10",
    shows="The linear pair model predicts 90 % of the cases within 10.26 % and 95 % within 13.98 %.",
    look_for="The same model fitted to other GPUs: within the stars on the V100, far outside them on the A100, where "
    "the hybrid model is better. Errors are in-sample: the models were fitted to these pairs.",
    cost="no runs, a few seconds; published measurements, in the folder that GPUSHARE_MEASUREMENTS names",
    draws=_draw_errors,
)

ARXIV_FIG9 = replace(FIG10, name="gpulet-arxiv-fig9", paper="gpulet arXiv'21, Fig. 9")
"""Figure of the same experiment in the arXiv version."""

KNEE_MODEL = "vgg16"

RATES_RPS = (100.0, 300.0)
"""Rates below and above the rate of the most efficient share. The papers do not name their model and rates."""


class Partitions(NamedTuple):
    """Shares that elastic partitioning derives for one workload.

    Attributes
    ----------
    share_pct, rate_rps
        Shares that the papers profile, and the rate at which each serves the workload alone, shape (shares,).
    efficient_pct
        ``p_eff``, the knee of the rates over the shares.
    required_pct
        ``p_req``, the smallest share that serves a rate, by rate in requests per second.
    """

    share_pct: Floats
    rate_rps: Floats
    efficient_pct: float
    required_pct: dict[float, float]


def partitions(scenarios: str) -> dict[str, Partitions]:
    """Return the shares of elastic partitioning by model, computed by the scheduler's functions.

    ``scenarios`` names the scenario set, which determines the SLOs and the paper's version.
    """
    instance = SCENARIO_SUITES[scenarios].build().base
    gpu = instance.gpus[0].type
    view = View.of(instance, gpu)
    gpulets = Gpulets.undivided(view, 0, interference=True)
    units = [round(pct * gpu.share_units / 100.0) for pct in PROFILED_PCT]
    return {
        workload.model: Partitions(
            np.array(PROFILED_PCT, dtype=np.float64),
            gpulets.alone_rps[workload_index, units],
            gpu.share_pct(max_efficient_partition(view, gpulets, workload_index, EfficientShare.KNEE)),
            {
                rate: gpu.share_pct(min_required_partition(view.tables, gpulets, workload_index, rate))
                for rate in RATES_RPS
            },
        )
        for workload_index, workload in enumerate(instance.workloads)
    }


def half_gpu_ratios(scenarios: str) -> dict[str, float]:
    """Return the ratio of the rate on half the GPU to the rate on the whole GPU, by model; 0.5 means no knee."""
    return {
        model: float(shares.rate_rps[list(shares.share_pct).index(50.0)] / shares.rate_rps[-1])
        for model, shares in partitions(scenarios).items()
    }


def _share_panels(scenarios: str, rates_rps: Sequence[float]) -> Sequence[Panel]:
    partitions_by_model = partitions(scenarios)
    knee_model = partitions_by_model[KNEE_MODEL]
    axes = {"xlabel": "Share (%)", "xlim": (0.0, 104.0)}
    panels = [
        Panel(
            f"{KNEE_MODEL}, {rate:g} req/s", _share_curves(knee_model, rate), {**axes, "ylabel": "Rate served (req/s)"}
        )
        for rate in rates_rps
    ]
    thin_line = {"color": QUIET, "linewidth": 0.7}
    model_curves = [
        Curve("each model", shares.share_pct, shares.rate_rps / shares.rate_rps[-1], thin_line)
        for shares in partitions_by_model.values()
    ]
    knees = [
        Curve("p_eff, the knee", [shares.efficient_pct], [_rate_at_knee(shares) / shares.rate_rps[-1]], _KNEE_STYLE)
        for shares in partitions_by_model.values()
    ]
    title = f"{len(partitions_by_model)} models"
    return [*panels, Panel(title, [*model_curves, *knees], {**axes, "ylabel": "Rate (whole GPU = 1)"})]


_KNEE_STYLE = {"color": ORANGE, "marker": "D", "linestyle": "", "markersize": 4.5, "markeredgecolor": BLACK}


def _share_curves(shares: Partitions, rate_rps: float) -> list[Curve]:
    required_style = {"color": BLACK, "marker": "s", "linestyle": "", "markerfacecolor": "white", "markersize": 5}
    return [
        Curve("rate that a share serves", shares.share_pct, shares.rate_rps, {"color": DEEP_BLUE, "marker": "o"}),
        Curve("rate to be served", (0.0, 104.0), (rate_rps, rate_rps), {"color": QUIET, "linestyle": ":"}),
        Curve("p_req, the least share for it", [shares.required_pct[rate_rps]], [rate_rps], required_style),
        Curve("p_eff, the knee", [shares.efficient_pct], [_rate_at_knee(shares)], _KNEE_STYLE),
    ]


def _rate_at_knee(shares: Partitions) -> float:
    """Return the rate at the most efficient share, in requests per second."""
    return float(np.interp(shares.efficient_pct, shares.share_pct, shares.rate_rps))


@query
def _half_gpu_range(_: Runs, scenarios: str, without: Sequence[str] = ()) -> Values:
    """Return the smallest and largest ratio of the rate on half the GPU to the rate on the whole GPU."""
    ratios = [ratio for model, ratio in half_gpu_ratios(scenarios).items() if model not in without]
    return min(ratios), max(ratios)


def _claims_on_half(figure: str, scenarios: str, without: Mapping[str, str]) -> tuple[Claim, Claim]:
    """Return the claim that all models have a knee, and a line without the models that have none.

    ``without`` has the printed names of the models without a knee.
    """
    names = " and ".join(without.values())
    owners = " and ".join(f"{name}'s" for name in without.values())
    all_models = Claim(
        what=f"{figure}: rate on half the GPU over rate on the whole GPU, least and most",
        paper="no number; our reading of the drawn knee: well above one half",
        ours=_half_gpu_range(scenarios),
        form="{:.2f}, {:.2f}",
        supports=lambda smallest, _: smallest >= 0.6,
        criterion="at least 0.6 for each model",
        reason=f"the time in which a batch of {owners} requests is assembled is the same at every share, and the "
        "batches fill every share (next line); of the others, the largest models are just below",
    )
    with_knee = Claim(
        what=f"– without {names}",
        paper=NOTHING_PUBLISHED,
        ours=_half_gpu_range(scenarios, tuple(without)),
        form="{:.2f}, {:.2f}",
    )
    return all_models, with_knee


FIG9 = Figure(
    name="gpulet-fig9",
    title="The most efficient share and the least sufficient share",
    paper="gpulet ATC'22, Fig. 9",
    shows="The rate that a gpulet serves grows fast up to a knee, p_eff. The scheduler takes the smaller of p_eff and "
    "p_req, the least share for the rate.",
    look_for="Half the GPU serves more than half the rate of most models, because the time to assemble a batch does "
    "not depend on the share and small batches do not fill the GPU. Both effects are small for LeNet and BERT, whose "
    "curves have no knee.",
    draws=partial(draw_panels, panels=partial(_share_panels, "gpulet-19682", RATES_RPS)),
    claims=_claims_on_half("ATC Fig. 9", "gpulet-19682", {"lenet": "LeNet", "bert": "BERT"}),
)

ARXIV_FIG8 = replace(
    FIG9,
    name="gpulet-arxiv-fig8",
    paper="gpulet arXiv'21, Fig. 8",
    draws=partial(draw_panels, panels=partial(_share_panels, "gpulet-1023", RATES_RPS[:1])),
    claims=_claims_on_half("arXiv Fig. 8", "gpulet-1023", {"lenet": "LeNet"}),
)
FIGURES = (FIG4, FIG7, FIG9, FIG10, ARXIV_FIG3, ARXIV_FIG6, ARXIV_FIG8, ARXIV_FIG9)
