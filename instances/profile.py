"""Profile of a model on a GPU type: its solo times and its slowdown by others."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from instances.arrays import Floats

Line = tuple[float, float]
"""Slope and intercept."""


@dataclass(frozen=True, slots=True)
class SoloProfile:
    """Solo profile of a model: GPU times on a grid of batches and shares, and its demands.

    Attributes
    ----------
    batch, share_pct
        The grid, ascending; batches from 1 to the largest supported, shares up to 100 percent.
    gpu_ms
        GPU time of a batch, transfers excluded, ``[batch][share]``; never falls with the batch, never rises with the
        share.
    l2_pct, dram_pct
        Utilisation on the full GPU by batch.
    l2, dram
        The same as lines against ``1000 b / gpu_ms``, percent at any share (InSS, Sec. 4.1).
    span
        Fraction of the grid that the locally weighted regression uses around a point.
    """

    batch: tuple[int, ...]
    share_pct: tuple[float, ...]
    gpu_ms: tuple[tuple[float, ...], ...]
    l2_pct: tuple[float, ...]
    dram_pct: tuple[float, ...]
    l2: Line
    dram: Line
    span: float

    @property
    def times_ms(self) -> Floats:
        """``gpu_ms`` as an array, shape (batches, shares)."""
        return np.array(self.gpu_ms)

    def beyond_ms(self, batch: Floats, share_pct: Floats) -> Floats:
        """Return a lower bound of the time at shares below the profiled ones; 0 at the others.

        A launch-bound batch takes equally long at half the share, until the GPU's work becomes the bottleneck. The
        largest batch, scaled to the items and to the share, gives the time of that work.
        """
        least = self.share_pct[0]
        bound = self.gpu_ms[-1][0] * (batch / self.batch[-1]) * (least / share_pct)
        return np.where(share_pct < least, bound, 0.0)


@dataclass(frozen=True, slots=True)
class Company:
    """Slowdown of a model beside any other, on the grid of its ``SoloProfile``, and by the others' demands.

    Attributes
    ----------
    gpu_ms
        GPU time beside a neighbour without L2 and DRAM demand, ``[batch][share]``; at least the solo time, and never
        rising with the share.
    alpha_l2, alpha_dram
        Growth of the GPU time per percent of the others' L2 and DRAM utilisation.
    """

    gpu_ms: tuple[tuple[float, ...], ...]
    alpha_l2: float
    alpha_dram: float


@dataclass(frozen=True, slots=True)
class PairFactor:
    """Slowdown of one of two co-located gpulets (gpulet ATC'22, Sec. 4.4), the same for all models of a GPU type.

    ``l2_own L2_1 + l2_other L2_2 + dram_own mem_1 + dram_other mem_2 + constant``, with utilisations as fractions.
    """

    l2_own: float
    l2_other: float
    dram_own: float
    dram_other: float
    constant: float


def interpolate(
    solo: SoloProfile, values: Floats, batch: Floats, share_pct: Floats, scale: Callable[[Floats], Floats] = np.log
) -> Floats:
    """Interpolate on the grid, linearly in the logarithms of batch and share; extrapolate below the least share.

    Parameters
    ----------
    solo
        The grid.
    values
        Shape (batches, shares).
    batch, share_pct
        Broadcastable; batches within the grid.
    scale
        Scale of the axes.
    """
    rows, columns = scale(np.array(solo.batch, dtype=float)), scale(np.array(solo.share_pct))
    b, s = np.broadcast_arrays(scale(np.asarray(batch, dtype=float)), scale(np.asarray(share_pct, dtype=float)))
    i, along = _segment(rows, b)
    j, across = _segment(columns, s)
    # This form returns exactly the common value of equal corners, whatever the rounding.
    lower = values[i, j] + across * (values[i, j + 1] - values[i, j])
    upper = values[i + 1, j] + across * (values[i + 1, j + 1] - values[i + 1, j])
    return np.asarray(lower + along * (upper - lower))


def _segment(knots: Floats, at: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the segment between knots that contains each point, and the position within it."""
    left = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    return left, (at - knots[left]) / (knots[left + 1] - knots[left])


def alone_ms(solo: SoloProfile, batch: Floats, share_pct: Floats) -> Floats:
    """Return the solo GPU time by interpolation, linear in the logarithms of batch, share and time."""
    time_ms = np.exp(interpolate(solo, np.log(solo.times_ms), batch, share_pct))
    return np.maximum(time_ms, solo.beyond_ms(np.asarray(batch, float), np.asarray(share_pct, float)))
