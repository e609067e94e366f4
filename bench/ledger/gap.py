"""Gap of a plan to the best certified bound that applies to the plan.

Gaps are computed when rows are read and never stored, since a later run may prove a better bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.api import Scope
from bench.ledger.bound_scope import Reach, covers
from bench.ledger.entry_rows import entry_rows, named
from bench.ledger.refutation import Refutation, by_instance, ledger_refutations, upheld
from bench.ledger.row import Row
from bench.ledger.sql import DETAILS
from bench.ledger.store import Ledger
from instances import InputError, Instance
from instances.costs import next_cost


@dataclass(frozen=True, slots=True)
class CertifiedBound:
    """Certified bound: its value, the plans to which it applies (``Row.bound_scope``), and the key of its run.

    The key of an entry's bound is ``library/NAME``.
    """

    value: float
    scope: Scope
    key: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Gaps of a run to bounds, and these bounds; a field is ``None`` if there is no such bound.

    Attributes
    ----------
    gap, own_gap
        Gap to the best certified bound, and to the run's own bound.
    refuted
        Refutation of the run's own claim. A refuted run has no bound of its own.
    best
        Best certified bound for the run's plan.
    bound
        The run's own bound; under ``cost`` it is raised to the next cost of whole GPUs.
    """

    gap: float | None = None
    own_gap: float | None = None
    refuted: Refutation | None = None
    best: CertifiedBound | None = None
    bound: float | None = None


def relative_gap(value: float, bound: float) -> float:
    """Return ``|value - bound| / max(|value|, |bound|)``, or 0 if both are 0."""
    scale = max(abs(value), abs(bound))
    return abs(value - bound) / scale if scale > 0.0 else 0.0


def gaps(
    rows: Sequence[Row],
    bounds: Iterable[Row],
    instance: Instance | None,
    reaches: Mapping[str, Reach] | None = None,
) -> dict[str, Gap]:
    """Return the gaps of ``rows``, all of one instance, by key.

    Parameters
    ----------
    rows
        Rows to evaluate. Only rows with a feasible plan have a gap.
    bounds
        Rows of the same instance with certified bounds.
    instance
        Instance for rounding bounds of ``cost`` up to the next possible cost. With ``None``, bounds stay unrounded:
        they are weaker but valid.
    reaches
        Extent of each row's plan by key, if the rows were read without their plans.
    """
    certified = certified_bounds(bounds, bool(rows) and rows[0].objective == "cost", instance)
    if reaches is None:
        reaches = {row.key: Reach.of(row.plan) for row in rows if row.plan is not None}
    return {row.key: gap_to(best_bound(row, reaches.get(row.key), certified), row, instance) for row in rows}


def ledger_gaps(rows: Iterable[Row], ledger: Ledger, reaches: Mapping[str, Reach] | None = None) -> dict[str, Gap]:
    """Return the gaps of ``rows`` to the certified bounds in ``ledger`` and in the library, by key.

    Bounds that a plan in the ledger or in the library refutes do not count. ``reaches`` is as in ``gaps``.
    """
    rows_by_instance = by_instance(rows)
    entries = by_instance(entry_rows(named(row for group in rows_by_instance.values() for row in group)))
    # For several instances, one pass over the whole ledger is faster than a pass for each.
    refuted = ledger_refutations(ledger, next(iter(rows_by_instance)) if len(rows_by_instance) == 1 else None)
    gap_by_key: dict[str, Gap] = {}
    for fingerprint, instance_rows in rows_by_instance.items():
        try:
            instance = ledger.instance(fingerprint)
        except InputError:  # the catalogue has changed since the run
            instance = None
        certified = ledger.rows(without={*DETAILS, "plan"}, instance_hash=fingerprint, bound_certified=True)
        certified += entries.get(fingerprint, [])
        gap_by_key |= gaps(upheld(instance_rows, refuted), upheld(certified, refuted), instance, reaches)
        gap_by_key |= {
            row.key: replace(gap_by_key[row.key], refuted=refuted[row.key])
            for row in instance_rows
            if row.key in refuted
        }
    return gap_by_key


def certified_bounds(rows: Iterable[Row], on_cost: bool, instance: Instance | None) -> list[CertifiedBound]:
    """Return the best certified bound of each scope among ``rows``, all of one instance.

    With ``on_cost``, the largest bound is the best one, and bounds are rounded up to costs of whole GPUs.
    """
    best: dict[Scope, CertifiedBound] = {}
    for row in rows:
        if row.bound is None or not row.bound_certified or row.bound_scope is None:
            continue
        scope = row.bound_scope
        if scope not in best or (row.bound > best[scope].value if on_cost else row.bound < best[scope].value):
            best[scope] = CertifiedBound(row.bound, scope, row.key)
    return [replace(bound, value=reachable(bound.value, on_cost, instance)) for bound in best.values()]


def best_bound(row: Row, reach: Reach | None, bounds: Iterable[CertifiedBound]) -> CertifiedBound | None:
    """Return the best of ``bounds`` that applies to the plan of ``row``, feasible or not; ``None`` if none applies."""
    if row.truth is not None:
        return None  # bounds are proven for the planner's view of the instance, not for the true GPUs
    applicable = [bound for bound in bounds if covers(bound.scope, row, reach)]
    if not applicable:
        return None
    return (max if row.objective == "cost" else min)(applicable, key=lambda bound: bound.value)


def gap_to(best: CertifiedBound | None, row: Row, instance: Instance | None) -> Gap:
    """Return the gap of a run to the best bound for its plan and to its own bound; ``instance`` as in ``gaps``."""
    own_bound = None if row.bound is None else reachable(row.bound, row.objective == "cost", instance)
    if not row.feasible or row.value is None or row.truth is not None:
        return Gap(best=best, bound=own_bound)
    return Gap(
        gap=None if best is None else relative_gap(row.value, best.value),
        own_gap=None if own_bound is None else relative_gap(row.value, own_bound),
        best=best,
        bound=own_bound,
    )


def reachable(bound: float, on_cost: bool, instance: Instance | None) -> float:
    """Return a bound; with ``on_cost`` and a known instance, the least cost of whole GPUs that is not below it."""
    return next_cost(bound, instance) if on_cost and instance is not None else bound
