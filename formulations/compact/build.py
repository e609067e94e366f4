"""The true problem of class ``spatial`` as one Pyomo model, in iGniter's equations (iGniter, equations 1-16).

Other performance models differ in active times and demands only, which then come from tables
(``formulations.compact.tabulated``).

Indices: ``o`` is an option (a workload on one GPU type), ``(t, k)`` is GPU number k of type t. In the paper every
quantity of a workload has a GPU index j. Here a workload is on one GPU, so its batch ``b``, share ``r`` (whole units)
and times carry the option alone, and what it meets on its GPU (others' L2 demand, delay, slowdown) comes from rows that
bind where ``v = 1``. An option that is not taken is *elsewhere*: on no GPU, without neighbours.

All rows are linear but for the ``relations``: active time (equation 11), processing ability, the products in equations
8 and 4, and for ``capacity`` the throughput (equation 2). ``CompactModel.state_exactly`` adds them as they are, which
makes the model a nonconvex mixed-integer nonlinear one; ``formulations.compact.piecewise`` linearises them.
"""

from collections import defaultdict
from collections.abc import Sequence

import pyomo.environ as pyo

from formulations.compact.interference import state_interference
from formulations.compact.model import CompactModel
from formulations.compact.options import Option, options_of, span
from formulations.compact.placement import state_placement, state_space
from formulations.compact.tabulated import state_tables
from formulations.compact.times import state_budgets, state_objective, state_times
from formulations.problem import Problem


def build(problem: Problem, gpus: Sequence[int], continuous_shares: bool = False) -> CompactModel:
    """Build the model without its relations.

    Parameters
    ----------
    problem
        An instance with objective ``cost``, ``capacity`` or ``goodput``, as choices; a workload without any is never
        served.
    gpus
        Of each offer, how many a plan may use.
    continuous_shares
        Let shares be any fraction of a unit: a relaxation.
    """
    offers = problem.offers
    options = options_of(offers)
    m = pyo.ConcreteModel()
    model = CompactModel(problem.instance, offers, options, m, ranks(options))
    m.O = pyo.RangeSet(0, len(options) - 1)
    most = [sum(option.offer == t for option in options) for t in range(len(offers))]
    numbers = [(t, k) for t, count in enumerate(gpus) for k in range(min(count, most[t]))]
    m.J = pyo.Set(initialize=numbers, dimen=2)
    for o, option in enumerate(options):
        for t, k in m.J:
            # GPUs are numbered by the first option on them, so option number n is on one of the first n + 1.
            if t == option.offer and k <= model.rank[o]:
                model.gpus_of[o].append((t, k))
                model.on_gpu[t, k].append(o)
    m.V = pyo.Set(initialize=[(o, t, k) for o in model.gpus_of for t, k in model.gpus_of[o]], dimen=3)
    m.b = pyo.Var(m.O, domain=pyo.Integers, bounds=lambda _, o: options[o].batch)
    m.r = pyo.Var(m.O, domain=pyo.Reals if continuous_shares else pyo.Integers, bounds=lambda _, o: options[o].units)
    m.k_act = pyo.Var(m.O, bounds=lambda _, o: span(options[o].active_ms))
    m.ability = pyo.Var(m.O, bounds=lambda _, o: span(options[o].ability))
    state_placement(model)
    state_space(model)
    state_tables(model)
    state_interference(model)
    state_times(model)
    state_budgets(model)
    state_objective(model)
    return model


def ranks(options: Sequence[Option]) -> list[int]:
    """Position of each option among those of its GPU type, largest least share first."""
    order = sorted(range(len(options)), key=lambda o: (-options[o].units[0], -float(options[o].active_ms.min()), o))
    seen: dict[int, int] = defaultdict(int)
    rank = [0] * len(options)
    for o in order:
        rank[o] = seen[options[o].offer]
        seen[options[o].offer] += 1
    return rank
