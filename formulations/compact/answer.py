"""What a solver says of a compact model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """How a solver ended.

    Attributes
    ----------
    solved
        Whether it found a solution.
    infeasible
        Whether it has proven that there is none.
    bound
        No solution has a better objective; worst possible if there is none, ``None`` if unknown.
    nodes
        Of the branch and bound.
    """

    solved: bool
    infeasible: bool
    bound: float | None
    nodes: float
