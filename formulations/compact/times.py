"""Variables and rows of the compact model's GPU times, budgets and objective, for every SLO rule."""

import numpy as np
import pyomo.environ as pyo

from formulations.compact import equations
from formulations.compact.model import CompactModel, Expr, add
from formulations.compact.options import span
from formulations.compact.tables import is_tabulated
from instances import GOODPUT_STEP, Objective, SloRule


def state_times(model: CompactModel) -> None:
    """State the GPU time of every option (equations 4, 5 and 8) and its nonlinear relations (11)."""
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
    rows = m.times = pyo.ConstraintList()
    for o, option in enumerate(options):
        t_sch = equations.scheduling_ms(m, o, option)
        t_act, products = equations.active_ms(m, o, option)
        if is_tabulated(model):
            # Co-location alone adds company_ms, which may be negative; this row keeps the time at least at that alone.
            t_act += m.company_ms[o]
            rows.add(m.t_gpu[o] - m.lost_ms[o] >= t_sch + m.k_act[o])
        else:
            model.relations += equations.active_time_alone(m, o, option)
        row, lost = equations.gpu_time(m, o, t_sch, t_act)
        rows.add(row)
        model.relations += [*products, lost]


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
            per_rate = [
                (m.b_at[o, s], m.at_step[o, s], 1000.0 / (GOODPUT_STEP * s * workload.rate_rps))
                for s in model.steps_of[o]
            ]
        else:
            per_rate = [(m.b[o], 1, 1000.0 / workload.rate_rps)]
        period_ms = add(interarrival_ms * b for b, _, interarrival_ms in per_rate)
        if rule is SloRule.ASSEMBLY:
            # InSS equation 3
            assembly_ms = add(interarrival_ms * (b - taken) for b, taken, interarrival_ms in per_rate)
            rows.add(equations.inference_ms(m, o, option) <= (workload.slo_ms - assembly_ms) / buffer)
            rows.add(equations.inference_ms(m, o, option) <= period_ms / buffer)
        else:
            rows.add(equations.latency_row(m, o, option))
            rows.add(equations.rate_row(m, o, option, period_ms))


def _state_steps(model: CompactModel) -> None:
    """Choose one rate per option; ``b_at`` is the batch at that rate and 0 at others, so ``b / rate`` is linear."""
    m, options = model.pyomo, model.options
    at = {}
    for o, option in enumerate(options):
        model.steps_of[o] = [int(s) for s in np.unique(option.configurations.step)]
        at.update({(o, s): option.configurations.only(option.configurations.step == s) for s in model.steps_of[o]})
    batches = {key: span(configurations.batch) for key, configurations in at.items()}
    m.S = pyo.Set(initialize=list(at), dimen=2)
    m.at_step = pyo.Var(m.S, domain=pyo.Binary, doc="1 if option o is planned for s/20 of its rate")
    m.b_at = pyo.Var(
        m.S,
        bounds=lambda _, o, s: (0, batches[o, s][1]),
        doc="batch of option o if planned for s/20 of its rate, else 0",
    )
    rows = m.steps = pyo.ConstraintList()
    for o in m.O:
        steps = model.steps_of[o]
        rows.add(add(m.at_step[o, s] for s in steps) == 1)
        rows.add(add(m.b_at[o, s] for s in steps) == m.b[o])
        for s in steps:
            rows.add(m.b_at[o, s] >= batches[o, s][0] * m.at_step[o, s])
            rows.add(m.b_at[o, s] <= batches[o, s][1] * m.at_step[o, s])
        # Valid inequality that strengthens the relaxation: each rate needs its own least share.
        rows.add(m.r[o] >= add(int(at[o, s].units.min()) * m.at_step[o, s] for s in steps))


def state_objective(model: CompactModel) -> None:
    """Add the instance's objective: least cost, or most throughput or requests served on the given GPUs."""
    m, options, instance = model.pyomo, model.options, model.instance
    if instance.objective is Objective.COST:
        m.value = pyo.Objective(expr=equations.cost(model))
        return
    worth: list[Expr]
    if instance.objective is Objective.GOODPUT:
        per_step = [GOODPUT_STEP * instance.workloads[option.workload].rate_rps for option in options]
        most = [per_step[o] * float(option.configurations.step.max()) for o, option in enumerate(options)]
        worth = [per_step[o] * add(s * m.at_step[o, s] for s in model.steps_of[o]) for o in m.O]
    else:
        exposed = [float(option.view.tables.exposed_ms[option.row, 1]) for option in options]
        most = [equations.most_throughput(option, y) for option, y in zip(options, exposed, strict=True)]
        m.throughput = pyo.Var(
            m.O, bounds=lambda _, o: (0.0, most[o]), doc="throughput of option o, req/s (equation 2)"
        )
        worth = [m.throughput[o] for o in m.O]
        model.relations += [equations.throughput(m, o, exposed[o]) for o in m.O]
    # An option that is elsewhere has no value.
    m.gained = pyo.Var(m.O, bounds=lambda _, o: (0.0, most[o]), doc="value of option o in the objective")
    rows = m.gains = pyo.ConstraintList()
    for o in m.O:
        rows.add(m.gained[o] <= worth[o])
        rows.add(m.gained[o] <= most[o] * (1 - m.elsewhere[o]))
    m.value = pyo.Objective(expr=add(m.gained[o] for o in m.O), sense=pyo.maximize)
