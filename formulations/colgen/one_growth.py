"""L2 and DRAM contention combined into one sum, for the relaxations of ``colgen``.

Beside others a batch takes ``1 + a_l2 C + a_dram D`` times as long. The boxes have one axis for both demands. With
weights ``v + w = 1`` and ``a = min(a_l2 / v, a_dram / w)`` the factor is at least ``1 + a (v C + w D)``. The two are
equal if every model's growths have the ratio v : w. This is the case if one pair of growths was fitted for a whole GPU
type.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.arrays import Floats
from instances.tables import Tables

SAME_RATIO = 1e-12
"""Relative difference of growths that is attributed to rounding."""


class OneGrowth(NamedTuple):
    """Tables with all contention in the L2 columns.

    Attributes
    ----------
    tables
        ``l2_pct`` is the weighted sum, ``alpha_l2`` the growth in it, and the growth in DRAM is zero. Times are at most
        those of the original tables.
    exact
        Whether the times of each model equal the original ones up to rounding, shape (models,).
    """

    tables: Tables
    exact: NDArray[np.bool_]


def one_growth(tables: Tables) -> OneGrowth:
    """Weight L2 and DRAM such that the models' total growth is largest.

    Parameters
    ----------
    tables
        Tables of a GPU type without negative growths.
    """
    both = tables.alpha_l2 + tables.alpha_dram
    dram_weights = np.unique(np.append(tables.alpha_dram[both > 0.0] / both[both > 0.0], 0.0))
    loads = tables.l2_pct.max(axis=(1, 2)).mean(), tables.dram_pct.max(axis=(1, 2)).mean()
    growth = [_growths(tables, w).sum() * ((1.0 - w) * loads[0] + w * loads[1]) for w in dram_weights]
    weight = float(dram_weights[int(np.argmax(growth))])
    alpha = _growths(tables, weight)
    left_out = both - alpha
    if weight == 0.0:
        return OneGrowth(tables._replace(alpha_dram=np.zeros_like(alpha)), tables.alpha_dram == 0.0)
    summed = (1.0 - weight) * tables.l2_pct + weight * tables.dram_pct
    merged = tables._replace(l2_pct=summed, alpha_l2=alpha, alpha_dram=np.zeros_like(alpha))
    return OneGrowth(merged, left_out <= SAME_RATIO * both)


def _growths(tables: Tables, dram_weight: float) -> Floats:
    """Return the largest growth in the weighted sum that is valid for each model, shape (models,)."""
    if dram_weight == 0.0:
        return tables.alpha_l2
    of_dram = tables.alpha_dram / dram_weight
    return of_dram if dram_weight == 1.0 else np.minimum(tables.alpha_l2 / (1.0 - dram_weight), of_dram)
