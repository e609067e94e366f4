"""Check of a compact model by a plan: its values of all variables, and the rows that these values break."""

from typing import Any

import pyomo.environ as pyo

from formulations.compact.model import CompactModel
from formulations.compact.options import Option
from instances import GOODPUT_STEP, Objective, Plan

TOLERANCE = 1e-9


def assign(model: CompactModel, plan: Plan) -> None:
    """Set the model's variables to the values of ``plan``; times and demands come from tables, not from the rows.

    Every workload of the plan must have an option, and the plan must use no more GPUs than the model has.
    """
    m, options = model.pyomo, model.options
    for variable in m.component_data_objects(pyo.Var):
        variable.set_value(0.0, skip_validation=True)
    slots = {}
    for position, gpulet, slot in plan.slots():
        offer = next(t for t, offer in enumerate(model.offers) if offer.view.gpu.name == plan.gpus[position].type)
        slots[model.instance.workload_index[slot.workload], offer] = (position, gpulet.share_units, slot)
    residents_of_gpu: dict[int, list[int]] = {}
    for o, option in enumerate(options):
        if (option.workload, option.offer) in slots:
            residents_of_gpu.setdefault(slots[option.workload, option.offer][0], []).append(o)
    # The model numbers GPUs of one type by the first rank on them.
    next_gpu = [0] * len(model.offers)
    for residents in sorted(residents_of_gpu.values(), key=lambda members: min(model.rank_of[o] for o in members)):
        t = options[residents[0]].offer
        for o in residents:
            if (o, t, next_gpu[t]) in m.V:
                m.v[o, t, next_gpu[t]].set_value(1, skip_validation=True)
        m.used[t, next_gpu[t]].set_value(1, skip_validation=True)
        next_gpu[t] += 1

    residents_with = {o: residents for residents in residents_of_gpu.values() for o in residents}
    for o, option in enumerate(options):
        if o in residents_with:
            _, units, slot = slots[option.workload, option.offer]
            rate = slot.rate_rps
            m.b[o].set_value(slot.batch, skip_validation=True)
            m.r[o].set_value(units, skip_validation=True)
        else:
            m.elsewhere[o].set_value(1, skip_validation=True)
            m.b[o].set_value(int(option.configurations.batch[0]), skip_validation=True)
            m.r[o].set_value(int(option.configurations.units[0]), skip_validation=True)
            rate = float(option.configurations.rate_rps[0])
        if model.instance.objective is Objective.GOODPUT:
            whole_rps = model.instance.workloads[option.workload].rate_rps
            step = round(rate / (GOODPUT_STEP * whole_rps))
            m.at_step[o, step].set_value(1, skip_validation=True)
            m.b_at[o, step].set_value(m.b[o].value, skip_validation=True)
            m.gained[o].set_value(rate if o in residents_with else 0.0, skip_validation=True)
    for o in getattr(m, "A", ()):
        solo = options[o].dnn.solo
        m.batch_is[o, int(m.b[o].value)].set_value(1, skip_validation=True)
        m.batching_ms[o].set_value(solo.batching_ms[solo.batch.index(int(m.b[o].value))], skip_validation=True)
    for o, option in enumerate(options):
        _assign_times(model, o, option, [p for p in residents_with.get(o, []) if p != o])


def _at(m: Any, o: int, option: Option) -> tuple[int, int, int]:
    """Return the index of an option in the tables: model, batch and share."""
    return option.row, int(m.b[o].value), int(m.r[o].value)


def _assign_times(model: CompactModel, o: int, option: Option, others: list[int]) -> None:
    """Set the demands and times of one option, and its interference from the ``others`` on its GPU."""
    m, tables, at = model.pyomo, option.view.tables, _at(model.pyomo, o, option)
    active = float(tables.active_ms[at])
    m.k_act[o].set_value(active, skip_validation=True)
    m.ability[o].set_value(1000.0 * at[1] / active, skip_validation=True)
    for name, total in (("r", at[2]), ("b", at[1]), ("l2", tables.l2_pct[at]), ("power", tables.power_w[at])):
        if m.component(f"{name}_on") is not None:
            for t, k in model.gpus_of[o]:
                m.component(f"{name}_on")[o, t, k].set_value(float(total) * m.v[o, t, k].value, skip_validation=True)
            m.component(f"{name}_away")[o].set_value(float(total) * m.elsewhere[o].value, skip_validation=True)
    m.others_l2[o].set_value(
        sum(float(tables.l2_pct[_at(m, p, model.options[p])]) for p in others), skip_validation=True
    )
    slowdown = 0.0
    if m.elsewhere[o].value == 0:
        power = sum(float(tables.power_w[_at(m, p, model.options[p])]) for p in (o, *others))
        excess = tables.idle_power_w + power - tables.max_power_w
        slowdown = max(0.0, -tables.throttle_per_w * excess)
    m.slowdown[o].set_value(slowdown, skip_validation=True)
    m.delay[o].set_value(
        max(0.0, tables.alpha_sch * (1 + len(others)) + tables.beta_sch) if others else 0.0, skip_validation=True
    )
    m.cache_ms[o].set_value(active * m.others_l2[o].value, skip_validation=True)
    scheduling = tables.scheduling_ms[option.row] + tables.kernels[option.row] * m.delay[o].value
    busy = float(scheduling + active + tables.alpha_l2[option.row] * m.cache_ms[o].value)
    t_gpu = busy / (1.0 - slowdown) if slowdown < 1.0 else 1e9
    m.t_gpu[o].set_value(t_gpu, skip_validation=True)
    m.lost_ms[o].set_value(t_gpu * slowdown, skip_validation=True)
    if model.instance.objective is Objective.CAPACITY:
        exposed = float(tables.exposed_ms[option.row, at[1]])
        m.throughput[o].set_value(1000.0 * at[1] / (t_gpu + exposed), skip_validation=True)
        m.gained[o].set_value(m.throughput[o].value if m.elsewhere[o].value == 0 else 0.0, skip_validation=True)


def broken(model: CompactModel) -> list[str]:
    """Return the names of the rows and variables whose limits the values break."""
    names = []
    for row in model.pyomo.component_data_objects(pyo.Constraint, active=True):
        body, low, high = pyo.value(row.body), pyo.value(row.lower), pyo.value(row.upper)
        slack = TOLERANCE * max(1.0, abs(body), *(abs(side) for side in (low, high) if side is not None))
        if (low is not None and body < low - slack) or (high is not None and body > high + slack):
            names.append(row.name)
    for variable in model.pyomo.component_data_objects(pyo.Var):
        low, high, value = variable.lb, variable.ub, variable.value
        slack = TOLERANCE * max(1.0, abs(value))
        if (low is not None and value < low - slack) or (high is not None and value > high + slack):
            names.append(variable.name)
    return names
