"""Fit of the hybrid model to few samples: the weight that shrinks effects, and models without samples."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from instances import GpuType
from instances.measurements import Configuration, PairSample
from instances.performance import company_fit
from instances.performance.company_fit import MOST_CROSS_VALIDATED, SHRINKAGE, fit_company
from instances.performance.validation import latencies_ms, validate
from tests.instances.profiles import PROFILED

BATCHES, SHARES_PCT = (1, 2, 4, 8), (20.0, 50.0, 80.0)
CLEAR = {1: 1.0, 2: 0.1, 4: 0.9, 8: 0.0}
"""Growth by batch that a single sample shows."""


def samples(growths: list[float]) -> list[PairSample]:
    """Return samples of the model ``small`` at every batch and share whose latencies have grown by ``growths``."""
    sides = [Configuration("small", batch, share_pct) for batch, share_pct in product(BATCHES, SHARES_PCT)]
    alone_ms = [float(times_ms[0]) for times_ms in latencies_ms(PROFILED, "hybrid", [(side,) for side in sides])]
    other = Configuration("large", 1, 20.0)
    return [
        PairSample(side, other, ms * (1.0 + growth), 0.0)
        for side, ms, growth in zip(sides, alone_ms, growths, strict=True)
    ]


def by_batch(growth: dict[int, float]) -> list[float]:
    return [growth[batch] for batch, _ in product(BATCHES, SHARES_PCT)]


def fitted(seen: list[PairSample]) -> GpuType:
    found = fit_company(PROFILED, seen)
    return replace(PROFILED, models={name: replace(m, company=found[name]) for name, m in PROFILED.models.items()})


def errors(gpu: GpuType, seen: list[PairSample]) -> np.ndarray:
    return np.abs(validate(gpu, "hybrid", seen).relative)


def test_clear_effects_of_few_samples_are_shrunk_less(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = samples(by_batch(CLEAR))
    chosen = errors(fitted(seen), seen)
    monkeypatch.setattr(company_fit, "WEIGHTS", (SHRINKAGE,))
    assert chosen.mean() < 0.5 * errors(fitted(seen), seen).mean()


def test_noise_of_few_samples_is_shrunk_more(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(1).uniform(0.2, 0.8, len(BATCHES) * len(SHARES_PCT))
    seen, truth = samples(noise.tolist()), samples([0.5] * len(noise))
    chosen = errors(fitted(seen), truth)
    monkeypatch.setattr(company_fit, "WEIGHTS", (0.1,))
    assert chosen.mean() < errors(fitted(seen), truth).mean()


def test_many_samples_have_the_usual_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    few = samples(by_batch(CLEAR))
    many = few * (MOST_CROSS_VALIDATED // len(few) + 1)
    before = fit_company(PROFILED, many)
    monkeypatch.setattr(company_fit, "WEIGHTS", (0.1,))
    assert fit_company(PROFILED, many) == before
    assert fit_company(PROFILED, few) != before


def test_a_model_without_samples_has_one_growth_beside_any_neighbour() -> None:
    growths = by_batch(CLEAR)
    large = fit_company(PROFILED, samples(growths))["large"]
    solo = PROFILED.models["large"].solo
    assert solo is not None
    growth = np.array(large.gpu_ms) / solo.times_ms - 1.0
    weights = np.array([1.0 / (1.0 + growth) ** 2 for growth in growths])
    assert growth == pytest.approx(np.full(growth.shape, np.average(growths, weights=weights)), rel=0.06)
    assert (large.alpha_l2, large.alpha_dram) == (0.0, 0.0)
