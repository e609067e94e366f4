"""Refuted claims: certified bounds, ``optimal`` and ``infeasible`` that a known feasible plan contradicts.

A scheduler may certify a false bound. A single plan shows this: the judge accepted the plan, the plan belongs to the
class of the bound, and the bound excludes its value. The plan is that of a run in the ledger or of an entry of the
library. Refuted claims are reported and never used for gaps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.api import Scope, Status
from bench.ledger.bound_scope import Reach, claim_in_words, covers, scope_of
from bench.ledger.entry_rows import entry_rows, source_in_words
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
            f"{self.claimant.instance}: {self.claim} of {self.claimant.scheduler} ({source_in_words(self.claimant)}) "
            f"is refuted: {self.witness.scheduler} has a feasible plan of value {self.witness.value:.10g} "
            f"({source_in_words(self.witness)})"
        )


def by_instance(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each instance, by its hash."""
    return grouped((row.instance_hash, row) for row in rows)


def refutations(rows: Iterable[Row], reaches: Mapping[str, Reach]) -> dict[str, Refutation]:
    """Return the refuted claims among ``rows`` by the key of the claimant.

    ``reaches`` has the extent of the plan of each row with a plan, by key.
    """
    # With another truth, the GPUs of the judge differ from those of the planner.
    comparable = (row for row in rows if row.truth is None and row.objective != "scenarios")
    refuted: dict[str, Refutation] = {}
    for instance_rows in by_instance(comparable).values():
        witnesses = [row for row in instance_rows if row.feasible and row.value is not None and row.key in reaches]
        # The best plan comes first: it refutes every claim that another plan of its class refutes.
        minimised = bool(witnesses) and witnesses[0].objective == "cost"
        witnesses.sort(key=lambda row: (row.value or 0.0) if minimised else -(row.value or 0.0))
        for row in instance_rows:
            for claim, scope, bound_value in _claims(row):
                for witness in witnesses:
                    if not excludes(bound_value, witness, minimised):
                        break  # worse plans do not contradict the claim either
                    # A claim ``infeasible`` is about plans with the headroom and the margin of its run.
                    planned_alike = (witness.headroom, witness.margin) == (row.headroom, row.margin)
                    comparable_plan = bound_value is not None or planned_alike
                    if comparable_plan and covers(scope, witness, reaches[witness.key]):
                        refuted[row.key] = Refutation(claim, row, witness)
                        break
    return refuted


def ledger_refutations(ledger: Ledger, instance_hash: str | None = None) -> dict[str, Refutation]:
    """Return the refuted claims in a ledger, or those on one instance, by the key of the claimant.

    Claims and plans of the library's entries take part; the key of such a claimant is ``library/NAME``.
    """
    without = {*DETAILS, "plan"}
    suspects: list[Row] = []
    contradicted = [fingerprint for fingerprint in ledger.contradicted() if instance_hash in (None, fingerprint)]
    for fingerprint in contradicted:
        suspects += ledger.rows(without=without, instance_hash=fingerprint)
    names = {key: name for key, name in ledger.instance_names().items() if instance_hash in (None, key)}
    entries = entry_rows(names)
    for entry in entries:
        if entry.instance_hash not in contradicted:
            rows = ledger.rows(without=without, instance_hash=entry.instance_hash)
            suspects += rows if _may_contradict(rows, entry) else []
    return refutations([*suspects, *entries], ledger.reaches() | reaches_of(entries)) if suspects else {}


def reaches_of(rows: Iterable[Row]) -> dict[str, Reach]:
    """Return the extents of the plans of rows that were read with their plans, by key."""
    return {row.key: Reach.of(row.plan) for row in rows if row.plan is not None}


def _may_contradict(rows: Sequence[Row], entry: Row) -> bool:
    """Return whether an entry may refute a run, or a run the entry; classes of plans are not compared."""
    minimised = entry.objective == "cost"
    return any(
        row.truth is None
        and any(
            plan.feasible and excludes(bound_value, plan, minimised)
            for claimant, plan in ((row, entry), (entry, row))
            for _, _, bound_value in _claims(claimant)
        )
        for row in rows
    )


def upheld(rows: Iterable[Row], refuted: Mapping[str, Refutation]) -> list[Row]:
    """Return the rows, with refuted claims withdrawn: such a row has no bound, and its reason names the refutation."""
    return [_withdrawn(row, refuted[row.key]) if row.key in refuted else row for row in rows]


def _withdrawn(row: Row, refutation: Refutation) -> Row:
    """Return a row without its bounds, and with a status that claims nothing about other plans."""
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
    """Yield each claim of a row in words, its scope, and its bound on the value; ``None`` excludes every plan."""
    if row.bound is not None and row.bound_certified and row.bound_scope is not None:
        sign = "≥" if row.objective == "cost" else "≤"
        yield f"the certified bound {sign} {row.bound:.10g}", row.bound_scope, row.bound
    if row.status is Status.INFEASIBLE:
        yield "infeasible", scope_of(row), None
    if row.status is Status.OPTIMAL and not row.reserve and row.feasible and row.value is not None:
        yield f"{claim_in_words(row)} {row.value:.10g}", scope_of(row), row.value


def excludes(bound_value: float | None, other: Row, minimised: bool) -> bool:
    """Return whether a claim with the bound ``bound_value`` excludes the plan of ``other``.

    A claim without a bound excludes every plan.
    """
    if bound_value is None or other.value is None:
        return True
    tolerance = TOLERANCE * max(abs(bound_value), abs(other.value))
    return other.value < bound_value - tolerance if minimised else other.value > bound_value + tolerance
