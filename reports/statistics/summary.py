"""Statistics of a complete table: one scheduler against all others, means, profiles, integrals and ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from bench.ledger.gap import Gap
from bench.ledger.refutation import by_instance
from bench.ledger.row import Row
from instances.arrays import Floats
from reports.statistics.complete_table import CompleteTable
from reports.statistics.gaps import TOLERANCE, UNSOLVED, achieved, gap_to_best, mean_gap
from reports.statistics.inference import Ranking, half_width, holm, mean_interval, rank_schedulers, signed_ranks
from reports.statistics.profiles import performance_ratios

FACTORS = (1.0, 1.1, 1.5, 2.0)
"""Factors to the best known value at which a table states the performance profile."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Standing:
    """Results of one contestant on all instances of a table.

    Attributes
    ----------
    name, scheduler
        The contestant and its scheduler.
    runs, solved
        Number of runs, and of those with a feasible plan.
    seeds
        Number of seeds that ran on every instance.
    gap, interval
        Mean gap to the best known value over the instances, each the mean of its seeds, and its 95 % bootstrap
        interval. A run without a feasible plan has the gap 1.
    seed_half_width
        Half the 95 % interval (Student's t) of the mean gap over the seeds; ``None`` for fewer than two.
    bound_gap
        Mean gap to the certified bound over the instances on which every plan of the table has such a bound; ``None``
        if there are none.
    rank
        Mean rank from 1, the best; ``None`` in a table that is too small for ranks.
    profile
        ``FACTORS`` with the fraction of the instances on which the contestant is within the factor.
    integral_s, integral_interval
        Mean primal integral in seconds, and its 95 % bootstrap interval over the instances.
    decision_s
        Median decision time.
    held, refuted
        Runs whose plan is known to hold, and is known not to hold.
    """

    name: str
    scheduler: str
    runs: int
    solved: int
    seeds: int
    gap: float
    interval: Interval | None
    seed_half_width: float | None
    bound_gap: float | None
    rank: float | None
    profile: Mapping[float, float]
    integral_s: float
    integral_interval: Interval | None
    decision_s: float | None
    held: int
    refuted: int


@dataclass(frozen=True, slots=True)
class Duel:
    """The reference against another contestant over the instances of a table.

    Attributes
    ----------
    name
        The other contestant.
    wins, ties, losses
        Numbers of instances on which the reference has the smaller, an equal and the larger mean gap.
    difference, interval
        Mean of the other's gap minus the reference's, and its 95 % bootstrap interval: positive if the reference is
        better.
    p, p_holm
        Wilcoxon's signed-rank test, alone and corrected for all duels (Holm).
    """

    name: str
    wins: int
    ties: int
    losses: int
    difference: float
    interval: Interval | None
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class Loss:
    """An instance on which a contestant's value is worse than the best known one.

    Attributes
    ----------
    instance, fingerprint
        The instance.
    gap
        Mean gap of the contestant's seeds to the best known value.
    own, best
        The contestant's worst run, and a run with the best known value.
    """

    instance: str
    fingerprint: str
    gap: float
    own: Row
    best: Row


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of a complete table.

    Attributes
    ----------
    standings
        Contestants, by mean gap.
    reference, duels
        The contestant that is compared with all others, and its comparisons in the order of ``standings``.
    instances, bounded
        Number of instances, and of those that count in ``Standing.bound_gap``.
    horizon_s
        Time limit of the primal integrals.
    ranking, order
        Tests of the ranks, ``None`` for fewer than two instances or contestants, and the contestants in the order of
        ``Ranking.ranks``.
    losses
        Instances on which the reference is worse than the best known value, largest loss first.
    left_out
        Contestants that did not run on all instances.
    undecided
        Instances on which ``random`` reaches the best known value, too: they do not discriminate.
    """

    standings: Sequence[Standing]
    reference: str
    duels: Sequence[Duel]
    instances: int
    bounded: int
    horizon_s: float
    ranking: Ranking | None
    order: Sequence[str]
    losses: Sequence[Loss]
    left_out: Sequence[str]
    undecided: Sequence[str]


def summary(
    table: CompleteTable, gaps: Mapping[str, Gap], rows: Sequence[Row], reference: str | None = None
) -> Summary:
    """Return the statistics of a table with at least one contestant and one instance.

    Parameters
    ----------
    gaps
        Gaps to certified bounds by run key.
    rows
        All rows on the table's instances, among which are those with the best known values.
    reference
        Contestant to compare with all others; the one with the least mean gap by default.
    """
    names, found = list(table.runs), table.gaps()
    small = len(names) < 2 or len(table.best) < 2
    ranking = None if small else rank_schedulers(np.round(found, 9))
    bounded = [at for at in table.best if _has_bounds(table, at, gaps)]
    standings = _standings(table, found, bounded, gaps, ranking)
    standings.sort(key=lambda one: (round(one.gap, 9), one.decision_s or 0.0, one.name))
    chosen = standings[0].name if reference is None else reference
    return Summary(
        standings,
        chosen,
        _duels(chosen, [one.name for one in standings], dict(zip(names, found.T, strict=True))),
        len(table.best),
        len(bounded),
        table.horizon_s,
        ranking,
        names,
        _losses(table, chosen, rows),
        table.left_out,
        undiscriminating(rows, table.best),
    )


def undiscriminating(rows: Sequence[Row], best: Mapping[str, float | None]) -> list[str]:
    """Return the names of instances on which ``random`` reaches the best known value; ``best`` is by fingerprint."""
    reached = {
        row.instance: None
        for row in rows
        if row.scheduler == "random" and gap_to_best(achieved(row), best.get(row.instance_hash)) <= TOLERANCE
    }
    return list(reached)


def _standings(
    table: CompleteTable, found: Floats, bounded: Sequence[str], gaps: Mapping[str, Gap], ranking: Ranking | None
) -> list[Standing]:
    """Return the results of each contestant; ``found`` are the gaps to the best known values, ``gaps`` to bounds."""
    integrals, ratios = table.integrals_s(), performance_ratios(table.factors())
    standings = []
    for at, (name, runs) in enumerate(table.runs.items()):
        rows = [row for seeds in runs.values() for row in seeds]
        times = [row.decision_s for row in rows if row.decision_s is not None]
        holds = [row.holds for row in rows]
        over_seeds = _over_seeds(table, name)
        standing = Standing(
            name=name,
            scheduler=rows[0].scheduler,
            runs=len(rows),
            solved=sum(achieved(row) is not None for row in rows),
            seeds=len(over_seeds),
            gap=float(found[:, at].mean()),
            interval=mean_interval(found[:, at]),
            seed_half_width=float(half_width(over_seeds)) if len(over_seeds) > 1 else None,
            bound_gap=fmean(_bound_gap(row, gaps) for one in bounded for row in runs[one]) if bounded else None,
            rank=None if ranking is None else float(ranking.ranks[at]),
            profile={factor: float((ratios[:, at] <= factor * (1.0 + TOLERANCE)).mean()) for factor in FACTORS},
            integral_s=float(integrals[:, at].mean()),
            integral_interval=mean_interval(integrals[:, at]),
            decision_s=median(times) if times else None,
            held=holds.count(True),
            refuted=holds.count(False),
        )
        standings.append(standing)
    return standings


def _over_seeds(table: CompleteTable, name: str) -> list[float]:
    """Return for each seed that ran on every instance its mean gap over the instances."""
    by_seed = [{row.seed: row for row in rows} for rows in table.runs[name].values()]
    common = sorted(set.intersection(*(set(one) for one in by_seed)))
    return [
        fmean(mean_gap([one[seed]], best) for one, best in zip(by_seed, table.best.values(), strict=True))
        for seed in common
    ]


def _has_bounds(table: CompleteTable, instance: str, gaps: Mapping[str, Gap]) -> bool:
    rows = [row for runs in table.runs.values() for row in runs[instance] if achieved(row) is not None]
    return bool(rows) and all(gaps[row.key].gap is not None for row in rows)


def _bound_gap(row: Row, gaps: Mapping[str, Gap]) -> float:
    gap = gaps[row.key].gap
    return UNSOLVED if gap is None else gap


def _duels(reference: str, names: Sequence[str], gaps: Mapping[str, Floats]) -> list[Duel]:
    differences = {name: gaps[name] - gaps[reference] for name in names if name != reference}
    for one in differences.values():
        one[np.abs(one) <= TOLERANCE] = 0.0
    p_values = [signed_ranks(one).p for one in differences.values()]
    return [
        Duel(
            name,
            int((one > 0.0).sum()),
            int((one == 0.0).sum()),
            int((one < 0.0).sum()),
            float(one.mean()),
            mean_interval(one),
            p,
            p_holm,
        )
        for (name, one), p, p_holm in zip(differences.items(), p_values, holm(p_values), strict=True)
    ]


def _losses(table: CompleteTable, name: str, rows: Sequence[Row]) -> list[Loss]:
    found, rows_on = [], by_instance(rows)
    for at, best in table.best.items():
        own = table.runs[name][at]
        gap = mean_gap(own, best)
        leaders = [row for row in rows_on.get(at, ()) if gap_to_best(achieved(row), best) == 0]
        if gap > TOLERANCE and leaders:
            worst = max(own, key=lambda row: gap_to_best(achieved(row), best))
            # A scheduler's plan says more than a random one of the same value.
            leader = min(leaders, key=lambda row: (row.scheduler == "random", row.decision_s or 0.0))
            found.append(Loss(own[0].instance, at, gap, worst, leader))
    return sorted(found, key=lambda loss: (-loss.gap, loss.instance))
