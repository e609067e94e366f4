"""Fit of a GPU type to measurements: solo models, pairs of models and, if there is one, iGniter's light profile."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from instances.arrays import Floats
from instances.errors import InputError
from instances.files.light_profile import LightProfile
from instances.gpu import DnnModel, GpuType, Hardware, Provenance
from instances.measurements import Configuration, PairSample, SoloSample, by_model
from instances.memory import (
    MEMORY_ASSUMED,
    MEMORY_CALIBRATED,
    MEMORY_MEASURED,
    is_listed,
    most_memory_mib,
    request_bytes,
)
from instances.performance import interference_model_names, performance_model
from instances.performance.company_fit import FEWEST_SAMPLES, PairFigures, fit_company, fit_inss, fit_pair_factor
from instances.performance.igniter_fit import fit_profile, model_of_times
from instances.performance.solo_fit import SoloFit, fit_solo
from instances.performance.validation import Errors, check_known, validate


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """Properties of a GPU type that measurements of latencies do not contain."""

    name: str
    share_units: int
    memory_mib: float
    price_per_hour: float
    pcie_bytes_per_ms: float


@dataclass(frozen=True, slots=True)
class ProfileFit:
    """A fitted GPU type and its residuals.

    Attributes
    ----------
    solo, samples
        Relative errors of the solo profile of each model, one per sample, and the samples.
    pairs
        In-sample errors on the pairs, by performance model.
    """

    gpu: GpuType
    solo: dict[str, Floats]
    samples: dict[str, list[SoloSample]]
    pairs: dict[str, Errors]


def fit_measurements(
    facts: GpuFacts,
    source: str,
    solo: Sequence[SoloSample],
    pairs: Sequence[PairSample],
    light: LightProfile | None = None,
) -> ProfileFit:
    """Fit every performance model to measurements of one GPU type.

    iGniter's coefficients come from its light profile if there is one. Otherwise active time and L2 demand are fitted
    to the solo samples, and ``alpha_cache`` to the pairs. Power, throttling and delay per kernel are then unknown and
    set to 0.

    Parameters
    ----------
    source
        Origin of the measurements, for the provenance.
    solo, pairs
        The samples; without pairs no interference is fitted.
    light
        A light profile, or ``None``.

    Raises
    ------
    InputError
        If samples are missing or contradict each other.
    """
    samples_of = by_model(solo)
    base = (
        replace(
            fit_profile(light, source, facts.memory_mib, facts.price_per_hour),
            name=facts.name,
            share_units=facts.share_units,
        )
        if light is not None
        else _without_models(facts, source)
    )
    fits, models = {}, {}
    for name, samples in samples_of.items():
        model = base.models.get(name) or _from_solo(name, samples, facts, source)
        per_item_ms = (model.input_bytes + model.output_bytes) / base.hardware.pcie_bytes_per_ms
        fits[name] = fit_solo(name, samples, per_item_ms)
        models[name] = _with_solo(model, fits[name])
    gpu = replace(base, models=models)
    errors: dict[str, Errors] = {}
    if pairs:
        check_known(gpu, [configuration for sample in pairs for configuration in (sample.own, sample.other)], "pairs")
        gpu = fit_interference(gpu, pairs, light)
        errors = {name: validate(gpu, name, pairs) for name in interference_model_names()}
        residual = {
            f"{name}_pairs_rel_{quantity}": of_model.summary[quantity]
            for name, of_model in errors.items()
            for quantity in ("mean", "p95")
        }
        residual["gpulet_pairs_unexplained"] = 1.0 - fit_pair_factor(gpu, pairs)[1]
        provenance = replace(gpu.provenance, residual={**gpu.provenance.residual, **residual})
        gpu = replace(gpu, provenance=provenance)
    return ProfileFit(gpu, {name: fit.error for name, fit in fits.items()}, samples_of, errors)


def fit_interference(gpu: GpuType, samples: Sequence[PairSample], light: LightProfile | None) -> GpuType:
    """Fit the interference of all performance models to measured pairs; iGniter's only if there is no light profile."""
    return fit_pairs(gpu if light is not None else _with_alpha_cache(gpu, samples), samples)


def fit_pairs(gpu: GpuType, samples: Sequence[PairSample]) -> GpuType:
    """Fit the interference of all models but iGniter's to measured pairs, on a GPU type with solo profiles."""
    inss, (pair, _), company = fit_inss(gpu, samples), fit_pair_factor(gpu, samples), fit_company(gpu, samples)
    models = {name: replace(model, inss=inss[name], company=company.get(name)) for name, model in gpu.models.items()}
    return replace(gpu, models=models, pair=pair)


FOLDS = 10
"""Number of parts into which the key ``rows`` of ``HELD_OUT`` divides the samples."""

HELD_OUT: Mapping[str, Callable[[int, PairSample], Hashable]] = {
    "rows": lambda row, _: row % FOLDS,
    "pair": lambda _, sample: sample.pair,
    "batch": lambda _, sample: sample.own.batch,
    "neighbour-batch": lambda _, sample: sample.other.batch,
}
"""Functions of a row and its sample that return the sample's part. The parts are held out in turn: every tenth row, or
all rows of a pair of models, of a batch or of a neighbour's batch."""


def validate_held_out(gpu: GpuType, model_name: str, samples: Sequence[PairSample], by: str) -> Errors:
    """Return errors of cross-validation on measured pairs: a fit to all other parts predicts each part.

    Only interference is fitted again; solo profiles are those of ``gpu``. iGniter's model is not fitted again at all.

    Parameters
    ----------
    gpu, model_name, samples
        See ``validate``.
    by
        A key of ``HELD_OUT``.
    """
    part_of = [HELD_OUT[by](row, sample) for row, sample in enumerate(samples)]
    predicted = np.empty(len(samples))
    for part in dict.fromkeys(part_of):
        held_out = [row for row in range(len(samples)) if part_of[row] == part]
        fitted = fit_pairs(gpu, [sample for row, sample in enumerate(samples) if part_of[row] != part])
        predicted[held_out] = validate(fitted, model_name, [samples[row] for row in held_out]).predicted_ms
    return Errors.of(samples, predicted)


HELD_OUT_FRACTION = 0.3
"""Fraction of the samples that gpulet's authors hold out: 750 of 2,500 (ATC'22, Sec. 4.4)."""


def validate_random_split(gpu: GpuType, model_name: str, samples: Sequence[PairSample], seed: int = 0) -> Errors:
    """Return errors on randomly held-out samples, after a fit to all others: the protocol of gpulet's authors.

    Parameters
    ----------
    gpu, model_name, samples
        See ``validate_held_out``.
    seed
        Seed of the random choice.
    """
    order = np.random.default_rng(seed).permutation(len(samples))
    held_out_count = round(HELD_OUT_FRACTION * len(samples))
    fitted = fit_pairs(gpu, [samples[row] for row in order[held_out_count:]])
    return validate(fitted, model_name, [samples[row] for row in order[:held_out_count]])


def _without_models(facts: GpuFacts, source: str) -> GpuType:
    """Return a GPU type without models; its power and scheduling coefficients are unknown and thus have no effect."""
    return GpuType(
        facts.name,
        facts.share_units,
        facts.memory_mib,
        facts.price_per_hour,
        Hardware(facts.pcie_bytes_per_ms),
        {},
        Provenance("fitted", source),
    )


def _from_solo(name: str, samples: Sequence[SoloSample], facts: GpuFacts, source: str) -> DnnModel:
    """Return a model with iGniter's active time fitted to solo samples."""
    input_bytes, output_bytes = request_bytes(name) if is_listed(name) else (0, 0)
    batch = np.array([sample.configuration.batch for sample in samples], dtype=float)
    share_pct = np.array([sample.configuration.share_pct for sample in samples])
    active_ms = (
        np.array([sample.latency_ms for sample in samples])
        - batch * (input_bytes + output_bytes) / facts.pcie_bytes_per_ms
    )
    memory, memory_origin = _memory(name, samples)
    origin = Provenance("fitted", f"{source}; {memory_origin}")
    return model_of_times(name, batch, share_pct, active_ms, origin, f"solo: {name}", memory)


def _memory(name: str, samples: Sequence[SoloSample]) -> tuple[tuple[float, float] | None, str]:
    """Return base and memory per item in MiB (``None`` for the listed numbers), and their origin.

    Measured memory gives the line above all points with the least-squares slope.
    """
    measured = [(sample.configuration.batch, sample.memory_mib) for sample in samples if sample.memory_mib > 0.0]
    batch, mib = np.array(measured).reshape(-1, 2).T
    if not len(batch):
        listed = is_listed(name)
        return (None, MEMORY_CALIBRATED) if listed else (most_memory_mib(), MEMORY_ASSUMED)
    largest = max(sample.configuration.batch for sample in samples)
    if batch.max() < largest:
        problem = f"has memory_mib up to batch {batch.max():g} only; expected it at batch {largest} too"
        raise InputError(f"solo: {name}", problem)
    slope = 0.0 if len(set(batch.tolist())) == 1 else max(0.0, float(np.polyfit(batch, mib, 1)[0]))
    return (max(0.0, float((mib - slope * batch).max())), slope), MEMORY_MEASURED


def _with_solo(model: DnnModel, fit: SoloFit) -> DnnModel:
    absolute_errors = np.abs(fit.error)
    residual = {
        **model.provenance.residual,
        "solo_rel_mean": float(absolute_errors.mean()),
        "solo_rel_max": float(absolute_errors.max()),
    }
    l2 = model.l2 if any(model.l2) else fit.profile.l2
    return replace(model, solo=fit.profile, l2=l2, provenance=replace(model.provenance, residual=residual))


def _with_alpha_cache(gpu: GpuType, pairs: Sequence[PairSample]) -> GpuType:
    """Fit ``alpha_cache`` (equation 8) by least squares per model; models with few pairs have the fit of all models."""
    figures = PairFigures.of(gpu, pairs)
    models = np.array([sample.own.model for sample in pairs])
    active_ms = np.array([_active_ms(gpu, sample.own) for sample in pairs])
    growth, l2_pct = figures.gpu_ms / active_ms - 1.0, 100.0 * figures.demand[:, 0]

    def fitted_alpha(rows: Any) -> float:
        squares = float(l2_pct[rows] @ l2_pct[rows])
        # If no demands were measured, no growth is ascribed to them.
        return max(0.0, float(l2_pct[rows] @ growth[rows]) / squares) if squares > 0.0 else 0.0

    pooled = fitted_alpha(np.ones(len(models), dtype=bool))
    alphas = {
        name: fitted_alpha(models == name) if np.sum(models == name) >= FEWEST_SAMPLES else pooled
        for name in gpu.models
    }
    return replace(gpu, models={name: replace(model, alpha_cache=alphas[name]) for name, model in gpu.models.items()})


def _active_ms(gpu: GpuType, configuration: Configuration) -> float:
    """Return the active time of a configuration alone by iGniter's model."""
    batch, share_pct = np.array(float(configuration.batch)), np.array(configuration.share_pct)
    return float(performance_model("igniter").demand(gpu, gpu.models[configuration.model], batch, share_pct).active_ms)
