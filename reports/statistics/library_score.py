"""Scores of schedulers on entries of the library: one number for plans and one for bounds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from statistics import fmean

from bench.ledger.bound_scope import Reach, covers
from bench.ledger.entry_rows import entry_row
from bench.ledger.gap import reachable
from bench.ledger.refutation import by_instance, ledger_refutations, upheld
from bench.ledger.row import Row, Termination
from bench.ledger.store import Ledger
from instances import InputError, Instance
from instances.library import LibraryEntry
from reports.entrants import entrants, facets_of, newest
from reports.statistics.complete_table import LARGEST_HORIZON_S
from reports.statistics.gaps import achieved, bound_gap_over_time, gap_integral, gap_over_time
from reports.statistics.ledger_summary import UNREAD, chosen_schedulers

WORST_RATIO = 10.0
"""Ratio of a missing run and of a run without a feasible plan or without a bound; no ratio counts as more."""


@dataclass(frozen=True, slots=True)
class LibraryScore:
    """Scores of one scheduler on a set of entries.

    Attributes
    ----------
    plans, bounds
        Geometric means over the entries of value / best and best / bound, inverted under maximised objectives. 1 is the
        best known value; a smaller score means new best plans, or plans of a class that the library does not accept.
    planned, bounded
        Numbers of entries on which every run has a feasible plan, and on which every run has a bound.
    primal_s, dual_s
        Means over the entries of the primal and the dual integral, in seconds; ``None`` if runs have a work limit.
    """

    name: str
    plans: float
    bounds: float
    planned: int
    bounded: int
    primal_s: float | None
    dual_s: float | None


@dataclass(frozen=True, slots=True)
class LibraryScores:
    """Scores of all schedulers of a ledger on a set of entries.

    Attributes
    ----------
    scores
        The scores, the best plans first.
    entries
        Number of entries of the set.
    horizon_s
        Horizon of the integrals; ``None`` without integrals.
    digest
        First digits of a SHA-256 of the entries' best values and bounds, by which scores are comparable.
    """

    scores: Sequence[LibraryScore]
    entries: int
    horizon_s: float | None
    digest: str


def library_scores(ledger: Ledger, entries: Sequence[LibraryEntry], schedulers: Sequence[str] = ()) -> LibraryScores:
    """Return the scores of a ledger's schedulers, or of some of them, on entries with a plan.

    Runs whose real GPUs differ from the planned ones (``--truth``) do not count. The seeds of a scheduler on an entry
    share the entry's weight.

    Raises
    ------
    InputError
        If no run of the ledger is on one of the entries, or a scheduler is unknown.
    """
    entry_of = {entry.instance.fingerprint: entry for entry in entries}
    rows = [
        row
        for row in ledger.rows(without=UNREAD)
        if row.instance_hash in entry_of and row.source == "plan" and row.truth is None
    ]
    rows = upheld(rows, ledger_refutations(ledger))
    rows = [row for row in rows if row.termination is not Termination.SKIPPED]
    if not rows:
        raise InputError(str(ledger.path), "has no run on these entries of the library; `bench run` adds some")
    facets = facets_of(rows, ledger.arrivals())
    current = {key for group in by_instance(rows).values() for key in newest(group, facets)}
    rows = chosen_schedulers([row for row in rows if row.key in current], schedulers, str(ledger.path))
    names = entrants(rows, facets)
    timed = all(row.work_limit is None for row in rows)
    horizon_s = min(LARGEST_HORIZON_S, *(row.time_limit_s for row in rows)) if timed else None
    runs: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        runs.setdefault(names[row.key], {}).setdefault(row.instance_hash, []).append(row)
    targets = {fingerprint: _Target.of(entry) for fingerprint, entry in entry_of.items()}
    scores = [_score(name, runs_of, targets, horizon_s) for name, runs_of in runs.items()]
    scores.sort(key=lambda score: (score.plans, score.bounds, score.name))
    values = sorted((entry.instance.name, entry.value, entry.bound) for entry in entries)
    return LibraryScores(scores, len(entries), horizon_s, sha256(repr(values).encode()).hexdigest()[:8])


@dataclass(frozen=True, slots=True)
class _Target:
    """Best value of an entry, with which runs are compared."""

    instance: Instance
    value: float
    entry: Row
    reach: Reach

    @classmethod
    def of(cls, entry: LibraryEntry) -> "_Target":
        assert entry.plan is not None
        assert entry.value is not None
        return cls(entry.instance, entry.value, entry_row(entry), Reach.of(entry.plan))

    def plan_ratio(self, row: Row) -> float:
        """Return the factor by which the value of a run is worse than the best one, at most ``WORST_RATIO``."""
        value = achieved(row)
        return WORST_RATIO if value is None else self._ratio(value, self.value)

    def bound_ratio(self, row: Row) -> float:
        """Return the factor between the best value and a run's bound; a bound must cover the entry's plan."""
        if not _has_bound(row) or row.bound_scope is None or not covers(row.bound_scope, self.entry, self.reach):
            return WORST_RATIO
        assert row.bound is not None
        return self._ratio(self.value, reachable(row.bound, row.objective == "cost", self.instance))

    def _ratio(self, worse: float, better: float) -> float:
        """Return the ratio of a worse and a better value: larger than 1 under every objective."""
        if worse == better:
            return 1.0
        above, below = (worse, better) if self.instance.objective.minimised else (better, worse)
        return min(WORST_RATIO, above / below) if below > 0.0 else WORST_RATIO


def _has_bound(row: Row) -> bool:
    return row.bound is not None and bool(row.bound_certified)


def _score(
    name: str, runs: Mapping[str, Sequence[Row]], targets: Mapping[str, _Target], horizon_s: float | None
) -> LibraryScore:
    """Return the scores of one scheduler; entries without a run count as ``WORST_RATIO``."""
    logs_of_plans: list[float] = []
    logs_of_bounds: list[float] = []
    primal: list[float] = []
    dual: list[float] = []
    for fingerprint, target in targets.items():
        rows = runs.get(fingerprint, ())
        logs_of_plans.append(fmean(math.log(target.plan_ratio(row)) for row in rows) if rows else math.log(WORST_RATIO))
        logs_of_bounds.append(
            fmean(math.log(target.bound_ratio(row)) for row in rows) if rows else math.log(WORST_RATIO)
        )
        if horizon_s is not None:
            for integrals, over_time in ((primal, gap_over_time), (dual, bound_gap_over_time)):
                steps = [over_time(row, target.value) for row in rows] or [[(0.0, 1.0)]]
                integrals.append(fmean(gap_integral(run_steps, horizon_s) for run_steps in steps))
    return LibraryScore(
        name,
        math.exp(fmean(logs_of_plans)),
        math.exp(fmean(logs_of_bounds)),
        sum(all(achieved(row) is not None for row in rows) for rows in runs.values()),
        sum(all(_has_bound(row) for row in rows) for rows in runs.values()),
        fmean(primal) if primal else None,
        fmean(dual) if dual else None,
    )
