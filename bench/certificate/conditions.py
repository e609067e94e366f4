"""Conditions that the plans of a branch share, and the two branches of a node of a tree."""

from dataclasses import dataclass, replace

import numpy as np

from bench.certificate.certificate import Fork
from bench.certificate.statement import NotProvenError, Statement
from instances.arrays import Flags, Ints


@dataclass(frozen=True)
class Conditions:
    """Conditions on plans.

    Attributes
    ----------
    least, most
        Least and largest number of GPUs of each type; ``None`` without a limit.
    barred
        Pairs of a class and a GPU type that must not hold it.
    apart, together
        Pairs of classes that share no GPU; pairs that share one.
    """

    least: tuple[int, ...]
    most: tuple[int | None, ...]
    barred: frozenset[tuple[int, int]] = frozenset()
    apart: frozenset[tuple[int, int]] = frozenset()
    together: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def root(cls, statement: Statement) -> "Conditions":
        """Return the branch of all plans."""
        return cls((0,) * len(statement.views), tuple(statement.limits))

    @property
    def empty(self) -> bool:
        """Whether no plan meets the conditions on the number of GPUs."""
        return any(most is not None and least > most for least, most in zip(self.least, self.most, strict=True))

    def matrices(self, classes: int) -> tuple[Flags, Ints]:
        """Return which classes are apart, shape (classes, classes), and the group of each class, or -1."""
        apart = np.zeros((classes, classes), dtype=np.bool_)
        for a, b in self.apart:
            apart[a, b] = apart[b, a] = True
        group = np.full(classes, -1, dtype=np.int64)
        for number, (a, b) in enumerate(sorted(self.together)):
            joined = [old for old in (group[a], group[b]) if old >= 0]
            group[np.isin(group, joined)] = number
            group[[a, b]] = number
        return apart, group

    def branches(self, node: Fork, statement: Statement, where: str) -> tuple["Conditions", "Conditions"]:
        """Return the two branches of a node, which together hold all plans of this one.

        ``gpus``: at most so many GPUs of a type, or more. ``pair``: two workloads are on different GPUs, or on one.
        ``seat``: a workload is on no GPU of a type, or on no GPU of another type. Both need classes of one workload
        that every plan serves by exactly one slot.

        Raises
        ------
        NotProvenError
            If the node names what does not exist, or classes of which plans may have no slot or several.
        """
        a, b = node.first, node.second
        if node.on == "gpus":
            _known(a, len(self.least), "GPU type", where)
            most, least = list(self.most), list(self.least)
            most[a] = min(b, b if self.most[a] is None else int(self.most[a] or 0))
            least[a] = max(b + 1, least[a])
            return replace(self, most=tuple(most)), replace(self, least=tuple(least))
        _one_slot(statement, a, where)
        if node.on == "pair":
            _one_slot(statement, b, where)
            if a == b:
                raise NotProvenError(f"{where}: a pair of one class")
            pair = (min(a, b), max(a, b))
            return replace(self, apart=self.apart | {pair}), replace(self, together=self.together | {pair})
        _known(b, len(self.least), "GPU type", where)
        others = {(a, t) for t in range(len(self.least)) if t != b}
        return replace(self, barred=self.barred | {(a, b)}), replace(self, barred=self.barred | others)


def _known(position: int, count: int, kind: str, where: str) -> None:
    if position >= count:
        raise NotProvenError(f"{where}: there is no {kind} {position}")


def _one_slot(statement: Statement, group: int, where: str) -> None:
    _known(group, len(statement.copies), "class", where)
    if statement.copies[group] != 1 or statement.by_parts or not statement.serves_all:
        raise NotProvenError(f"{where}: plans may have no slot, or several, of class {group}")
