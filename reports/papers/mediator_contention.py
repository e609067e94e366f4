"""MediatorDNN, the GPU part of Fig. 1: slowdown of two DNNs side by side."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from instances.colocation import Launches, run_together
from instances.performance import performance_model
from reports.charts.palette import DEEP_BLUE, ORANGE, STAR
from reports.charts.panels import Curve, Panel, draw_panels
from reports.claim import NOTHING_PUBLISHED, Claim, Values, not_modelled, query
from reports.figure import Figure
from reports.papers.mediator_setup import FORTY, STAND_INS_NOTE, STAND_INS_OF, view
from reports.papers.mediator_throughput import NO_CPU_REASON
from reports.runs import Runs

FIRST_DNN, OTHER_DNNS = "Inc-V4", ("MobV1-1", "Inc-V1", "Inc-V2", "ResV2-50", "ResV2-101")
"""DNNs of Fig. 1: the first DNN runs beside each of the others."""

PAPER_GROWTH_PCT = {"MobV1-1": (26.0, 1.5), "ResV2-101": (84.0, 69.0)}
"""Slowdown of the first DNN and of the other in percent, by the other; only as stated in the text (Sec. II-A)."""

_LAUNCHES = 200_000
"""Number of launches of a DNN without pauses; no DNN completes as many in the simulated time."""


def growth_pct(other: str, instance: str = FORTY, batch: int = 1) -> tuple[float, float]:
    """Return the slowdowns of Inception-V4 and another DNN beside each other, in percent.

    Both run batches of ``batch`` without pauses, with the stand-ins and under the contention of an instance.
    """
    gpu_view = view(instance)
    tables, models = gpu_view.tables, list(gpu_view.gpu.models)
    concurrent = performance_model(gpu_view.instance.performance_model).concurrent

    def launches_of(dnn: str) -> Launches:
        model = models.index(STAND_INS_OF[instance][dnn])
        return Launches(model, np.zeros(_LAUNCHES), np.full(_LAUNCHES, batch, dtype=np.int64))

    joint_run = run_together(tables, [launches_of(FIRST_DNN), launches_of(other)], concurrent)
    growths = []
    for position, dnn in enumerate((FIRST_DNN, other)):
        alone_run = run_together(tables, [launches_of(dnn)])
        alone_ms = alone_run.on_gpu_ms[0] / alone_run.launches[0]
        growths.append(100.0 * float(joint_run.on_gpu_ms[position] / joint_run.launches[position] / alone_ms - 1.0))
    return growths[0], growths[1]


def _fig1() -> Sequence[Panel]:
    turn_styles = {
        FIRST_DNN: {"color": DEEP_BLUE, "marker": "o"},
        "the other": {"color": ORANGE, "marker": "s", "markerfacecolor": "white"},
    }
    pair_styles = {
        FIRST_DNN: {"color": DEEP_BLUE, "marker": "^"},
        "the other": {"color": ORANGE, "marker": "v", "markerfacecolor": "white"},
    }
    paper_styles = {FIRST_DNN: STAR, "the other": {**STAR, "markerfacecolor": "white"}}
    by_turns, in_pairs = ({other: growth_pct(other, name) for other in OTHER_DNNS} for name in STAND_INS_OF)
    curves = [
        Curve(
            f"{dnn}{suffix}",
            [OTHER_DNNS.index(other) + (-0.12, 0.12)[index] for other in growths_of],
            [growths_of_pair[index] for growths_of_pair in growths_of.values()],
            {"linestyle": "", "markersize": 5, **styles[dnn]},
        )
        for growths_of, styles, suffix in (
            (by_turns, turn_styles, ", by turns"),
            (in_pairs, pair_styles, ", measured pairs"),
            (PAPER_GROWTH_PCT, paper_styles, ", the paper"),
        )
        for index, dnn in enumerate(styles)  # the first DNN, then the other
    ]
    positions = list(range(len(OTHER_DNNS)))
    axes = {"xticks": positions, "xticklabels": OTHER_DNNS, "xlim": (-0.5, len(OTHER_DNNS) - 0.5), "ylim": (0.0, 130.0)}
    return [Panel("", curves, {**axes, "xlabel": f"Beside {FIRST_DNN}", "ylabel": "Slower than alone (%)"})]


_PAIRED_NOTE = "Those of measured pairs are on an A100: `bench show mediator-pairs-s0`."


@query
def _growth(_: Runs, other: str, instance: str, batch: int) -> Values:
    return growth_pct(other, instance, batch)


def _growth_claims(other: str) -> tuple[Claim, ...]:
    """Return the claims on the slowdowns beside Inception-V4."""

    def claim(suffix: str, instance: str, batch: int, paper: Values | str, reason: str = "") -> Claim:
        what = f"Fig. 1 (GPU): slowdown of Inception-V4 and of {other} side by side; {suffix}"
        ours = _growth(other, instance, batch)
        return Claim(what=what, paper=paper, ours=ours, form="{:.3g} %, {:.3g} %", within=0.1, reason=reason)

    by_turns, in_pairs = STAND_INS_OF
    published = PAPER_GROWTH_PCT[other]
    return (
        claim("launches take turns", by_turns, 1, published, "two launches that take turns both take twice as long"),
        claim("measured pairs", in_pairs, 1, published, _PAIRS_REASON[other]),
        claim("measured pairs, batches of 32", in_pairs, 32, NOTHING_PUBLISHED),
    )


@query
def _growth_range(_: Runs, instance: str, batch: int) -> Values:
    """Return the smallest and the largest slowdown of Inception-V4 beside one of the other DNNs, in percent."""
    growths = [growth_pct(other, instance, batch)[0] for other in OTHER_DNNS]
    return min(growths), max(growths)


def _growth_range_claims() -> tuple[Claim, ...]:
    """Return the claims on the slowdowns of Inception-V4 over all neighbours."""

    def claim(suffix: str, instance: str, batch: int, reason: str) -> Claim:
        return Claim(
            what=f"Fig. 1 (GPU): least and largest slowdown of Inception-V4, of five neighbours; {suffix}",
            paper="depends on the neighbour: 26 % and 84 % are stated",
            ours=_growth_range(instance, batch),
            form="{:.3g} %, {:.3g} %",
            supports=lambda least, largest: largest >= 2.0 * least,
            criterion="one at least twice the other",
            reason=reason,
            note="the numbers on the other bars are in the figure alone, which is missing from the text that we have",
        )

    by_turns, in_pairs = STAND_INS_OF
    average = "its stand-in was not measured in pairs and has the average slowdown of the measured models"
    return (
        claim("launches take turns", by_turns, 1, "two launches that take turns both take twice as long"),
        claim("measured pairs", in_pairs, 1, f"{average}; larger batches do not change it: see the next line"),
        claim("measured pairs, batches of 32", in_pairs, 32, f"{average}; the batch does not change it"),
        Claim(
            what="Fig. 1 (CPU): slowdown of Inception-V4 and of its neighbours",
            paper="not that of the GPU",
            ours=not_modelled,
            not_comparable=NO_CPU_REASON,
        ),
    )


_PAIRS_REASON = {
    "MobV1-1": "the stand-in for MobV1-1 was measured only as a neighbour: its own slowdown is an average of others",
    "ResV2-101": "one model stands in for both, so their slowdowns are equal; the batch decides how large they are, "
    'and the paper states none beside "time needed to process one input": see the next line',
}

FIG1 = Figure(
    name="mediator-fig1",
    title="Slowdown of DNNs beside Inception-V4",
    paper="MediatorDNN, Fig. 1 c, d",
    shows="On a GPU Inception-V4 and MobileNetV1-1 become 26 and 1.5 % slower side by side, Inception-V4 and "
    "ResNetV2-101 84 and 69 %.",
    look_for="Two DNNs that take turns without a pause take twice as long each, whichever they are. In measured pairs "
    "they run at the same time and are slowed by less, each to its own extent.",
    draws=partial(draw_panels, panels=_fig1, notes=lambda: [STAND_INS_NOTE, _PAIRED_NOTE]),
    claims=(*(claim for other in PAPER_GROWTH_PCT for claim in _growth_claims(other)), *_growth_range_claims()),
)

FIGURES = (FIG1,)
