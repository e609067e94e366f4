"""Measurement points: models alone on a grid, pairs, one to five copies, and chains of kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement
from typing import Self

from instances.measurements import Configuration
from instances.model_error.choice import all_pairs, next_pairs

MODELS = ("vgg19", "alexnet", "resnet50", "ssd")
"""Models of iGniter's profile; the first model also runs in copies."""

MEASURED_HERE = "measured-here"
"""Default name of the catalogue entry and of the folder."""

KERNEL_CHAIN = "tiny-kernels"
"""Net of ``CHAIN_LENGTH`` kernels in a row that hardly compute; its time is the time of the GPU's scheduler."""

MAX_COPIES = 5
"""Largest number of copies of a model that share the GPU (iGniter, Sec. 2.2)."""

COPY_SHARE_PCT = 100.0 / MAX_COPIES
"""Share of each copy and of the chain of kernels beside copies."""

HALF_PCT = 50.0
"""Share of each model of a pair that has the strong neighbour or is chosen."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A model that runs batch after batch on a share of the GPU."""

    model: str
    batch: int
    share_pct: float

    def __str__(self) -> str:
        return f"{self.model} b{self.batch} {self.share_pct:g} %"


Point = tuple[Tenant, ...]
"""Tenants that run at the same time."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Batches and shares, in percent, of the measurements.

    Attributes
    ----------
    batches, shares_pct
        Grid of models alone, ascending.
    light_batches, light_shares_pct
        Three batches and three shares for the fit of iGniter's model; pairs and copies use the second batch.
    pair_batches, pair_shares_pct
        Grid of pairs of models; both models of a pair have the same batch.
    strong_pair_batches
        Batches of each model beside the largest batch of the first model, each on half of the GPU. One strong neighbour
        beside all batches gives more information than several neighbours beside one batch.
    chosen_pairs
        Number of pairs that are chosen in place of the grid of pairs and the strong neighbour; 0 for none.
    """

    batches: tuple[int, ...]
    shares_pct: tuple[float, ...]
    light_batches: tuple[int, int, int]
    light_shares_pct: tuple[float, float, float]
    pair_batches: tuple[int, ...]
    pair_shares_pct: tuple[tuple[float, float], ...]
    strong_pair_batches: tuple[int, ...]
    chosen_pairs: int = 0

    @classmethod
    def full(cls) -> Self:
        """Return the grid from which all performance models are fitted."""
        shares_pct = (10.0, 20.0, 40.0, 50.0, 60.0, 80.0, 100.0)
        pair_shares_pct = ((50.0, 50.0), (20.0, 80.0), (80.0, 20.0))
        batches = (1, 2, 4, 8, 16, 32)
        return cls(
            batches,
            shares_pct,
            light_batches=(1, 16, 32),
            light_shares_pct=(10.0, 50.0, 100.0),
            pair_batches=(16, 1, 32),
            pair_shares_pct=pair_shares_pct,
            strong_pair_batches=batches,
        )

    @classmethod
    def quick(cls) -> Self:
        """Return the grid of the light profile, with one strong neighbour beside each model at all batches."""
        batches, shares_pct = (1, 8, 32), (20.0, 50.0, 100.0)
        return cls(
            batches,
            shares_pct,
            light_batches=batches,
            light_shares_pct=shares_pct,
            pair_batches=(8,),
            pair_shares_pct=((50.0, 50.0),),
            strong_pair_batches=batches,
        )

    @property
    def middle_batch(self) -> int:
        """Batch of the pairs and copies in the light profile."""
        return self.light_batches[1]

    def solo(self, models: Sequence[str]) -> list[Point]:
        """Return the points of models alone, ordered by share: one process measures all points of a share."""
        return [
            (Tenant(model, batch, share_pct),)
            for share_pct in self.shares_pct
            for model in models
            for batch in self.batches
        ]

    def pairs(self, models: Sequence[str]) -> list[Point]:
        """Return the points of two models, or of a model with itself.

        First come the pairs of equal batches at the first division of the GPU, which the light profile needs. Then come
        the pairs with the strong neighbour, and last the pairs of equal batches at the other divisions. With
        ``chosen_pairs``, the pairs of the light profile come first, at the middle batch, and then the chosen pairs.
        """
        if self.chosen_pairs:
            return self._chosen(models)
        equal_pairs = [
            [
                (Tenant(first, batch, first_share_pct), Tenant(second, batch, second_share_pct))
                for batch in self.pair_batches
                for first, second in combinations_with_replacement(models, 2)
                if first != second or first_share_pct <= second_share_pct
            ]
            for first_share_pct, second_share_pct in self.pair_shares_pct
        ]
        strong = Tenant(models[0], self.batches[-1], HALF_PCT)
        strong_pairs = [
            (strong, Tenant(model, batch, HALF_PCT)) for model in models for batch in self.strong_pair_batches
        ]
        return list(dict.fromkeys([*equal_pairs[0], *strong_pairs, *chain(*equal_pairs[1:])]))

    def _chosen(self, models: Sequence[str]) -> list[Point]:
        """Return the pairs of the light profile, and the pairs that tell most about the slowdowns of all models."""
        configurations = [Configuration(model, self.middle_batch, HALF_PCT) for model in models]
        needed = list(combinations_with_replacement(configurations, 2))
        chosen = next_pairs(
            all_pairs(dict.fromkeys(models, self.batches), self.pair_shares_pct),
            max(0, self.chosen_pairs - len(needed)),
            needed,
        )
        return [
            (Tenant(first.model, first.batch, first.share_pct), Tenant(second.model, second.batch, second.share_pct))
            for first, second in (*needed, *chosen)
        ]

    def copies(self, model: str, count: int) -> Point:
        """Return ``count`` copies of a model, each on a fifth of the GPU."""
        return (Tenant(model, self.middle_batch, COPY_SHARE_PCT),) * count

    def chain_beside_copies(self, model: str, residents: int) -> Point:
        """Return the chain of kernels beside ``residents - 1`` copies of a model."""
        return (*self.copies(model, residents - 1), Tenant(KERNEL_CHAIN, 1, COPY_SHARE_PCT))

    def copies_and_chains(self, model: str) -> list[Point]:
        """Return one to five copies of a model, and the chain of kernels beside zero to four copies."""
        return [
            point
            for count in range(1, MAX_COPIES + 1)
            for point in (self.copies(model, count), self.chain_beside_copies(model, count))
        ]

    def all_points(self, models: Sequence[str]) -> list[Point]:
        """Return every point in the order of measurement; the first model also runs in copies."""
        return [*self.solo(models), *self.copies_and_chains(models[0]), *self.pairs(models)]
