"""Construction of the compact model: the class ``spatial`` in iGniter's equations 1-16.

Other performance models differ only in active times and demands, which then come from tables
(``formulations.compact.tabulated``).

Indices: ``o`` is an option (a workload on one GPU type), and ``(t, k)`` is GPU number k of type t. The paper gives
every quantity of a workload a GPU index j. Here a workload is on one GPU, so its batch ``b``, its share ``r`` (integer
units) and its times are indexed by the option alone. The interference it meets (others' L2 demand, delay, slowdown) is
bounded by rows that bind if ``v = 1``. An option that is not chosen is *elsewhere*: on no GPU, without neighbours.

All rows are linear except the ``relations``: active time (equation 11), processing ability, the products in equations 8
and 4, and under ``capacity`` the throughput (equation 2). ``CompactModel.state_exactly`` adds them unchanged, which
makes the model a nonconvex MINLP. ``formulations.compact.piecewise`` linearises them.
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
    """Build the model without its nonlinear relations.

    Parameters
    ----------
    problem
        Problem of objective ``cost``, ``capacity`` or ``goodput``. A workload without configurations is never served.
    gpus
        Number of GPUs of each offer that a plan may use.
    continuous_shares
        Let shares be fractional: a relaxation.
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
            # Symmetry breaking: GPUs are numbered by their first option, so option n is on one of the first n + 1 GPUs.
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
    """Return the rank of each option among those of its GPU type, largest least share first."""
    order = sorted(range(len(options)), key=lambda o: (-options[o].units[0], -float(options[o].active_ms.min()), o))
    seen: dict[int, int] = defaultdict(int)
    rank = [0] * len(options)
    for o in order:
        rank[o] = seen[options[o].offer]
        seen[options[o].offer] += 1
    return rank
