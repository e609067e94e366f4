"""Configurations for ``capacity``: every batch and share of every class of identical workloads on one GPU type."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from formulations.rates import Rates
from formulations.sized_choices import servable_choices
from instances.arrays import Floats, Ints
from instances.view import View


class Configurations(NamedTuple):
    """Configurations of all classes, class by class, each class in the order of ``impact``.

    Attributes
    ----------
    first
        First configuration of each class and the end of the last, shape (classes + 1,).
    model
        Row of the DNN model in the tables.
    batch, units
        Batch and share of each configuration.
    demand
        L2 (percent), DRAM (percent) and power (W), shape (configurations, 3).
    memory_mib
        Resident memory.
    budget_ms
        Longest GPU time within the SLO rule.
    impact
        Approximate fraction by which the configuration slows each neighbour; cells are split along it.
    """

    first: Ints
    model: Ints
    batch: Ints
    units: Ints
    demand: Floats
    memory_mib: Floats
    budget_ms: Floats
    impact: Floats


def configurations_on(view: View, rates: Sequence[Rates], classes: Sequence[Sequence[int]]) -> Configurations:
    """List the configurations that are feasible alone on a GPU.

    Parameters
    ----------
    view
        The instance as seen from the GPU type.
    rates
        Rates that each workload may be planned for, in the order of the instance.
    classes
        Positions of identical workloads, by class.
    """
    tables = view.tables
    used = np.unique(view.model)
    slows = np.array([tables.alpha_l2[used].mean(), tables.alpha_dram[used].mean(), -tables.throttle_per_w])
    columns: list[tuple[Ints | Floats, ...]] = []
    for members in classes:
        w = members[0]
        choices = servable_choices(view, w, rates[w])
        impact = choices.demand @ slows
        order = np.argsort(impact, kind="stable")
        choices, model = choices.only(order), np.full(len(choices), view.model[w])
        budget = view.budget_ms(w, choices.batch, choices.rate_rps)
        columns.append((model, choices.batch, choices.units, choices.demand, choices.memory_mib, budget, impact[order]))
    first = np.cumsum([0, *(len(column[0]) for column in columns)], dtype=np.int64)
    return Configurations(first, *(np.concatenate(parts) for parts in zip(*columns, strict=True)))
