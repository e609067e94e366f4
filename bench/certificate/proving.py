"""Certificates from the duals of a run, rounded to whole numbers that prove no more than the claim needs."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, fsum, inf, isfinite
from typing import Any

import numpy as np
from pydantic import ValidationError

from bench.certificate.certificate import NO_PLAN_EXISTS, BoundClaim, DualProof, Fork, TreeProof, unit_for
from bench.certificate.checking import AGREEMENT, attainable
from bench.certificate.conditions import Conditions, bound_of_proof
from bench.certificate.costs import costs_around
from bench.certificate.dual import bound_of
from bench.certificate.exhaustive import MOST_WORKLOADS, exhaustive_bound
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.mig.proving import mig_proof
from bench.certificate.patterns import Progress, ignore
from bench.certificate.statement import Statement, classes
from instances import Instance, Objective, Partition, Plan
from instances.arrays import Ints
from instances.files import instance_to_json, plan_to_json

BOUND_FRACTION = 0.02
"""Position of the proven bound between the next lower cost (0) and the bound of the duals (1).

A low bound proves the same cost and is checked sooner.
"""

ROUNDING = 64
"""Whole units added to the dual of a GPU type, since the worth of each of its residents is rounded up by at most 1."""

DIGITS = 9
"""Decimals of a claimed bound after leading zeros, unless the bound is a cost."""

DIGITS_OF_COSTS = 33
"""Decimals of a claimed cost after leading zeros: enough for sums of prices with the 17 digits of a float."""

Node = Mapping[str, Any]


def certificate(
    instance: Instance,
    plan: Plan | None,
    nodes: Sequence[Node],
    bound: float | None = None,
    scope: Mapping[str, Any] | None = None,
    progress: Progress = ignore,
    loosened: float = 0.0,
) -> dict[str, Any]:
    """Return the certificate of a bound, by the duals of a run or, for a few workloads, by exhaustion.

    Parameters
    ----------
    plan
        A plan that the claim does not cover is left out.
    nodes
        Proof of a run as its row stores it (``duals``): leaves with float duals, and inner nodes.
    bound
        The run's bound. Under ``scale`` the claim has this bound. Under other objectives, an exhaustive proof replaces
        duals that prove a weaker bound, if there are few workloads.
    scope
        Scope of the bound, as a row stores it (``bound_scope``); spatial plans by default.
    progress
        Function of the fraction of an exhaustive proof that was done since the last call; each GPU type counts as 1.
    loosened
        Relative amount by which the proof overstates the largest worth of a GPU's patterns. A larger amount proves a
        weaker bound, and the check of the proof is shorter.

    Raises
    ------
    NotProvenError
        If no proof can be made.
    GivenUpError
        If a number is too large or too small, or a limit of the checker ended the proof.
    """
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            return _certificate(instance, plan, nodes, bound, scope, progress, loosened)
    except (ArithmeticError, ValidationError):
        raise GivenUpError("a number is too large or too small for a certificate") from None


def _certificate(
    instance: Instance,
    plan: Plan | None,
    nodes: Sequence[Node],
    bound: float | None,
    scope: Mapping[str, Any] | None,
    progress: Progress,
    loosened: float,
) -> dict[str, Any]:
    bound = bound if bound is not None and isfinite(bound) else None
    # On MIG instances, the proof covers split plans, whatever the run claims.
    bound_scope = {"plan_class": "split"} if instance.partition is Partition.MIG else scope or {"plan_class": "spatial"}
    plan_class, parts = str(bound_scope["plan_class"]), bound_scope.get("part_steps")
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
    is_scale = instance.objective is Objective.SCALE
    proof, proven_bound = (
        mig_proof(statement, nodes, plan, progress)
        if instance.partition is Partition.MIG
        else _proof(statement, nodes, bound, progress, loosened)
    )
    if not is_scale:
        proven_bound = attainable(statement, proven_bound)
        no_plan = proven_bound == inf if statement.minimised else proven_bound < 0
        proven_bound = max(0, proven_bound)  # rounded duals may prove a little less
        digits = DIGITS_OF_COSTS if statement.minimised else DIGITS
        claim["bound"] = (
            NO_PLAN_EXISTS if no_plan else decimal(Fraction(proven_bound), up=not statement.minimised, digits=digits)
        )
    return {
        "version": 1,
        "instance": instance_to_json(instance, frozen=True),
        "plan": None if plan is None else plan_to_json(plan),
        "claim": claim,
        "proof": proof,
    }


def _proof(
    statement: Statement, nodes: Sequence[Node], bound: float | None, progress: Progress, loosened: float
) -> tuple[dict[str, Any], Fraction | float]:
    """Return a proof by the duals of a run, or by exhaustion if the duals prove less than ``bound``; and its bound."""
    exhaustible = len(statement.instance.workloads) <= MOST_WORKLOADS and not statement.by_parts
    if not nodes and statement.instance.objective is Objective.GOODPUT:  # no plan serves more than arrives
        nodes = [
            {
                "workloads": [w.rate_rps for w in statement.instance.workloads],
                "gpus": [0.0 for _ in statement.instance.gpus],
            }
        ]
    if not nodes and not exhaustible:
        raise NotProvenError("the run kept no duals")
    needs_exhaustion = True
    if nodes:
        proof = _rounded(statement, nodes, loosened)
        proven_bound = _bound_of_duals(statement, proof)
        needs_exhaustion = (
            exhaustible
            and loosened == 0.0
            and statement.instance.objective is not Objective.SCALE
            and not as_strong(attainable(statement, proven_bound), bound, statement.minimised)
        )
    if needs_exhaustion:
        proof, proven_bound = {"kind": "exhaustive"}, exhaustive_bound(statement, progress)
    return proof, proven_bound


def _bound_of_duals(statement: Statement, data: Mapping[str, Any]) -> Fraction | float:
    proof = (DualProof if data["kind"] == "dual" else TreeProof).model_validate(data)
    return bound_of_proof(statement, proof, lambda leaf, branch, _: bound_of(statement, leaf, proof.unit, branch))


def as_strong(proven: Fraction | float, bound: float | None, minimised: bool) -> bool:
    """Return whether a proven bound is at least as strong as a run's bound.

    An infinite ``proven``, or a missing ``bound``, says that no plan exists.
    """
    if bound is None or abs(proven) == inf:
        return abs(proven) == inf
    tolerance = AGREEMENT * abs(Fraction(bound))
    return proven >= bound - tolerance if minimised else proven <= bound + tolerance


def decimal(value: Fraction, *, up: bool, digits: int = DIGITS) -> str:
    """Return a nonnegative number as a decimal with at most ``digits`` decimals after leading zeros, rounded."""
    power = 10 ** (digits + (len(str(floor(1 / value))) - 1 if 0 < value < 1 else 0))
    whole = (ceil if up else floor)(value * power)
    return f"{whole // power}.{whole % power:0{len(str(power)) - 1}d}".rstrip("0").rstrip(".")


def _rounded(statement: Statement, nodes: Sequence[Node], loosened: float) -> dict[str, Any]:
    """Return the proof with whole numbers; a single leaf needs no tree."""
    largest = max((abs(x) for node in nodes for x in (*node.get("workloads", ()), *node.get("gpus", ()))), default=1.0)
    unit = unit_for(largest)
    class_of = classes(statement.instance)
    rounded_nodes: list[dict[str, Any]] = []
    conditions_of_nodes = {0: Conditions.root(statement)}
    for position, node in enumerate(nodes):
        conditions = conditions_of_nodes[position]
        if "on" in node:
            class_fields = {"pair": ("first", "second"), "seat": ("first",)}.get(node["on"], ())
            rounded_fork = {**node, **{key: int(class_of[node[key]]) for key in class_fields}}
            rounded_nodes.append(rounded_fork)
            children = conditions.branches(Fork.model_validate(rounded_fork), statement, f"node {position}")
            conditions_of_nodes |= dict(zip(rounded_fork["branches"], children, strict=True))
        else:
            rounded_nodes.append(_leaf(statement, node, unit, conditions, class_of, loosened))
    header: dict[str, Any] = {"kind": "dual" if len(rounded_nodes) == 1 else "tree", "unit": unit}
    return header | (rounded_nodes[0] if len(rounded_nodes) == 1 else {"nodes": rounded_nodes})


def _leaf(
    statement: Statement, node: Node, unit: int, branch: Conditions, class_of: Ints, loosened: float
) -> dict[str, list[int]]:
    """Return the whole duals of a leaf."""
    # The workloads of a class get one dual, the mean of their duals: the bound stays the same.
    duals = np.bincount(class_of, weights=node["workloads"]) / statement.copies
    gpu_worths = np.array(node["gpus"], dtype=np.float64) * (1.0 + loosened)
    if not statement.minimised:
        charges = [ceil(Fraction(dual) * unit) for dual in duals.tolist()]
        # Slightly larger duals of the GPUs shorten the search; together they add at most an eighth of the tolerance.
        total_worth = fsum((duals * statement.copies).tolist()) + fsum(
            worth * (limit or 0) for worth, limit in zip(gpu_worths.tolist(), branch.most_gpus, strict=True)
        )
        spare = int(Fraction(total_worth) * unit * AGREEMENT / 8) // max(
            1, sum(limit or 0 for limit in branch.most_gpus)
        )
        return {
            "workloads": charges,
            "gpus": [max(0, ceil(Fraction(worth) * unit)) + ROUNDING + spare for worth in gpu_worths.tolist()],
        }
    duals = np.maximum(duals, 0.0)
    prices = np.array([float(price) for price in statement.prices])

    def cost_at(factor: float) -> float:
        """Return the bound at ``factor`` times the duals; -inf if they exceed the price of a type without a limit."""
        bound = factor * fsum((duals * statement.copies).tolist())
        for worth, price, limit, fewest_gpus in zip(
            gpu_worths.tolist(), prices.tolist(), branch.most_gpus, branch.fewest_gpus, strict=True
        ):
            excess = factor * worth - price
            if excess > 0.0:
                bound = -inf if limit is None and excess > 1e-12 * price else bound - excess * (limit or 0)
            else:
                bound -= excess * fewest_gpus
        return bound

    # The bound is concave in the factor, with corners where the factor times a worth equals a price. At a factor of 0,
    # only the GPUs that must be used cost something.
    corners = [
        price / worth
        for price, worth in zip(prices.tolist(), gpu_worths.tolist(), strict=True)
        if worth > 0.0 and price / worth < inf
    ]
    factor = max([*corners, 0.0], key=cost_at)
    best_bound = cost_at(factor)
    cost_below = _cost_below(best_bound, statement)
    if best_bound > cost_below:
        factor = _factor_for(cost_below + BOUND_FRACTION * (best_bound - cost_below), factor, cost_at)
    gpus = [
        0 if (limit is None and fewest_gpus == 0) else _whole_dual(factor * worth - price, unit, limit, fewest_gpus)
        for worth, price, limit, fewest_gpus in zip(
            gpu_worths.tolist(), prices.tolist(), branch.most_gpus, branch.fewest_gpus, strict=True
        )
    ]
    return {"workloads": [floor(Fraction(factor * dual) * unit) for dual in duals.tolist()], "gpus": gpus}


def _whole_dual(excess: float, unit: int, limit: int | None, fewest_gpus: int) -> int:
    """Return the dual of a GPU type whose patterns are worth ``excess`` more than its price."""
    if excess > 0.0:
        return 0 if limit is None else ceil(Fraction(excess) * unit) + ROUNDING
    return min(0, ceil(Fraction(excess) * unit) + ROUNDING) if fewest_gpus else 0


def _factor_for(target: float, largest_factor: float, cost_at: Callable[[float], float]) -> float:
    """Return the least factor up to ``largest_factor`` whose bound is at least ``target``, by bisection."""
    low, high = 0.0, largest_factor
    for _ in range(60):
        middle = (low + high) / 2.0
        if cost_at(middle) >= target:
            high = middle
        else:
            low = middle
    return high


def _cost_below(bound: float, statement: Statement) -> float:
    """Return a cost such that any bound above it proves as much as ``bound``.

    It is the largest cost of whole GPUs below ``bound``; under ``scale``, the cost of the whole pool.
    """
    if bound <= 0.0 or statement.instance.objective is not Objective.SCALE:
        return float(costs_around(Fraction(max(0.0, bound)), statement.prices, statement.limits)[0])
    # No plan exists if serving all costs more than the whole pool.
    return float(statement.pool_price)
