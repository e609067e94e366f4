"""Variables and rows of the interference on a GPU: demands of the others, added delay and lost clock."""

from collections.abc import Sequence

import pyomo.environ as pyo

from formulations.compact import equations
from formulations.compact.model import CompactModel, add
from formulations.compact.options import span
from formulations.compact.tables import demands


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
    amounts = [[1.0] * len(options), *([high for _, high in of_quantity] for of_quantity in ranges)]
    for o, option in enumerate(options):
        tables = option.view.tables
        others = [p for p, other in enumerate(options) if other.offer == option.offer and p != o]
        # The most that others can have beside the option, and on a GPU without it
        beside, anywhere = (
            [_knapsack([quantity[p] for p in others], [units[p] for p in others], free) for quantity in amounts]
            for free in (tables.share_units - units[o], tables.share_units)
        )
        most, most_l2, most_dram, most_w = beside
        most_anywhere, most_l2_anywhere, most_dram_anywhere, most_w_anywhere = anywhere
        excess_w = tables.idle_power_w - tables.max_power_w
        slowdown_most = -tables.throttle_per_w * (excess_w + ranges[2][o][1] + most_w)
        m.others_l2[o].setub(most_l2)
        m.others_dram[o].setub(most_dram if dram_on is not None else 0.0)
        m.delay[o].setub(max(0.0, tables.alpha_sch * (1.0 + most) + tables.beta_sch))
        m.slowdown[o].setub(min(1.0, max(0.0, slowdown_most)))
        slack_delay = max(0.0, tables.alpha_sch * most_anywhere + tables.beta_sch)
        slack_slowdown = max(0.0, -tables.throttle_per_w * (excess_w + most_w_anywhere))
        for t, k in model.gpus_of[o]:
            absent = 1 - m.v[o, t, k]
            members = model.on_gpu[t, k]
            neighbours = (l2_on[p, t, k] for p in members if p != o)
            rows.add(equations.others_l2(m, o, neighbours, most_l2_anywhere * absent))
            if dram_on is not None:
                # InSS, Sec. 4.1
                rows.add(
                    m.others_dram[o] >= add(dram_on[p, t, k] for p in members if p != o) - most_dram_anywhere * absent
                )
            residents = add(m.v[p, t, k] for p in members)
            rows.add(equations.added_delay(m, o, tables, residents, slack_delay * absent))
            if slowdown_most > 0.0:
                power_w = equations.power_above_cap_w(tables, add(power_on[p, t, k] for p in members))
                rows.add(equations.slowdown(m, o, tables, power_w, slack_slowdown * absent))
