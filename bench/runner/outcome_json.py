"""JSON values of a scheduler's outcome and reports, with a check of every type."""

from collections.abc import Sequence
from itertools import chain
from math import isfinite

from bench.api import Bound, Branching, Duals, Outcome, ProofNode
from bench.ledger.row_schema import scope_to_json
from bench.runner.failures import one_line
from bench.runner.messages import Message
from bench.schedulers.chain import RefusedError
from instances import Plan
from instances.files import plan_to_json


def result_json(plan: object, bound: object) -> Message:
    """Return a plan and a bound as JSON values.

    Raises
    ------
    RefusedError
        If the plan or the bound, or a part of them, has the wrong type.
    """
    if plan is not None and not isinstance(plan, Plan):
        raise RefusedError(f"plan is a {type(plan).__name__}; expected a Plan")
    if bound is not None and not isinstance(bound, Bound):
        raise RefusedError(f"bound is a {type(bound).__name__}; expected a Bound")
    try:
        return {"plan": None if plan is None else plan_to_json(plan), "bound": _bound(bound)}
    except Exception as error:  # data of wrong types from a plugin can raise any exception
        raise RefusedError(f"the plan or bound has no JSON form: {one_line(error)}") from error


def proof_json(proof: Sequence[ProofNode]) -> Message:
    """Return a proof as JSON values; empty for an empty proof, or for infinite numbers, which prove nothing."""
    nodes: list[Message] = []
    for node in proof:
        if isinstance(node, Duals):
            slices = [list(sizes) for sizes in node.slices]
            if not all(map(isfinite, chain(node.workloads, node.gpus, *slices))):
                return {}
            duals = {"workloads": list(node.workloads), "gpus": list(node.gpus)}
            nodes.append(duals | ({"slices": slices} if slices else {}))
        elif isinstance(node, Branching):
            nodes.append({"on": node.on, "first": node.first, "second": node.second, "branches": list(node.branches)})
        else:
            raise RefusedError(f"proof has a {type(node).__name__}; expected Duals and Branching")
    return {"duals": {"nodes": nodes}} if nodes else {}


def _bound(bound: Bound | None) -> Message | None:
    """Return a bound as JSON values, or ``None`` for an infinite bound."""
    if bound is None or not isfinite(bound.value):
        return None
    for name in ("slots_per_gpulet", "max_batch", "part_steps"):
        value = getattr(bound, name)
        if value is not None and not 0 < int(value) < 2**31:
            raise RefusedError(f"bound: {name} is {value}; expected a whole number from 1")
    return scope_to_json(bound)


def statistics_json(outcome: Outcome) -> dict[str, float | None]:
    """Return the statistics of an outcome; an infinite number or NaN is ``None``.

    Raises
    ------
    RefusedError
        If the statistics are not a mapping of names to numbers.
    """
    try:
        numbers = {str(name): float(value) for name, value in outcome.statistics.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise RefusedError(f"statistics: {one_line(error)}; expected numbers by name") from error
    return {name: number if isfinite(number) else None for name, number in numbers.items()}
