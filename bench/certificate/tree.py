"""Branching tree: its leaves cover all plans, and each leaf's duals prove the bound."""

from collections.abc import Callable
from fractions import Fraction
from math import inf

from bench.certificate.certificate import Fork, Leaf, TreeProof
from bench.certificate.conditions import Conditions
from bench.certificate.statement import NotProvenError, Statement

LeafBound = Callable[[Leaf, Conditions, str], Fraction | float]
"""Function of a leaf, the conditions of its branch and its name in errors; it returns the bound of the leaf's duals."""


def tree_bound(statement: Statement, proof: TreeProof, leaf_bound: LeafBound) -> Fraction | float:
    """Return the bound that a tree proves: the least bound of its leaves, or ``inf`` if no leaf has plans.

    Every node must be the root or a branch of exactly one earlier node. Both branches of every inner node are therefore
    checked.

    Raises
    ------
    NotProvenError
        If a branch is missing or shared, or the objective is not minimised.
    """
    if not statement.minimised:
        raise NotProvenError("a tree needs an objective that is minimised")
    waiting: dict[int, Conditions] = {0: Conditions.root(statement)}
    bound: Fraction | float = inf
    for position, node in enumerate(proof.nodes):
        where = f"node {position}"
        branch = waiting.pop(position, None)
        if branch is None:
            raise NotProvenError(f"{where}: no earlier node leads to it, or two do")
        if isinstance(node, Fork):
            for child, part in zip(node.branches, branch.branches(node, statement, where), strict=True):
                if child <= position or child in waiting or child >= len(proof.nodes):
                    raise NotProvenError(f"{where}: branch {child} must be a later node to which no other node leads")
                waiting[child] = part
        elif not branch.empty:
            bound = min(bound, leaf_bound(node, branch, where))
    return bound
