"""The compact model with its relations made piecewise linear: a mixed-integer linear model for HiGHS.

A relation ``z >= f(x, y)`` becomes ``z >= F(x, y)``, where F is linear on each triangle of a grid over the range of
(x, y) and, at its corners, equal to f (``z <= F`` likewise where the relation is an upper one):

- ``k_act`` and ``ability`` over batch times share, under ``goodput`` ``period_ms`` over batch times rate step. Only whole
  batches, shares and steps occur, so a triangle's largest error is a maximum over finitely many points. Subtracted from
  F on that triangle, it makes F a lower bound of f wherever a plan can be, and the model a relaxation of the true
  problem (``certified``): every plan's true values satisfy every row. Triangles without a choice are left out.
- the products ``cache_ms = k_act * others_l2`` and ``lost_ms = t_gpu * slowdown`` of continuous variables: with the
  diagonal from top left to bottom right the interpolation of a cell is its convex envelope (McCormick), a lower bound
  without any shift.

F is written by Vielma's disaggregated logarithmic model (``pyomo.contrib.piecewise``): with P triangles,
``(x, y, F) = sum_p sum_c lambda_pc (corner_c, F_p(corner_c))``, ``sum lambda = 1``, and ``ceil(log2 P)`` binaries, which
leave the lambda of one triangle free.
"""

from itertools import pairwise, product
from typing import Any

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from pyomo.contrib.piecewise import PiecewiseLinearFunction

from formulations.compact.model import CompactModel, Expr, Relation

Floats = NDArray[np.float64]

ROUNDING = 1e-7
"""Relative room added to every shift, for rounding here and tolerances in the solver."""

INSIDE = 1e-9
"""Slack with which a point counts as inside a simplex: one on an edge belongs to both sides."""


def linearise(model: CompactModel, pieces: int, certified: bool) -> None:
    """State every relation of ``model`` piecewise linearly.

    Parameters
    ----------
    model
        Whose relations are not stated yet.
    pieces
        Cells along each axis, two triangles each; products are cut along their first factor alone.
    certified
        Shift each triangle by its own largest error, so that no plan is cut off.
    """
    m = model.pyomo
    m.relation = pyo.ConstraintList()
    m.function = pyo.Block(pyo.Any)
    for number, relation in enumerate(model.relations):
        value = _function(m.function[number], relation, pieces, certified)
        m.relation.add(relation.result >= value if relation.at_least else relation.result <= value)
    pyo.TransformationFactory("contrib.piecewise.disaggregated_logarithmic").apply_to(m)


def _function(block: Any, relation: Relation, pieces: int, certified: bool) -> Expr:
    """Return the piecewise linear function of a relation as an expression of its variables."""
    arguments, simplices = triangulate(relation, pieces)
    planes = [plane(relation, simplex, certified) for simplex in simplices]
    if not arguments:
        return planes[0][0]

    def linear(coefficients: Floats) -> Any:
        return lambda *x: coefficients[0] + sum(c * value for c, value in zip(coefficients[1:], x, strict=True))

    free = [axis for axis in range(2) if simplices[0][:, axis].min() < simplices[0][:, axis].max()]
    block.of = PiecewiseLinearFunction(
        simplices=[
            tuple(tuple(corner[free]) if len(free) > 1 else float(corner[free[0]]) for corner in simplex)
            for simplex in simplices
        ],
        linear_functions=[linear(p) for p in planes],
    )
    return block.of(*arguments)


def triangulate(relation: Relation, pieces: int) -> tuple[list[Expr], list[Floats]]:
    """Cut the range of a relation's variables into simplices, each an array of corners, shape (corners, 2).

    Returns
    -------
    arguments : list
        The variables that have a range at all: a simplex is a triangle, a segment or a single point.
    simplices : list
        Those that hold a choice, or all where the variables are continuous.
    """
    variables = (relation.first, relation.second)
    if relation.points is None:
        grid = [_cut(relation.first.lb, relation.first.ub, pieces), np.array([relation.second.lb, relation.second.ub])]
    else:
        grid = [np.unique(np.round(_cut(*axis, pieces))) for axis in zip(relation.points.min(0), relation.points.max(0), strict=True)]
    grid = [np.unique(axis) for axis in grid]
    arguments = [variable for variable, axis in zip(variables, grid, strict=True) if len(axis) > 1]
    simplices = []
    for (x0, x1), (y0, y1) in product(*([(axis[0], axis[0])] if len(axis) == 1 else list(pairwise(axis)) for axis in grid)):
        low_high, high_low = (x0, y1), (x1, y0)
        for corner in ((x0, y0), (x1, y1)):
            simplices.append(np.unique(np.array([corner, low_high, high_low]), axis=0))
    if len(arguments) < 2:
        # Both triangles of a flat cell are the same segment.
        simplices = simplices[::2]
    if relation.points is not None:
        simplices = [simplex for simplex in simplices if inside(simplex, relation.points).any()]
    return arguments, simplices


def _cut(low: float, high: float, pieces: int) -> Floats:
    """Cut a range of positive numbers so that each part grows by the same factor."""
    return np.geomspace(low, high, pieces + 1) if low < high else np.array([low], dtype=float)


def _weights(simplex: Floats, points: NDArray[Any]) -> Floats:
    """Barycentric coordinates (least squares where the simplex is flat), shape (points, corners)."""
    corners = np.vstack([simplex.T, np.ones(len(simplex))])
    targets = np.vstack([np.asarray(points, float).T, np.ones(len(points))])
    solution, *_ = np.linalg.lstsq(corners, targets, rcond=None)
    residual = np.abs(corners @ solution - targets).max(axis=0)
    return np.where(residual[:, None] < INSIDE * 1e3, solution.T, -1.0)


def inside(simplex: Floats, points: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each point is in the simplex, edges included."""
    return _weights(simplex, points).min(axis=1) >= -INSIDE


def plane(relation: Relation, simplex: Floats, certified: bool) -> Floats:
    """Return (constant, slopes...) of the linear function on a simplex, by the axes along which it extends.

    It equals the relation's function at the corners. Certified it is moved, up or down, until it is a bound of the
    function at every choice in the simplex and touches it at one.
    """
    free = [axis for axis in range(2) if simplex[:, axis].min() < simplex[:, axis].max()]
    rows = np.column_stack([np.ones(len(simplex)), simplex[:, free]])
    coefficients = np.linalg.solve(rows, [relation.value(*corner) for corner in simplex])
    if certified and relation.points is not None:
        held = relation.points[inside(simplex, relation.points)]
        true = np.array([relation.value(*point) for point in held.astype(float)])
        error = coefficients[0] + held[:, free] @ coefficients[1:] - true
        room = ROUNDING * np.abs(true).max()
        coefficients[0] -= error.max() + room if relation.at_least else error.min() - room
    return coefficients
