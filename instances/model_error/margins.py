"""Margins with a stated level: split conformal, one-sided, for each model and batch with enough measured rows.

A margin is a factor on a predicted latency. If the rows to predict and the ``n`` rows of the calibration are
exchangeable, the ``ceil((n + 1) level)``-th smallest ratio of measured to predicted latency covers a new row with a
probability of at least ``level``. The guarantee is for rows drawn like those of the calibration. It does not hold for
rows that a plan selects because their predictions are low.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf

import numpy as np

from instances.arrays import Floats
from instances.errors import FieldName, InputError
from instances.grouping import grouped
from instances.margin import Basis, Margin
from instances.measurements import Configuration
from instances.model_error.cells import MeasuredCell
from instances.performance.buffer import P95_SLOWDOWN

SPLITS = 20
"""Number of divisions into halves over which coverage is averaged."""


def conformal_quantile(ratios: Sequence[float], level: float) -> float:
    """Return the ``ceil((n + 1) level)``-th smallest of ``n`` ratios; infinity if there are fewer."""
    # An exact decimal fraction: in floating-point numbers, 20 x 0.95 can exceed 19.
    rank = ceil((len(ratios) + 1) * Fraction(str(level)))
    return sorted(ratios)[rank - 1] if rank <= len(ratios) else inf


def fewest_ratios(level: float) -> int:
    """Return the least number of ratios whose ``conformal_quantile`` is finite: 19 at 95 %, 99 at 99 %."""
    fraction = Fraction(str(level))
    return ceil(fraction / (1 - fraction))


@dataclass(frozen=True, slots=True)
class ConformalMargins:
    """Margins at one level, calibrated on the rows of a GPU type.

    Attributes
    ----------
    level
        Fraction of new rows that a margin covers, greater than 0 and less than 1.
    by_batch, by_model, of_gpu
        Ratios of measured to predicted latencies: by model and batch, by model, and all of the GPU type.
    guess
        Least margin if there are too few rows.
    """

    level: float
    by_batch: Mapping[tuple[str, int], Sequence[float]]
    by_model: Mapping[str, Sequence[float]]
    of_gpu: Sequence[float]
    guess: float = P95_SLOWDOWN

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise InputError(FieldName("level"), f"is {self.level:g}; expected a fraction between 0 and 1")

    @classmethod
    def of(
        cls, configurations: Sequence[Configuration], ratios: Sequence[float], level: float, guess: float = P95_SLOWDOWN
    ) -> "ConformalMargins":
        """Return the margins computed from ``ratios``, one for each of ``configurations``."""
        rows = list(zip(configurations, ratios, strict=True))
        return cls(
            level,
            grouped(((configuration.model, configuration.batch), ratio) for configuration, ratio in rows),
            grouped((configuration.model, ratio) for configuration, ratio in rows),
            list(ratios),
            guess,
        )

    def margin(self, model: str, batch: int) -> Margin:
        """Return the margin of a model at a batch.

        The margin is computed from the rows of the model and batch. If these are too few, it is computed from the rows
        of the model; if these are too few, from the rows of the GPU type; otherwise it is ``guess``. It is never less
        than a ratio in a set of rows that was too small. So it never falls as the level rises.
        """
        largest_skipped = 0.0
        for basis, ratios in (
            (Basis.BATCH, self.by_batch.get((model, batch), ())),
            (Basis.MODEL, self.by_model.get(model, ())),
            (Basis.GPU, self.of_gpu),
        ):
            if (factor := conformal_quantile(ratios, self.level)) < inf:
                return Margin(max(factor, largest_skipped), len(ratios), basis)
            largest_skipped = max([largest_skipped, *ratios])
        return Margin(max(self.guess, largest_skipped), len(self.of_gpu), Basis.GUESS)


def covered_fractions(
    cells: Sequence[MeasuredCell], predicted_ms: Floats, level: float, splits: int = SPLITS
) -> list[float]:
    """Return the covered fraction of the rows of one half, with margins of the other half, for random divisions.

    Parameters
    ----------
    cells
        Cells, each with two rows: its two sides. A random division puts both rows of a cell into the same half.
    predicted_ms
        Latencies that were predicted without these cells, shape (cells, 2).
    splits
        Number of divisions; their seeds are 0, 1 and so on.
    """
    ratios = np.array([cell.latency_ms for cell in cells]) / predicted_ms

    def rows(half: Sequence[int]) -> list[tuple[Configuration, float]]:
        return [(cells[i].sides[side_index], float(ratios[i, side_index])) for i in half for side_index in (0, 1)]

    fractions = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(cells)).tolist()
        calibration_configurations, calibration_ratios = zip(*rows(order[: len(cells) // 2]), strict=True)
        margins = ConformalMargins.of(calibration_configurations, calibration_ratios, level)
        covered = [
            ratio <= margins.margin(configuration.model, configuration.batch).factor
            for configuration, ratio in rows(order[len(cells) // 2 :])
        ]
        fractions.append(sum(covered) / len(covered))
    return fractions
