"""Better plans than a proven optimum: they lie outside the class in which it is optimal."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.api import Status
from bench.ledger.bound_scope import Reach, outside, scope_of
from bench.ledger.refutation import by_instance, excludes
from bench.ledger.row import Row
from bench.ledger.sql import DETAILS
from bench.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class BetterPlan:
    """Feasible plan of ``row``, and what it has that the class of the optimum excludes, in words."""

    row: Row
    outside: str


def better_plans(rows: Iterable[Row], others: Iterable[Row], reaches: Mapping[str, Reach]) -> dict[str, BetterPlan]:
    """Return the best plan among ``others`` that is better than each proven optimum among ``rows``, by key.

    All rows are of one instance. ``reaches`` has the extents of the plans of ``others``, by key.
    """
    found: dict[str, BetterPlan] = {}
    served = [row for row in others if row.feasible and row.value is not None and row.truth is None]
    for row in rows:
        if not _claims_optimum(row):
            continue
        for other in served:
            if row.key in found and not _better(other, found[row.key].row):
                continue
            if _better(other, row) and other.key in reaches:
                beyond = outside(scope_of(row), other, reaches[other.key])
                if beyond is not None:
                    found[row.key] = BetterPlan(other, beyond)
    return found


def ledger_better_plans(rows: Iterable[Row], ledger: Ledger) -> dict[str, BetterPlan]:
    """Return the best plan in ``ledger`` that is better than each proven optimum among ``rows``, by key."""
    found: dict[str, BetterPlan] = {}
    reaches: dict[str, Reach] = {}
    for fingerprint, claims in by_instance(filter(_claims_optimum, rows)).items():
        others = ledger.rows(without={*DETAILS, "plan"}, instance_hash=fingerprint, feasible=True)
        if any(_better(other, row) for row in claims for other in others if other.value is not None):
            reaches = reaches or ledger.reaches()
            found |= better_plans(claims, others, reaches)
    return found


def _claims_optimum(row: Row) -> bool:
    return row.status == Status.OPTIMAL and bool(row.feasible) and row.value is not None and row.truth is None


def _better(other: Row, row: Row) -> bool:
    return excludes(row.value, other, row.objective == "cost")
