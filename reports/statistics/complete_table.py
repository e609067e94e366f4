"""Complete table: results of schedulers that all ran on the same instances, so that their means are comparable."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from bench.ledger.entry_rows import entry_rows, named
from bench.ledger.refutation import by_instance
from bench.ledger.row import Row
from instances.arrays import Floats
from reports.statistics.gaps import (
    UNSOLVED,
    achieved,
    best_known,
    bound_gap_over_time,
    gap_integral,
    gap_over_time,
    mean_gap,
)

CLOCK_RESOLUTION_S = 1e-4
"""Resolution of the decision clock in seconds; a shorter time counts as this time."""

LARGEST_HORIZON_S = 1e9
"""Largest horizon of the integrals, in seconds."""


@dataclass(frozen=True, slots=True)
class CompleteTable:
    """Runs of every entrant on every instance.

    Attributes
    ----------
    runs
        Runs by entrant and instance fingerprint, one per seed.
    best
        The best known value of each instance, by fingerprint, also from runs outside the table and from the library's
        entry; ``None`` without a feasible plan.
    left_out
        Entrants that did not run on all instances.
    """

    runs: Mapping[str, Mapping[str, Sequence[Row]]]
    best: Mapping[str, float | None]
    left_out: Sequence[str]

    def values(self, statistic: Callable[[Sequence[Row], float | None], float]) -> Floats:
        """Return ``statistic(runs of all seeds, best known value)``, shape (instances, entrants)."""
        return np.array(
            [[statistic(runs[instance], best) for runs in self.runs.values()] for instance, best in self.best.items()]
        )

    def gaps(self) -> Floats:
        """Return the mean gaps to the best known value."""
        return self.values(mean_gap)

    def factors(self) -> Floats:
        """Return the factors between values and best known values: ``1 / (1 - gap)``, with the mean gap over the seeds.

        The factor is infinite for a gap of 1.
        """

        def factor(rows: Sequence[Row], best: float | None) -> float:
            gap = mean_gap(rows, best)
            return 1.0 / (1.0 - gap) if gap < UNSOLVED else np.inf

        return self.values(factor)

    def times_s(self, target: float) -> Floats:
        """Return the mean seconds over the seeds until a plan has a gap of at most ``target``.

        The time is infinite if a seed has no such plan.
        """

        def time_s(rows: Sequence[Row], best: float | None) -> float:
            steps = (gap_over_time(row, best) for row in rows)
            return fmean(
                next((max(t_s, CLOCK_RESOLUTION_S) for t_s, gap in run_steps if gap <= target), np.inf)
                for run_steps in steps
            )

        return self.values(time_s)

    @property
    def horizon_s(self) -> float:
        """Shortest time limit of a run in seconds, limited because a ledger from elsewhere can have any number."""
        return min(
            LARGEST_HORIZON_S,
            *(row.time_limit_s for runs in self.runs.values() for seed_rows in runs.values() for row in seed_rows),
        )

    def integrals_s(self) -> Floats:
        """Return the mean primal integrals up to ``horizon_s``."""
        until_s = self.horizon_s
        return self.values(lambda rows, best: fmean(gap_integral(gap_over_time(row, best), until_s) for row in rows))

    def dual_integrals_s(self) -> Floats:
        """Return the mean dual integrals up to ``horizon_s``."""
        until_s = self.horizon_s
        return self.values(
            lambda rows, best: fmean(gap_integral(bound_gap_over_time(row, best), until_s) for row in rows)
        )

    def unsolved(self) -> dict[str, int]:
        """Return the number of runs without a feasible plan of every entrant that has such runs."""
        counts = {
            name: sum(achieved(row) is None for seed_rows in runs.values() for row in seed_rows)
            for name, runs in self.runs.items()
        }
        return {name: count for name, count in counts.items() if count}


def complete_table(
    rows: Sequence[Row],
    names: Mapping[str, str],
    instances: Sequence[str],
    sort_position: Callable[[str], int] = lambda _: 0,
    required: Collection[str] = (),
    best_from: Sequence[Row] | None = None,
) -> CompleteTable:
    """Return the largest complete table of ``rows``.

    The latest of several equal runs counts. A skipped run means that its scheduler does not solve such instances; it
    counts as absent. A failed run counts as a result, with the gap 1. Entrants are added one by one, in descending
    order of their numbers of instances. The result is the table with the largest product of entrants and instances
    among these steps.

    Parameters
    ----------
    rows
        Rows, oldest first.
    names
        Entrant of every row, by key.
    instances
        Fingerprints of the instances, in the order of the table.
    sort_position
        First sort key of an entrant; the second is its name.
    required
        Entrants that the table must have if they have runs.
    best_from
        Rows from which the best known values are taken, besides the library; by default ``rows``.
    """
    results = [row for row in rows if row.termination != "skipped"]
    latest = {(names[row.key], row.instance_hash, row.seed): row for row in results}
    runs: dict[str, dict[str, list[Row]]] = {}
    for (name, instance, _), row in latest.items():
        runs.setdefault(name, {}).setdefault(instance, []).append(row)
    candidates = sorted(runs, key=lambda name: (name not in required, -len(runs[name]), sort_position(name), name))
    first_count = max(1, sum(name in runs for name in required))
    tables = [
        (candidates[:count], set.intersection(*(set(runs[name]) for name in candidates[:count])))
        for count in range(first_count, len(candidates) + 1)
    ]
    entrants, common = max(tables, key=lambda table: len(table[0]) * len(table[1]), default=([], set()))
    table_instances = [instance for instance in instances if instance in common]
    known = results if best_from is None else best_from
    rows_on = by_instance([*known, *entry_rows(named(known))])
    return CompleteTable(
        {
            name: {instance_hash: runs[name][instance_hash] for instance_hash in table_instances}
            for name in sorted(entrants, key=lambda name: (sort_position(name), name))
        },
        {instance_hash: best_known(rows_on.get(instance_hash, ())) for instance_hash in table_instances},
        [name for name in candidates if name not in entrants],
    )
