"""Formula for a model's times by batch and share: a launch time, work inverse to the share, and a serial part."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from instances.arrays import Floats
from instances.errors import InputError
from instances.gpu import Company, DnnModel, Line, Provenance, SoloProfile
from instances.measurements import SoloSample, by_model, read_solo
from instances.performance.igniter_fit import model_of_times
from instances.performance.solo_fit import profile_of_grid, rounded

SHAPES_FILE = Path("v100-rapp") / "solo.csv"
"""Solo measurements of 69 torchvision models, at batches up to 8 and at 20 shares (KontonGu/RaPP)."""

SHARPNESS = 8.0
"""Exponent of the norm of launch time and work; a larger exponent makes the transition between them sharper."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Time of a batch of b items at a share of r percent: ``(launch^8 + work^8)^(1/8)`` milliseconds.

    Here ``work = serial + (fixed + per_item b^batch_exponent) (100 / r)^share_exponent``.

    Attributes
    ----------
    launch_ms
        Host time to launch the kernels of a batch, a lower limit of the batch's time.
    serial_ms
        GPU time that does not depend on the share.
    fixed_ms, per_item_ms
        Work on the full GPU: that of every batch, and that of each item.
    batch_exponent, share_exponent
        Exponents of the batch and of the inverse share, both near 1.
    """

    launch_ms: float
    serial_ms: float
    fixed_ms: float
    per_item_ms: float
    batch_exponent: float
    share_exponent: float

    @classmethod
    def from_logs(cls, logs: Floats) -> "Shape":
        """Build a shape from the logarithms of its attributes."""
        return cls(*(float(value) for value in np.exp(logs)))

    def logs(self) -> Floats:
        """Return the logarithms of the attributes."""
        return np.log(astuple(self))

    def times_ms(self, batch: Floats, share_pct: Floats) -> Floats:
        """Return the times at broadcastable batches and shares."""
        full_gpu_ms = self.fixed_ms + self.per_item_ms * batch**self.batch_exponent
        work_ms = self.serial_ms + full_gpu_ms * (100.0 / share_pct) ** self.share_exponent
        return np.asarray((self.launch_ms**SHARPNESS + work_ms**SHARPNESS) ** (1.0 / SHARPNESS))

    def scaled(self, factor: float) -> "Shape":
        """Return the shape with every time ``factor`` times as long."""
        return Shape.from_logs(self.logs() + np.log(factor) * np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0]))


def read_shapes(measurements: Path) -> dict[str, list[SoloSample]]:
    """Read the samples for ``fit_shape``, by model."""
    return by_model(read_solo(measurements / SHAPES_FILE))


def fit_shape(name: str, samples: Sequence[SoloSample]) -> tuple[Shape, float]:
    """Fit a shape by robust least squares of the logarithms; return the shape and its mean relative error.

    Raises
    ------
    InputError
        If there are no samples of the model.
    """
    if not samples:
        raise InputError(str(SHAPES_FILE), f'has no rows of "{name}"')
    batch = np.array([sample.configuration.batch for sample in samples], dtype=float)
    share_pct = np.array([sample.configuration.share_pct for sample in samples])
    log_ms = np.log([sample.latency_ms for sample in samples])
    per_item = float(np.exp(np.max(log_ms)) / batch.max() * share_pct.min() / 100.0)
    start = Shape(float(np.exp(np.median(log_ms))), 0.1 * per_item, per_item, per_item, 0.95, 0.95)
    log_range = np.array([3.0, 3.0, 5.0, 3.0, 0.3, 0.3])  # largest change of each logarithm from the start

    def residual(logs: Floats) -> Floats:
        return np.log(Shape.from_logs(logs).times_ms(batch, share_pct)) - log_ms

    # The exponents stay between 0.70 and 1.05.
    bounds = (start.logs() - log_range, start.logs() + np.where(log_range < 1.0, 0.1, log_range))
    fitted = least_squares(residual, start.logs(), bounds=bounds, loss="soft_l1", f_scale=0.05)
    shape = Shape.from_logs(fitted.x)
    return shape, float(np.mean(np.abs(shape.times_ms(batch, share_pct) / np.exp(log_ms) - 1.0)))


def shaped_profile(
    shape: Shape, batches: Sequence[int], shares_pct: Sequence[float], l2: Line, dram: Line
) -> SoloProfile:
    """Return the solo profile of a shape, with demands on the lines ``l2`` and ``dram``."""
    grid = shape.times_ms(np.array(batches, dtype=float)[:, None], np.array(shares_pct)[None, :])
    return profile_of_grid(batches, shares_pct, rounded(grid), l2, dram)


def calibrated_model(name: str, solo: SoloProfile, alphas: tuple[float, float], source: str) -> DnnModel:
    """Return a model with the profile ``solo`` and equal growths in several performance models.

    ``alphas`` are the growths per percent of the neighbours' L2 and DRAM utilisation; ``igniter`` (L2 only), ``inss``
    and ``hybrid`` use them. These models predict no other interference: power and kernels are unknown and thus 0, and
    the co-location factor is 1.
    """
    batch, share = np.meshgrid(np.array(solo.batch, dtype=float), np.array(solo.share_pct), indexing="ij")
    origin = Provenance("calibrated", f"{source}; memory: instances/memory.py")
    return replace(
        model_of_times(name, batch.ravel(), share.ravel(), solo.times_ms.ravel(), origin),
        l2=solo.l2,
        alpha_cache=alphas[0],
        solo=solo,
        inss=alphas,
        company=Company(solo.gpu_ms, *alphas),
    )
