"""Branching tree: conditions that all plans of a branch meet, and the bound that the leaves prove together."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

import numpy as np

from bench.certificate.certificate import DualProof, Fork, Leaf, TreeProof
from bench.certificate.failures import GivenUpError, NotProvenError, check_memory
from bench.certificate.statement import Statement
from instances.arrays import Flags, Ints

MOST_CONDITIONS = 100_000
"""Largest number of conditions in memory, summed over the branches whose nodes are not yet checked."""


@dataclass(frozen=True)
class Conditions:
    """Conditions that all plans of a branch meet.

    Attributes
    ----------
    fewest_gpus, most_gpus
        Least and largest number of GPUs of each type; ``None`` without a limit.
    barred
        Pairs of a class and a GPU type: no GPU of the type has a slot of the class.
    apart, together
        Pairs of classes that are never on the same GPU, and pairs of classes of which every GPU has both or neither.
    """

    fewest_gpus: tuple[int, ...]
    most_gpus: tuple[int | None, ...]
    barred: frozenset[tuple[int, int]] = frozenset()
    apart: frozenset[tuple[int, int]] = frozenset()
    together: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def root(cls, statement: Statement) -> "Conditions":
        """Return the conditions of the root, which all plans meet."""
        return cls((0,) * len(statement.views), tuple(statement.limits))

    @property
    def contradictory(self) -> bool:
        """Whether the conditions on the number of GPUs contradict each other."""
        return any(
            most_gpus is not None and fewest_gpus > most_gpus
            for fewest_gpus, most_gpus in zip(self.fewest_gpus, self.most_gpus, strict=True)
        )

    @property
    def size(self) -> int:
        """Number of conditions."""
        return len(self.fewest_gpus) + len(self.barred) + len(self.apart) + len(self.together)

    def matrices(self, classes: int) -> tuple[Flags, Ints]:
        """Return the conditions on pairs as arrays.

        Returns
        -------
        apart
            Whether two classes are on different GPUs, shape (classes, classes).
        group_of
            Group of each class, -1 without one, shape (classes,). The classes of a group are on one GPU.
        """
        # A pair takes one byte; ``check_memory`` counts in numbers of 8 bytes.
        check_memory("the pairs of classes", classes, -(-classes // 8))
        apart = np.zeros((classes, classes), dtype=np.bool_)
        for first, second in self.apart:
            apart[first, second] = apart[second, first] = True
        group_of = np.full(classes, -1, dtype=np.int64)
        for number, (first, second) in enumerate(sorted(self.together)):
            joined_groups = [group for group in (group_of[first], group_of[second]) if group >= 0]
            group_of[np.isin(group_of, joined_groups)] = number
            group_of[[first, second]] = number
        return apart, group_of

    def branches(self, node: Fork, statement: Statement, where: str) -> tuple["Conditions", "Conditions"]:
        """Return the conditions of a node's two branches, which together cover all plans that meet these conditions.

        The two branches differ by ``node.on``. ``gpus``: at most ``second`` GPUs of type ``first``, or more than
        ``second``. ``pair``: classes ``first`` and ``second`` on different GPUs, or on the same GPU. ``seat``: class
        ``first`` not on GPU type ``second``, or only on this type. ``pair`` and ``seat`` need classes of a single
        workload that every plan serves by at most one slot. Under ``goodput`` a workload may have no slot. Then "on the
        same GPU" means that every GPU has both classes or neither.

        Raises
        ------
        NotProvenError
            If the node names a class or GPU type that does not exist, or a class that may have several slots.
        """
        first, second = node.first, node.second
        if node.on == "gpus":
            _check_exists(first, len(self.fewest_gpus), "GPU type", where)
            most_gpus, fewest_gpus = list(self.most_gpus), list(self.fewest_gpus)
            limit = most_gpus[first]
            most_gpus[first] = second if limit is None else min(second, limit)
            fewest_gpus[first] = max(second + 1, fewest_gpus[first])
            return replace(self, most_gpus=tuple(most_gpus)), replace(self, fewest_gpus=tuple(fewest_gpus))
        _check_one_slot(statement, first, where)
        if node.on == "pair":
            _check_one_slot(statement, second, where)
            if first == second:
                raise NotProvenError(f"{where}: the pair names the same class twice")
            pair = (min(first, second), max(first, second))
            return replace(self, apart=self.apart | {pair}), replace(self, together=self.together | {pair})
        _check_exists(second, len(self.fewest_gpus), "GPU type", where)
        other_types = {(first, gpu_type) for gpu_type in range(len(self.fewest_gpus)) if gpu_type != second}
        return replace(self, barred=self.barred | {(first, second)}), replace(self, barred=self.barred | other_types)


def _check_exists(position: int, count: int, kind: str, where: str) -> None:
    if position >= count:
        raise NotProvenError(f"{where}: there is no {kind} {position}")


def _check_one_slot(statement: Statement, class_: int, where: str) -> None:
    _check_exists(class_, len(statement.copies), "class", where)
    if statement.copies[class_] != 1 or statement.by_parts:
        raise NotProvenError(f"{where}: class {class_} may have several slots in a plan")


LeafBound = Callable[[Leaf, Conditions, str], Fraction | float]
"""Function of a leaf, the conditions of its branch and its name in errors; it returns the bound of the leaf's duals."""


def bound_of_proof(statement: Statement, proof: DualProof | TreeProof, leaf_bound: LeafBound) -> Fraction | float:
    """Return the bound that duals or a tree prove.

    A tree proves the weakest bound of its leaves, or ``inf`` (-inf if maximised) if no leaf has plans. Every node must
    be the root or a branch of exactly one earlier node. Both branches of every inner node are therefore checked.

    Raises
    ------
    NotProvenError
        If a branch of a tree is missing or shared.
    GivenUpError
        If too many conditions are in memory.
    """
    if isinstance(proof, DualProof):
        return leaf_bound(proof, Conditions.root(statement), "the duals")
    root = Conditions.root(statement)
    # Conditions of the nodes that are not yet checked, by node, and the number of these conditions.
    waiting, waiting_size = {0: root}, root.size
    weaker = min if statement.minimised else max
    bound: Fraction | float = inf if statement.minimised else -inf
    for position, node in enumerate(proof.nodes):
        where = f"node {position}"
        conditions = waiting.pop(position, None)
        if conditions is None:
            raise NotProvenError(f"{where}: no earlier node leads to it")
        waiting_size -= conditions.size
        if isinstance(node, Fork):
            conditions_of_children = conditions.branches(node, statement, where)
            for child, child_conditions in zip(node.branches, conditions_of_children, strict=True):
                if child <= position or child in waiting or child >= len(proof.nodes):
                    raise NotProvenError(f"{where}: branch {child} must be a later node to which no other node leads")
                waiting[child], waiting_size = child_conditions, waiting_size + child_conditions.size
            if waiting_size > MOST_CONDITIONS:
                raise GivenUpError(
                    f"{where}: the branches that remain to be checked have more than {MOST_CONDITIONS:,} conditions"
                )
        elif not conditions.contradictory:
            bound = weaker(bound, leaf_bound(node, conditions, where))
    return bound
