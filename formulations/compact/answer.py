"""Answer of a solver to a compact model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """Result of a solver.

    Attributes
    ----------
    solved
        Whether the solver found a solution.
    finished
        Whether the solver claims that its best solution is optimal, or that none exists.
    infeasible
        Whether the solver claims that no solution exists.
    bound
        Bound on the objective of every solution: the worst possible value if there is none, ``None`` if unknown.
    nodes
        Number of branch-and-bound nodes.
    """

    solved: bool
    finished: bool
    infeasible: bool
    bound: float | None
    nodes: float
