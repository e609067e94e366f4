"""GPU times, budgets and objective of the compact model: iGniter's equations 2-5, 8, 11-14, and the other SLO rules."""

from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.compact.interference import is_tabulated
from formulations.compact.model import ROOM, CompactModel, Expr, Relation, add
from formulations.compact.options import Option, span
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
        tables, w = option.view.tables, option.row
        # Equation 5
        t_sch = float(tables.scheduling_ms[w]) + float(tables.kernels[w]) * m.delay[o]
        # Equation 8; cache_ms is k_act times the others' L2 demand, dram_ms the same for DRAM (InSS, Sec. 4.1)
        t_act = m.k_act[o] + float(tables.alpha_l2[w]) * m.cache_ms[o]
        products = [_product("cache_ms", m.cache_ms[o], m.k_act[o], m.others_l2[o])]
        if tables.alpha_dram[w] > 0.0:
            t_act += float(tables.alpha_dram[w]) * m.dram_ms[o]
            products.append(_product("dram_ms", m.dram_ms[o], m.k_act[o], m.others_dram[o]))
        if is_tabulated(model):
            # Co-location alone adds company_ms, which may be negative; this row keeps the time at least at that alone.
            t_act += m.company_ms[o]
            rows.add(m.t_gpu[o] - m.lost_ms[o] >= t_sch + m.k_act[o])
        else:
            model.relations += _active_time(m, o, option)
        # Equation 4: t_gpu * f / F = t_sch + t_act, where f / F = 1 - slowdown and lost_ms = t_gpu * slowdown
        rows.add(m.t_gpu[o] - m.lost_ms[o] >= t_sch + t_act)
        model.relations += [*products, _product("lost_ms", m.lost_ms[o], m.t_gpu[o], m.slowdown[o])]


def _active_time(m: Any, o: int, option: Option) -> list[Relation]:
    """Return the relations of the active time, and of the ability ``1000 b / k_act``, which sets L2 demand and power.

    Rows with tolerance are divided by their largest value.
    """
    k1, k2, k3, k4, k5 = option.dnn.k
    pct = option.view.gpu.share_pct(1)
    points = np.stack([option.configurations.batch, option.configurations.units], axis=1)

    def k_act(b: float, r: float) -> float:
        # Equation 11
        return (k1 * b * b + k2 * b + k3) / (pct * r + k4) + k5

    def ability(b: float, r: float) -> float:
        return 1000.0 * b / k_act(b, r)

    b, r = m.b[o], m.r[o]
    above, below = (m.k_act[o] - k5) * (pct * r + k4), k1 * b**2 + k2 * b + k3
    done, asked = m.ability[o] * m.k_act[o], 1000.0 * b
    most_below = max(k1 * x * x + k2 * x + k3 for x in option.batch)
    above_1, below_1 = (m.k_act[o] - k5) * ((pct * r + k4) / most_below), below / most_below
    done_1, asked_1 = done / (1000.0 * option.batch[1]), b / option.batch[1]
    # A smaller ability needs a larger k_act and would reduce interference, so k_act is bounded from both sides.
    roomy = (above_1 >= (1.0 - ROOM) * below_1, above_1 <= (1.0 + ROOM) * below_1)
    return [
        Relation("k_act", m.k_act[o], b, r, k_act, above == below, roomy, points),
        Relation("ability", m.ability[o], b, r, ability, done == asked, (done_1 >= (1.0 - ROOM) * asked_1,), points),
    ]


def _product(name: str, result: Expr, first: Expr, second: Expr) -> Relation:
    size = max(1.0, result.ub)
    roomy = result / size >= (1.0 - ROOM) / size * first * second
    return Relation(name, result, first, second, lambda x, y: x * y, result >= first * second, (roomy,))


def state_budgets(model: CompactModel) -> None:
    """Keep every GPU time within the instance's SLO rule (``instances.budget``)."""
    m, options = model.pyomo, model.options
    rule, buffer = model.instance.slo_rule, model.instance.latency_buffer
    if model.instance.objective is Objective.GOODPUT:
        _state_steps(model)
    rows = m.budget = pyo.ConstraintList()
    for o, option in enumerate(options):
        workload = model.instance.workloads[option.workload]
        # Equation 3: transfers are linear in the batch
        transfer_ms = float(option.view.tables.transfer_ms[option.row, 1]) * m.b[o]
        exposed_ms = float(option.view.tables.exposed_ms[option.row, 1]) * m.b[o]
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
            rows.add(m.t_gpu[o] + transfer_ms <= (workload.slo_ms - assembly_ms) / buffer)
            rows.add(m.t_gpu[o] + transfer_ms <= period_ms / buffer)
        else:
            # Equation 14 with equation 1; a duty cycle of SLO/2 gives the same row
            rows.add(m.t_gpu[o] + transfer_ms <= workload.slo_ms / 2.0 / buffer)
            # Equation 13 with equation 2; in a duty cycle no transfer overlaps an execution
            hidden_ms = exposed_ms if rule is SloRule.HALF_SLO else transfer_ms
            rows.add(m.t_gpu[o] + hidden_ms <= period_ms / buffer)


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
        # Equation 12
        price = [offer.view.gpu.price_per_hour / model.unit for offer in model.offers]
        m.value = pyo.Objective(expr=add(price[t] * m.used[t, k] for t, k in m.J))
        return
    worth: list[Expr]
    if instance.objective is Objective.GOODPUT:
        per_step = [GOODPUT_STEP * instance.workloads[option.workload].rate_rps for option in options]
        most = [per_step[o] * float(option.configurations.step.max()) for o, option in enumerate(options)]
        worth = [per_step[o] * add(s * m.at_step[o, s] for s in model.steps_of[o]) for o in m.O]
    else:
        exposed = [float(option.view.tables.exposed_ms[option.row, 1]) for option in options]
        most = [_most_throughput(option, y) for option, y in zip(options, exposed, strict=True)]
        m.throughput = pyo.Var(
            m.O, bounds=lambda _, o: (0.0, most[o]), doc="throughput of option o, req/s (equation 2)"
        )
        worth = [m.throughput[o] for o in m.O]
        model.relations += [_throughput(m, o, exposed[o]) for o in m.O]
    # An option that is elsewhere has no value.
    m.gained = pyo.Var(m.O, bounds=lambda _, o: (0.0, most[o]), doc="value of option o in the objective")
    rows = m.gains = pyo.ConstraintList()
    for o in m.O:
        rows.add(m.gained[o] <= worth[o])
        rows.add(m.gained[o] <= most[o] * (1 - m.elsewhere[o]))
    m.value = pyo.Objective(expr=add(m.gained[o] for o in m.O), sense=pyo.maximize)


def _most_throughput(option: Option, exposed_ms: float) -> float:
    batch = option.configurations.batch
    return float((1000.0 * batch / (option.active_ms + exposed_ms * batch)).max())


def _throughput(m: Any, o: int, exposed_ms: float) -> Relation:
    def most(b: float, t_gpu: float) -> float:
        # Equation 2, in requests per second
        return 1000.0 * b / (t_gpu + exposed_ms * b)

    exact = m.throughput[o] * (m.t_gpu[o] + exposed_ms * m.b[o]) <= 1000.0 * m.b[o]
    size = 1000.0 * m.b[o].ub
    roomy = m.throughput[o] / size * (m.t_gpu[o] + exposed_ms * m.b[o]) <= (1.0 + ROOM) * m.b[o] / m.b[o].ub
    return Relation("throughput", m.throughput[o], m.b[o], m.t_gpu[o], most, exact, (roomy,))
