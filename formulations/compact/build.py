"""Construction of the compact model: the class ``spatial`` in iGniter's equations 1-16.

Other performance models differ only in active times and demands, which then come from tables
(``formulations.compact.tables``).

Indices: ``o`` is an option (a workload on one GPU type), and ``(t, k)`` is GPU number k of type t. The paper gives
every quantity of a workload a GPU index j. Here a workload is on one GPU, so its batch ``b``, its share ``r`` (integer
units) and its times are indexed by the option alone. The rows of its interference (L2 demand of its neighbours, delay,
slowdown) bind only on the option's own GPU, where ``v = 1``. An option that is not chosen is *elsewhere*: on no GPU,
without neighbours.

All rows are linear except the ``relations``: active time (equation 11), processing ability, the products in equations 8
and 4, and under ``capacity`` the throughput (equation 2). ``CompactModel.state_relations`` adds them, which makes the
model a nonconvex MINLP. ``formulations.compact.piecewise`` linearises them.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

import pyomo.environ as pyo

from formulations.compact import equations
from formulations.compact.batching import state_batching
from formulations.compact.interference import state_interference
from formulations.compact.model import CompactModel, price_unit, sum_of
from formulations.compact.options import Option, options_of, span
from formulations.compact.tables import state_tables
from formulations.compact.times import state_budgets, state_objective, state_times
from formulations.problem import Problem
from instances import Objective


def build(problem: Problem, gpus: Sequence[int], continuous_shares: bool = False) -> CompactModel:
    """Build the model without its nonlinear relations.

    Parameters
    ----------
    problem
        Problem of objective ``cost``, ``capacity`` or ``goodput``. The model never serves a workload that has no
        configurations.
    gpus
        Number of GPUs of each offer that a plan may use.
    continuous_shares
        Let shares be fractional: a relaxation.
    """
    offers = problem.offers
    options = options_of(offers)
    m = pyo.ConcreteModel(name=re.sub(r"\s+", "_", problem.instance.name))
    model = CompactModel(problem.instance, offers, options, m, ranks(options))
    if problem.instance.objective is Objective.COST:
        model.objective_unit = price_unit(
            offer.view.gpu.price_per_hour for offer, count in zip(offers, gpus, strict=True) if count > 0
        )
    m.O = pyo.RangeSet(0, len(options) - 1)
    most_gpus = [sum(option.offer == t for option in options) for t in range(len(offers))]
    gpu_numbers = [(t, k) for t, count in enumerate(gpus) for k in range(min(count, most_gpus[t]))]
    m.J = pyo.Set(initialize=gpu_numbers, dimen=2)
    for o, option in enumerate(options):
        for t, k in m.J:
            # Symmetry breaking: GPUs are numbered by their lowest rank, so rank n is on one of the first n + 1 GPUs.
            if t == option.offer and k <= model.rank_of[o]:
                model.gpus_of[o].append((t, k))
                model.options_on_gpu[t, k].append(o)
    m.V = pyo.Set(initialize=[(o, t, k) for o in model.gpus_of for t, k in model.gpus_of[o]], dimen=3)
    m.b = pyo.Var(m.O, domain=pyo.Integers, bounds=lambda _, o: options[o].batch, doc="batch of option o")
    share_domain = pyo.Reals if continuous_shares else pyo.Integers
    m.r = pyo.Var(m.O, domain=share_domain, bounds=lambda _, o: options[o].units, doc="share of option o in units")
    m.k_act = pyo.Var(
        m.O, bounds=lambda _, o: span(options[o].active_ms), doc="active time of option o alone, ms (equation 11)"
    )
    m.ability = pyo.Var(
        m.O,
        bounds=lambda _, o: span(options[o].ability),
        doc="requests per second of option o while active, 1000 b / k_act",
    )
    state_placement(model)
    state_space(model)
    state_tables(model)
    state_batching(model)
    state_interference(model)
    state_times(model)
    state_budgets(model)
    state_objective(model)
    return model


def ranks(options: Sequence[Option]) -> list[int]:
    """Return the rank of each option among those of its GPU type, largest least share first."""
    order = sorted(range(len(options)), key=lambda o: (-options[o].units[0], -float(options[o].active_ms.min()), o))
    ranked_of_type: dict[int, int] = defaultdict(int)
    rank_of = [0] * len(options)
    for o in order:
        rank_of[o] = ranked_of_type[options[o].offer]
        ranked_of_type[options[o].offer] += 1
    return rank_of


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
            # Symmetry breaking: an option on GPU k needs an option of lower rank on GPU k - 1.
            rows.add(
                m.v[o, t, k]
                <= sum_of(
                    m.v[p, t, k - 1] for p in model.options_on_gpu[t, k - 1] if model.rank_of[p] < model.rank_of[o]
                )
            )


def _place(model: CompactModel) -> None:
    """Add the placement variables, and the rows that place each workload."""
    m, options = model.pyomo, model.options
    options_of_workload: dict[int, list[int]] = defaultdict(list)
    for o, option in enumerate(options):
        options_of_workload[option.workload].append(o)
    may_be_left_out = model.instance.objective is Objective.GOODPUT
    m.v = equations.placed(m)
    m.used = pyo.Var(m.J, domain=pyo.Binary, doc="1 if GPU k of type t is used")
    m.elsewhere = pyo.Var(
        m.O,
        bounds=lambda _, o: (0, int(may_be_left_out or len(options_of_workload[options[o].workload]) > 1)),
        doc="1 if option o is on no GPU",
    )
    rows = m.placement = pyo.ConstraintList()
    for o in m.O:
        rows.add(sum_of(m.v[o, t, k] for t, k in model.gpus_of[o]) + m.elsewhere[o] == 1)
    for workload_options in options_of_workload.values():
        placed_count = len(workload_options) - sum_of(m.elsewhere[o] for o in workload_options)
        if may_be_left_out:
            rows.add(placed_count <= 1)
        elif len(workload_options) > 1:
            rows.add(equations.placement_row(placed_count))


def state_space(model: CompactModel) -> None:
    """Limit shares and memory of the workloads on each GPU."""
    m, options = model.pyomo, model.options
    r_on = model.spread("r", [m.r[o] for o in m.O], [option.units for option in options])
    rows = m.space = pyo.ConstraintList()
    for t, k in m.J:
        shares = (r_on[o, t, k] for o in model.options_on_gpu[t, k])
        rows.add(equations.shares_row(m, t, k, model.offers[t].view.tables, shares))
    for t, k in m.J:
        tables = model.offers[t].view.tables
        if tables.most_residents < tables.share_units:
            rows.add(sum_of(m.v[o, t, k] for o in model.options_on_gpu[t, k]) <= tables.most_residents)
    # Types on which memory may bind: some workload may need more memory per unit than the GPU has.
    types_of_tight_memory = {
        option.offer
        for option in options
        if option.configurations.memory_mib(option.view.tables).max() * option.view.tables.share_units
        > option.units[0] * option.view.tables.memory_limit_mib
    }
    if not types_of_tight_memory:
        return
    b_on = model.spread("b", [m.b[o] for o in m.O], [option.batch for option in options])
    for t, k in m.J:
        if t in types_of_tight_memory:
            resident_mib = sum_of(
                options[o].dnn.memory_base_mib * m.v[o, t, k] + options[o].dnn.memory_per_item_mib * b_on[o, t, k]
                for o in model.options_on_gpu[t, k]
            )
            rows.add(resident_mib <= model.offers[t].view.tables.memory_limit_mib)
