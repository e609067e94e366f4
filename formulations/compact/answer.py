"""Answer of a solver to a compact model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """How a solver ended.

    Attributes
    ----------
    solved
        Whether it found a solution.
    finished
        Whether it says that no solution is better than its best, or that there is none.
    infeasible
        Whether it says that there is none.
    bound
        No solution has a better objective; worst possible if there is none, ``None`` if unknown.
    nodes
        Of the branch and bound.
    """

    solved: bool
    finished: bool
    infeasible: bool
    bound: float | None
    nodes: float
