"""Placement on GPUs within shares and memory: iGniter's equations 7, 15 and 16."""

from collections import defaultdict

import pyomo.environ as pyo

from formulations.compact.model import CompactModel, add
from instances import Objective


def state_placement(model: CompactModel) -> None:
    """Place every workload on one GPU, or under ``goodput`` on at most one; number the GPUs of one type uniquely."""
    m = model.pyomo
    _place(model)
    rows = m.numbering = pyo.ConstraintList()
    for t, k in m.J:
        if k > 0:
            rows.add(m.used[t, k] <= m.used[t, k - 1])
    for o, t, k in m.V:
        rows.add(m.v[o, t, k] <= m.used[t, k])
        if k > 0:
            # Symmetry breaking: the first option on GPU k comes after the first one on GPU k - 1.
            rows.add(
                m.v[o, t, k] <= add(m.v[p, t, k - 1] for p in model.on_gpu[t, k - 1] if model.rank[p] < model.rank[o])
            )


def _place(model: CompactModel) -> None:
    m, options = model.pyomo, model.options
    of: dict[int, list[int]] = defaultdict(list)
    for o, option in enumerate(options):
        of[option.workload].append(o)
    may_wait = model.instance.objective is Objective.GOODPUT
    m.v = pyo.Var(m.V, domain=pyo.Binary)  # equation 7
    m.used = pyo.Var(m.J, domain=pyo.Binary)
    m.elsewhere = pyo.Var(m.O, bounds=lambda _, o: (0, int(may_wait or len(of[options[o].workload]) > 1)))
    rows = m.placement = pyo.ConstraintList()
    for o in m.O:
        rows.add(add(m.v[o, t, k] for t, k in model.gpus_of[o]) + m.elsewhere[o] == 1)
    for members in of.values():
        taken = len(members) - add(m.elsewhere[o] for o in members)
        if may_wait:
            rows.add(taken <= 1)
        elif len(members) > 1:
            rows.add(taken == 1)  # equation 16


def state_space(model: CompactModel) -> None:
    """Limit shares and memory of the workloads on each GPU."""
    m, options = model.pyomo, model.options
    r_on = model.spread("r", [m.r[o] for o in m.O], [option.units for option in options])
    rows = m.space = pyo.ConstraintList()
    for t, k in m.J:
        # Equation 15
        rows.add(
            add(r_on[o, t, k] for o in model.on_gpu[t, k]) <= model.offers[t].view.tables.share_units * m.used[t, k]
        )
    for t, k in m.J:
        tables = model.offers[t].view.tables
        if tables.most_residents < tables.share_units:
            rows.add(add(m.v[o, t, k] for o in model.on_gpu[t, k]) <= tables.most_residents)
    # Memory cannot bind on a GPU full of the workload with the most memory per unit, unless its type is listed here.
    tight = {
        option.offer
        for option in options
        if option.choices.memory_mib.max() * option.view.tables.share_units
        > option.units[0] * option.view.tables.memory_limit_mib
    }
    if not tight:
        return
    b_on = model.spread("b", [m.b[o] for o in m.O], [option.batch for option in options])
    for t, k in m.J:
        if t in tight:
            members = [(o, options[o].dnn) for o in model.on_gpu[t, k]]
            resident_mib = add(
                dnn.memory_base_mib * m.v[o, t, k] + dnn.memory_per_item_mib * b_on[o, t, k] for o, dnn in members
            )
            rows.add(resident_mib <= model.offers[t].view.tables.memory_limit_mib)
