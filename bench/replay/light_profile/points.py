"""Points to measure: models alone on a grid, pairs, one to five copies, and queued kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Self

MODELS = ("vgg19", "alexnet", "resnet50", "ssd")
"""iGniter's four; the first is the one that runs in copies."""

MEASURED_HERE = "measured-here"
"""Of the catalogue entry, and of the folder."""

KERNEL_CHAIN = "tiny-kernels"
"""A chain of ``CHAINED`` kernels that hardly compute: its time is that of the scheduler."""

CHAINED = 200

CROWD = 5
"""Copies of a model that share the GPU at most (iGniter, Sec. 2.2)."""

CROWD_SHARE_PCT = 100.0 / CROWD


@dataclass(frozen=True, slots=True, order=True)
class Tenant:
    """A model that runs batch after batch on a share of the GPU."""

    model: str
    batch: int
    share_pct: float

    def __str__(self) -> str:
        return f"{self.model} b{self.batch} {self.share_pct:g} %"


Point = tuple[Tenant, ...]
"""Those that run at the same time."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Which batches and shares, in percent, are measured.

    Attributes
    ----------
    batches, shares_pct
        Of models alone, ascending.
    light_batches, light_shares_pct
        Three of each, which iGniter's model is fitted to; pairs and copies take the second batch.
    pair_batches, pair_shares_pct
        Of two models, which have the same batch.
    """

    batches: tuple[int, ...]
    shares_pct: tuple[float, ...]
    light_batches: tuple[int, int, int]
    light_shares_pct: tuple[float, float, float]
    pair_batches: tuple[int, ...]
    pair_shares_pct: tuple[tuple[float, float], ...]

    @classmethod
    def full(cls) -> Self:
        """Return the grid from which all performance models are fitted."""
        shares = (10.0, 20.0, 40.0, 50.0, 60.0, 80.0, 100.0)
        pairs = ((50.0, 50.0), (20.0, 80.0), (80.0, 20.0))
        return cls((1, 2, 4, 8, 16, 32), shares, (1, 16, 32), (10.0, 50.0, 100.0), (16, 1, 32), pairs)

    @classmethod
    def quick(cls) -> Self:
        """Return the light profile alone: eleven configurations per model and the copies."""
        light = (10.0, 50.0, 100.0)
        return cls((1, 4, 16), light, (1, 4, 16), light, (4,), ((50.0, 50.0),))

    @property
    def middle_batch(self) -> int:
        """Batch of pairs and copies in the light profile."""
        return self.light_batches[1]

    def solo(self, models: Sequence[str]) -> list[Point]:
        """Return the points of models alone; those of a share follow each other, as one process serves them."""
        return [(Tenant(m, b, s),) for s in self.shares_pct for m in models for b in self.batches]

    def pairs(self, models: Sequence[str]) -> list[Point]:
        """Return the points of two models, every two and each with itself, those of the light profile first."""
        return [
            (Tenant(a, batch, share_a), Tenant(b, batch, share_b))
            for share_a, share_b in self.pair_shares_pct
            for batch in self.pair_batches
            for a, b in combinations_with_replacement(models, 2)
            if a != b or share_a <= share_b
        ]

    def copies(self, model: str, count: int) -> Point:
        """Return ``count`` copies of a model on a fifth of the GPU each."""
        return (Tenant(model, self.middle_batch, CROWD_SHARE_PCT),) * count

    def waiting(self, model: str, residents: int) -> Point:
        """Return the chain of kernels beside copies of a model, ``residents`` together."""
        return (*self.copies(model, residents - 1), Tenant(KERNEL_CHAIN, 1, CROWD_SHARE_PCT))

    def crowd(self, model: str) -> list[Point]:
        """Return one to five copies of a model, and the chain of kernels beside none to four."""
        return [point for n in range(1, CROWD + 1) for point in (self.copies(model, n), self.waiting(model, n))]

    def all(self, models: Sequence[str]) -> list[Point]:
        """Return every point in the order of measuring; the first model is the one that is copied."""
        return [*self.solo(models), *self.crowd(models[0]), *self.pairs(models)]
