"""Interference buffer: an assumed slowdown in place of unmeasured interference."""

from dataclasses import replace

from instances.errors import FieldName, InputError
from instances.gpu import Company, DnnModel, GpuType, PairFactor

P95_SLOWDOWN = 1.814
"""P95 of the ratio of a latency beside another model to the latency alone, over all measured pairs of the catalogue."""

MEDIAN_SLOWDOWN = 1.313
"""Median of the same ratios on the A100, the largest median of a GPU type of the catalogue."""


def with_buffer(gpu: GpuType, slowdown: float) -> GpuType:
    """Return a GPU type on which every neighbour adds ``slowdown - 1`` times a model's time alone.

    Every model gets a demand of 100 %, and a growth of ``slowdown - 1`` per 100 % of its neighbours' demand. All
    performance models then predict the same growth, and no measured interference remains.

    Raises
    ------
    InputError
        If ``slowdown`` is not from 1 to 10.
    """
    if not 1.0 <= slowdown <= 10.0:
        raise InputError(FieldName("slowdown"), f"{slowdown:g}; expected a slowdown by one neighbour from 1 to 10")
    growth = slowdown - 1.0
    models = {name: _buffered(model, growth) for name, model in gpu.models.items()}
    assumed = f"; interference assumed, not measured: every neighbour adds {100.0 * growth:.0f} %"
    origin = replace(gpu.provenance, source=gpu.provenance.source + assumed)
    return replace(gpu, models=models, pair=PairFactor(0.0, 0.0, 0.0, 0.0, slowdown), provenance=origin)


def _buffered(model: DnnModel, growth: float) -> DnnModel:
    solo = model.solo
    if solo is not None:
        full, zero = (100.0,) * len(solo.batch), (0.0,) * len(solo.batch)
        solo = replace(solo, l2=(0.0, 100.0), dram=(0.0, 0.0), l2_pct=full, dram_pct=zero)
    return replace(
        model,
        l2=(0.0, 100.0),
        alpha_cache=growth / 100.0,
        inss=(growth / 100.0, 0.0),
        company=None if solo is None else Company(solo.gpu_ms, growth / 100.0, 0.0),
        solo=solo,
    )
