"""Margins: factors on predicted latencies of co-located batches, with their level and the measured rows behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

MODEL = "hybrid"
"""Performance model whose predictions have margins."""


class Basis(StrEnum):
    """Set of measured rows from which a margin is computed; ``guess`` means that there are none for the model."""

    BATCH = "model and batch"
    MODEL = "model"
    GPU = "GPU type"
    GUESS = "guess"


@dataclass(frozen=True, slots=True)
class Margin:
    """Factor on a predicted latency; ``rows`` is the number of measured rows in its basis."""

    factor: float
    rows: int
    basis: Basis


@dataclass(frozen=True, slots=True)
class LevelMargins:
    """Margins of a GPU type at one level, for the hybrid model.

    Attributes
    ----------
    level
        Fraction of new rows whose GPU time a margin covers, if they are drawn like the measured ones.
    rows
        Number of measured latencies from which all margins are computed.
    by_batch
        Margins on predicted GPU times beside others, by model and measured batch.
    flat
        Factor on GPU times alone, for models without measured rows.
    """

    level: float
    rows: int
    by_batch: Mapping[str, Mapping[int, Margin]]
    flat: float

    def factor(self, model: str, batch: int) -> float:
        """Return the factor on GPU times of a model with measured rows: the larger one of the nearest batches."""
        return largest_of_nearest({size: margin.factor for size, margin in self.by_batch[model].items()}, batch)


def largest_of_nearest(by_batch: Mapping[int, float], batch: int) -> float:
    """Return the larger one of the values at the nearest batches below and above ``batch``."""
    below = max((measured for measured in by_batch if measured <= batch), default=min(by_batch))
    above = min((measured for measured in by_batch if measured >= batch), default=max(by_batch))
    return max(by_batch[below], by_batch[above])


def at_level(known: Sequence[LevelMargins], level: float) -> LevelMargins | None:
    """Return the margins of the lowest level in ``known`` that is at least ``level``; ``None`` if all are lower.

    The levels of ``known`` ascend.
    """
    return next((margins for margins in known if margins.level >= level), None)
