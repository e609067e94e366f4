"""Performance model of InSS on an A100 (Sec. 2.1, 2.2 and 4.1): Fig. 1, 2, 6 and 7."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.measurements import Configuration, SoloSample
from instances.performance.inss import regressed_ms
from instances.performance.validation import latencies_ms
from reports.charts.palette import SERIES, shades
from reports.charts.panels import Curve, Panel, draw_panels
from reports.claim import NO_PROTOTYPE, Claim, Values, not_modelled
from reports.figure import Figure
from reports.measured import measured_solo, missing_note
from reports.runs import MissingDataError, Runs

PIVOT = "resnet50"
"""Model of Fig. 6, and the model that others slow down in Fig. 2."""

PRINTED_GROWTH_PCT = 22.7
"""Largest growth of ResNet50's latency that the paper prints (Sec. 2.2)."""

BATCH = 8
"""Batch of Fig. 1, and of the neighbours in Fig. 2."""

SHARES_PCT = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0])
PIVOT_SHARE_PCT, PIVOT_BATCHES = 40.0, (1, 4, 8, 16)

NEIGHBOURS = {
    "alexnet 30 %": (("alexnet", 30.0),),
    "alexnet 60 %": (("alexnet", 60.0),),
    "vgg16 30 %": (("vgg16", 30.0),),
    "vgg16 60 %": (("vgg16", 60.0),),
    "both, 30 % each": (("alexnet", 30.0), ("vgg16", 30.0)),
}
"""Neighbours of Fig. 2 by label: models, and shares in percent."""

BATCHES = (1, 4, 8, 16, 32)
"""Batches of Fig. 6."""

PROFILED = ("resnet50", "vgg16", "mobilenet")
"""Models of our Fig. 7. The paper does not name the models of its figure."""


def alone_ms(model: str, batch: int) -> Floats:
    """Return the inference time of a batch alone in ms, at each of ``SHARES_PCT``."""
    groups = [[Configuration(model, batch, share_pct)] for share_pct in SHARES_PCT.tolist()]
    return np.array([times[0] for times in latencies_ms(gpu_type("a100-inss"), "inss", groups)])


def growth_pct(neighbours: str) -> Floats:
    """Return the slowdown of ResNet50 beside neighbours in percent, at each of ``PIVOT_BATCHES`` (Fig. 2)."""
    neighbour_configurations = [Configuration(model, BATCH, share_pct) for model, share_pct in NEIGHBOURS[neighbours]]
    pivots = [Configuration(PIVOT, batch, PIVOT_SHARE_PCT) for batch in PIVOT_BATCHES]
    groups = [
        [pivot, *neighbours_of_pivot] for neighbours_of_pivot in ([], neighbour_configurations) for pivot in pivots
    ]
    times_ms = np.array([times[0] for times in latencies_ms(gpu_type("a100-inss"), "inss", groups)])
    alone, together = times_ms.reshape(2, len(pivots))
    return np.asarray(100.0 * (together / alone - 1.0))


def largest_growth_pct() -> float:
    """Return the largest slowdown of ResNet50 in Fig. 2, in percent."""
    return max(float(growth_pct(neighbours).max()) for neighbours in NEIGHBOURS)


def unexplained(model: str) -> tuple[float, float]:
    """Return the fractions of the variance of L2 and DRAM utilisation that the lines of Fig. 7 do not explain.

    The variance is that of measured values. Without measurements, both fractions are NaN.
    """
    solo = gpu_type("a100").model(model).profiled("a100")
    samples = _samples(model)
    fractions = []
    for measured, fitted in (
        ([sample.l2_pct for sample in samples], solo.l2),
        ([sample.dram_pct for sample in samples], solo.dram),
    ):
        error = np.array(measured) - (fitted[0] * solo_rps(model, samples) + fitted[1])
        fractions.append(float(np.mean(error**2) / np.var(measured)) if samples else float("nan"))
    return fractions[0], fractions[1]


def _samples(model: str) -> list[SoloSample]:
    """Return the measurements of a model alone at the batches of its catalogue entry."""
    largest_batch = gpu_type("a100").model(model).max_batch
    return [
        sample
        for sample in measured_solo("a100")
        if sample.configuration.model == model and sample.configuration.batch <= largest_batch
    ]


def solo_rps(model: str, samples: Sequence[SoloSample]) -> Floats:
    """Return the abscissa of Fig. 7 for each measurement: the batch over its GPU time alone, without transfers."""
    gpu = gpu_type("a100")
    facts = gpu.model(model)
    per_item_ms = (facts.input_bytes + facts.output_bytes) / gpu.hardware.pcie_bytes_per_ms
    batch = np.array([float(sample.configuration.batch) for sample in samples])
    latency_ms = np.array([sample.latency_ms for sample in samples])
    return np.asarray(1000.0 * batch / (latency_ms - batch * per_item_ms))


def _fig1() -> Sequence[Panel]:
    times_of = {model: alone_ms(model, BATCH) for model in sorted(gpu_type("a100-inss").models)}
    styles = dict(zip(times_of, SERIES, strict=True))
    axes = {"xlabel": "Share (%)", "yscale": "log"}
    return [
        Panel(
            "",
            [Curve(model, SHARES_PCT, times_ms, styles[model].marked) for model, times_ms in times_of.items()],
            {**axes, "ylabel": "Latency (ms)"},
        ),
        Panel(
            "",
            [
                Curve(model, SHARES_PCT, 1000.0 * BATCH / times_ms, styles[model].marked)
                for model, times_ms in times_of.items()
            ],
            {**axes, "ylabel": "Throughput (req/s)"},
        ),
    ]


def _fig2() -> Sequence[Panel]:
    curves = [
        Curve(name, PIVOT_BATCHES, growth_pct(name), style.marked)
        for name, style in zip(NEIGHBOURS, SERIES, strict=False)
    ]
    axes = {"xlabel": f"Batch of {PIVOT}", "ylabel": "Slower than alone (%)", "xticks": PIVOT_BATCHES}
    return [Panel("", curves, axes)]


def _fig6() -> Sequence[Panel]:
    solo = gpu_type("a100-inss").model(PIVOT).profiled("a100-inss")
    styles = list(zip(BATCHES, shades(len(BATCHES)), strict=True))
    shares_pct = np.arange(10.0, 101.0)
    curves = [
        Curve(f"batch {batch}", shares_pct, regressed_ms(solo, np.array(float(batch)), shares_pct), style.unmarked)
        for batch, style in styles
    ]
    curves += [
        Curve("profiled", solo.share_pct, solo.times_ms[solo.batch.index(batch)], {**style.hollow, "marker": "o"})
        for batch, style in styles
    ]
    return [Panel("", curves, {"xlabel": "Share (%)", "ylabel": "GPU running time (ms)"})]


def _fig7() -> Sequence[Panel]:
    styles = dict(zip(PROFILED, SERIES, strict=False))
    l2_curves: list[Curve] = []
    dram_curves: list[Curve] = []
    for model, style in styles.items():
        solo = gpu_type("a100").model(model).profiled("a100")
        samples = _samples(model)
        throughput_rps = np.array([0.0, 1000.0 * solo.batch[-1] / solo.gpu_ms[-1][-1]])
        for curves, (slope, intercept) in ((l2_curves, solo.l2), (dram_curves, solo.dram)):
            curves.append(Curve(model, throughput_rps, slope * throughput_rps + intercept, style.unmarked))
        if samples:
            name, measured_rps = f"{model}, measured", solo_rps(model, samples)
            l2_curves.append(Curve(name, measured_rps, [sample.l2_pct for sample in samples], style.hollow))
            dram_curves.append(Curve(name, measured_rps, [sample.dram_pct for sample in samples], style.hollow))
    axes = {"xlabel": "Batch over GPU time alone (req/s)"}
    return [
        Panel("", l2_curves, {**axes, "ylabel": "L2 utilisation (%)"}),
        Panel("", dram_curves, {**axes, "ylabel": "DRAM utilisation (%)"}),
    ]


def _gpu_time_changes(_: Runs) -> Values:
    """Return two ratios of ResNet50's GPU times: 10 % of a GPU over all of it, and batches of 32 over batches of 1."""
    solo = gpu_type("a100-inss").model(PIVOT).profiled("a100-inss")
    small, large = np.array([float(BATCHES[0])]), np.array([float(BATCHES[-1])])
    times_ms = {
        (batch, share): float(regressed_ms(solo, batches, np.array([share]))[0])
        for batch, batches in (("small", small), ("large", large))
        for share in (10.0, PIVOT_SHARE_PCT, 100.0)
    }
    of_share = times_ms["large", 10.0] / times_ms["large", 100.0]
    return of_share, times_ms["large", PIVOT_SHARE_PCT] / times_ms["small", PIVOT_SHARE_PCT]


def _beyond_knee(_: Runs) -> Values:
    """Return the change of ResNet-50's time in percent: from 30 to 60 % of the GPU, and from 60 to 100 %."""
    times_ms = dict(zip(SHARES_PCT, alone_ms("resnet50", BATCH), strict=True))
    return 100.0 * (times_ms[60.0] / times_ms[30.0] - 1.0), 100.0 * (times_ms[100.0] / times_ms[60.0] - 1.0)


def _growths(_: Runs) -> Values:
    return min(float(growth_pct(neighbours).min()) for neighbours in NEIGHBOURS), largest_growth_pct()


def _changes_of_growth(_: Runs) -> Values:
    """Return the largest ratios of two growths: by batch, by a neighbour's share, and by the number of neighbours."""
    growths = {neighbours: growth_pct(neighbours) for neighbours in NEIGHBOURS}
    of_batch = max(float(growth.max() / growth.min()) for growth in growths.values())
    of_share = max(float((growths[f"{model} 60 %"] / growths[f"{model} 30 %"]).max()) for model in ("alexnet", "vgg16"))
    of_number = max(
        float((growths["both, 30 % each"] / growths[f"{model} 30 %"]).max()) for model in ("alexnet", "vgg16")
    )
    return of_batch, of_share, of_number


def _unexplained(_: Runs) -> Values:
    """Return the smallest and the largest unexplained variance of the linear fits of demands, in percent."""
    if not measured_solo("a100"):
        raise MissingDataError("no measurements")
    unexplained_pct = [100.0 * fraction for model in PROFILED for fraction in unexplained(model)]
    return min(unexplained_pct), max(unexplained_pct)


FIG1 = Figure(
    name="inss-fig1",
    title="Latency and throughput by the share of the GPU",
    paper="InSS, Fig. 1",
    shows="Both depend on the share, not in proportion to it; ResNet50, in batches of eight, gains little beyond 60 %.",
    look_for="ResNet50 gains almost nothing beyond 60 %. The small networks are flat from 30 % on: kernel launches "
    "bound a batch of eight. The times have the shape of another GPU's, pinned to points of the paper's tables.",
    draws=partial(draw_panels, panels=_fig1),
    claims=(
        *(
            Claim(
                what=f"Table 1: time of {mechanism} to allocate, to reallocate, and to load and warm a model",
                paper=printed,
                ours=lambda _: ("not measured",),
                not_comparable="the driver and the start of a process on a GPU take these times; no model here "
                "predicts them",
                note=note,
            )
            for mechanism, printed, note in (
                ("MPS", "1.909 ms, 1.909 ms, 2,616.495 ms", "inputs of Fig. 11"),
                ("MIG", "334.236 ms, 505.176 ms, 2,965.799 ms", ""),
            )
        ),
        Claim(
            what="Sec. 5.5: lines of C++ of the prototype, and of Python of the scheduler",
            paper="over 20k; over 1k",
            ours=not_modelled,
            not_comparable=NO_PROTOTYPE,
        ),
        Claim(
            what="Fig. 1: change of ResNet50's inference time from 30 to 60 % of the GPU, and from 60 to 100 %",
            paper="little gain beyond 60 %",
            ours=_beyond_knee,
            form="{:+.0f} %, {:+.1f} %",
            supports=lambda before, beyond: before <= -10.0 and abs(beyond) <= 5.0,
            criterion="at least a tenth less, then a change of at most 5 %",
            note="our times are calibrated to other points of the paper",
        ),
    ),
)

FIG2 = Figure(
    name="inss-fig2",
    title="Slowdown of ResNet50 beside other models",
    paper="InSS, Fig. 2",
    shows="At 40 % of the GPU, beside AlexNet and VGG16 in batches of eight, latencies grow by up to 22.7 %, depending "
    "on the batch, on the neighbours' shares and on their number.",
    look_for="The order of the neighbours: VGG16 slows ResNet50 down more than AlexNet does, and more on 60 % than on "
    "30 %. Growths are less than half of the paper's, and hardly depend on the batch: they are fitted to pairs on "
    "another A100.",
    draws=partial(draw_panels, panels=_fig2),
    claims=(
        Claim(
            what="Fig. 2: growth of ResNet-50's time beside others, least and most",
            paper=f"up to {PRINTED_GROWTH_PCT} %",
            ours=_growths,
            form="{:.1f} %, {:.1f} %",
            supports=lambda _, largest: abs(largest - PRINTED_GROWTH_PCT) <= 2.0,
            criterion="the most within 2 points",
            reason="our growths are fitted to measurements of another A100",
        ),
        Claim(
            what="– largest ratio of two growths: by the batch, by a neighbour's share, by the number of neighbours",
            paper="each has a significant impact",
            ours=_changes_of_growth,
            form="{:.2f}, {:.2f}, {:.2f} times",
            supports=lambda *ratios: min(ratios) >= 1.5,
            criterion="each at least one and a half times",
            reason="in InSS's formula a growth does not depend on the batch of the model that is slowed down, but for "
            "the transfers, which do not grow",
        ),
    ),
)

FIG6 = Figure(
    name="inss-fig6",
    title="GPU running time of ResNet50 by batch and share",
    paper="InSS, Fig. 6",
    shows="The running time falls with the share and rises fast with the batch, in no simple form. The paper uses a "
    "local regression.",
    look_for="Lines are the local regression, hollow marks the profiled grid of the catalogue.",
    draws=partial(draw_panels, panels=_fig6),
    claims=(
        Claim(
            what="Fig. 6: ResNet50's GPU time on 10 % of a GPU over that on all of it (batch 32), and in batches of 32 "
            "over that of 1 (40 %)",
            paper="falls with the resources, notable escalation with the batch",
            ours=_gpu_time_changes,
            form="{:.1f} times, {:.1f} times",
            supports=lambda of_share, of_batch: min(of_share, of_batch) > 2.0,
            criterion="each more than doubled",
            note="our times are calibrated to other points of the paper",
        ),
    ),
)

FIG7 = Figure(
    name="inss-fig7",
    title="L2 and DRAM utilisation by throughput",
    paper="InSS, Fig. 7",
    shows="Both are linear in the throughput that a model reaches alone; measured points are on the lines.",
    look_for="Hollow marks are measured on another A100. On the whole GPU, most of them lie above the lines, at the "
    "smallest share below. The lines leave 9 to 16 % of the variance unexplained: the fit is worse than the paper's.",
    draws=partial(draw_panels, panels=_fig7, notes=lambda: missing_note("a100")),
    claims=(
        Claim(
            what="Fig. 7: variance of L2 and DRAM utilisation that a linear fit over the batch divided by the GPU time "
            "does not explain",
            paper="excellent linear fits",
            ours=_unexplained,
            form="{:.0f} to {:.0f} %",
            supports=lambda _, largest: largest <= 5.0,
            criterion="at most 5 %",
            reason="our measurements are of another A100, where both also depend on the share: at the largest share "
            "most are above the line, at the smallest below",
        ),
    ),
)

FIGURES = (FIG1, FIG2, FIG6, FIG7)
