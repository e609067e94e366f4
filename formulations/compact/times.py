"""Variables and rows of the compact model's GPU times, budgets and objective, for every SLO rule.

The indices o, t and k are those of ``formulations.compact.build``.
"""

import numpy as np
import pyomo.environ as pyo

from formulations.compact import equations
from formulations.compact.model import CompactModel, Expr, Relation, sum_of
from formulations.compact.options import span
from formulations.compact.tables import growth_ms, is_tabulated, state_growth, throughput_limit
from instances import GOODPUT_STEP, Objective, SloRule


def state_times(model: CompactModel) -> None:
    """State the GPU time of every option (equations 4, 5 and 8) and its nonlinear relations (equation 11)."""
    m, options = model.pyomo, model.options
    budgets = [option.configurations.budget_ms for option in options]
    m.t_gpu = pyo.Var(
        m.O,
        bounds=lambda _, o: (options[o].active_ms.min().item(), budgets[o].max().item()),
        doc="GPU time of option o, ms (equation 4)",
    )
    m.cache_ms = pyo.Var(
        m.O, bounds=lambda _, o: (0.0, m.k_act[o].ub * m.others_l2[o].ub), doc="k_act * others_l2 (equation 8)"
    )
    m.lost_ms = pyo.Var(
        m.O,
        bounds=lambda _, o: (0.0, m.t_gpu[o].ub * m.slowdown[o].ub),
        doc="t_gpu * slowdown: time lost to a lower clock, ms (equation 4)",
    )
    m.dram_ms = pyo.Var(
        m.O, bounds=lambda _, o: (0.0, m.k_act[o].ub * m.others_dram[o].ub), doc="k_act * others_dram (InSS, Sec. 4.1)"
    )
    if is_tabulated(model):
        state_growth(model)
    rows = m.times = pyo.ConstraintList()
    for o, option in enumerate(options):
        t_sch = equations.scheduling_ms(m, o, option)
        products: list[Relation] = []
        if is_tabulated(model):
            # Co-location adds company_ms, which may be negative. This row keeps the time at least the time alone.
            t_act = m.k_act[o] + growth_ms(model, o) + m.company_ms[o]
            rows.add(m.t_gpu[o] - m.lost_ms[o] >= t_sch + m.k_act[o])
        else:
            t_act, products = equations.active_ms(m, o, option)
            model.relations += equations.active_time_alone(m, o, option)
        row, lost_clock = equations.gpu_time(m, o, t_sch, t_act)
        rows.add(row)
        model.relations += [*products, lost_clock]


def state_budgets(model: CompactModel) -> None:
    """Keep every GPU time within the instance's SLO rule (``instances.budget``)."""
    m, options = model.pyomo, model.options
    rule, buffer = model.instance.slo_rule, model.instance.latency_buffer
    if model.instance.objective is Objective.GOODPUT:
        _state_steps(model)
    rows = m.budget = pyo.ConstraintList()
    for o, option in enumerate(options):
        workload = model.instance.workloads[option.workload]
        if model.instance.objective is Objective.GOODPUT:
            batches_by_rate = [
                (m.b_at[o, step], m.at_step[o, step], 1000.0 / (GOODPUT_STEP * step * workload.rate_rps))
                for step in model.steps_of[o]
            ]
        else:
            batches_by_rate = [(m.b[o], 1, 1000.0 / workload.rate_rps)]
        period_ms = sum_of(interarrival_ms * batch for batch, _, interarrival_ms in batches_by_rate)
        if rule is SloRule.ASSEMBLY:
            # InSS equation 3
            assembly_ms = sum_of(
                interarrival_ms * (batch - chosen) for batch, chosen, interarrival_ms in batches_by_rate
            )
            rows.add(equations.inference_ms(m, o, option) <= (workload.slo_ms - assembly_ms) / buffer)
            rows.add(equations.inference_ms(m, o, option) <= period_ms / buffer)
        else:
            rows.add(equations.latency_row(m, o, option))
            rows.add(equations.rate_row(m, o, option, period_ms))


def _state_steps(model: CompactModel) -> None:
    """Choose one rate per option; ``b_at`` is the batch at the chosen rate, 0 at others, so ``b / rate`` is linear."""
    m, options = model.pyomo, model.options
    configurations_at = {}
    for o, option in enumerate(options):
        model.steps_of[o] = [int(step) for step in np.unique(option.configurations.step)]
        configurations_at.update(
            {(o, step): option.configurations.only(option.configurations.step == step) for step in model.steps_of[o]}
        )
    batch_ranges = {key: span(configurations.batch) for key, configurations in configurations_at.items()}
    m.S = pyo.Set(initialize=list(configurations_at), dimen=2)
    m.at_step = pyo.Var(m.S, domain=pyo.Binary, doc="1 if option o is planned for s/20 of its rate")
    m.b_at = pyo.Var(
        m.S,
        bounds=lambda _, o, step: (0, batch_ranges[o, step][1]),
        doc="batch of option o if planned for s/20 of its rate, else 0",
    )
    rows = m.steps = pyo.ConstraintList()
    for o in m.O:
        steps = model.steps_of[o]
        rows.add(sum_of(m.at_step[o, step] for step in steps) == 1)
        rows.add(sum_of(m.b_at[o, step] for step in steps) == m.b[o])
        for step in steps:
            rows.add(m.b_at[o, step] >= batch_ranges[o, step][0] * m.at_step[o, step])
            rows.add(m.b_at[o, step] <= batch_ranges[o, step][1] * m.at_step[o, step])
        # Valid inequality that strengthens the relaxation: each rate needs its own least share.
        rows.add(m.r[o] >= sum_of(int(configurations_at[o, step].units.min()) * m.at_step[o, step] for step in steps))


def state_objective(model: CompactModel) -> None:
    """Add the instance's objective: least cost, or most throughput or requests served on the given GPUs."""
    m, options, instance = model.pyomo, model.options, model.instance
    if instance.objective is Objective.COST:
        m.value = pyo.Objective(expr=equations.cost(model))
        return
    values: list[Expr]
    if instance.objective is Objective.GOODPUT:
        rps_per_step = [GOODPUT_STEP * instance.workloads[option.workload].rate_rps for option in options]
        largest_values = [rps_per_step[o] * float(option.configurations.step.max()) for o, option in enumerate(options)]
        values = [rps_per_step[o] * sum_of(step * m.at_step[o, step] for step in model.steps_of[o]) for o in m.O]
    else:
        largest_values = [equations.most_throughput(option) for option in options]
        m.throughput = pyo.Var(
            m.O, bounds=lambda _, o: (0.0, largest_values[o]), doc="throughput of option o, req/s (equation 2)"
        )
        values = [m.throughput[o] for o in m.O]
        model.relations += [equations.throughput(m, o, options[o]) for o in m.O]
        if is_tabulated(model):
            limits = m.throughput_limits = pyo.ConstraintList()
            for o in m.O:
                if (limit := throughput_limit(model, o)) is not None:
                    limits.add(m.throughput[o] <= limit)
    # An option that is on no GPU has no value.
    m.gained = pyo.Var(m.O, bounds=lambda _, o: (0.0, largest_values[o]), doc="value of option o in the objective")
    rows = m.gains = pyo.ConstraintList()
    for o in m.O:
        rows.add(m.gained[o] <= values[o])
        rows.add(m.gained[o] <= largest_values[o] * (1 - m.elsewhere[o]))
    m.value = pyo.Objective(expr=sum_of(m.gained[o] for o in m.O), sense=pyo.maximize)
