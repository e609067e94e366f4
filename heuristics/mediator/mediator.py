"""MediatorDNN and its baselines: rules that group the jobs that share a GPU (MediatorDNN, Sec. III and IV-A)."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import ClassVar

import numpy as np

from heuristics.mediator.closest import fill_closest
from heuristics.mediator.grouping import CAPACITY, Fits, Grouping, fill_by_mean, fill_groups
from heuristics.mediator.horus_cost import fill_by_cost
from heuristics.mediator.utilisation import Utilisation
from instances.arrays import Floats


def con_score(metrics: Floats, standardise: bool = False) -> Floats:
    """Return ConScore of every pair, the distance of their profiles (MediatorDNN, Algorithm 1), shape (jobs, jobs).

    Parameters
    ----------
    metrics
        Profile vectors, shape (jobs, metrics).
    standardise
        Standardise each metric over the jobs first. Otherwise, as in the paper, the metric with the largest numbers
        dominates the distance.
    """
    if standardise and len(metrics):
        deviation = metrics.std(axis=0)
        metrics = (metrics - metrics.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    # Equation 1
    distance = np.sqrt(((metrics[:, None, :] - metrics[None, :, :]) ** 2).sum(axis=2))
    return _standardised(distance)


def ruv_score(deviation: Floats, signed: bool = False) -> Floats:
    """Return RUVScore of every pair, the similarity of their deviations (MediatorDNN, Algorithm 2), shape (jobs, jobs).

    Parameters
    ----------
    deviation
        ``RUSD``, shape (jobs,).
    signed
        Take ``RUSD_i - RUSD_j`` as in equation 4; this is largest for the least similar pair. Otherwise take
        ``-|RUSD_i - RUSD_j|``; this pairs the jobs of Fig. 4 as the paper does.
    """
    difference = deviation[:, None] - deviation[None, :]  # equation 4
    return _standardised(difference if signed else -np.abs(difference))


def _standardised(scores: Floats) -> Floats:
    """Standardise each row over the other jobs (equations 2 and 5): mean over N - 1, deviation over N, as printed.

    The result is 0 on the diagonal and in rows whose other scores are all equal.
    """
    count = len(scores)
    others = ~np.eye(count, dtype=bool)
    mean = (scores * others).sum(axis=1, keepdims=True) / max(1, count - 1)
    spread = np.sqrt((((scores - mean) * others) ** 2).sum(axis=1, keepdims=True) / max(1, count))
    all_equal = spread <= 1e-12 * np.abs(scores).max(initial=1.0)
    return np.where(others & ~all_equal, (scores - mean) / np.where(all_equal, 1.0, spread), 0.0)


def ranked_by(score: Floats, group: list[int], candidates: list[int]) -> list[int]:
    """Return candidates by total score with the group, descending, ties by position (Algorithm 3, lines 10-13)."""
    ordered = np.sort(np.array(candidates, dtype=np.int64))
    total = score[ordered][:, group].sum(axis=1)
    return [int(i) for i in ordered[np.argsort(-total, kind="stable")]]


@dataclass(frozen=True, slots=True)
class Mediator(Grouping):
    """MediatorDNN's grouping of best-effort jobs, or of workloads with SLOs, by contention and variation.

    The candidate whose utilisation varies most opens a group. The others are tried in the order of their total
    ColoScore with the group, ConScore plus RUVScore. A group's mean utilisations plus the deviation of the portfolio
    must stay within the GPU. For workloads, a group must also have shares at which every latency budget is met.

    Attributes
    ----------
    standardise
        Standardise each metric over the jobs before distances are computed. The paper does not.
    signed
        Compute RUVScore with the sign of equation 4. This contradicts the text and Fig. 4, which group the jobs with
        the closest deviations.
    con_weight
        Weight of ConScore in ColoScore; 1 in the paper. At 0, only the variation of utilisation counts.
    """

    name: ClassVar[str] = "mediator"

    standardise: bool = False
    signed: bool = False
    con_weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.con_weight < inf:
            raise ValueError(f"con_weight is {self.con_weight}; expected a finite number of at least 0")

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Return the groups of positions by Algorithm 3."""
        # Lines 1-2
        contention = con_score(profile.metrics, self.standardise)
        score = ruv_score(profile.deviation, self.signed) + self.con_weight * contention

        def within(group: list[int]) -> bool:
            # Equation 6
            total = profile.mean[group].sum() + np.sqrt((profile.deviation[group] ** 2).sum())
            return bool(total <= CAPACITY) and fits(group)

        by_deviation = np.argsort(-profile.deviation, kind="stable").tolist()  # line 5
        return fill_groups(by_deviation, lambda group, candidates: ranked_by(score, group, candidates), within)


class HorusRule(StrEnum):
    """Rules by which ``horus`` groups best-effort jobs."""

    CON_SCORE = "con-score"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class Horus(Grouping):
    """Stand-in for Horus, as MediatorDNN's paper describes it: contention and mean utilisation, without variation.

    The rule is MediatorDNN's loop with only ConScore, and with mean utilisations within the GPU. The busiest candidate
    opens a group.

    Attributes
    ----------
    rule
        Groups of jobs by this loop (``con-score``), or by the cost of GPUs as in Horus's own simulator (``cost``), on
        the least number of GPUs that mean utilisations permit. Workloads with SLOs are grouped by the loop.
    standardise
        Standardise each metric over the jobs before distances are computed; see ``Mediator``.
    """

    name: ClassVar[str] = "horus"

    rule: HorusRule = HorusRule.CON_SCORE
    standardise: bool = False

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Return the groups of positions."""
        score = con_score(profile.metrics, self.standardise)
        return fill_by_mean(profile, lambda group, candidates: ranked_by(score, group, candidates), fits)

    def groups_of_jobs(self, profile: Utilisation, memory: Floats, fits: Fits) -> list[list[int]]:
        """Return the groups of positions of jobs by the rule ``rule``."""
        if self.rule is HorusRule.COST:
            return fill_by_cost(profile.mean, memory, fits)
        return self.groups(profile, fits)


class Fill(StrEnum):
    """Rules by which ``bin-packing`` fills a GPU with best-effort jobs."""

    CLOSEST = "closest"
    BUSIEST = "busiest"


@dataclass(frozen=True, slots=True)
class BinPacking(Grouping):
    """Bin packing by mean utilisation, without contention and variation.

    Workloads with SLOs fill each GPU with the busiest that fit.

    Attributes
    ----------
    fill
        Jobs on each GPU: those whose mean utilisations add up as closely as possible to the whole GPU, as in the paper
        (``closest``), or the busiest that fit (``busiest``).
    """

    name: ClassVar[str] = "bin-packing"

    fill: Fill = Fill.CLOSEST

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Return the groups of positions of workloads: the busiest that fit."""
        return fill_by_mean(profile, lambda group, candidates: list(candidates), fits)

    def groups_of_jobs(self, profile: Utilisation, memory: Floats, fits: Fits) -> list[list[int]]:
        """Return the groups of positions of jobs by the rule ``fill``."""
        return fill_closest(profile.mean, fits) if self.fill is Fill.CLOSEST else self.groups(profile, fits)
