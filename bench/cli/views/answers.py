"""Sentences below a table of runs: better plans than an optimum, the library's values, and the GPUs that are needed."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.api import Scope
from bench.cli.terminal import listed, one_line
from bench.formatting import beaten_by, objective_of, percent, short_key, worth, worth_of_bound
from bench.ledger.better_plans import ledger_better_plans
from bench.ledger.bound_scope import claim_in_words, scope_in_words, scope_of
from bench.ledger.entry_rows import entry_rows, named
from bench.ledger.gap import CertifiedBound, Gap, relative_gap
from bench.ledger.refutation import by_instance, ledger_refutations
from bench.ledger.row import CHECKED, Row
from bench.ledger.store import Ledger
from bench.schedulers.registry import OWN, entries
from instances import InputError, Objective, Plan, PlanClass
from instances.costs import whole_gpus
from instances.library.entry import better

_NO_BOUND = ": no certified bound covers the plan (colgen proves bounds)"


def better_plan_notes(rows: Sequence[Row], gaps: Mapping[str, Gap], ledger: Ledger) -> list[str]:
    """Return a line for every proven optimum that a plan outside its class beats; equal claims share a line."""
    better_plans = ledger_better_plans([row for row in rows if gaps[row.key].refuted is None], ledger)
    schedulers: dict[tuple[str, str, str], dict[str, None]] = {}
    for row in rows:
        if row.key in better_plans:
            claim = f"{claim_in_words(row)}; {beaten_by(better_plans[row.key])}"
            schedulers.setdefault((row.instance_hash, row.instance, claim), {})[row.scheduler] = None
    return [one_line(f"{name}, {', '.join(names)}: {claim}") for (_, name, claim), names in schedulers.items()]


def answers(rows: Sequence[Row], gaps: Mapping[str, Gap], ledger: Ledger) -> list[str]:
    """Return the best plan among ``rows`` in a sentence, for every instance of objective ``cost`` with a feasible plan.

    Further sentences compare the runs with the library, and name instances that do not discriminate between schedulers.
    """
    best: dict[str, Row] = {}
    for row in rows:
        if row.objective == "cost" and row.feasible and row.value is not None and row.truth is None:
            best_so_far = best.setdefault(row.instance_hash, row)
            if row.value < (best_so_far.value or 0.0):
                best[row.instance_hash] = row
    lines = []
    for fingerprint, row in best.items():
        try:
            instance = ledger.instance(fingerprint)
        except InputError:  # the catalogue has changed since the run
            continue
        prices = [pool.type.price_per_hour for pool in instance.gpus]
        best_bound = gaps[row.key].best
        bound = None if best_bound is None else _stated(best_bound, ledger)
        if row.gpus_used and len(prices) == 1 and prices[0] > 0.0:
            lines.append(one_line(f"{row.instance}: {_on_one_type(row.gpus_used, bound, prices[0])}"))
        elif row.gpus_used:
            lines.append(one_line(f"{row.instance}: {_on_several(row.plan or ledger.row(row.key).plan, row, bound)}"))
    return [*lines, *beside_library(rows, gaps), *undiscriminating(rows), *refuted_earlier(rows, ledger)]


def refuted_earlier(rows: Sequence[Row], ledger: Ledger) -> list[str]:
    """Return a sentence for each claim of an earlier run, or of the library, that a plan of these runs refutes."""
    keys = {row.key for row in rows}
    return [
        one_line(str(refutation))
        for refutation in ledger_refutations(ledger).values()
        if refutation.witness.key in keys and refutation.claimant.key not in keys
    ]


def beside_library(rows: Sequence[Row], gaps: Mapping[str, Gap]) -> list[str]:
    """Return a sentence for each library instance of ``rows``: its best plan and bound, and the best of the runs.

    Only runs in a plan class that the library accepts for the instance count.
    """
    as_planned = [row for row in rows if row.truth is None and gaps[row.key].refuted is None]
    runs_on = by_instance(as_planned)
    lines = []
    for entry in entry_rows(named(as_planned)):
        objective = objective_of(entry)
        known = "no plan" if entry.value is None else f"best plan {worth(entry.value, objective)}"
        bound = "no bound" if entry.bound is None else f"bound {worth(entry.bound, objective)}"
        widest_class = PlanClass.SPATIAL if entry.plan_class is None else entry.plan_class
        values = [
            row.value
            for row in runs_on[entry.instance_hash]
            if row.feasible and row.value is not None and widest_class.contains(row.plan_class or widest_class)
        ]
        best = (min if Objective(objective).minimised else max)(values, default=None)
        tighter = _tighter_bound(runs_on[entry.instance_hash], entry, widest_class)
        lines.append(
            one_line(f"{entry.key}: {known}, {bound}; {_beside(best, entry.value, Objective(objective))}{tighter}")
        )
    return lines


def _tighter_bound(rows: Sequence[Row], entry: Row, plan_class: PlanClass) -> str:
    """Return in words the best certified bound of runs that also covers the library's plans, if it is tighter."""
    objective = Objective(objective_of(entry))
    bounds = [
        row.bound
        for row in rows
        if row.bound is not None and row.bound_certified and _covers_all(scope_of(row), plan_class)
    ]
    best = (max if objective.minimised else min)(bounds, default=None)
    if best is None or (entry.bound is not None and not better(entry.bound, best, objective)):
        return ""
    return f"; their bound {worth_of_bound(best, objective)} is tighter (bench prove {entry.key}, bench library submit)"


def _covers_all(scope: Scope, plan_class: PlanClass) -> bool:
    """Return whether all plans of a class are within a scope."""
    return scope.plan_class.contains(plan_class) and scope.allowed_shares is None and scope.max_batch is None


def _beside(best: float | None, known: float | None, objective: Objective) -> str:
    """Return the best value of runs beside the ``known`` value of a library entry, in words."""
    if best is None:
        return "these runs have no feasible plan"
    here = f"best of these runs {worth(best, objective)}"
    if known is None or better(best, known, objective):
        return f"{here}, a new best plan"
    tie = not better(known, best, objective)
    return f"{here}, as good" if tie else f"{here}, {percent(relative_gap(best, known))} behind"


def undiscriminating(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on the instances on which ``random`` finds a plan as good as the best of other schedulers."""
    rows_with_plan = [row for row in rows if row.feasible and row.value is not None and row.truth is None]
    instances = []
    for group in by_instance(row for row in rows_with_plan if row.scenarios is None).values():
        values = [row.value or 0.0 for row in group]
        best = min(values) if group[0].objective == "cost" else max(values)
        other_schedulers = {row.scheduler for row in group} - {"random"}
        if other_schedulers and any(
            row.scheduler == "random" and math.isclose(row.value or 0.0, best) for row in group
        ):
            instances.append(group[0].instance)
    names = listed(list(dict.fromkeys(instances)))
    return [one_line(f"does not discriminate, since random finds the best value, too: {names}")] if instances else []


def _on_one_type(gpus: int, bound: "_StatedBound | None", price: float) -> str:
    """Return the number of GPUs of a plan, the lowest number that may be enough, and the highest proven too low."""
    if gpus == 1:
        return "1 GPU; no plan takes fewer"
    if bound is None:
        return f"{gpus} GPUs; {_number_and_verb(gpus - 1)} not excluded{_NO_BOUND}"
    lowest = min(gpus, max(1, whole_gpus(bound.value, price)))
    open_part = [f"{_number_and_verb(lowest)} not excluded"] * (lowest < gpus)
    proven_part = [f"{_number_and_verb(lowest - 1)} {bound.verb} too few {bound.where}"] * (lowest > 1)
    return f"{gpus} GPUs; {', '.join(open_part + proven_part)}"


def _on_several(plan: Plan | None, row: Row, bound: "_StatedBound | None") -> str:
    """Return the GPUs of a plan by type, their price, and the price below which a plan is proven impossible."""
    used = Counter(gpu.type for gpu in (() if plan is None else plan.gpus) if gpu.gpulets)
    gpus = " + ".join(f"{number} {name}" for name, number in used.items())
    value = row.value or 0.0
    price = f"${worth(value, 'cost').split()[0]}/h"
    if bound is None:
        return f"{gpus} at {price}; less is not excluded{_NO_BOUND}"
    if bound.value < 0.01:
        return f"{gpus} at {price}; less is not excluded"
    least = f"${worth_of_bound(bound.value, 'cost').split()[0]}/h"
    impossible = f"below {least}" if better(bound.value, value, Objective.COST) else "less"
    return f"{gpus} at {price}; {impossible} is {bound.verb} impossible {bound.where}"


def _number_and_verb(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'}"


class _StatedBound(NamedTuple):
    """Bound with the words for it: whether it is proven or claimed, and the class of plans for which it holds."""

    value: float
    verb: str
    where: str


def _stated(bound: CertifiedBound, ledger: Ledger) -> _StatedBound:
    """Return a bound with the words for it.

    A bound of the library, one with a checked certificate, and one of a scheduler of the bench are proven. The bound of
    a scheduler from elsewhere, without a checked certificate, is only claimed.
    """
    where = f"in the class {scope_in_words(bound.scope)}"
    for row in ledger.rows(key=bound.key):  # none for an entry of the library
        entry = entries().get(row.scheduler.partition("@")[0])
        if row.proof != CHECKED and (entry is None or entry.distribution != OWN):
            by = f"(by {row.scheduler}, unchecked: bench prove {short_key(row)})"
            return _StatedBound(bound.value, "claimed", f"{where} {by}")
    return _StatedBound(bound.value, "proven", where)
