"""Sentences below a table of runs: better plans than an optimum of a class, and how many GPUs an instance needs."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from bench.cli.terminal import listed, one_line
from bench.formatting import beaten_by
from bench.ledger.better_plans import ledger_better_plans
from bench.ledger.bound_scope import claim_in_words, scope_in_words
from bench.ledger.gap import CertifiedBound, Gap
from bench.ledger.refutation import by_instance
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import InputError, Plan
from instances.costs import whole_gpus


def better_plan_notes(rows: Sequence[Row], gaps: Mapping[str, Gap], ledger: Ledger) -> list[str]:
    """Return a line for every proven optimum that a plan outside its class beats. Equal optima share a line."""
    better = ledger_better_plans([row for row in rows if gaps[row.key].refuted is None], ledger)
    schedulers: dict[tuple[str, str, str], dict[str, None]] = {}
    for row in rows:
        if row.key in better:
            claim = f"{claim_in_words(row)}; {beaten_by(better[row.key])}"
            schedulers.setdefault((row.instance_hash, row.instance, claim), {})[row.scheduler] = None
    return [one_line(f"{name}, {', '.join(names)}: {claim}") for (_, name, claim), names in schedulers.items()]


def answers(rows: Sequence[Row], gaps: Mapping[str, Gap], ledger: Ledger) -> list[str]:
    """Return a sentence on the best plan among ``rows`` for every instance of ``cost`` with a feasible plan.

    A last sentence names instances that do not discriminate.
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
        bound = gaps[row.key].best
        if row.gpus_used and len(prices) == 1 and prices[0] > 0.0:
            lines.append(one_line(f"{row.instance}: {_on_one_type(row.gpus_used, bound, prices[0])}"))
        elif row.gpus_used:
            lines.append(one_line(f"{row.instance}: {_on_several(row.plan or ledger.row(row.key).plan, row, bound)}"))
    return [*lines, *undiscriminating(rows)]


def undiscriminating(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on the instances on which ``random`` finds a plan as good as the best plan of the others."""
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


def _on_one_type(gpus: int, bound: CertifiedBound | None, price: float) -> str:
    """Return the number of GPUs of a plan, the lowest number that may be enough, and the highest proven too low."""
    if gpus == 1:
        return "1 GPU; no plan takes fewer"
    if bound is None:
        return f"{gpus} GPUs; {_number_are(gpus - 1)} not excluded"
    lowest = min(gpus, max(1, whole_gpus(bound.value, price)))
    open_part = [f"{_number_are(lowest)} not excluded"] * (lowest < gpus)
    proven_part = [f"{_number_are(lowest - 1)} proven too few {_in_class(bound)}"] * (lowest > 1)
    return f"{gpus} GPUs; {', '.join(open_part + proven_part)}"


def _on_several(plan: Plan | None, row: Row, bound: CertifiedBound | None) -> str:
    """Return the GPUs of a plan by type, their price, and the price below which a plan is proven impossible."""
    used = Counter(gpu.type for gpu in (() if plan is None else plan.gpus) if gpu.gpulets)
    gpus = " + ".join(f"{number} {name}" for name, number in used.items())
    # The sentence must not claim more than is proven, so the bound is rounded down to cents.
    cents = 0 if bound is None else math.floor(100.0 * bound.value + 1e-6)
    proven = f"below ${cents / 100:,.2f}/h is proven impossible {_in_class(bound)}" if bound and cents > 0 else ""
    return f"{gpus} at ${row.value:,.2f}/h; {proven or 'less is not excluded'}"


def _number_are(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'}"


def _in_class(bound: CertifiedBound) -> str:
    return f"in the class {scope_in_words(bound.scope)}"
