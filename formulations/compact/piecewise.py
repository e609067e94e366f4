"""Piecewise linear form of the compact model: a mixed-integer linear model for HiGHS.

- ``k_act(b, r)`` and ``ability(b, r)``: a grid over batch and share is cut into triangles. The model has ``z >= F(b,
  r)`` with F linear on each triangle and equal to the function at its corners. Only integer batches and shares occur,
  so the largest error on a triangle is a maximum over finitely many points. With ``certified``, F is shifted down by
  that error, so that it is nowhere above the function at an integer batch and share. Then the model is a relaxation of
  the true problem: the true values of every plan satisfy every row. Triangles without a configuration are left out.
- The products ``cache_ms = k_act * others_l2`` and ``lost_ms = t_gpu * slowdown`` of continuous variables get two rows
  each: the convex envelope over their ranges (McCormick), never above the product. Their coefficients are small
  (0.2 % per percent of L2, 0.07 % per watt on a V100). Splitting these ranges as well gains nothing and costs binaries.

F is stated by Vielma's disaggregated logarithmic model (``pyomo.contrib.piecewise``). With P triangles
``(x, y, F) = sum_p sum_c lambda_pc (corner_c, F_p(corner_c))`` and ``sum lambda = 1``. The values of ``ceil(log2 P)``
binaries choose the one triangle whose lambda may be positive.

The error of every relation is measured: for functions over the whole grid of batches and shares, for products over
their ranges.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.contrib.piecewise import PiecewiseLinearFunction

from formulations.compact.model import CompactModel, Expr
from instances.arrays import Flags, Floats, Ints

Plane = tuple[Floats, Floats]
"""Corners of a simplex, shape (corners, 2), and the constant and slopes of a linear function on it."""

ROUNDING = 1e-7
"""Relative tolerance added to every shift, for rounding here and the solver's tolerances."""

INSIDE = 1e-9
"""Tolerance of the test whether a point is inside a simplex; a point on an edge is inside both of its simplices."""


@dataclass(frozen=True, slots=True)
class RelativeError:
    """Relative error of an approximation.

    Attributes
    ----------
    largest, mean
        Largest and mean error over all points.
    points
        Number of points.
    """

    largest: float
    mean: float
    points: int

    def joined(self, other: "RelativeError") -> "RelativeError":
        """Return the error over the points of both approximations."""
        points = self.points + other.points
        mean = (self.mean * self.points + other.mean * other.points) / points
        return RelativeError(max(self.largest, other.largest), mean, points)


def linearise(model: CompactModel, pieces: int, certified: bool) -> dict[str, float]:
    """Add the relations to ``model``, piecewise linear; return their errors as statistics of the run.

    Parameters
    ----------
    pieces
        Cells along each axis of a grid, two triangles each.
    certified
        Shift each triangle by its own largest error, so that no plan is cut off.
    """
    m = model.pyomo
    m.relation = pyo.ConstraintList()
    m.function = pyo.Block(pyo.Any)
    errors: dict[str, RelativeError] = {}
    for number, relation in enumerate(model.relations):
        if relation.points is None:
            for value in _envelope(relation.first, relation.second):
                m.relation.add(relation.result >= value)
            error = envelope_error((relation.first.lb, relation.first.ub), (relation.second.lb, relation.second.ub))
        else:
            planes = interpolated(relation.value, relation.points, pieces, certified)
            m.relation.add(relation.result >= _function(m.function[number], relation.first, relation.second, planes))
            error = grid_error(relation.value, relation.points, planes)
        errors[relation.name] = errors[relation.name].joined(error) if relation.name in errors else error
    pyo.TransformationFactory("contrib.piecewise.disaggregated_logarithmic").apply_to(m)
    return {
        f"pwl_error_{which}_{name}": value
        for name, error in errors.items()
        for which, value in (("max", error.largest), ("mean", error.mean))
    }


def _envelope(x: Expr, y: Expr) -> list[Expr]:
    """Return McCormick's two linear functions below the product of two bounded variables."""
    return [x.lb * y + y.lb * x - x.lb * y.lb, x.ub * y + y.ub * x - x.ub * y.ub]


def _function(block: Any, x: Expr, y: Expr, planes: Sequence[Plane]) -> Expr:
    """Return the piecewise linear function of two variables as an expression."""
    axes = varying_axes(np.concatenate([simplex for simplex, _ in planes]))
    if not axes:
        return planes[0][1][0]
    block.of = PiecewiseLinearFunction(
        simplices=[[_point(corner[axes]) for corner in simplex] for simplex, _ in planes],
        linear_functions=[_linear(coefficients) for _, coefficients in planes],
    )
    return block.of(*((x, y)[axis] for axis in axes))


def _point(corner: Floats) -> Any:
    return tuple(corner.tolist()) if len(corner) > 1 else float(corner[0])


def _linear(coefficients: Floats) -> Any:
    constant, *slopes = coefficients.tolist()
    return lambda *x: constant + sum(slope * value for slope, value in zip(slopes, x, strict=True))


def interpolated(value: Callable[[float, float], float], points: Ints, pieces: int, certified: bool) -> list[Plane]:
    """Approximate a function of integers by a linear function on each simplex of ``triangulate``.

    Return the corners of each simplex, and the constant and slopes of its linear function along the simplex's axes.

    Parameters
    ----------
    points
        Points at which the approximation is needed, shape (points, 2).
    certified
        Shift each linear function down until it is at most the function at every point of its simplex. Without
        ``certified`` it equals the function at the corners.
    """
    planes = []
    for simplex in triangulate(points, pieces):
        axes = varying_axes(simplex)
        rows = np.column_stack([np.ones(len(simplex)), simplex[:, axes]])
        coefficients = np.linalg.solve(rows, np.array([value(x, y) for x, y in simplex.tolist()]))
        if certified:
            points_inside = points[inside(simplex, points)]
            true_values = np.array([value(x, y) for x, y in points_inside.tolist()])
            error = coefficients[0] + points_inside[:, axes] @ coefficients[1:] - true_values
            coefficients[0] -= error.max() + ROUNDING * np.abs(true_values).max()
        planes.append((simplex, np.asarray(coefficients, dtype=np.float64)))
    return planes


def grid_error(value: Callable[[float, float], float], points: Ints, planes: Sequence[Plane]) -> RelativeError:
    """Measure an approximation at every integer point of its simplices, including points without a configuration.

    Where simplices meet, the larger error counts.

    Parameters
    ----------
    value
        The positive function.
    points
        Points at which the approximation is needed, shape (points, 2); they span the grid.
    planes
        Approximation from ``interpolated``.
    """
    axis_values = [np.arange(low, high + 1) for low, high in zip(points.min(axis=0), points.max(axis=0), strict=True)]
    grid = np.stack(np.meshgrid(*axis_values, indexing="ij"), axis=-1).reshape(-1, 2)
    true_values = np.array([value(x, y) for x, y in grid.tolist()])
    largest_errors = np.full(len(grid), -1.0)
    for simplex, coefficients in planes:
        is_inside = inside(simplex, grid)
        values = coefficients[0] + grid[is_inside][:, varying_axes(simplex)] @ coefficients[1:]
        largest_errors[is_inside] = np.maximum(
            largest_errors[is_inside], np.abs(values - true_values[is_inside]) / true_values[is_inside]
        )
    covered = largest_errors[largest_errors >= 0.0]
    return RelativeError(float(covered.max()), float(covered.mean()), len(covered))


def envelope_error(x: tuple[float, float], y: tuple[float, float]) -> RelativeError:
    """Measure the envelope of a product of two variables over their ranges, relative to the largest product.

    The product exceeds the envelope by ``min((x - x0)(y - y0), (x1 - x)(y1 - y))``. This error is at most a quarter of
    the area of the ranges, in the middle, and a twelfth on average.
    """
    area, largest = (x[1] - x[0]) * (y[1] - y[0]), x[1] * y[1]
    relative_area = area / largest if largest > 0.0 else 0.0
    return RelativeError(relative_area / 4.0, relative_area / 12.0, 1)


def triangulate(points: Ints, pieces: int) -> list[Floats]:
    """Cut the range of integer points, shape (points, 2), into simplices; return those that contain a point.

    A simplex has shape (corners, 2): a triangle, a segment if one coordinate is constant, a point if both are.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    # Each part of an axis grows by the same factor.
    grid = [np.unique(np.round(np.geomspace(*ends, pieces + 1))) for ends in zip(low, high, strict=True)]
    cells = [list(pairwise(axis)) if len(axis) > 1 else [(axis[0], axis[0])] for axis in grid]
    simplices: dict[bytes, Floats] = {}
    for x0, x1 in cells[0]:
        for y0, y1 in cells[1]:
            for corner in ((x0, y0), (x1, y1)):
                # In a cell without width or height both triangles are the same segment.
                simplex = np.unique(np.array([corner, (x0, y1), (x1, y0)], dtype=np.float64), axis=0)
                simplices[simplex.tobytes()] = simplex
    return [simplex for simplex in simplices.values() if inside(simplex, points).any()]


def varying_axes(points: Floats) -> list[int]:
    """Return the axes along which the points differ."""
    return [axis for axis in range(points.shape[1]) if points[:, axis].min() < points[:, axis].max()]


def inside(simplex: Floats, points: Ints) -> Flags:
    """Mark the points that are inside the simplex or on its edges, along the axes in which it extends."""
    axes = varying_axes(simplex)
    if not axes:
        return np.ones(len(points), dtype=np.bool_)
    corners = np.vstack([simplex[:, axes].T, np.ones(len(simplex))])
    weights = np.linalg.solve(corners, np.vstack([points[:, axes].T, np.ones(len(points))]))
    return np.asarray(weights.min(axis=0) >= -INSIDE)
