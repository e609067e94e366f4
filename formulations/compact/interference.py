"""Interference on a GPU: demands of the others, added delay and lost clock (iGniter's equations 6, 8-10)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray

from formulations.compact.model import CompactModel, Expr, add
from formulations.compact.options import FORMULA, Option, most_beside


@dataclass(frozen=True, slots=True)
class _Most:
    """Largest sums of the others that fit into some free units: residents, L2 and DRAM demand (percent), power (W)."""

    residents: float
    l2_pct: float
    dram_pct: float
    power_w: float

    @classmethod
    def beside(cls, option: Option, alike: list[Option], free_units: float) -> "_Most":
        return cls(
            most_beside(option, alike, [1.0] * len(alike), free_units),
            most_beside(option, alike, [other.l2_pct[1] for other in alike], free_units),
            most_beside(option, alike, [other.dram_pct[1] for other in alike], free_units),
            most_beside(option, alike, [other.power_w[1] for other in alike], free_units),
        )


def state_interference(model: CompactModel) -> None:
    """Bound from below the interference that each option meets. Upper bounds are not needed: interference never helps.

    On GPUs without the option a row must not bind, so a big-M term subtracts the largest value of its left side.
    """
    m, options = model.pyomo, model.options
    l2, dram, power = demands(model)
    l2_on = model.spread("l2", l2, [option.l2_pct for option in options])
    dram_matters = any(option.view.tables.alpha_dram[option.row] > 0.0 for option in options)
    dram_on = model.spread("dram", dram, [option.dram_pct for option in options]) if dram_matters else None
    power_on = model.spread("power", power, [option.power_w for option in options])
    m.others_l2 = pyo.Var(m.O, bounds=(0.0, None))
    m.others_dram = pyo.Var(m.O, bounds=(0.0, None))
    m.delay = pyo.Var(m.O, bounds=(0.0, None))
    m.slowdown = pyo.Var(m.O, bounds=(0.0, None))
    rows = m.interference = pyo.ConstraintList()
    for o, option in enumerate(options):
        tables = option.view.tables
        alike = [other for other in options if other.offer == option.offer]
        here = _Most.beside(option, alike, tables.share_units - option.units[0])
        there = _Most.beside(option, alike, tables.share_units)
        excess_w = tables.idle_power_w - tables.max_power_w
        slowdown_most = -tables.throttle_per_w * (excess_w + option.power_w[1] + here.power_w)
        m.others_l2[o].setub(here.l2_pct)
        m.others_dram[o].setub(here.dram_pct if dram_on is not None else 0.0)
        m.delay[o].setub(max(0.0, tables.alpha_sch * (1.0 + here.residents) + tables.beta_sch))
        m.slowdown[o].setub(min(1.0, max(0.0, slowdown_most)))
        slack_delay = max(0.0, tables.alpha_sch * there.residents + tables.beta_sch)
        slack_slowdown = max(0.0, -tables.throttle_per_w * (excess_w + there.power_w))
        for t, k in model.gpus_of[o]:
            absent = 1 - m.v[o, t, k]
            members = model.on_gpu[t, k]
            # Equation 8: the sum over the others
            rows.add(m.others_l2[o] >= add(l2_on[p, t, k] for p in members if p != o) - there.l2_pct * absent)
            if dram_on is not None:
                # InSS, Sec. 4.1
                rows.add(m.others_dram[o] >= add(dram_on[p, t, k] for p in members if p != o) - there.dram_pct * absent)
            # Equation 6: the larger of zero and the line (``linear_conditions_hold``)
            residents = add(m.v[p, t, k] for p in members)
            rows.add(m.delay[o] >= tables.alpha_sch * residents + tables.beta_sch - slack_delay * absent)
            if slowdown_most > 0.0:
                # Equations 9 and 10: f / F = 1 - slowdown is the smaller of one and the line
                demand_w = add(power_on[p, t, k] for p in members)
                rows.add(m.slowdown[o] >= -tables.throttle_per_w * (excess_w + demand_w) - slack_slowdown * absent)


Points = NDArray[np.int64]


def is_tabulated(model: CompactModel) -> bool:
    """Return whether the instance's performance model is stated by its tables."""
    return model.instance.performance_model != FORMULA


def state_tables(model: CompactModel) -> None:
    """State batch, share, active time and growth of every option by binaries; do nothing for iGniter's model."""
    if not is_tabulated(model):
        return
    m, options = model.pyomo, model.options
    points = [_points(option) for option in options]
    m.P = pyo.Set(initialize=[(o, *at) for o, places in enumerate(points) for at in places.tolist()], dimen=3)
    m.at = pyo.Var(m.P, domain=pyo.Binary)
    m.beside = pyo.Var(m.O, domain=pyo.Binary)
    extra_ms = [_company_ms(option, points[o]) for o, option in enumerate(options)]
    m.company_ms = pyo.Var(m.O, bounds=lambda _, o: (min(0.0, extra_ms[o].min()), max(0.0, extra_ms[o].max())))
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


def _points(option: Option) -> Points:
    """Return the batches and shares of an option's configurations, shape (points, 2)."""
    return np.unique(np.stack([option.configurations.batch, option.configurations.units], axis=1), axis=0)


def _table(option: Option, table: NDArray[np.float64], points: Points) -> NDArray[np.float64]:
    return table[option.row, points[:, 0], points[:, 1]]


def _company_ms(option: Option, points: Points) -> NDArray[np.float64]:
    """Return the time that co-location adds before any demand; negative where pairs are clipped."""
    tables = option.view.tables
    return _table(option, tables.active_ms, points) * (_table(option, tables.company, points) - 1.0)


def _weighted(variables: list[Any], weights: NDArray[Any]) -> Expr:
    return add(float(weight) * variable for weight, variable in zip(weights, variables, strict=True))
