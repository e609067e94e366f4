"""Better plans than a proven optimum: they lie outside the class of plans of the optimum."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.api import Status
from bench.ledger.bound_scope import Reach, outside, scope_of
from bench.ledger.entry_rows import entry_rows, named
from bench.ledger.refutation import by_instance, excludes, reaches_of
from bench.ledger.row import Row
from bench.ledger.sql import DETAILS
from bench.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class BetterPlan:
    """Feasible plan of ``row``, and the property of it that the class of the optimum excludes, in words."""

    row: Row
    outside: str


def better_plans(rows: Iterable[Row], others: Iterable[Row], reaches: Mapping[str, Reach]) -> dict[str, BetterPlan]:
    """Return the best plan among ``others`` that beats a proven optimum among ``rows``, by the key of the optimum.

    All rows are of one instance. ``reaches`` has the extents of the plans of ``others``, by key.
    """
    best: dict[str, BetterPlan] = {}
    candidates = [row for row in others if row.feasible and row.value is not None and row.truth is None]
    for row in rows:
        if not _claims_optimum(row):
            continue
        for candidate in candidates:
            if row.key in best and not _better(candidate, best[row.key].row):
                continue
            if _better(candidate, row) and candidate.key in reaches:
                excluded_part = outside(scope_of(row), candidate, reaches[candidate.key])
                if excluded_part is not None:
                    best[row.key] = BetterPlan(candidate, excluded_part)
    return best


def ledger_better_plans(rows: Iterable[Row], ledger: Ledger) -> dict[str, BetterPlan]:
    """Return the best known plan that beats a proven optimum among ``rows``, by the key of the optimum.

    Known plans are those in ``ledger`` and those of the library's entries.
    """
    best: dict[str, BetterPlan] = {}
    reaches: dict[str, Reach] = {}
    for fingerprint, claims in by_instance(filter(_claims_optimum, rows)).items():
        others = ledger.rows(without={*DETAILS, "plan"}, instance_hash=fingerprint, feasible=True)
        entries = [entry for entry in entry_rows(named(claims)) if entry.feasible]
        others += entries
        if any(_better(other, row) for row in claims for other in others if other.value is not None):
            reaches = (reaches or ledger.reaches()) | reaches_of(entries)
            best |= better_plans(claims, others, reaches)
    return best


def _claims_optimum(row: Row) -> bool:
    return row.status == Status.OPTIMAL and bool(row.feasible) and row.value is not None and row.truth is None


def _better(other: Row, row: Row) -> bool:
    """Return whether the plan of ``other`` has a better value than ``row``, by more than the tolerance."""
    return excludes(row.value, other, row.objective == "cost")
