"""How far a plan may be from the best one: the gap to the best certified bound that applies to it.

Computed when rows are read, never stored: a bound found tomorrow improves the gap of a plan found today.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.ledger import Ledger
from bench.row import JsonObject, Row
from instances import InputError, Instance, PlanClass
from instances.costs import next_cost
from instances.performance.gpulet import GpuletModel


@dataclass(frozen=True, slots=True)
class Gap:
    """Gap to the best certified bound known, and to the run's own bound; ``None`` where there is none."""

    gap: float | None = None
    own_gap: float | None = None


def relative_gap(value: float, bound: float) -> float:
    """Return ``|value - bound| / max(|value|, |bound|)``, and 0 where both are 0."""
    scale = max(abs(value), abs(bound))
    return abs(value - bound) / scale if scale > 0.0 else 0.0


def gaps(rows: Sequence[Row], bounds: Iterable[Row], instance: Instance | None) -> dict[str, Gap]:
    """Return the gaps of ``rows``, all of one instance, by key.

    Parameters
    ----------
    rows
        Whose gaps are asked for. Only feasible plans have one.
    bounds
        Rows of the same instance whose certified bounds count.
    instance
        For rounding the bounds of ``cost``; ``None`` leaves them unrounded, which is weaker but not wrong.
    """
    certified = [row for row in bounds if row.bound is not None and row.bound_certified]
    return {row.key: _gap(row, certified, instance) for row in rows}


def ledger_gaps(rows: Iterable[Row], ledger: Ledger) -> dict[str, Gap]:
    """Return the gaps of ``rows``, by key, with every certified bound in ``ledger``."""
    by_instance: dict[str, list[Row]] = {}
    for row in rows:
        by_instance.setdefault(row.instance_hash, []).append(row)
    found: dict[str, Gap] = {}
    for fingerprint, group in by_instance.items():
        try:
            instance = ledger.instance(fingerprint)
        except InputError:  # the catalogue has changed since
            instance = None
        found |= gaps(group, ledger.rows(instance_hash=fingerprint, bound_certified=True), instance)
    return found


def _gap(row: Row, certified: Sequence[Row], instance: Instance | None) -> Gap:
    if not row.feasible or row.value is None or row.plan is None or row.truth is not None:
        return Gap()  # bounds are proven for the instance as the planner sees it
    minimised = row.objective == "cost"

    def rounded(bound: float) -> float:
        return next_cost(bound, instance) if minimised and instance is not None else bound

    applicable = [other.bound for other in certified if other.bound is not None and _covers(other.bound_scope, row)]
    best = (max(applicable) if minimised else min(applicable)) if applicable else None
    return Gap(
        gap=None if best is None else relative_gap(row.value, rounded(best)),
        own_gap=None if row.bound is None else relative_gap(row.value, rounded(row.bound)),
    )


def _covers(scope: JsonObject | None, row: Row) -> bool:
    """Whether a bound of ``scope`` holds for the plan of ``row``."""
    if scope is None or row.plan is None or row.plan_class is None:
        return False
    if row.performance_model == GpuletModel.name and any(len(gpu["gpulets"]) > 2 for gpu in row.plan["gpus"]):
        return False  # exact methods put at most two gpulets on a GPU where interference is that of pairs
    gpulets = [gpulet for gpu in row.plan["gpus"] for gpulet in gpu["gpulets"]]
    allowed, max_batch = scope["allowed_shares"], scope["max_batch"]
    return (
        PlanClass(scope["plan_class"]).contains(row.plan_class)
        and (allowed is None or {gpulet["share_units"] for gpulet in gpulets} <= set(allowed))
        and all(len(gpulet["slots"]) <= scope["slots_per_gpulet"] for gpulet in gpulets)
        and (max_batch is None or all(slot["batch"] <= max_batch for gpulet in gpulets for slot in gpulet["slots"]))
    )
