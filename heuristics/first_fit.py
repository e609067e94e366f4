"""First-fit decreasing: iGniter's baselines FFD+ (ignores interference) and FFD++ (with ``alloc_gpus``)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from bench.api import Outcome, Run
from heuristics.demand_items import DemandItems
from heuristics.packing import Packing, pack_pools, warm_packing
from instances import Instance, Objective
from instances.arrays import Floats, Ints
from instances.least_shares import raise_to_feasible
from instances.tables import Tables
from instances.view import View


@njit(cache=True)
def _first_fit(
    tables: Tables, model: Ints, batch: Ints, lower: Ints, budget_ms: Floats, order: Ints, available: int, aware: bool
) -> tuple[Ints, Ints, Ints, Ints]:
    """Place items in ``order`` on the first GPU that has room; per-rate arrays have shape (items, rates)."""
    items, rates = batch.shape
    most = tables.share_units
    column = np.full(items, -1, dtype=np.int64)
    resident = np.zeros((available, most + 1), dtype=np.int64)
    units = np.zeros((available, most + 1), dtype=np.int64)
    residents = np.zeros(available, dtype=np.int64)
    allocated = np.zeros(available, dtype=np.int64)
    memory_mib = np.zeros(available)
    there_model = np.empty(most + 1, dtype=np.int64)
    there_batch = np.empty(most + 1, dtype=np.int64)
    there_budget = np.empty(most + 1)
    there_units = np.empty(most + 1, dtype=np.int64)

    for w in order:
        for c in range(rates):
            if lower[w, c] > most:
                continue
            memory = tables.memory_mib[model[w], batch[w, c]]
            for g in range(available):
                count = residents[g]
                if allocated[g] + lower[w, c] > most or memory_mib[g] + memory > tables.memory_limit_mib:
                    continue
                there_units[:count] = units[g, :count]
                there_units[count] = lower[w, c]
                if aware and count > 0:  # as in iGniter, a new GPU starts at r_lower without a check
                    for s in range(count):
                        i = resident[g, s]
                        there_model[s], there_batch[s] = model[i], batch[i, column[i]]
                        there_budget[s] = budget_ms[i, column[i]]
                    there_model[count], there_batch[count] = model[w], batch[w, c]
                    there_budget[count] = budget_ms[w, c]
                    if not raise_to_feasible(tables, there_model, there_batch, there_budget, there_units, count + 1):
                        continue
                resident[g, count] = w
                residents[g] = count + 1
                units[g, : count + 1] = there_units[: count + 1]
                allocated[g] = there_units[: count + 1].sum()
                memory_mib[g] += memory
                column[w] = c
                break
            if column[w] >= 0:
                break
    return column, resident, units, residents


def _pack(view: View, items: DemandItems, available: int, aware: bool) -> Packing:
    packed: Packing = _first_fit(
        view.tables,
        view.model[items.workload],
        items.batch,
        items.lower_units,
        items.budget_ms,
        items.decreasing(),
        available,
        aware,
    )
    return packed


def _pack_blind(view: View, items: DemandItems, available: int) -> Packing:
    return _pack(view, items, available, aware=False)


def _pack_aware(view: View, items: DemandItems, available: int) -> Packing:
    return _pack(view, items, available, aware=True)


@dataclass(frozen=True, slots=True)
class FfdPlus:
    """FFD+: every workload at ``r_lower`` on the first GPU with enough free share (iGniter, Sec. 5.1).

    Interference is ignored, so its plans violate latency budgets, and the judge reports this.
    """

    name: ClassVar[str] = "ffd+"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY, Objective.GOODPUT})
    own_model: ClassVar[bool] = True

    def warm(self) -> None:
        """Load the compiled kernel."""
        warm_packing(_pack_blind)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Pack onto every GPU type of the pool and return the best plan."""
        return pack_pools(instance, _pack_blind, spend_spare=False)


@dataclass(frozen=True, slots=True)
class FfdPlusPlus:
    """FFD++: first fit with shares raised by ``alloc_gpus`` (iGniter, Sec. 5.3, Fig. 19).

    Attributes
    ----------
    spend_spare
        Whether the spare shares are distributed for throughput under ``capacity``.
    """

    name: ClassVar[str] = "ffd++"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY, Objective.GOODPUT})

    spend_spare: bool = True

    def warm(self) -> None:
        """Load the compiled kernel."""
        warm_packing(_pack_aware)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Pack onto every GPU type of the pool and return the best plan."""
        return pack_pools(instance, _pack_aware, self.spend_spare)
