"""MediatorDNN: co-locate what contends little and varies alike (MediatorDNN, Algorithms 1-3)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heuristics.grouping import CAPACITY, Fits, Grouping, fill_groups
from heuristics.utilisation import Utilisation
from instances.arrays import Floats


def con_score(metrics: Floats, standardise: bool = False) -> Floats:
    """Return ConScore of every pair: how far apart their low-level profiles are (MediatorDNN, Algorithm 1).

    Parameters
    ----------
    metrics
        Profile vectors, shape (jobs, metrics).
    standardise
        Standardise each metric over the jobs first, so that the distance is not that of the metric with the largest
        numbers. The paper takes the metrics as they are.

    Returns
    -------
    numpy.ndarray
        Shape (jobs, jobs); the diagonal is 0.
    """
    if standardise and len(metrics):
        deviation = metrics.std(axis=0)
        metrics = (metrics - metrics.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    # Equation 1
    distance = np.sqrt(((metrics[:, None, :] - metrics[None, :, :]) ** 2).sum(axis=2))
    return _standardised(distance)


def ruv_score(deviation: Floats, signed: bool = False) -> Floats:
    """Return RUVScore of every pair: how alike the deviations of their utilisation are (MediatorDNN, Algorithm 2).

    Parameters
    ----------
    deviation
        ``RUSD``, shape (jobs,).
    signed
        Take ``RUSD_i - RUSD_j`` as in equation 4, whose largest value is that of the least alike; otherwise
        ``-|RUSD_i - RUSD_j|``, which pairs the jobs of Fig. 4 as the paper does.

    Returns
    -------
    numpy.ndarray
        Shape (jobs, jobs); the diagonal is 0.
    """
    difference = deviation[:, None] - deviation[None, :]  # equation 4
    return _standardised(difference if signed else -np.abs(difference))


def _standardised(scores: Floats) -> Floats:
    """Standardise each row over the other jobs (equations 2 and 5): mean over N - 1, deviation over N, as printed.

    0 where all the others are alike.
    """
    count = len(scores)
    others = ~np.eye(count, dtype=bool)
    mean = (scores * others).sum(axis=1, keepdims=True) / max(1, count - 1)
    spread = np.sqrt((((scores - mean) * others) ** 2).sum(axis=1, keepdims=True) / max(1, count))
    alike = spread <= 1e-12 * np.abs(scores).max(initial=1.0)
    return np.where(others & ~alike, (scores - mean) / np.where(alike, 1.0, spread), 0.0)


@dataclass(frozen=True, slots=True)
class Mediator(Grouping):
    """MediatorDNN, for the paper's best-effort jobs and for workloads with SLOs.

    The candidate whose utilisation varies most opens a group. Those left are tried by the sum of their ColoScores with
    the group, ConScore plus RUVScore, while mean utilisations plus the deviation of the portfolio stay within the GPU.
    For workloads a group also has to find shares at which every promise is kept.

    Attributes
    ----------
    standardise
        Standardise each metric over the jobs before distances are taken. The paper takes them as they are.
    signed
        RUVScore by the sign of equation 4. That contradicts the text and Fig. 4, which want the jobs whose deviations
        are closest.
    """

    name: ClassVar[str] = "mediator"

    standardise: bool = False
    signed: bool = False

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Group positions by Algorithm 3."""
        # Lines 1-2
        score = ruv_score(profile.deviation, self.signed) + con_score(profile.metrics, self.standardise)

        def within(group: list[int]) -> bool:
            # Equation 6
            total = profile.mean[group].sum() + np.sqrt((profile.deviation[group] ** 2).sum())
            return bool(total <= CAPACITY) and fits(group)

        by_deviation = np.argsort(-profile.deviation, kind="stable").tolist()  # line 5
        return fill_groups(by_deviation, lambda group, left: ranked_by(score, group, left), within)


def ranked_by(score: Floats, group: list[int], candidates: list[int]) -> list[int]:
    """Return candidates by total score with the group, descending, ties by position (Algorithm 3, lines 10-13)."""
    ordered = np.sort(np.array(candidates, dtype=np.int64))
    total = score[ordered][:, group].sum(axis=1)
    return [int(i) for i in ordered[np.argsort(-total, kind="stable")]]
