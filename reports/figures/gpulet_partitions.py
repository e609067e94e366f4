"""gpulet ATC'22, Fig. 9, and arXiv'21, Fig. 8: the most efficient share and the least that serves a rate."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from heuristics.elastic_partitioning import PROFILED_PCT, max_efficient_partition, min_required_partition
from heuristics.gpulet_pools import terms_of
from instances.arrays import Floats
from instances.suites import SCENARIO_SUITES
from instances.view import View
from reports.figure import Figure
from reports.palette import BLACK, DEEP_BLUE, ORANGE, QUIET
from reports.panels import Curve, Panel, panels_figure

MODEL = "vgg16"
RATES_RPS = (100.0, 300.0)
"""Rates below and above that of the most efficient share; the papers name neither their model nor their rates."""


class Partitions(NamedTuple):
    """Shares that elastic partitioning derives for one workload.

    Attributes
    ----------
    share_pct, rate_rps
        Shares that the papers profile, and the rate served alone at each, shape (shares,).
    efficient_pct
        ``p_eff``, the knee of that curve.
    required_pct
        ``p_req``, the least share that serves a rate, by rate.
    """

    share_pct: Floats
    rate_rps: Floats
    efficient_pct: float
    required_pct: dict[float, float]


def partitions(scenarios: str) -> dict[str, Partitions]:
    """Return by model the results of the scheduler's own functions under the SLOs of a scenario set."""
    instance = SCENARIO_SUITES[scenarios].build().base
    gpu = instance.gpus[0].type
    view = View.of(instance, gpu)
    terms = terms_of(view, interference=True)
    units = [round(pct * gpu.share_units / 100.0) for pct in PROFILED_PCT]
    return {
        workload.model: Partitions(
            np.array(PROFILED_PCT, dtype=np.float64),
            terms.alone_rps[place, units],
            gpu.share_pct(max_efficient_partition(view, terms, place)),
            {rate: gpu.share_pct(min_required_partition(view.tables, terms, place, rate)) for rate in RATES_RPS},
        )
        for place, workload in enumerate(instance.workloads)
    }


def half_gpu_part(scenarios: str) -> dict[str, float]:
    """Return by model the rate of half the GPU over that of the whole; 0.5 means no knee."""
    return {
        model: float(found.rate_rps[list(found.share_pct).index(50.0)] / found.rate_rps[-1])
        for model, found in partitions(scenarios).items()
    }


def _panels(scenarios: str, rates_rps: Sequence[float]) -> Sequence[Panel]:
    everyone = partitions(scenarios)
    found = everyone[MODEL]
    axes = {"xlabel": "Share (%)", "xlim": (0.0, 104.0)}
    panels = [
        Panel(f"{MODEL}, {rate:g} req/s", _curves(found, rate), {**axes, "ylabel": "Rate served (req/s)"})
        for rate in rates_rps
    ]
    thin = {"color": QUIET, "linewidth": 0.7}
    all_of = [
        Curve("each model", each.share_pct, each.rate_rps / each.rate_rps[-1], thin) for each in everyone.values()
    ]
    knees = [
        Curve("p_eff, the knee", [each.efficient_pct], [_rate_at(each) / each.rate_rps[-1]], _KNEE)
        for each in everyone.values()
    ]
    title = f"{len(everyone)} models"
    return [*panels, Panel(title, [*all_of, *knees], {**axes, "ylabel": "Rate (whole GPU = 1)"})]


_KNEE = {"color": ORANGE, "marker": "D", "linestyle": "", "markersize": 4.5, "markeredgecolor": BLACK}


def _curves(found: Partitions, rate_rps: float) -> list[Curve]:
    required = {"color": BLACK, "marker": "s", "linestyle": "", "markerfacecolor": "white", "markersize": 5}
    return [
        Curve("rate that a share serves", found.share_pct, found.rate_rps, {"color": DEEP_BLUE, "marker": "o"}),
        Curve("rate to be served", (0.0, 104.0), (rate_rps, rate_rps), {"color": QUIET, "linestyle": ":"}),
        Curve("p_req, the least share for it", [found.required_pct[rate_rps]], [rate_rps], required),
        Curve("p_eff, the knee", [found.efficient_pct], [_rate_at(found)], _KNEE),
    ]


def _rate_at(found: Partitions) -> float:
    """Return the rate of the most efficient share."""
    return float(np.interp(found.efficient_pct, found.share_pct, found.rate_rps))


def _figure(name: str, paper: str, panels: Callable[[], Sequence[Panel]]) -> Figure:
    return panels_figure(
        panels,
        name=name,
        title="The most efficient share and the least sufficient share",
        paper=paper,
        shows="The rate that a gpulet serves grows fast up to a knee, p_eff. The scheduler takes the smaller of p_eff "
        "and p_req, the least share for the rate.",
        look_for="With the catalogue's times there is no knee: under these SLOs batches are large enough to fill any "
        "share, and the rate is almost proportional to it. Small steps of the batch then decide which profiled share "
        "the rule identifies as the knee.",
    )


ATC = _figure("gpulet-fig9", "gpulet ATC'22, Fig. 9", partial(_panels, "gpulet-19682", RATES_RPS))
ARXIV = _figure("gpulet-arxiv-fig8", "gpulet arXiv'21, Fig. 8", partial(_panels, "gpulet-1023", RATES_RPS[:1]))
