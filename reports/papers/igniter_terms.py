"""iGniter, Fig. 13 and Sec. 3.1, 5.2 and 5.4: terms of its predictions on a V100, and the profile behind them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from bench.ledger.row import Row
from heuristics.igniter.gslice_plus import GslicePlus
from instances.catalogue import gpu_type
from instances.measurements import Configuration
from instances.performance import performance_model
from instances.performance.model import transfers_ms
from instances.performance.validation import latencies_ms
from reports.charts.page import COLUMN_IN, Page, page
from reports.charts.predictions import draw_colocated
from reports.claim import NO_PROTOTYPE, NOTHING_PUBLISHED, TAKEN_FROM_PAPER, Claim, Values, not_modelled, query
from reports.figure import Figure
from reports.measured import light_profile, measured_pairs
from reports.papers.igniter_model import (
    MODEL,
    PAIR_SHARES_PCT,
    SMALL_PAIR,
    SMALL_PAIR_PRINTED_BATCHES,
    SMALL_PAIR_SHARE_PCT,
    active_ms,
)
from reports.papers.igniter_plans import AS_MEASURED
from reports.runs import MissingDataError, Runs

FOUR = ("alexnet", "resnet50", "vgg19", "ssd")
FOUR_BATCH, FOUR_SHARE_PCT = 3, 25.0
"""Batch and share of each of the four models in Fig. 13."""

FOUR_FREQUENCY_MHZ = 1515.0
"""Frequency of the V100 that the paper's model predicts for the four models (Sec. 5.2)."""

_FOUR_HEIGHT_IN = 2.6
_FOUR_NOTES = ["Only the paper measures four co-located models; its errors are 1.53 to 5.02 % for iGniter."]


def four_together() -> list[tuple[Configuration, ...]]:
    """Return the group of the four models of Fig. 13 four times, each time with another model first."""
    configurations = [Configuration(model, FOUR_BATCH, FOUR_SHARE_PCT) for model in FOUR]
    return [(first, *(other for other in configurations if other != first)) for first in configurations]


@dataclass(frozen=True, slots=True)
class Vgg19Terms:
    """Terms of equation 4 for VGG-19 beside others: times in ms, frequency in MHz, and power in watts.

    ``active_alone_ms`` lacks the L2 term of equation 8; ``power_w`` is the demand of equation 10.
    """

    scheduling_ms: float
    active_ms: float
    active_alone_ms: float
    frequency_mhz: float
    power_w: float


def vgg19_terms(share_pct: float, others: Sequence[Configuration], batch: int = FOUR_BATCH) -> Vgg19Terms:
    """Return the terms of VGG-19 beside ``others``, by default at the batch of Fig. 13 (equations 5 to 10)."""
    gpu, model = gpu_type("v100"), performance_model("igniter")
    group = [Configuration("vgg19", batch, share_pct), *others]
    demands = [
        model.demand(gpu, gpu.model(member.model), np.array([float(member.batch)]), np.array([member.share_pct]))
        for member in group
    ]
    vgg19, contention, hardware = gpu.model("vgg19"), model.contention(gpu), gpu.hardware
    added_ms = vgg19.kernels * (contention.alpha_sch * len(group) + contention.beta_sch)
    l2_pct = sum(float(demand.l2_pct[0]) for demand in demands[1:])
    power_w = hardware.idle_power_w + sum(float(demand.power_w[0]) for demand in demands)
    return Vgg19Terms(
        vgg19.scheduling_alone_ms + added_ms,
        float(demands[0].active_ms[0]) * (1.0 + vgg19.alpha_cache * l2_pct),
        float(demands[0].active_ms[0]),
        hardware.max_frequency_mhz + hardware.alpha_f * max(0.0, power_w - hardware.max_power_w),
        power_w,
    )


@query
def _beside_one_and_three(_: Runs, term: str) -> Values:
    """Return a term of VGG-19 beside SSD (Fig. 11, 20 %), and beside all three others (Fig. 13, 25 %)."""
    others = [Configuration(model, FOUR_BATCH, FOUR_SHARE_PCT) for model in FOUR if model != "vgg19"]
    beside_ssd = vgg19_terms(20.0, [Configuration("ssd", FOUR_BATCH, 80.0)])
    return getattr(beside_ssd, term), getattr(vgg19_terms(FOUR_SHARE_PCT, others), term)


def _power_above_cap(runs: Runs) -> Values:
    """Return the power above the cap beside three others, in watts: by the printed frequency, and by equation 10."""
    hardware = gpu_type("v100").hardware
    _, demand_w = _beside_one_and_three("power_w")(runs)
    return (FOUR_FREQUENCY_MHZ - hardware.max_frequency_mhz) / hardware.alpha_f, demand_w - hardware.max_power_w


def to_printed_digits(paper: Sequence[float], last_digit: float) -> Callable[..., bool]:
    """Return a function for ``Claim.supports``: each of our numbers rounds to the printed one."""
    return lambda *ours: all(abs(our - printed) <= last_digit / 2.0 for our, printed in zip(ours, paper, strict=True))


def transfer_part_pct(configuration: Configuration, other: Configuration) -> float:
    """Return the part of equation 3 in the predicted latency of a model beside another, in percent."""
    gpu = gpu_type("v100")
    parts_ms = transfers_ms(gpu, gpu.model(configuration.model), np.array([float(configuration.batch)]))
    (latency_ms, *_others) = latencies_ms(gpu, "igniter", [[configuration, other]])[0]
    return 100.0 * float(sum(part[0] for part in parts_ms)) / float(latency_ms)


def _transfer_parts(_: Runs) -> Values:
    """Return the extremes of the transfers' part, in percent: of AlexNet, and of the others in Fig. 11 and 12."""
    alexnet, others = [], []
    for batch in SMALL_PAIR_PRINTED_BATCHES:
        pair = [Configuration(model, batch, SMALL_PAIR_SHARE_PCT) for model in SMALL_PAIR]
        alexnet.append(transfer_part_pct(*pair))
        others.append(transfer_part_pct(*reversed(pair)))
    for share_pct in PAIR_SHARES_PCT:
        pair = [Configuration("vgg19", FOUR_BATCH, share_pct), Configuration("ssd", FOUR_BATCH, 100.0 - share_pct)]
        others += [transfer_part_pct(*pair), transfer_part_pct(*reversed(pair))]
    return min(alexnet), max(alexnet), min(others), max(others)


def _active_of_a_kernel(_: Runs) -> Values:
    """Return the active time of ResNet-50 per kernel in ms, for batch 1 at the share of Fig. 12."""
    kernels = gpu_type("v100").model(MODEL).kernels
    return (float(active_ms(1, np.array([SMALL_PAIR_SHARE_PCT]))[0]) / kernels,)


def _all_configurations(_: Runs) -> Values:
    """Return the number of shares, of batches, and of configurations of a model on a V100."""
    gpu = gpu_type("v100")
    batches = gpu.model(MODEL).max_batch
    return gpu.share_units, batches, gpu.share_units * batches


@query
def _lowest_frequency_beside_ssd(_: Runs, batches: Sequence[int]) -> Values:
    """Return the lowest frequency in MHz over the shares of Fig. 11 and over batches of both models."""
    return (
        min(
            vgg19_terms(share_pct, [Configuration("ssd", batch, 100.0 - share_pct)], batch).frequency_mhz
            for share_pct in PAIR_SHARES_PCT
            for batch in batches
        ),
    )


def _profiled_configurations(_: Runs) -> Values:
    """Return the number of configurations of a model in the light profile."""
    profile = light_profile()
    if not profile:
        raise MissingDataError("no measurements")
    return (int(np.size(profile["models"][MODEL]["gpu_latency_ms[batch][share]"])),)


_WORKLOAD_COEFFICIENTS = {
    *("input_bytes", "output_bytes", "kernels", "scheduling_alone_ms"),
    *("k", "power", "l2", "alpha_cache"),
}
"""Fields of a model with the workload-specific coefficients of Sec. 3.1: measured once, and fitted."""


def _coefficient_counts(_: Runs) -> Values:
    """Return the numbers of workload-specific and of hardware-specific coefficients of the catalogue."""
    gpu = gpu_type("v100")
    of_model = {field.name for field in fields(gpu.model(MODEL))}
    return len(of_model & _WORKLOAD_COEFFICIENTS), len(fields(gpu.hardware))


def _samples_of_gpu_lets(_: Runs) -> Values:
    """Return the number of measured latencies of co-located pairs to which gpulet's model is fitted."""
    samples = measured_pairs("v100")
    if not samples:
        raise MissingDataError("no measurements")
    return (len(samples),)


def _setup(_: Runs) -> Values:
    """Return the runs of an experiment, its seconds, the tuning threshold in percent, and the adjustments of shares."""
    gslice = GslicePlus()
    return 1, AS_MEASURED.seconds, 100.0 * gslice.band, gslice.rounds


PROFILING = (
    Claim(
        what="Sec. 5.2 and 5.3: runs of an experiment; seconds; tuning threshold and adjustments of gslice+",
        paper="3; 30 s; 10 %, 5",
        ours=_setup,
        form="{}; {:g} s; {:g} %, {}",
        not_comparable="all are inputs; with equal gaps between arrivals, every simulation is the same",
    ),
    Claim(
        what="Sec. 5: lines of code of the prototype",
        paper="over 1,000 of Python, C++ and shell",
        ours=not_modelled,
        not_comparable=NO_PROTOTYPE,
    ),
    Claim(
        what="Fig. 11: lowest frequency of VGG-19 beside SSD",
        paper=(1440,),
        ours=_lowest_frequency_beside_ssd((FOUR_BATCH,)),
        form="{:,.0f} MHz",
        supports=to_printed_digits((1440.0,), 1.0),
        criterion="to the printed digits",
        reason="cause not found; by equation 9 with the printed coefficients no batch slows the GPU as much (next "
        "line)",
    ),
    Claim(
        what="– lowest frequency at any batch",
        paper=NOTHING_PUBLISHED,
        ours=_lowest_frequency_beside_ssd(range(1, gpu_type("v100").model("vgg19").max_batch + 1)),
        form="{:,.0f} MHz",
    ),
    Claim(
        what="Sec. 3.1: profiled configurations of a model",
        paper=(11,),
        ours=_profiled_configurations,
        reason="the authors' published profile has these; it does not state the other two",
    ),
    Claim(
        what="Sec. 3.1: coefficients of a workload and of the hardware",
        paper=(8, 7),
        ours=_coefficient_counts,
        form="{}, {}",
        not_comparable=TAKEN_FROM_PAPER,
        note="counted as in print: fits of the active time, the power and the L2 utilisation are one coefficient each",
    ),
    Claim(
        what="Sec. 3.2: unit of a share on the V100, around 2 SMs",
        paper=(2.5,),
        ours=lambda _: (gpu_type("v100").share_pct(1),),
        form="{:g} %",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="Sec. 3.1 and 4.1: choices of a share and of a batch, and all configurations of a model",
        paper=(40, 32, 1280),
        ours=_all_configurations,
        form="{}, {}, {:,}",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="Sec. 5.2: part of the transfers in the latency of AlexNet and of the other models",
        paper=(7, 20, 1, 7),
        ours=_transfer_parts,
        form="{:.0f}–{:.0f} %, {:.0f}–{:.0f} %",
        supports=to_printed_digits((7.0, 20.0, 1.0, 7.0), 1.0),
        criterion="to the printed digits",
        reason="cause not found; ours is equation 3 with the printed bandwidth over predicted latencies, for the "
        "batches and shares of Fig. 11 and Fig. 12",
    ),
    Claim(
        what="Sec. 5.2: mean active time of a kernel of ResNet-50, batch 1",
        paper=(0.04,),
        ours=_active_of_a_kernel,
        form="{:.2f} ms",
        supports=to_printed_digits((0.04,), 0.01),
        criterion="to the printed digits",
        note="read as the time of a kernel: a whole batch takes milliseconds",
    ),
    Claim(
        what="Sec. 1 and 6: profiled configurations of the regression of gpu-lets",
        paper="thousands",
        ours=_samples_of_gpu_lets,
        form="{} latencies of co-located pairs",
        not_comparable="nothing is profiled here: it is fitted to the published pairs",
    ),
    Claim(
        what="Sec. 5.4: profiling time of gpu-lets",
        paper="over several hours",
        ours=lambda _: ("not measured",),
        not_comparable="nothing is profiled here: its model is fitted to published pairs",
    ),
    Claim(
        what="Sec. 5.4: profiling time of AlexNet, ResNet-50, VGG-19, SSD and the hardware",
        paper="231, 247, 240, 237, 229 s",
        ours=lambda _: ("not measured",),
        not_comparable="nothing is profiled here: the coefficients are fitted to the authors' published profile",
    ),
)
"""Claims of the text about the profile and its predictions."""


def _draw_four(figure: Figure, rows: Sequence[Row]) -> Page:
    sheet = page(COLUMN_IN, _FOUR_HEIGHT_IN, _FOUR_NOTES)
    ax = sheet.subplots()
    draw_colocated(ax, four_together(), FOUR, ())
    ax.set(title=f"Batch {FOUR_BATCH} at {FOUR_SHARE_PCT:g} % each", ylabel="Latency (ms)")
    ax.legend()
    return sheet


FIG13 = Figure(
    name="igniter-fig13",
    title="Latency of four co-located models",
    paper="iGniter, Fig. 13",
    shows="iGniter predicts the latency of four co-located models with errors of 1.53 to 5.02 %; gpu-lets+ has no "
    "prediction for more than two.",
    look_for="Predictions of the models differ; only the paper's range of errors is known. Its text states an active "
    "time of 22.31 ms for VGG-19. gpulet's growths are those of the three pairs, added up.",
    draws=_draw_four,
    claims=(
        *(
            Claim(
                what=f"Fig. 13, VGG-19 beside SSD, then beside three: {what}",
                paper=paper,
                ours=_beside_one_and_three(term),
                form=form,
                supports=to_printed_digits(paper, last_digit),
                criterion="to the printed digits",
                reason=reason,
            )
            for what, term, paper, last_digit, form, reason in (
                (
                    "active time",
                    "active_ms",
                    (27.54, 22.31),
                    0.01,
                    "{:.2f}, {:.2f} ms",
                    "without the L2 term of equation 8 both are below the print, with it above (a line below)",
                ),
                (
                    "scheduling delay",
                    "scheduling_ms",
                    (0.19, 0.36),
                    0.01,
                    "{:.3f}, {:.3f} ms",
                    "by the printed α_sch and β_sch, a second resident adds hardly anything to a kernel's delay",
                ),
                (
                    "frequency",
                    "frequency_mhz",
                    (1530.0, FOUR_FREQUENCY_MHZ),
                    1.0,
                    "{:,.0f}, {:,.0f} MHz",
                    "the printed frequency means less power above the cap than the published profile gives (a line "
                    "below)",
                ),
            )
        ),
        Claim(
            what="– active time without the L2 term of equation 8",
            paper=NOTHING_PUBLISHED,
            ours=_beside_one_and_three("active_alone_ms"),
            form="{:.2f}, {:.2f} ms",
        ),
        Claim(
            what="– power above the cap beside three: by equation 9 from the printed frequency, and by equation 10",
            paper=NOTHING_PUBLISHED,
            ours=_power_above_cap,
            form="{:.1f}, {:.1f} W",
        ),
    ),
)

FIGURES = (FIG13,)
