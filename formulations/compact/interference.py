"""Variables and rows of the interference on a GPU: demands of an option's neighbours, added delay and lost clock.

The indices o, t and k are those of ``formulations.compact.build``; p is another option.
"""

from collections.abc import Sequence

import pyomo.environ as pyo

from formulations.compact import equations
from formulations.compact.model import CompactModel, sum_of
from formulations.compact.options import span
from formulations.compact.tables import demands


def _knapsack(amounts: Sequence[float], units: Sequence[float], free_units: float) -> float:
    """Return the largest total amount of items, each whole or in part, that fit into ``free_units``."""
    items = [(amount, item_units) for amount, item_units in zip(amounts, units, strict=True) if amount > 0.0]
    total, remaining_units = 0.0, free_units
    for amount, item_units in sorted(items, key=lambda item: item[1] / item[0]):
        fraction = min(1.0, remaining_units / item_units)
        total += fraction * amount
        remaining_units -= fraction * item_units
        if remaining_units <= 0.0:
            break
    return total


def state_interference(model: CompactModel) -> None:
    """Bound the interference of each option from below; upper bounds are not needed, because interference never helps.

    Each row has a big-M term. It subtracts the largest possible interference unless the option is on the row's GPU, so
    the row binds only there.
    """
    m, options = model.pyomo, model.options
    l2, dram, power = demands(model)
    # L2 (percent), DRAM (percent) and power (W)
    demands_of_options = [option.configurations.demand(option.view.tables) for option in options]
    demand_ranges = [[span(demand[:, quantity]) for demand in demands_of_options] for quantity in range(3)]
    l2_on = model.spread("l2", l2, demand_ranges[0])
    dram_matters = any(option.view.tables.alpha_dram[option.row] > 0.0 for option in options)
    dram_on = model.spread("dram", dram, demand_ranges[1]) if dram_matters else None
    power_on = model.spread("power", power, demand_ranges[2])
    m.others_l2 = pyo.Var(m.O, bounds=(0.0, None), doc="L2 demand of the option's neighbours, percent (equation 8)")
    m.others_dram = pyo.Var(
        m.O, bounds=(0.0, None), doc="DRAM demand of the option's neighbours, percent (InSS, Sec. 4.1)"
    )
    m.delay = pyo.Var(m.O, bounds=(0.0, None), doc="added scheduling delay per kernel, ms (equation 6)")
    m.slowdown = pyo.Var(m.O, bounds=(0.0, None), doc="lost part of the clock, 1 - f / F (equations 9, 10)")
    rows = m.interference = pyo.ConstraintList()
    units = [option.units[0] for option in options]
    # Of each option: itself as a resident, then its largest L2, DRAM and power demand
    largest_amounts = [
        [1.0] * len(options),
        *([high for _, high in ranges_of_quantity] for ranges_of_quantity in demand_ranges),
    ]
    for o, option in enumerate(options):
        tables = option.view.tables
        others_of_type = [p for p, other in enumerate(options) if other.offer == option.offer and p != o]
        # Largest amounts of other options on the option's GPU, and on a GPU without the option
        units_of_others = [units[p] for p in others_of_type]
        limits_beside, limits_anywhere = (
            [
                _knapsack([amounts[p] for p in others_of_type], units_of_others, free_units)
                for amounts in largest_amounts
            ]
            for free_units in (tables.share_units - units[o], tables.share_units)
        )
        most_others, most_l2_beside, most_dram_beside, most_w_beside = limits_beside
        most_anywhere, most_l2_anywhere, most_dram_anywhere, most_w_anywhere = limits_anywhere
        excess_w = tables.idle_power_w - tables.max_power_w
        largest_slowdown = -tables.throttle_per_w * (excess_w + demand_ranges[2][o][1] + most_w_beside)
        m.others_l2[o].setub(most_l2_beside)
        m.others_dram[o].setub(most_dram_beside if dram_on is not None else 0.0)
        m.delay[o].setub(max(0.0, tables.alpha_sch * (1.0 + most_others) + tables.beta_sch))
        m.slowdown[o].setub(min(1.0, max(0.0, largest_slowdown)))
        delay_big_m = max(0.0, tables.alpha_sch * most_anywhere + tables.beta_sch)
        slowdown_big_m = max(0.0, -tables.throttle_per_w * (excess_w + most_w_anywhere))
        for t, k in model.gpus_of[o]:
            absent = 1 - m.v[o, t, k]
            members = model.options_on_gpu[t, k]
            neighbours = (l2_on[p, t, k] for p in members if p != o)
            rows.add(equations.others_l2(m, o, neighbours, most_l2_anywhere * absent))
            if dram_on is not None:
                # InSS, Sec. 4.1
                rows.add(
                    m.others_dram[o]
                    >= sum_of(dram_on[p, t, k] for p in members if p != o) - most_dram_anywhere * absent
                )
            residents = sum_of(m.v[p, t, k] for p in members)
            rows.add(equations.added_delay(m, o, tables, residents, delay_big_m * absent))
            if largest_slowdown > 0.0:
                power_w = equations.power_above_cap_w(tables, sum_of(power_on[p, t, k] for p in members))
                rows.add(equations.slowdown(m, o, tables, power_w, slowdown_big_m * absent))
