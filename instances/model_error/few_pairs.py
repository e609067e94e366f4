"""Margins after measurements of few chosen pairs, compared with margins after measurements of all pairs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from instances.gpu import GpuType
from instances.margin import MODEL
from instances.measurements import PairSample
from instances.model_error.calibration import with_seen_slowdowns
from instances.model_error.cells import MeasuredCell, random_halves
from instances.model_error.choice import ROWS, next_pairs
from instances.model_error.experiment import Fit
from instances.performance.validation import Errors, validate

LEVEL = 0.95
"""Fraction of the measured latencies that a margin covers."""

PREDICTORS: Mapping[str, Callable[[GpuType, Sequence[PairSample]], GpuType]] = {
    "the fit": lambda fitted, _: fitted,
    "the largest slowdowns": with_seen_slowdowns,
}
"""Predictors for few pairs, as functions of the fitted GPU type and of the samples: the hybrid model, and the largest
slowdown of each model and batch."""


@dataclass(frozen=True, slots=True)
class FewPairs:
    """Result of one division of the cells into halves.

    Attributes
    ----------
    predictor
        Key of ``PREDICTORS`` with the smaller margin on the first half.
    margin
        Margin of this predictor on the second half: chosen cells of this half are measured, and the others predicted.
    of_all
        Margin of the hybrid model on the second half, if it is fitted to all cells of the first half.
    """

    predictor: str
    margin: float
    of_all: float


def few_pairs(cells: Sequence[MeasuredCell], fit: Fit, splits: int, count: int = ROWS) -> list[FewPairs]:
    """Return the margins for random divisions; none if a half has fewer than twice ``count`` cells.

    Parameters
    ----------
    cells
        Cells; the two sides of a cell are in the same half.
    fit
        Function that fits a GPU type to cells.
    splits
        Number of divisions; their seeds are 0, 1 and so on.
    count
        Number of cells of a half that are chosen by ``next_pairs``.
    """
    if len(cells) // 2 < 2 * count:
        return []
    results = []
    for seed in range(splits):
        first, second = random_halves(cells, seed)
        on_first, on_second = (_margins(half, fit, count) for half in (first, second))
        predictor = min(on_first, key=lambda name: on_first[name])
        of_all = _margin(validate(fit(first), MODEL, _samples(second)))
        results.append(FewPairs(predictor, on_second[predictor], of_all))
    return results


def in_words(results: Sequence[FewPairs]) -> str:
    """Return the predictors with the number of divisions in which each was chosen."""
    counts = Counter(result.predictor for result in results)
    return " and ".join(f"{name} in {number} of {len(results)}" for name, number in counts.most_common())


def _margins(cells: Sequence[MeasuredCell], fit: Fit, count: int) -> dict[str, float]:
    """Return the margin of each predictor on the cells that are not chosen."""
    chosen = {frozenset(pair) for pair in next_pairs([cell.sides for cell in cells], count)}
    measured = [cell for cell in cells if frozenset(cell.sides) in chosen]
    others = _samples([cell for cell in cells if frozenset(cell.sides) not in chosen])
    fitted = fit(measured)
    return {
        name: _margin(validate(predictor(fitted, _samples(measured)), MODEL, others))
        for name, predictor in PREDICTORS.items()
    }


def _samples(cells: Sequence[MeasuredCell]) -> list[PairSample]:
    return [sample for cell in cells for sample in cell.samples]


def _margin(errors: Errors) -> float:
    """Return the quantile at ``LEVEL`` of the ratios of measured to predicted latency."""
    return float(np.quantile(1.0 / (1.0 + errors.relative), LEVEL))
