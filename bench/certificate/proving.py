"""Certificates from the duals of a run, rounded to whole numbers that prove no more than the claim needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from math import ceil, floor, fsum, inf, isfinite
from typing import Any

import numpy as np
from pydantic import ValidationError

from bench.api import Branching, Duals, ProofNode, Scope
from bench.certificate.certificate import NONE, BoundClaim, DualProof, Fork, TreeProof, unit_for
from bench.certificate.checking import AGREEMENT, attainable
from bench.certificate.conditions import Conditions, bound_of_proof
from bench.certificate.costs import costs_around
from bench.certificate.dual import bound_of
from bench.certificate.exhaustive import MOST_WORKLOADS, exhaustive_bound
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.patterns import Progress, ignore
from bench.certificate.statement import Statement, classes
from instances import Instance, Objective, Plan
from instances.arrays import Ints
from instances.files import instance_to_json, plan_to_json

SLACK = 0.02
"""Proven bound between the next lower cost (0) and the bound of the duals (1); a lower bound is checked sooner."""

ROUNDING = 64
"""Whole units added to the dual of a GPU type, since the worths of its residents are rounded up."""

DIGITS, DIGITS_OF_COSTS = 9, 33
"""Decimals of a claimed bound after leading zeros; 33 are enough for sums of prices with the 17 digits of a float."""


def certificate(
    instance: Instance,
    plan: Plan | None,
    nodes: Sequence[ProofNode],
    bound: float | None = None,
    scope: Scope | None = None,
    progress: Progress = ignore,
) -> dict[str, Any]:
    """Return the certificate of a bound, by the duals of a run or, for a few workloads, by exhaustion.

    Parameters
    ----------
    plan
        A plan that the claim does not cover is left out.
    nodes
        Proof of a run, of the root first.
    bound
        The run's bound. Under ``scale`` the claim takes it over. Otherwise, where the workloads are few, an exhaustive
        proof replaces duals that prove less.
    scope
        Scope of the bound, as a row stores it (``bound_scope``); spatial plans by default.
    progress
        Function that is told which part of an exhaustive proof was done since the last call; each GPU type counts as 1.

    Raises
    ------
    NotProvenError
        If no proof can be made.
    GivenUpError
        If a number is too large or too small, or a limit of the checker ended the proof.
    """
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            return _certificate(instance, plan, nodes, bound, scope, progress)
    except (ArithmeticError, ValidationError):
        raise GivenUpError("a number is too large or too small for a certificate") from None


def _certificate(
    instance: Instance,
    plan: Plan | None,
    nodes: Sequence[ProofNode],
    bound: float | None,
    scope: Scope | None,
    progress: Progress,
) -> dict[str, Any]:
    bound = bound if bound is not None and isfinite(bound) else None
    known = scope or Scope()
    plan_class, parts = str(known.plan_class), known.part_steps
    if plan_class not in ("spatial", "split"):
        raise NotProvenError("plans that take turns have no certificates")
    claim: dict[str, Any] = {
        "bound": decimal(Fraction(repr(float(bound or 0.0))), up=False),
        "plan_class": plan_class if parts is None else "split",
        "parts": parts,
    }
    if plan is not None and str(plan.plan_class) not in ("spatial", claim["plan_class"]):
        plan = None
    statement = Statement.of(instance, BoundClaim.model_validate(claim))
    scale = instance.objective is Objective.SCALE
    few = len(instance.workloads) <= MOST_WORKLOADS and not statement.by_parts
    if not nodes and instance.objective is Objective.GOODPUT:  # no plan serves more than arrives
        nodes = [Duals(tuple(w.rate_rps for w in instance.workloads), tuple(0.0 for _ in instance.gpus))]
    if not nodes and not few:
        raise NotProvenError("the run kept no duals")
    weak = True
    if nodes:
        proof = _rounded(statement, nodes)
        proven = _bound_of_duals(statement, proof)
        weak = few and not scale and not as_strong(attainable(statement, proven), bound, statement.minimised)
    if weak:
        proof, proven = {"kind": "exhaustive"}, exhaustive_bound(statement, progress)
    if not scale:
        proven = attainable(statement, proven)
        none = proven == inf if statement.minimised else proven < 0
        proven = max(0, proven)  # rounded duals may prove a little less
        digits = DIGITS_OF_COSTS if statement.minimised else DIGITS
        claim["bound"] = NONE if none else decimal(Fraction(proven), up=not statement.minimised, digits=digits)
    return {
        "version": 1,
        "instance": instance_to_json(instance, frozen=True),
        "plan": None if plan is None else plan_to_json(plan),
        "claim": claim,
        "proof": proof,
    }


def _bound_of_duals(statement: Statement, data: Mapping[str, Any]) -> Fraction | float:
    proof = (DualProof if data["kind"] == "dual" else TreeProof).model_validate(data)
    return bound_of_proof(statement, proof, lambda leaf, branch, _: bound_of(statement, leaf, proof.unit, branch))


def as_strong(proven: Fraction | float, bound: float | None, minimised: bool) -> bool:
    """Return whether a proven bound is at least as strong as a run's; both say that no plan exists if infinite."""
    if bound is None or abs(proven) == inf:
        return abs(proven) == inf
    room = AGREEMENT * abs(Fraction(bound))
    return proven >= bound - room if minimised else proven <= bound + room


def decimal(value: Fraction, *, up: bool, digits: int = DIGITS) -> str:
    """Return a nonnegative number as a decimal with at most ``digits`` decimals after leading zeros, rounded."""
    power = 10 ** (digits + (len(str(floor(1 / value))) - 1 if 0 < value < 1 else 0))
    whole = (ceil if up else floor)(value * power)
    return f"{whole // power}.{whole % power:0{len(str(power)) - 1}d}".rstrip("0").rstrip(".")


def _rounded(statement: Statement, nodes: Sequence[ProofNode]) -> dict[str, Any]:
    """Return the proof with whole numbers; a single leaf needs no tree."""
    leaves = [node for node in nodes if isinstance(node, Duals)]
    largest = max((abs(x) for leaf in leaves for x in (*leaf.workloads, *leaf.gpus)), default=1.0)
    unit = unit_for(largest)
    class_of = classes(statement.instance)
    written: list[dict[str, Any]] = []
    branches = {0: Conditions.root(statement)}
    for position, node in enumerate(nodes):
        branch = branches[position]
        if isinstance(node, Branching):
            workloads = {"pair": ("first", "second"), "seat": ("first",)}.get(node.on, ())
            inner = {**asdict(node), "branches": list(node.branches)}
            inner |= {key: int(class_of[inner[key]]) for key in workloads}
            written.append(inner)
            halves = branch.branches(Fork.model_validate(inner), statement, f"node {position}")
            branches |= dict(zip(inner["branches"], halves, strict=True))
        else:
            written.append(_leaf(statement, node, unit, branch, class_of))
    start: dict[str, Any] = {"kind": "dual" if len(written) == 1 else "tree", "unit": unit}
    return start | (written[0] if len(written) == 1 else {"nodes": written})


def _leaf(statement: Statement, node: Duals, unit: int, branch: Conditions, class_of: Ints) -> dict[str, list[int]]:
    """Return the whole duals of a leaf."""
    # Identical workloads have one dual: the mean of theirs proves as much.
    dual = np.bincount(class_of, weights=node.workloads) / statement.copies
    worth = np.array(node.gpus, dtype=np.float64)
    if not statement.minimised:
        charge = [ceil(Fraction(x) * unit) for x in dual.tolist()]
        # A little more for every GPU shortens the search; together it is an eighth of the margin at most.
        total = fsum((dual * statement.copies).tolist()) + fsum(
            v * (n or 0) for v, n in zip(worth.tolist(), branch.most, strict=True)
        )
        spare = int(Fraction(total) * unit * AGREEMENT / 8) // max(1, sum(n or 0 for n in branch.most))
        return {
            "workloads": charge,
            "gpus": [max(0, ceil(Fraction(v) * unit)) + ROUNDING + spare for v in worth.tolist()],
        }
    dual = np.maximum(dual, 0.0)
    price = np.array([float(p) for p in statement.prices])

    def cost_at(factor: float) -> float:
        """Return the bound at ``factor`` times the duals; -inf if a type without a limit contradicts them."""
        total = factor * fsum((dual * statement.copies).tolist())
        for v, p, limit, least in zip(worth.tolist(), price.tolist(), branch.most, branch.least, strict=True):
            over = factor * v - p
            if over > 0.0:
                total = -inf if limit is None and over > 1e-12 * p else total - over * (limit or 0)
            else:
                total -= over * least
        return total

    # The bound is concave in the factor, with corners where a worth is a price.
    corners = [p / v for p, v in zip(price.tolist(), worth.tolist(), strict=True) if v > 0.0 and p / v < inf]
    factor = max(corners, key=cost_at, default=0.0)
    most = cost_at(factor)
    below = _cost_below(most, statement)
    if most > below:
        factor = _factor_for(below + SLACK * (most - below), factor, cost_at)
    gpus = [
        0 if (limit is None and least == 0) else _whole_dual(factor * v - p, unit, limit, least)
        for v, p, limit, least in zip(worth.tolist(), price.tolist(), branch.most, branch.least, strict=True)
    ]
    return {"workloads": [floor(Fraction(factor * x) * unit) for x in dual.tolist()], "gpus": gpus}


def _whole_dual(over: float, unit: int, limit: int | None, least: int) -> int:
    """Return the dual of a GPU type whose patterns are worth ``over`` more than its price."""
    if over > 0.0:
        return 0 if limit is None else ceil(Fraction(over) * unit) + ROUNDING
    return min(0, ceil(Fraction(over) * unit) + ROUNDING) if least else 0


def _factor_for(target: float, most: float, cost_at: Callable[[float], float]) -> float:
    """Return the least factor up to ``most`` whose bound is at least ``target``, by bisection."""
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2.0
        if cost_at(middle) >= target:
            high = middle
        else:
            low = middle
    return high


def _cost_below(bound: float, statement: Statement) -> float:
    """Return the largest cost of whole GPUs below ``bound``: any bound above that cost proves as much."""
    if bound <= 0.0 or statement.instance.objective is not Objective.SCALE:
        return float(costs_around(Fraction(max(0.0, bound)), statement.prices, statement.limits)[0])
    # No plan exists if serving all costs more than the whole pool.
    return float(sum(p * (n or 0) for p, n in zip(statement.prices, statement.limits, strict=True)))
