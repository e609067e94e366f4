"""iGniter (Algorithms 1 and 2) and its first-fit decreasing baselines FFD+ and FFD++: one packing kernel."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run
from heuristics.packing import DemandItems, Packing, pack_pools, warm_packing
from instances import Instance, Objective
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.least_shares import raise_to_feasible
from instances.tables import Tables
from instances.view import View


@compiled
def _place(
    tables: Tables,
    model: Ints,
    batch: Ints,
    lower: Ints,
    budget_ms: Floats,
    order: Ints,
    available: int,
    aware: bool,
    first_fit: bool,
) -> tuple[Ints, Ints, Ints, Ints]:
    """Place items by Algorithm 1, or each on the first GPU that has room; per-rate arrays have shape (items, rates).

    Without ``aware``, interference is ignored: items keep their lower bounds as shares. Then the first GPU with room is
    also one of least growth.
    """
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
    there_budget = np.empty((most + 1, budget_ms.shape[2]))
    there_units = np.empty(most + 1, dtype=np.int64)
    chosen_units = np.empty(most + 1, dtype=np.int64)

    # The printed g <- 1 leaves GPU 1 empty if the first workload needs all of a GPU; the published plans use GPU 1.
    opened = 0
    for w in order:  # line 4
        for c in range(rates):
            if lower[w, c] > most:
                continue
            memory = tables.memory_mib[model[w], batch[w, c]]
            target = -1  # line 5
            least_growth = most
            for g in range(opened):  # line 6
                count = residents[g]
                if allocated[g] + lower[w, c] > most or memory_mib[g] + memory > tables.memory_limit_mib:
                    continue
                for s in range(count):
                    i = resident[g, s]
                    there_model[s], there_batch[s] = model[i], batch[i, column[i]]
                    there_units[s] = units[g, s]
                    for u in range(budget_ms.shape[2]):
                        there_budget[s, u] = budget_ms[i, column[i], u]
                there_model[count], there_batch[count] = model[w], batch[w, c]
                there_units[count] = lower[w, c]
                for u in range(budget_ms.shape[2]):
                    there_budget[count, u] = budget_ms[w, c, u]
                # line 7
                if aware and not raise_to_feasible(
                    tables, there_model, there_batch, there_budget, there_units, count + 1
                ):
                    continue
                growth = there_units[: count + 1].sum() - allocated[g]  # line 8
                if growth < least_growth:  # lines 9-11
                    target, least_growth = g, growth
                    chosen_units[: count + 1] = there_units[: count + 1]
                    if first_fit or growth == lower[w, c]:
                        break  # if no share grew, no later GPU is strictly better
            # Lines 13-14: a new GPU starts at r_lower without a time check
            if target < 0 and opened < available and memory <= tables.memory_limit_mib:
                target = opened
                opened += 1
                chosen_units[0] = lower[w, c]
            if target >= 0:  # line 16
                count = residents[target]
                resident[target, count] = w
                residents[target] = count + 1
                units[target, : count + 1] = chosen_units[: count + 1]
                allocated[target] = units[target, : count + 1].sum()
                memory_mib[target] += memory
                column[w] = c
                break
    return column, resident, units, residents


def _pack(
    view: View,
    items: DemandItems,
    available: int,
    aware: bool = True,
    first_fit: bool = False,
    memory: bool = True,
) -> Packing:
    packed: Packing = _place(
        view.tables if memory else view.tables._replace(memory_limit_mib=np.inf),
        view.model[items.workload],
        items.batch,
        items.lower_units,
        items.budget_ms,
        items.decreasing(),  # line 3
        available,
        aware,
        first_fit,
    )
    return packed


@dataclass(frozen=True, slots=True)
class _ByPackingKernel:
    """Base of the schedulers that pack by the kernel of this module."""

    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY, Objective.GOODPUT})

    def warm(self) -> None:
        """Load the compiled kernels."""
        warm_packing(_pack)


@dataclass(frozen=True, slots=True)
class IGniter(_ByPackingKernel):
    """iGniter (Algorithms 1 and 2): each workload on the GPU where shares grow least, at the least feasible shares.

    Under ``cost`` it is the paper's algorithm; the paper has no other objective. Under ``capacity`` the same plan is
    made on the given GPUs, and the spare shares of each are distributed for throughput. Under ``goodput`` a workload
    that fits nowhere at its full rate is tried at 95 %, 90 %, ... of it.

    Attributes
    ----------
    spend_spare
        Whether the spare shares are distributed under ``capacity``.
    memory
        Whether models must fit into GPU memory. The paper does not consider memory; the judge does.
    """

    name: ClassVar[str] = "igniter"

    spend_spare: bool = True
    memory: bool = True

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Pack onto every GPU type of the pool and return the best plan."""
        return pack_pools(instance, partial(_pack, memory=self.memory), self.spend_spare)


@dataclass(frozen=True, slots=True)
class FfdPlus(_ByPackingKernel):
    """FFD+: every workload at ``r_lower`` on the first GPU with enough free share (iGniter, Sec. 5.1).

    Interference is ignored, so its plans violate latency budgets, and the judge reports this.
    """

    name: ClassVar[str] = "ffd+"
    own_model: ClassVar[bool] = True

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Pack onto every GPU type of the pool and return the best plan."""
        return pack_pools(instance, partial(_pack, aware=False, first_fit=True), spend_spare=False)


@dataclass(frozen=True, slots=True)
class FfdPlusPlus(_ByPackingKernel):
    """FFD++: first fit with shares raised by ``alloc_gpus`` (iGniter, Sec. 5.3, Fig. 19).

    Attributes
    ----------
    spend_spare
        Whether the spare shares are distributed for throughput under ``capacity``.
    """

    name: ClassVar[str] = "ffd++"

    spend_spare: bool = True

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Pack onto every GPU type of the pool and return the best plan."""
        return pack_pools(instance, partial(_pack, first_fit=True), self.spend_spare)
