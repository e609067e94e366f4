"""Statistics of a complete table: means, profiles, integrals and ranks, and one scheduler against all others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from bench.formatting import objective_of
from bench.ledger.entry_rows import is_of_library
from bench.ledger.gap import Gap
from bench.ledger.refutation import by_instance
from bench.ledger.row import Row
from instances.arrays import Floats
from reports.statistics.complete_table import CompleteTable
from reports.statistics.gaps import TOLERANCE, UNSOLVED, achieved, gap_to_best, mean_gap
from reports.statistics.inference import Ranking, half_width, holm, mean_interval, rank_schedulers, signed_ranks
from reports.statistics.profiles import performance_ratios

FACTORS = (1.0, 1.1, 1.5, 2.0)
"""Factors between a value and the best known value; a table shows the performance profile at these factors."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Standing:
    """Results of one entrant on all instances of a table.

    Attributes
    ----------
    name, scheduler
        The entrant and its scheduler.
    runs, solved
        Number of runs, and number of runs with a feasible plan.
    seeds
        Number of seeds that ran on every instance.
    gap, interval
        Mean gap to the best known value, and its 95 % bootstrap interval. The mean is over the instances, of the mean
        over the seeds. A run without a feasible plan has the gap 1.
    seed_half_width
        Half the width of the 95 % interval (Student's t) of the mean gap over the seeds; ``None`` for fewer than two
        seeds.
    bound_gap
        Mean gap to the certified bound, over the instances on which every plan of the table has such a bound;
        ``None`` without such instances.
    rank
        Mean rank, where 1 is the best; ``None`` if the table is too small for ranks.
    profile
        For each of ``FACTORS``, the fraction of the instances on which the entrant is within the factor.
    integral_s, integral_interval
        Mean primal integral in seconds, and its 95 % bootstrap interval over the instances.
    dual_integral_s
        Mean dual integral in seconds; ``None`` for an entrant that never has a certified bound.
    decision_s
        Median decision time.
    held, refuted
        Number of runs whose plan holds, and number of runs whose plan does not hold, both by test.
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
    dual_integral_s: float | None
    decision_s: float | None
    held: int
    refuted: int


@dataclass(frozen=True, slots=True)
class Duel:
    """The reference against another entrant over the instances of a table.

    Attributes
    ----------
    name
        The other entrant.
    wins, ties, losses
        Numbers of instances on which the mean gap of the reference is smaller, equal and larger.
    difference, interval
        Mean of the other entrant's gap minus the reference's, and its 95 % bootstrap interval. Positive values
        favour the reference.
    p, p_holm
        p value of Wilcoxon's signed-rank test, and the same value corrected for all duels (Holm).
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
    """An instance on which an entrant's value is worse than the best known value.

    Attributes
    ----------
    instance, fingerprint
        Name and fingerprint of the instance.
    gap
        Mean gap to the best known value over the entrant's seeds.
    worst_run, best_run
        The entrant's worst run, and a run with the best known value.
    """

    instance: str
    fingerprint: str
    gap: float
    worst_run: Row
    best_run: Row


@dataclass(frozen=True, slots=True)
class InstanceGaps:
    """Results of all entrants on one instance.

    Attributes
    ----------
    instance, objective
        Name and objective of the instance.
    best
        Best known value; ``None`` without a feasible plan.
    gaps
        Mean gap to the best known value over the seeds, by entrant.
    """

    instance: str
    objective: str
    best: float | None
    gaps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of a complete table.

    Attributes
    ----------
    standings
        Entrants, by mean gap.
    reference, duels
        The entrant that is compared with all others, and these comparisons in the order of ``standings``.
    instances, bounded
        Number of instances, and number of instances that count in ``Standing.bound_gap``.
    horizon_s
        Horizon of the integrals, in seconds.
    ranking, order
        Tests of the ranks, and the entrants in the order of ``Ranking.ranks``. ``ranking`` is ``None`` for fewer
        than two instances or entrants.
    losses
        Instances on which the reference is worse than the best known value, the largest gap first.
    left_out
        Entrants that did not run on all instances.
    undecided
        Instances on which ``random`` reaches the best known value; such an instance does not discriminate.
    by_instance
        Gaps of all entrants on each instance.
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
    by_instance: Sequence[InstanceGaps]


def summary(
    table: CompleteTable, gaps: Mapping[str, Gap], rows: Sequence[Row], reference: str | None = None
) -> Summary:
    """Return the statistics of a table with at least one entrant and one instance.

    Parameters
    ----------
    gaps
        Gaps to certified bounds by run key.
    rows
        All rows on the table's instances, including those with the best known values.
    reference
        Entrant to compare with all others; the one with the least mean gap by default.
    """
    names, value_gaps = list(table.runs), table.gaps()
    too_small = len(names) < 2 or len(table.best) < 2
    ranking = None if too_small else rank_schedulers(np.round(value_gaps, 9))
    bounded = [instance for instance in table.best if _has_bounds(table, instance, gaps)]
    standings = _standings(table, value_gaps, bounded, gaps, ranking)
    standings.sort(key=lambda standing: (round(standing.gap, 9), standing.decision_s or 0.0, standing.name))
    reference_name = standings[0].name if reference is None else reference
    return Summary(
        standings,
        reference_name,
        _duels(reference_name, [standing.name for standing in standings], dict(zip(names, value_gaps.T, strict=True))),
        len(table.best),
        len(bounded),
        table.horizon_s,
        ranking,
        names,
        _losses(table, reference_name, rows),
        table.left_out,
        undiscriminating(rows, table.best),
        _by_instance(table, value_gaps),
    )


def _by_instance(table: CompleteTable, value_gaps: Floats) -> list[InstanceGaps]:
    """Return the results on each instance of a table; ``value_gaps`` has the shape (instances, entrants)."""
    names, first_runs = list(table.runs), next(iter(table.runs.values()))
    return [
        InstanceGaps(row.instance, objective_of(row), best, dict(zip(names, map(float, gaps), strict=True)))
        for (fingerprint, best), gaps in zip(table.best.items(), value_gaps, strict=True)
        for row in first_runs[fingerprint][:1]
    ]


def undiscriminating(rows: Sequence[Row], best: Mapping[str, float | None]) -> list[str]:
    """Return the names of instances on which ``random`` reaches the best known value; ``best`` is by fingerprint."""
    names = {
        row.instance: None
        for row in rows
        if row.scheduler == "random" and gap_to_best(achieved(row), best.get(row.instance_hash)) <= TOLERANCE
    }
    return list(names)


def _standings(
    table: CompleteTable, value_gaps: Floats, bounded: Sequence[str], gaps: Mapping[str, Gap], ranking: Ranking | None
) -> list[Standing]:
    """Return the results of each entrant.

    ``value_gaps`` are the gaps to the best known values, shape (instances, entrants); ``gaps`` are gaps to bounds.
    """
    integrals, ratios = table.integrals_s(), performance_ratios(table.factors())
    dual_integrals = table.dual_integrals_s()
    standings = []
    for column, (name, runs) in enumerate(table.runs.items()):
        rows = [row for seed_rows in runs.values() for row in seed_rows]
        times = [row.decision_s for row in rows if row.decision_s is not None]
        holds = [row.holds for row in rows]
        seed_gaps = _seed_gaps(table, name)
        standing = Standing(
            name=name,
            scheduler=rows[0].scheduler,
            runs=len(rows),
            solved=sum(achieved(row) is not None for row in rows),
            seeds=len(seed_gaps),
            gap=float(value_gaps[:, column].mean()),
            interval=mean_interval(value_gaps[:, column]),
            seed_half_width=float(half_width(seed_gaps)) if len(seed_gaps) > 1 else None,
            bound_gap=fmean(_bound_gap(row, gaps) for instance in bounded for row in runs[instance])
            if bounded
            else None,
            rank=None if ranking is None else float(ranking.ranks[column]),
            profile={factor: float((ratios[:, column] <= factor * (1.0 + TOLERANCE)).mean()) for factor in FACTORS},
            integral_s=float(integrals[:, column].mean()),
            integral_interval=mean_interval(integrals[:, column]),
            dual_integral_s=(
                float(dual_integrals[:, column].mean()) if any(row.bound_certified for row in rows) else None
            ),
            decision_s=median(times) if times else None,
            held=holds.count(True),
            refuted=holds.count(False),
        )
        standings.append(standing)
    return standings


def _seed_gaps(table: CompleteTable, name: str) -> list[float]:
    """Return the mean gap over the instances of each seed that ran on every instance."""
    instances = [{row.seed: row for row in rows} for rows in table.runs[name].values()]
    common_seeds = sorted(set.intersection(*(set(rows_by_seed) for rows_by_seed in instances)))
    return [
        fmean(
            mean_gap([rows_by_seed[seed]], best)
            for rows_by_seed, best in zip(instances, table.best.values(), strict=True)
        )
        for seed in common_seeds
    ]


def _has_bounds(table: CompleteTable, instance: str, gaps: Mapping[str, Gap]) -> bool:
    rows = [row for runs in table.runs.values() for row in runs[instance] if achieved(row) is not None]
    return bool(rows) and all(gaps[row.key].gap is not None for row in rows)


def _bound_gap(row: Row, gaps: Mapping[str, Gap]) -> float:
    gap = gaps[row.key].gap
    return UNSOLVED if gap is None else gap


def _duels(reference: str, names: Sequence[str], gaps: Mapping[str, Floats]) -> list[Duel]:
    """Return the duels of the reference against all other entrants; ``gaps`` are by entrant and instance."""
    differences_by_name = {name: gaps[name] - gaps[reference] for name in names if name != reference}
    for gap_differences in differences_by_name.values():
        gap_differences[np.abs(gap_differences) <= TOLERANCE] = 0.0
    p_values = [signed_ranks(gap_differences).p for gap_differences in differences_by_name.values()]
    return [
        Duel(
            name,
            int((gap_differences > 0.0).sum()),
            int((gap_differences == 0.0).sum()),
            int((gap_differences < 0.0).sum()),
            float(gap_differences.mean()),
            mean_interval(gap_differences),
            p,
            p_holm,
        )
        for (name, gap_differences), p, p_holm in zip(
            differences_by_name.items(), p_values, holm(p_values), strict=True
        )
    ]


def _losses(table: CompleteTable, name: str, rows: Sequence[Row]) -> list[Loss]:
    """Return the losses of an entrant for which ``rows`` have a run with the best known value."""
    losses, rows_on = [], by_instance(rows)
    for instance, best in table.best.items():
        entrant_rows = table.runs[name][instance]
        gap = mean_gap(entrant_rows, best)
        leaders = [row for row in rows_on.get(instance, ()) if gap_to_best(achieved(row), best) == 0]
        if gap > TOLERANCE and leaders:
            worst = max(entrant_rows, key=lambda row: gap_to_best(achieved(row), best))
            # The plan of a run explains more than that of a library entry, and any scheduler's more than a random one.
            leader = min(
                leaders, key=lambda row: (is_of_library(row.key), row.scheduler == "random", row.decision_s or 0.0)
            )
            losses.append(Loss(entrant_rows[0].instance, instance, gap, worst, leader))
    return sorted(losses, key=lambda loss: (-loss.gap, loss.instance))
