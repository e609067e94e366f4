"""The compact model with its relations made piecewise linear: a mixed-integer linear model for HiGHS.

A relation ``z >= f(x, y)`` becomes ``z >= F(x, y)``, where F is linear on each triangle of a grid over the range of
(x, y) and equal to f at its corners (``z <= F`` where the relation is an upper one):

- ``k_act`` and ``ability`` over batch times share. Only whole batches and shares occur, so the largest error on a
  triangle is a maximum over finitely many points. Moved by that error, F is a bound of f wherever a plan can be, and
  the model a relaxation of the true problem (``certified``): the true values of every plan satisfy every row.
  Triangles without a choice are left out.
- the products ``cache_ms = k_act * others_l2`` and ``lost_ms = t_gpu * slowdown`` of continuous variables. With the
  diagonal from top left to bottom right the interpolation of a cell is its convex envelope (McCormick), below the
  product without any move.

F is written by Vielma's disaggregated logarithmic model (``pyomo.contrib.piecewise``): with P triangles
``(x, y, F) = sum_p sum_c lambda_pc (corner_c, F_p(corner_c))`` and ``sum lambda = 1``, and ``ceil(log2 P)`` binaries
leave the lambda of one triangle free.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from pyomo.contrib.piecewise import PiecewiseLinearFunction

from formulations.compact.model import CompactModel, Expr, Relation

Floats = NDArray[np.float64]

ROUNDING = 1e-7
"""Relative room added to every move, for rounding here and tolerances in the solver."""

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
        Move each triangle by its own largest error, so that no plan is cut off.
    """
    m = model.pyomo
    m.relation = pyo.ConstraintList()
    m.function = pyo.Block(pyo.Any)
    for number, relation in enumerate(model.relations):
        if relation.points is None:
            for simplex in triangulate(relation, 1):
                axes = extent(simplex); c = plane(relation, simplex, False)
                m.relation.add(relation.result >= c[0] + sum(k * (relation.first, relation.second)[a] for k, a in zip(c[1:], axes)))
            continue
        value = _function(m.function[number], relation, pieces, certified)
        m.relation.add(relation.result >= value if relation.at_least else relation.result <= value)
    pyo.TransformationFactory("contrib.piecewise.disaggregated_logarithmic").apply_to(m)


def _function(block: Any, relation: Relation, pieces: int, certified: bool) -> Expr:
    """Return the piecewise linear function of a relation as an expression of its variables."""
    if relation.points is None and relation.second.lb == relation.second.ub:
        return relation.value(relation.first, relation.second.lb)  # a product with a constant is linear
    simplices = triangulate(relation, pieces)
    planes = [plane(relation, simplex, certified) for simplex in simplices]
    axes = extent(np.concatenate(simplices))
    if not axes:
        return planes[0][0]
    block.of = PiecewiseLinearFunction(
        simplices=[[_point(corner[axes]) for corner in simplex] for simplex in simplices],
        linear_functions=[_linear(coefficients) for coefficients in planes],
    )
    return block.of(*((relation.first, relation.second)[axis] for axis in axes))


def _point(corner: Floats) -> Any:
    return tuple(corner.tolist()) if len(corner) > 1 else float(corner[0])


def _linear(coefficients: Floats) -> Any:
    constant, *slopes = coefficients.tolist()
    return lambda *x: constant + sum(slope * value for slope, value in zip(slopes, x, strict=True))


def triangulate(relation: Relation, pieces: int) -> list[Floats]:
    """Cut the range of a relation's variables into simplices.

    Returns
    -------
    list
        Corners of each, shape (corners, 2): a triangle, a segment where one variable is a constant, a point where both
        are. Where the variables are whole, those without a choice are left out.
    """
    if relation.points is None:
        grid = [_cut(relation.first.lb, relation.first.ub, pieces), np.array([relation.second.lb, relation.second.ub])]
    else:
        low, high = relation.points.min(axis=0), relation.points.max(axis=0)
        grid = [np.unique(np.round(_cut(low[axis], high[axis], pieces))) for axis in range(2)]
    cells = [list(pairwise(axis)) if len(axis) > 1 else [(axis[0], axis[0])] for axis in grid]
    simplices: dict[bytes, Floats] = {}
    for x0, x1 in cells[0]:
        for y0, y1 in cells[1]:
            for corner in ((x0, y0), (x1, y1)):
                # Of a cell without width or height both triangles are the same segment.
                simplex = np.unique(np.array([corner, (x0, y1), (x1, y0)], dtype=np.float64), axis=0)
                simplices[simplex.tobytes()] = simplex
    if relation.points is None:
        return list(simplices.values())
    return [simplex for simplex in simplices.values() if inside(simplex, relation.points).any()]


def _cut(low: float, high: float, pieces: int) -> Floats:
    """Cut a range of positive numbers so that each part grows by the same factor."""
    return np.geomspace(low, high, pieces + 1) if low < high else np.array([low], dtype=np.float64)


def extent(points: Floats) -> list[int]:
    """Return the axes along which points differ."""
    return [axis for axis in range(points.shape[1]) if points[:, axis].min() < points[:, axis].max()]


def inside(simplex: Floats, points: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each point of the simplex's own plane, line or point is in the simplex, edges included."""
    axes = extent(simplex)
    if not axes:
        return np.ones(len(points), dtype=np.bool_)
    corners = np.vstack([simplex[:, axes].T, np.ones(len(simplex))])
    weights = np.linalg.solve(corners, np.vstack([points[:, axes].T, np.ones(len(points))]))
    return np.asarray(weights.min(axis=0) >= -INSIDE)


def plane(relation: Relation, simplex: Floats, certified: bool) -> Floats:
    """Return (constant, slopes...) of the linear function on a simplex, by the axes along which it extends.

    It equals the relation's function at the corners. Certified it is moved, up or down, until it is a bound of the
    function at every choice in the simplex and touches it at one.
    """
    axes = extent(simplex)
    rows = np.column_stack([np.ones(len(simplex)), simplex[:, axes]])
    coefficients = np.linalg.solve(rows, np.array([relation.value(x, y) for x, y in simplex.tolist()]))
    if certified and relation.points is not None:
        held = relation.points[inside(simplex, relation.points)]
        true = np.array([relation.value(x, y) for x, y in held.tolist()])
        error = coefficients[0] + held[:, axes] @ coefficients[1:] - true
        room = ROUNDING * np.abs(true).max()
        coefficients[0] -= error.max() + room if relation.at_least else error.min() - room
    return np.asarray(coefficients, dtype=np.float64)
