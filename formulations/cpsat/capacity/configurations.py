"""Configurations for ``capacity``: every batch and share of every class of identical workloads on one GPU type."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from instances.arrays import Floats, Ints
from instances.configurations import Rates, servable_configurations
from instances.view import View


class ClassConfigurations(NamedTuple):
    """Configurations of all classes, class by class, each class in the order of ``impact``.

    Attributes
    ----------
    first
        First configuration of each class and the end of the last, shape (classes + 1,).
    model
        Row of the DNN model in the tables.
    demand
        L2 (percent), DRAM (percent) and power (W), shape (configurations, 3).
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


def class_configurations(view: View, rates: Sequence[Rates], classes: Sequence[Sequence[int]]) -> ClassConfigurations:
    """List the configurations that are feasible alone on a GPU; a class is the positions of its workloads."""
    tables = view.tables
    used = np.unique(view.model)
    slows = np.array([tables.alpha_l2[used].mean(), tables.alpha_dram[used].mean(), -tables.throttle_per_w])
    columns: list[tuple[Ints | Floats, ...]] = []
    for members in classes:
        w = members[0]
        own = servable_configurations(view, w, rates[w])
        impact = own.demand @ slows
        order = np.argsort(impact, kind="stable")
        own, model = own.only(order), np.full(len(own), view.model[w])
        columns.append((model, own.batch, own.units, own.demand, own.memory_mib, own.budget_ms, impact[order]))
    first = np.cumsum([0, *(len(column[0]) for column in columns)], dtype=np.int64)
    return ClassConfigurations(first, *(np.concatenate(parts) for parts in zip(*columns, strict=True)))
