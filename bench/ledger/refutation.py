"""Refuted claims: certified bounds, ``optimal`` and ``infeasible`` that a feasible plan in the ledger contradicts.

A scheduler may certify a false bound. No proof is needed to find that out: the judge has accepted a plan of the bound's
class whose value the bound excludes. Refuted claims are named and never used for gaps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bench.api import Scope, Status
from bench.ledger.bound_scope import Reach, claim_in_words, covers, scope_of
from bench.ledger.row import Row
from bench.ledger.sql import DETAILS
from bench.ledger.store import Ledger
from instances.grouping import grouped

TOLERANCE = 1e-6
"""Relative difference up to which a value and a bound agree."""


@dataclass(frozen=True, slots=True)
class Refutation:
    """Contradiction of a claim, such as ``optimal (spatial) 3.06``, by the feasible plan of the row ``witness``."""

    claim: str
    claimant: Row
    witness: Row

    def __str__(self) -> str:
        return (
            f"{self.claimant.instance}: {self.claim} of {self.claimant.scheduler} (run {self.claimant.key[:8]}) is "
            f"refuted: {self.witness.scheduler} has a feasible plan of value {self.witness.value:.10g} "
            f"(run {self.witness.key[:8]})"
        )


def by_instance(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each instance, by its hash."""
    return grouped((row.instance_hash, row) for row in rows)


def refutations(rows: Iterable[Row], reaches: Mapping[str, Reach]) -> dict[str, Refutation]:
    """Return the refuted claims among ``rows`` by the key of the claimant.

    ``reaches`` has the extent of the plan of each row with a plan, by key.
    """
    # With another truth, plans are judged on other GPUs than they are made for.
    comparable = (row for row in rows if row.truth is None and row.objective != "scenarios")
    found: dict[str, Refutation] = {}
    for group in by_instance(comparable).values():
        witnesses = [row for row in group if row.feasible and row.value is not None and row.key in reaches]
        # The best plan comes first: it refutes whatever any plan of its class refutes.
        minimised = bool(witnesses) and witnesses[0].objective == "cost"
        witnesses.sort(key=lambda row: (row.value or 0.0) if minimised else -(row.value or 0.0))
        for row in group:
            for claim, scope, limit in _claims(row):
                for other in witnesses:
                    if not excludes(limit, other, minimised):
                        break  # nor does any worse plan contradict the claim
                    same_terms = limit is not None or other.headroom == row.headroom
                    if same_terms and covers(scope, other, reaches[other.key]):
                        found[row.key] = Refutation(claim, row, other)
                        break
    return found


def ledger_refutations(ledger: Ledger, instance_hash: str | None = None) -> dict[str, Refutation]:
    """Return the refuted claims in a ledger, or those on one instance, by the key of the claimant."""
    suspects = [each for each in ledger.contradicted() if instance_hash in (None, each)]
    if not suspects:
        return {}
    without = {*DETAILS, "plan"}
    return refutations(
        [row for each in suspects for row in ledger.rows(without=without, instance_hash=each)], ledger.reaches()
    )


def upheld(rows: Iterable[Row], refuted: Mapping[str, Refutation]) -> list[Row]:
    """Return rows whose refuted claims are withdrawn: they have no bound, and their reason tells why."""
    return [_withdrawn(row, refuted[row.key]) if row.key in refuted else row for row in rows]


def _withdrawn(row: Row, refutation: Refutation) -> Row:
    points = [{**point, "bound": None, "bound_certified": None} for point in row.trajectory or ()]
    return replace(
        row,
        status=Status.UNKNOWN if row.value is None else Status.FEASIBLE,
        bound=None,
        bound_certified=None,
        bound_scope=None,
        trajectory=points if row.trajectory is not None else row.trajectory,
        reason=str(refutation),
    )


def _claims(row: Row) -> Iterable[tuple[str, Scope, float | None]]:
    """Yield the claims of a row in words, each with its scope and the bound on the value; ``None`` excludes all."""
    if row.bound is not None and row.bound_certified and row.bound_scope is not None:
        sign = "≥" if row.objective == "cost" else "≤"
        yield f"the certified bound {sign} {row.bound:.10g}", row.bound_scope, row.bound
    if row.status is Status.INFEASIBLE:
        yield "infeasible", scope_of(row), None
    if row.status is Status.OPTIMAL and row.headroom in (None, 1.0) and row.feasible and row.value is not None:
        yield f"{claim_in_words(row)} {row.value:.10g}", scope_of(row), row.value


def excludes(limit: float | None, other: Row, minimised: bool) -> bool:
    """Return whether a claim with this bound on the value excludes the plan of ``other``."""
    if limit is None or other.value is None:
        return True
    tolerance = TOLERANCE * max(abs(limit), abs(other.value))
    return other.value < limit - tolerance if minimised else other.value > limit + tolerance
