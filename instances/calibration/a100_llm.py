"""A100 80 GB with LLaMA 7B and 13B: prefill and decoding passes measured alone by MuxServe, smoothed.

The time of a prefill pass depends on the total tokens of its prompts: passes with equal totals, batch times prompt
length, differ by less than 1.1 % on average. The tables are smoothed so that times rise with tokens, context and batch
and fall with the share. Along each axis, a smoothed time is the mean of two monotone curves: the lowest curve above the
times and the highest curve below them. Larger models are left out, because they were measured only on several GPUs
(tensor parallelism).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from instances.arrays import Floats
from instances.gpu import GpuType, Hardware, LanguageModel, Provenance
from instances.measurements import PassSample, read_passes
from instances.performance.model import segment
from instances.performance.solo_fit import rounded

FOLDER, FILE = "a100-muxserve", "llama.csv"

PARAMETERS_LAYERS_WIDTH = {"llama-7b": (6_738_415_616, 32, 4096), "llama-13b": (13_015_864_320, 40, 5120)}
"""Parameters, layers and width of the published models."""

LARGEST_BATCH = {"llama-7b": 128, "llama-13b": 64}
"""Largest decoding batch that was measured at every context length."""

MOST_PROMPT_TOKENS = {"llama-7b": 32_768, "llama-13b": 16_384}
"""Most prompt tokens of a batch that were measured at every share."""

SHARE_UNITS, LEAST_UNITS = 54, 17
"""Number of units of two SMs, and smallest share: the least whole number of units above the smallest measured share."""

MEMORY_MIB, PRICE_PER_HOUR, PCIE_BYTES_PER_MS = 81_920.0, 4.1, 2.5e7

SOURCE = (
    "prefill and decoding passes of LLaMA at tensor parallel 1 published with MuxServe (hao-ai-lab/MuxServe), A100"
    " 80 GB; no interference and no memory measured; parameters and layers of the published models"
)


def a100_llm(measurements: Path) -> GpuType:
    """Return the GPU type from measurements in ``a100-muxserve``.

    The residuals include the errors of tables that are made without some measurements, at these measurements.

    Raises
    ------
    InputError
        If the file is missing or a line is wrong.
    """
    samples = [
        sample for sample in read_passes(measurements / FOLDER / FILE) if sample.model in PARAMETERS_LAYERS_WIDTH
    ]
    by_model = {name: [sample for sample in samples if sample.model == name] for name in PARAMETERS_LAYERS_WIDTH}
    models = {name: _fitted(name, model_samples) for name, model_samples in by_model.items()}
    return GpuType(
        "a100-llm",
        SHARE_UNITS,
        MEMORY_MIB,
        PRICE_PER_HOUR,
        Hardware(PCIE_BYTES_PER_MS),
        {},
        Provenance("fitted", SOURCE, {**by_level_left_out(by_model), **by_size_left_out(by_model, models)}),
        allowed_shares=tuple(range(LEAST_UNITS, SHARE_UNITS + 1)),
        language_models=models,
    )


def by_level_left_out(by_model: Mapping[str, Sequence[PassSample]]) -> dict[str, float]:
    """Return, by share level, the mean relative error at that level of tables that are made without it.

    The mean is over all models and phases.
    """
    shares = sorted({sample.share_pct for samples in by_model.values() for sample in samples})
    residual = {}
    for level in shares[1:-1]:
        errors = []
        for name, samples in by_model.items():
            model = _smoothed(name, [sample for sample in samples if sample.share_pct != level])
            errors.append(_errors(model, [sample for sample in samples if sample.share_pct == level]))
        residual[f"sm_{level:g}_left_out_rel_mean"] = float(np.concatenate(errors).mean())
    return residual


def by_size_left_out(
    by_model: Mapping[str, Sequence[PassSample]], models: Mapping[str, LanguageModel]
) -> dict[str, float]:
    """Return, by model and phase, the mean relative error of the times predicted from the other model's table.

    These times are the other model's times the ratio of the two numbers of parameters.
    """
    residual = {}
    for name, samples in by_model.items():
        (other,) = (model for model in models.values() if model.name != name)
        scale = models[name].parameters / other.parameters
        for phase in ("prefill", "decoding"):
            scaled_samples = [
                replace(sample, latency_ms=sample.latency_ms / scale) for sample in samples if sample.phase == phase
            ]
            residual[f"{name}_left_out_{phase}_rel_mean"] = float(_errors(other, scaled_samples).mean())
    return residual


def _fitted(name: str, samples: Sequence[PassSample]) -> LanguageModel:
    model = _smoothed(name, samples)
    residual: dict[str, float] = {}
    for phase in ("prefill", "decoding"):
        errors = _errors(model, [sample for sample in samples if sample.phase == phase])
        residual |= {f"{phase}_rel_mean": float(errors.mean()), f"{phase}_rel_max": float(errors.max())}
    return replace(model, provenance=Provenance("fitted", SOURCE, residual))


def _smoothed(name: str, samples: Sequence[PassSample]) -> LanguageModel:
    """Return smoothed tables; a prefill time is the geometric mean of the passes with the same tokens and share."""
    shares = tuple(sorted({sample.share_pct for sample in samples}))
    contexts = tuple(sorted({sample.length for sample in samples}))
    batches = tuple(sorted({sample.batch for sample in samples if sample.batch <= LARGEST_BATCH[name]}))
    prefill = defaultdict[tuple[int, float], list[float]](list)
    decode: dict[tuple[int, int, float], float] = {}
    for sample in samples:
        if sample.phase == "prefill":
            prefill[sample.batch * sample.length, sample.share_pct].append(np.log(sample.latency_ms))
        else:
            decode[sample.length, sample.batch, sample.share_pct] = sample.latency_ms
    tokens = tuple(sorted({total for total, _ in prefill if total <= MOST_PROMPT_TOKENS[name]}))
    prefill_ms = np.array([[np.exp(np.mean(prefill[total, share])) for share in shares] for total in tokens])
    decode_ms = np.array(
        [[[decode[context, batch, share] for share in shares] for batch in batches] for context in contexts]
    )
    return LanguageModel(
        name,
        *PARAMETERS_LAYERS_WIDTH[name],
        shares,
        tokens,
        rounded(_monotone(prefill_ms)),
        contexts,
        batches,
        tuple(rounded(rows) for rows in _monotone(decode_ms)),
        Provenance("fitted", SOURCE),
    )


def _monotone(times_ms: Floats) -> Floats:
    """Return smoothed times, which fall with the share (last axis) and rise along the other axes."""
    smoothed_ms = times_ms[..., ::-1]
    for axis in range(smoothed_ms.ndim):
        highest_below_ms = np.flip(np.minimum.accumulate(np.flip(smoothed_ms, axis), axis=axis), axis)
        smoothed_ms = (np.maximum.accumulate(smoothed_ms, axis=axis) + highest_below_ms) / 2.0
    return smoothed_ms[..., ::-1]


def _errors(model: LanguageModel, samples: Sequence[PassSample]) -> Floats:
    """Return the relative errors at the samples that lie on the model's grids."""
    return np.array(list(_each_error(model, samples)))


def _each_error(model: LanguageModel, samples: Sequence[PassSample]) -> Iterator[float]:
    """Yield the errors of ``_errors``; between two shares of the grid, times are linear in the inverse share."""
    inverse = -1.0 / np.array(model.share_pct)  # negative, so that it ascends
    for sample in samples:
        if sample.phase == "prefill" and sample.batch * sample.length in model.prompt_tokens:
            row = model.prefill_ms[model.prompt_tokens.index(sample.batch * sample.length)]
        elif sample.phase == "decoding" and sample.batch in model.batch:
            row = model.decode_ms[model.context_tokens.index(sample.length)][model.batch.index(sample.batch)]
        else:
            continue
        position, fraction = segment(inverse, np.array(-1.0 / sample.share_pct))
        predicted = row[int(position)] + float(fraction) * (row[int(position) + 1] - row[int(position)])
        yield abs(predicted / sample.latency_ms - 1.0)
