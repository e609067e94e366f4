"""Cells: pairs of configurations on one GPU, whose latencies are measured beside each other and alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path

import numpy as np

from instances.arrays import Floats
from instances.errors import InputError
from instances.measurements import PAIRS_FILE, Configuration, PairSample, SoloSample, read_pairs

OTHER_SIDE_FILE = "pairs_other_side.csv"
"""Optional file with further latencies, such as those of the other side of the measured pairs."""


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """Two configurations beside each other.

    Attributes
    ----------
    sides
        The configurations.
    latency_ms
        Measured whole inference time of each side beside the other.
    """

    sides: tuple[Configuration, Configuration]
    latency_ms: tuple[float, float]

    @property
    def models(self) -> tuple[str, str]:
        """Both models, sorted."""
        first, second = sorted(side.model for side in self.sides)
        return first, second

    @property
    def samples(self) -> tuple[PairSample, PairSample]:
        """The latency of each side as a sample for fits, without standard deviation."""
        (first, second), (first_ms, second_ms) = self.sides, self.latency_ms
        return PairSample(first, second, first_ms, nan), PairSample(second, first, second_ms, nan)


def random_halves(cells: Sequence[MeasuredCell], seed: int) -> tuple[list[MeasuredCell], list[MeasuredCell]]:
    """Return the two halves of a random division of cells; of an odd number, the first half has one more."""
    order = np.random.default_rng(seed).permutation(len(cells)).tolist()
    first, second = ([cells[i] for i in half] for half in np.array_split(order, 2))
    return first, second


def read_cells(folder: Path, solo: Sequence[SoloSample]) -> list[MeasuredCell]:
    """Return the cells of a folder of measurements whose configurations are also measured alone.

    If a side has two latencies beside the other, the first counts.

    Raises
    ------
    InputError
        If ``pairs.csv`` is missing or wrong, or if there is no cell.
    """
    samples = read_pairs(folder / PAIRS_FILE)
    if (folder / OTHER_SIDE_FILE).exists():
        samples += read_pairs(folder / OTHER_SIDE_FILE)
    latency_ms: dict[tuple[Configuration, Configuration], float] = {}
    for sample in samples:
        latency_ms.setdefault((sample.own, sample.other), sample.latency_ms)
    alone = {sample.configuration for sample in solo}
    cells: dict[frozenset[Configuration], MeasuredCell] = {}
    for (own, other), own_ms in latency_ms.items():
        other_ms = latency_ms.get((other, own))
        if other_ms is not None and {own, other} <= alone:
            cells.setdefault(frozenset((own, other)), MeasuredCell((own, other), (own_ms, other_ms)))
    if not cells:
        problem = "has no two configurations whose latencies beside each other and alone are all measured"
        raise InputError(str(folder), problem)
    return list(cells.values())


def alone_ms(solo: Sequence[SoloSample]) -> Mapping[Configuration, float]:
    """Return the measured whole inference time of every configuration alone; the mean of repeated measurements."""
    latencies_ms: dict[Configuration, list[float]] = {}
    for sample in solo:
        latencies_ms.setdefault(sample.configuration, []).append(sample.latency_ms)
    return {configuration: sum(values) / len(values) for configuration, values in latencies_ms.items()}


def alone_by_cell_ms(cells: Sequence[MeasuredCell], solo: Sequence[SoloSample]) -> Floats:
    """Return the measured latency alone of both sides of every cell, shape (cells, 2)."""
    alone = alone_ms(solo)
    return np.array([[alone[side] for side in cell.sides] for cell in cells])
