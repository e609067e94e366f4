"""Active times and demands of the compact model as tables: one binary for each pair of batch and share.

Under iGniter's performance model they are formulas instead (``formulations.compact.equations``). The indices o, t and k
are those of ``formulations.compact.build``; p is another option.
"""

from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.compact.model import ROW_TOLERANCE, CompactModel, Expr, sum_of
from formulations.compact.options import FORMULA, Option
from instances.arrays import Floats, Ints


def is_tabulated(model: CompactModel) -> bool:
    """Return whether active times and demands come from tables: every performance model but iGniter's."""
    return model.instance.performance_model != FORMULA


def state_tables(model: CompactModel) -> None:
    """State batch, share, active time and co-location of every option by binaries, unless the model is iGniter's.

    ``at`` chooses one pair of batch and share, and ``beside`` is 1 if the option has a neighbour.
    """
    if not is_tabulated(model):
        return
    m, options = model.pyomo, model.options
    points = [_points(option) for option in options]
    m.P = pyo.Set(
        initialize=[(o, *chosen) for o, option_points in enumerate(points) for chosen in option_points.tolist()],
        dimen=3,
    )
    m.at = pyo.Var(m.P, domain=pyo.Binary, doc="1 if option o has batch b and share r")
    m.beside = pyo.Var(m.O, domain=pyo.Binary, doc="1 if option o has a neighbour")
    company_ms = [_company_ms(option, points[o]) for o, option in enumerate(options)]
    m.company_ms = pyo.Var(
        m.O,
        bounds=lambda _, o: (min(0.0, company_ms[o].min()), max(0.0, company_ms[o].max())),
        doc="time that any neighbour adds, ms",
    )
    rows = m.tables = pyo.ConstraintList()
    for o, option in enumerate(options):
        chosen = [m.at[o, b, r] for b, r in points[o].tolist()]
        rows.add(sum_of(chosen) == 1)
        rows.add(_weighted(chosen, points[o][:, 0]) == m.b[o])
        rows.add(_weighted(chosen, points[o][:, 1]) == m.r[o])
        rows.add(_weighted(chosen, _table(option, option.view.tables.active_ms, points[o])) == m.k_act[o])
        most_ms = max(0.0, float(company_ms[o].max()))
        rows.add(m.company_ms[o] >= _weighted(chosen, company_ms[o]) - most_ms * (1 - m.beside[o]))
        for t, k in model.gpus_of[o]:
            others_of_gpu = [p for p in model.options_on_gpu[t, k] if p != o]
            most_others = min(len(others_of_gpu), option.view.tables.most_residents - 1)
            others_here = sum_of(m.v[p, t, k] for p in others_of_gpu)
            rows.add(others_here <= most_others * m.beside[o] + len(others_of_gpu) * (1 - m.v[o, t, k]))


def state_growth(model: CompactModel) -> None:
    """State the growth of each option's active time beside its neighbours, split over its pairs of batch and share.

    The product of active time and growth is then linear: ``k_act * growth`` is the sum of ``active_ms[p] *
    growth_at[p]`` over the pairs p, since only the chosen pair has a growth above 0.
    """
    m = model.pyomo
    most_growth = {}
    for o, option in enumerate(model.options):
        for point, largest in zip(_points(option).tolist(), _most_growth(m, o, option).tolist(), strict=True):
            most_growth[o, *point] = largest
    m.growth_at = pyo.Var(
        m.P,
        bounds=lambda _, *point: (0.0, most_growth[point]),
        doc="growth of option o if it has batch b and share r, else 0",
    )
    rows = m.growth = pyo.ConstraintList()
    for o, option in enumerate(model.options):
        tables, row = option.view.tables, option.row
        growth = float(tables.alpha_l2[row]) * m.others_l2[o] + float(tables.alpha_dram[row]) * m.others_dram[o]
        keys = [(o, *point) for point in _points(option).tolist()]
        rows.add(sum_of(m.growth_at[key] for key in keys) == growth)
        for key in keys:
            rows.add(m.growth_at[key] <= most_growth[key] * m.at[key])


def growth_ms(model: CompactModel, o: int) -> Expr:
    """Return the time that the neighbours' demands add to an option's active time."""
    option = model.options[o]
    points = _points(option)
    growths = [model.pyomo.growth_at[o, b, r] for b, r in points.tolist()]
    return _weighted(growths, _table(option, option.view.tables.active_ms, points))


def throughput_limit(model: CompactModel, o: int) -> Expr | None:
    """Return a linear upper limit of an option's throughput; ``None`` if a neighbour may shorten its time.

    At a pair of batch and share, the throughput is convex in the growth, so it lies below the chord between no growth
    and the largest growth.
    """
    m, option = model.pyomo, model.options[o]
    points, tables = _points(option), option.view.tables
    if float(_company_ms(option, points).min()) < 0.0:
        return None
    active_ms, most_growth = _table(option, tables.active_ms, points), _most_growth(m, o, option)
    busy_ms = float(tables.scheduling_ms[option.row]) + active_ms + tables.exposed_ms[option.row, points[:, 0]]
    alone_rps = 1000.0 * points[:, 0] / busy_ms
    least_rps = 1000.0 * points[:, 0] / (busy_ms + active_ms * most_growth)
    slopes = np.divide(alone_rps - least_rps, most_growth, out=np.zeros_like(most_growth), where=most_growth > 0.0)
    chosen = [m.at[o, b, r] for b, r in points.tolist()]
    growths = [m.growth_at[o, b, r] for b, r in points.tolist()]
    return (1.0 + ROW_TOLERANCE) * _weighted(chosen, alone_rps) - _weighted(growths, slopes)


def _most_growth(m: Any, o: int, option: Option) -> Floats:
    """Return the largest growth of each pair of batch and share that the neighbours and the budget permit."""
    tables, row, configurations = option.view.tables, option.row, option.configurations
    points = _points(option)
    by_demand = float(tables.alpha_l2[row]) * m.others_l2[o].ub + float(tables.alpha_dram[row]) * m.others_dram[o].ub
    budget_ms = np.full(tables.active_ms.shape[1:], -np.inf)
    np.maximum.at(budget_ms, (configurations.batch, configurations.units), configurations.budget_ms.max(axis=1))
    active_ms = _table(option, tables.active_ms, points)
    spare_ms = budget_ms[points[:, 0], points[:, 1]] - active_ms - np.minimum(_company_ms(option, points), 0.0)
    return np.asarray((1.0 + ROW_TOLERANCE) * np.clip(spare_ms / active_ms + ROW_TOLERANCE, 0.0, by_demand))


def demands(model: CompactModel) -> tuple[list[Expr], list[Expr], list[Expr]]:
    """Return the L2, DRAM and power demand of every option, as expressions."""
    m, options = model.pyomo, model.options
    if not is_tabulated(model):
        l2 = [option.dnn.l2[0] * m.ability[o] + option.dnn.l2[1] for o, option in enumerate(options)]
        power = [option.dnn.power[0] * m.ability[o] + option.dnn.power[1] for o, option in enumerate(options)]
        return l2, [0.0] * len(options), power
    demands_by_quantity: tuple[list[Expr], list[Expr], list[Expr]] = ([], [], [])
    for o, option in enumerate(options):
        points, tables = _points(option), option.view.tables
        chosen = [m.at[o, b, r] for b, r in points.tolist()]
        for target, table in zip(demands_by_quantity, (tables.l2_pct, tables.dram_pct, tables.power_w), strict=True):
            target.append(_weighted(chosen, _table(option, table, points)))
    return demands_by_quantity


def _points(option: Option) -> Ints:
    """Return the batches and shares of an option's configurations, shape (points, 2)."""
    return np.unique(np.stack([option.configurations.batch, option.configurations.units], axis=1), axis=0)


def _table(option: Option, table: Floats, points: Ints) -> Floats:
    return table[option.row, points[:, 0], points[:, 1]]


def _company_ms(option: Option, points: Ints) -> Floats:
    """Return the time that a neighbour adds whatever its demands; negative where the co-location factor is below 1."""
    tables = option.view.tables
    return _table(option, tables.active_ms, points) * (_table(option, tables.company, points) - 1.0)


def _weighted(variables: list[Any], weights: Floats | Ints) -> Expr:
    return sum_of(float(weight) * variable for weight, variable in zip(weights, variables, strict=True))
