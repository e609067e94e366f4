"""Overheads of co-located pairs of models (gpulet ATC'22, Fig. 7; arXiv'21, Fig. 6): predicted and measured."""

from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.gpu import required
from instances.measurements import Configuration, PairSample
from instances.performance.gpulet import tabulated_ms
from instances.performance.model import batching_ms, transfers_ms
from instances.performance.validation import latencies_ms

PAIRED_MODELS = ("googlenet", "lenet", "resnet50", "ssd-mobilenet", "vgg16")
PAIRED_BATCHES = (2, 4, 8, 16, 32)
PAIRED_SHARES_PCT = (20.0, 40.0, 50.0, 60.0, 80.0)
"""Models, batches, and shares of one model of the pairs in Fig. 7; the other model has the remaining share."""


def _pairs() -> list[tuple[Configuration, Configuration]]:
    """Return 10 pairs of models, with 25 pairs of batches and 5 of shares each (Sec. 3.4)."""
    return [
        (Configuration(model, batch, share_pct), Configuration(other_model, other_batch, 100.0 - share_pct))
        for (model, other_model), batch, other_batch, share_pct in product(
            combinations(PAIRED_MODELS, 2), PAIRED_BATCHES, PAIRED_BATCHES, PAIRED_SHARES_PCT
        )
    ]


def predicted_overheads() -> Floats:
    """Return the overheads that gpulet's model predicts on the RTX 2080 Ti, one for each member of each pair."""
    gpu, groups = gpu_type("rtx2080ti"), _pairs()
    solo_ms = latencies_ms(gpu, "gpulet", [[configuration] for group in groups for configuration in group])
    together_ms = latencies_ms(gpu, "gpulet", groups)
    return np.concatenate(together_ms) / np.concatenate(solo_ms) - 1.0


class _Alone(NamedTuple):
    """Latency of a configuration alone, the part of it on the GPU, and its utilisations as fractions."""

    latency_ms: float
    gpu_ms: float
    l2: float
    dram: float


@cache
def overheads_by_equation(gpu_name: str = "rtx2080ti", *, batching: bool = True, proportional: bool = True) -> Floats:
    """Return the overheads of the pairs by the equation of Sec. 4.4, under other readings of its inputs.

    Parameters
    ----------
    gpu_name
        GPU type of the ATC or of the arXiv version.
    batching
        Whether the latency contains the time to assemble the batch, which no neighbour slows.
    proportional
        Whether a utilisation is in proportion to the share; otherwise it is that of the full GPU on every share.
    """
    gpu = gpu_type(gpu_name)
    pair = required(gpu.pair, gpu.name, "pair factor")

    @cache
    def alone(configuration: Configuration) -> _Alone:
        model, batch = gpu.model(configuration.model), np.array(float(configuration.batch))
        solo = model.profiled(gpu.name)
        gpu_ms = float(tabulated_ms(solo, batch, np.array(configuration.share_pct)))
        upload_ms, feedback_ms = transfers_ms(gpu, model, batch)
        left_out_ms = 0.0 if batching else float(batching_ms(model, batch))
        latency_ms = gpu_ms + float(upload_ms) + float(feedback_ms) - left_out_ms
        part = configuration.share_pct / 100.0 if proportional else 1.0
        l2, dram = (
            float(np.interp(batch, solo.batch, full_pct)) * part / 100.0 for full_pct in (solo.l2_pct, solo.dram_pct)
        )
        return _Alone(latency_ms, gpu_ms, l2, dram)

    overheads = []
    for first, second in _pairs():
        for own, other in ((alone(first), alone(second)), (alone(second), alone(first))):
            # ATC'22, Sec. 4.4: interference_factor
            factor = (
                pair.l2_own * own.l2
                + pair.l2_other * other.l2
                + pair.dram_own * own.dram
                + pair.dram_other * other.dram
                + pair.constant
            )
            overheads.append(max(0.0, factor - 1.0) * own.gpu_ms / own.latency_ms)
    return np.array(overheads)


def measured_overheads(gpu: str, samples: Sequence[PairSample]) -> Floats:
    """Return the overheads of measured pairs over the catalogue's solo times; a negative overhead counts as 0."""
    solo_ms = np.concatenate(latencies_ms(gpu_type(gpu), "hybrid", [[sample.own] for sample in samples]))
    return np.maximum(0.0, np.array([sample.latency_ms for sample in samples]) / solo_ms - 1.0)
