"""Interference on a GPU: demands of the others, added delay and lost clock (iGniter's equations 6, 8-10)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.compact.model import CompactModel, Expr, add
from formulations.compact.options import FORMULA, Option, span
from instances.arrays import Floats, Ints


def _knapsack(amounts: Sequence[float], units: Sequence[float], free_units: float) -> float:
    """Return the largest sum of ``amounts`` whose items, each whole or in part, fit into ``free_units``."""
    items = [(most, size) for most, size in zip(amounts, units, strict=True) if most > 0.0]
    total, left = 0.0, free_units
    for most, size in sorted(items, key=lambda item: item[1] / item[0]):
        part = min(1.0, left / size)
        total += part * most
        left -= part * size
        if left <= 0.0:
            break
    return total


def state_interference(model: CompactModel) -> None:
    """Bound the interference of each option from below; upper bounds are not needed, because interference never helps.

    Each row has a big-M term that subtracts the largest possible interference, so that it binds only on the option's
    own GPU.
    """
    m, options = model.pyomo, model.options
    l2, dram, power = demands(model)
    # L2 (percent), DRAM (percent) and power (W)
    demand = [option.configurations.demand(option.view.tables) for option in options]
    ranges = [[span(of_option[:, q]) for of_option in demand] for q in range(3)]
    l2_on = model.spread("l2", l2, ranges[0])
    dram_matters = any(option.view.tables.alpha_dram[option.row] > 0.0 for option in options)
    dram_on = model.spread("dram", dram, ranges[1]) if dram_matters else None
    power_on = model.spread("power", power, ranges[2])
    m.others_l2 = pyo.Var(m.O, bounds=(0.0, None), doc="L2 demand of the option's neighbours, percent (equation 8)")
    m.others_dram = pyo.Var(
        m.O, bounds=(0.0, None), doc="DRAM demand of the option's neighbours, percent (InSS, Sec. 4.1)"
    )
    m.delay = pyo.Var(m.O, bounds=(0.0, None), doc="added scheduling delay per kernel, ms (equation 6)")
    m.slowdown = pyo.Var(m.O, bounds=(0.0, None), doc="lost part of the clock, 1 - f / F (equations 9, 10)")
    rows = m.interference = pyo.ConstraintList()
    units = [option.units[0] for option in options]
    amounts = [[1.0] * len(options), *([high for _, high in each] for each in ranges)]
    for o, option in enumerate(options):
        tables = option.view.tables
        others = [p for p, other in enumerate(options) if other.offer == option.offer and p != o]
        # The most that others can have beside the option, and on a GPU without it
        (most, most_l2, most_dram, most_w), (there, there_l2, there_dram, there_w) = (
            [_knapsack([each[p] for p in others], [units[p] for p in others], free) for each in amounts]
            for free in (tables.share_units - units[o], tables.share_units)
        )
        excess_w = tables.idle_power_w - tables.max_power_w
        slowdown_most = -tables.throttle_per_w * (excess_w + ranges[2][o][1] + most_w)
        m.others_l2[o].setub(most_l2)
        m.others_dram[o].setub(most_dram if dram_on is not None else 0.0)
        m.delay[o].setub(max(0.0, tables.alpha_sch * (1.0 + most) + tables.beta_sch))
        m.slowdown[o].setub(min(1.0, max(0.0, slowdown_most)))
        slack_delay = max(0.0, tables.alpha_sch * there + tables.beta_sch)
        slack_slowdown = max(0.0, -tables.throttle_per_w * (excess_w + there_w))
        for t, k in model.gpus_of[o]:
            absent = 1 - m.v[o, t, k]
            members = model.on_gpu[t, k]
            # Equation 8: the sum over the others
            rows.add(m.others_l2[o] >= add(l2_on[p, t, k] for p in members if p != o) - there_l2 * absent)
            if dram_on is not None:
                # InSS, Sec. 4.1
                rows.add(m.others_dram[o] >= add(dram_on[p, t, k] for p in members if p != o) - there_dram * absent)
            # Equation 6: the larger of zero and the line (``delay_is_one_line``)
            residents = add(m.v[p, t, k] for p in members)
            rows.add(m.delay[o] >= tables.alpha_sch * residents + tables.beta_sch - slack_delay * absent)
            if slowdown_most > 0.0:
                # Equations 9 and 10: f / F = 1 - slowdown is the smaller of one and the line
                demand_w = add(power_on[p, t, k] for p in members)
                rows.add(m.slowdown[o] >= -tables.throttle_per_w * (excess_w + demand_w) - slack_slowdown * absent)


def is_tabulated(model: CompactModel) -> bool:
    """Return whether active times and demands come from tables: every performance model but iGniter's."""
    return model.instance.performance_model != FORMULA


def state_tables(model: CompactModel) -> None:
    """State batch, share, active time and co-location of every option by binaries; nothing for iGniter's model.

    ``at`` chooses one pair of batch and share, and ``beside`` is 1 if the option has a neighbour.
    """
    if not is_tabulated(model):
        return
    m, options = model.pyomo, model.options
    points = [_points(option) for option in options]
    m.P = pyo.Set(initialize=[(o, *at) for o, places in enumerate(points) for at in places.tolist()], dimen=3)
    m.at = pyo.Var(m.P, domain=pyo.Binary, doc="1 if option o has batch b and share r")
    m.beside = pyo.Var(m.O, domain=pyo.Binary, doc="1 if option o has a neighbour")
    extra_ms = [_company_ms(option, points[o]) for o, option in enumerate(options)]
    m.company_ms = pyo.Var(
        m.O,
        bounds=lambda _, o: (min(0.0, extra_ms[o].min()), max(0.0, extra_ms[o].max())),
        doc="time that any neighbour adds, ms",
    )
    rows = m.tables = pyo.ConstraintList()
    for o, option in enumerate(options):
        at = [m.at[o, b, r] for b, r in points[o].tolist()]
        rows.add(add(at) == 1)
        rows.add(_weighted(at, points[o][:, 0]) == m.b[o])
        rows.add(_weighted(at, points[o][:, 1]) == m.r[o])
        rows.add(_weighted(at, _table(option, option.view.tables.active_ms, points[o])) == m.k_act[o])
        most_ms = max(0.0, float(extra_ms[o].max()))
        rows.add(m.company_ms[o] >= _weighted(at, extra_ms[o]) - most_ms * (1 - m.beside[o]))
        for t, k in model.gpus_of[o]:
            others = [p for p in model.on_gpu[t, k] if p != o]
            most = min(len(others), option.view.tables.most_residents - 1)
            present = add(m.v[p, t, k] for p in others)
            rows.add(present <= most * m.beside[o] + len(others) * (1 - m.v[o, t, k]))


def demands(model: CompactModel) -> tuple[list[Expr], list[Expr], list[Expr]]:
    """Return the L2, DRAM and power demand of every option, as expressions."""
    m, options = model.pyomo, model.options
    if not is_tabulated(model):
        l2 = [option.dnn.l2[0] * m.ability[o] + option.dnn.l2[1] for o, option in enumerate(options)]
        power = [option.dnn.power[0] * m.ability[o] + option.dnn.power[1] for o, option in enumerate(options)]
        return l2, [0.0] * len(options), power
    found: tuple[list[Expr], list[Expr], list[Expr]] = ([], [], [])
    for o, option in enumerate(options):
        points, tables = _points(option), option.view.tables
        at = [m.at[o, b, r] for b, r in points.tolist()]
        for target, table in zip(found, (tables.l2_pct, tables.dram_pct, tables.power_w), strict=True):
            target.append(_weighted(at, _table(option, table, points)))
    return found


def _points(option: Option) -> Ints:
    """Return the batches and shares of an option's configurations, shape (points, 2)."""
    return np.unique(np.stack([option.configurations.batch, option.configurations.units], axis=1), axis=0)


def _table(option: Option, table: Floats, points: Ints) -> Floats:
    return table[option.row, points[:, 0], points[:, 1]]


def _company_ms(option: Option, points: Ints) -> Floats:
    """Return the time that co-location adds before any demand; negative where pairs are clipped."""
    tables = option.view.tables
    return _table(option, tables.active_ms, points) * (_table(option, tables.company, points) - 1.0)


def _weighted(variables: list[Any], weights: Floats | Ints) -> Expr:
    return add(float(weight) * variable for weight, variable in zip(weights, variables, strict=True))
