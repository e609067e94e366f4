"""Complete table: schedulers that all ran on the same instances, the only ones whose means can be compared."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from bench.ledger.refutation import by_instance
from bench.ledger.row import Row
from instances.arrays import Floats
from reports.statistics.gaps import UNSOLVED, achieved, best_known, gap_over_time, mean_gap, primal_integral

LEAST_S = 1e-4
"""Resolution of the decision clock; shorter times count as equal."""

MOST_S = 1e9
"""Longest time that counts, in seconds."""


@dataclass(frozen=True, slots=True)
class CompleteTable:
    """Runs of every contestant on every instance.

    Attributes
    ----------
    runs
        Runs by contestant and instance fingerprint, one per seed.
    best
        The best known value of each instance, by fingerprint; ``None`` without a feasible plan. Runs outside the table
        count here, too.
    left_out
        Contestants that did not run on all instances.
    """

    runs: Mapping[str, Mapping[str, Sequence[Row]]]
    best: Mapping[str, float | None]
    left_out: Sequence[str]

    def values(self, of: Callable[[Sequence[Row], float | None], float]) -> Floats:
        """Return ``of(runs of all seeds, best known value)``, shape (instances, contestants)."""
        return np.array([[of(runs[at], best) for runs in self.runs.values()] for at, best in self.best.items()])

    def gaps(self) -> Floats:
        """Return the mean gaps to the best known value."""
        return self.values(mean_gap)

    def factors(self) -> Floats:
        """Return the factors to the best known value by the mean gap over the seeds; infinite for a gap of 1."""

        def factor(rows: Sequence[Row], best: float | None) -> float:
            gap = mean_gap(rows, best)
            return 1.0 / (1.0 - gap) if gap < UNSOLVED else np.inf

        return self.values(factor)

    def times_s(self, target: float) -> Floats:
        """Return the mean seconds to a plan with a gap of at most ``target``, infinite where a seed finds none."""

        def time_s(rows: Sequence[Row], best: float | None) -> float:
            steps = (gap_over_time(row, best) for row in rows)
            return fmean(next((max(t_s, LEAST_S) for t_s, gap in each if gap <= target), np.inf) for each in steps)

        return self.values(time_s)

    @property
    def horizon_s(self) -> float:
        """Shortest time limit of a run, at most ``MOST_S``, since a ledger from elsewhere can have any number."""
        return min(
            MOST_S, *(row.time_limit_s for runs in self.runs.values() for seeds in runs.values() for row in seeds)
        )

    def integrals_s(self) -> Floats:
        """Return the mean primal integrals up to ``horizon_s``."""
        until_s = self.horizon_s
        return self.values(lambda rows, best: fmean(primal_integral(gap_over_time(row, best), until_s) for row in rows))

    def unsolved(self) -> dict[str, int]:
        """Return the number of runs without a feasible plan, by contestant that has some."""
        counts = {
            name: sum(achieved(row) is None for seeds in runs.values() for row in seeds)
            for name, runs in self.runs.items()
        }
        return {name: count for name, count in counts.items() if count}


def complete_table(
    rows: Sequence[Row],
    names: Mapping[str, str],
    instances: Sequence[str],
    place: Callable[[str], int] = lambda _: 0,
    required: Collection[str] = (),
    known: Sequence[Row] | None = None,
) -> CompleteTable:
    """Return the largest complete table of ``rows``.

    Of equal runs the latest counts. A skipped run, whose scheduler does not solve such instances, is a hole; a failed
    run is a result, the worst one. Contestants are added in descending order of their numbers of instances; the result
    is the table with the largest product of contestants and instances on the way.

    Parameters
    ----------
    rows
        Rows, oldest first.
    names
        Contestant of every row, by key.
    instances
        Fingerprints in the order of the table.
    place
        Sort key of a contestant, before its name.
    required
        Contestants that the table must have, if they have runs.
    known
        Rows whose best values are the best known ones; by default ``rows``.
    """
    own = [row for row in rows if row.termination != "skipped"]
    latest = {(names[row.key], row.instance_hash, row.seed): row for row in own}
    runs: dict[str, dict[str, list[Row]]] = {}
    for (name, instance, _), row in latest.items():
        runs.setdefault(name, {}).setdefault(instance, []).append(row)
    order = sorted(runs, key=lambda name: (name not in required, -len(runs[name]), place(name), name))
    least = max(1, sum(name in runs for name in required))
    tables = [
        (order[:count], set.intersection(*(set(runs[name]) for name in order[:count])))
        for count in range(least, len(order) + 1)
    ]
    chosen, common = max(tables, key=lambda table: len(table[0]) * len(table[1]), default=([], set()))
    shown = [instance for instance in instances if instance in common]
    rows_on = by_instance(own if known is None else known)
    return CompleteTable(
        {name: {at: runs[name][at] for at in shown} for name in sorted(chosen, key=lambda name: (place(name), name))},
        {at: best_known(rows_on.get(at, ())) for at in shown},
        [name for name in order if name not in chosen],
    )
