"""Optima of small instances by enumeration of the contents of one GPU, and an exact cover of the workloads.

It is faster than ``exhaustive``: it solves eight workloads at all batches and shares. The one-GPU kernel decides
whether residents fit. A batch is not tried where another batch is better in every respect at every share. Residents
only slow each other down, so a search over batches and rates stops where the residents so far do not fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from instances import GOODPUT_STEP, GpuType, Instance, Objective, SloRule
from instances.one_gpu import Resident, fit_gpu
from instances.spare_shares import spend_spare_shares
from instances.view import View
from tests.formulations.exhaustive import best_partition

STEPS = round(1.0 / GOODPUT_STEP)
"""Steps of a rate under ``goodput``."""

SCALE_STEP = 0.005
"""Step between the scales that are tried."""


class OneGpu:
    """Sets of workloads that one GPU of a type can hold."""

    def __init__(self, instance: Instance, gpu: GpuType) -> None:
        assert instance.performance_model == "igniter"
        self.view = View.of(instance, gpu)
        self.rate_rps = [workload.rate_rps for workload in instance.workloads]
        self.residents = cache(self._residents)
        self.fits = cache(self._fits)

    def _residents(self, workload: int, rate_rps: float, worth_trying: bool = True) -> list[tuple[Resident, int]]:
        """Return the workload at every batch that fits alone, and its share alone; the least shares first.

        With ``worth_trying``, batches that are no better than a smaller one in any respect are left out.
        """
        tables, model, units = self.view.tables, int(self.view.model[workload]), self.view.tables.permitted
        residents: list[tuple[Resident, int]] = []
        requirements: list[NDArray[np.float64]] = []
        for batch in range(1, int(tables.max_batch[model]) + 1):
            resident, at = Resident(workload, batch, rate_rps), (model, batch, units)
            demands = (tables.active_ms[at], tables.l2_pct[at], tables.dram_pct[at], tables.power_w[at])
            budgets = self.view.budgets_ms(workload, batch, rate_rps)
            required = np.concatenate((-budgets, [tables.memory_mib[model, batch]], *demands))
            alone = fit_gpu(self.view, [resident])
            is_dominated = any(np.all(other <= required) for other in requirements)
            if alone is not None and not (worth_trying and is_dominated):
                requirements.append(required)
                residents.append((resident, alone.share_units))
        return sorted(residents, key=lambda pair: pair[1])

    def groups(
        self, members: tuple[int, ...], beside: tuple[Resident, ...] = (), worth_trying: bool = True
    ) -> Iterator[tuple[Resident, ...]]:
        """Yield every choice of batches at which the members, at their own rates, fit beside the residents ``beside``.

        ``worth_trying`` leaves out dominated batches.
        """
        if not members:
            yield beside
            return
        for resident, _ in self.residents(members[0], self.rate_rps[members[0]], worth_trying):
            if fit_gpu(self.view, (*beside, resident)) is not None:
                yield from self.groups(members[1:], (*beside, resident), worth_trying)

    def _fits(self, members: tuple[int, ...]) -> bool:
        """Return whether the members fit at their own rates; without any one of them, they must fit as well."""
        if len(members) > 1 and not all(map(self.fits, combinations(members, len(members) - 1))):
            return False
        return any(self.groups(members))

    def most_goodput(self, members: tuple[int, ...]) -> float:
        """Return the most requests per second of the members, each at one of its rate steps or left out."""
        best, share_units = 0.0, self.view.tables.share_units
        residents = {
            w: [pair for step in range(STEPS, 0, -1) for pair in self.residents(w, self.rate_rps[w] * step / STEPS)]
            for w in members
        }
        density = {w: max((r.rate_rps / units for r, units in residents[w]), default=0.0) for w in members}
        order = sorted(members, key=lambda w: -density[w])

        def most_of(later: Sequence[int], free: int) -> float:
            """Return an upper bound on the rates of ``later`` workloads, by a fractional knapsack of shares alone."""
            total, free_units = 0.0, float(free)
            for w in later:
                part_rps = min(self.rate_rps[w], density[w] * free_units)
                total += part_rps
                free_units -= part_rps / density[w] if part_rps else 0.0
            return total

        def extend(chosen: tuple[Resident, ...], taken: int, left: Sequence[int], served: float) -> None:
            nonlocal best
            best = max(best, served)
            if not left:
                return
            for resident, units in residents[left[0]]:
                most = served + resident.rate_rps + most_of(left[1:], share_units - taken - units)
                if taken + units <= share_units and most > best * (1 + 1e-12):
                    placed = fit_gpu(self.view, (*chosen, resident))
                    if placed is not None:
                        extend((*chosen, resident), placed.share_units, left[1:], served + resident.rate_rps)
            if served + most_of(left[1:], share_units - taken) > best * (1 + 1e-12):
                extend(chosen, taken, left[1:], served)

        extend((), 0, order, 0.0)
        return best

    def most_capacity(self, members: tuple[int, ...]) -> float | None:
        """Return the most throughput of the members with all spare shares spent; ``None`` if they do not fit.

        All batches are tried, because a batch that is worse in every other respect may have a larger throughput.
        """
        tables, best = self.view.tables, None
        for fitting_residents in self.groups(members, worth_trying=False):
            model = self.view.model[list(members)]
            batch = np.array([resident.batch for resident in fitting_residents])
            budget = self.view.budgets_ms(np.array(members), batch)
            placed = fit_gpu(self.view, fitting_residents)
            assert placed is not None
            units = np.array([gpulet.share_units for gpulet in placed.gpulets])
            total, proven = spend_spare_shares(tables, model, batch, budget, units, 10**7)
            assert proven
            best = total if best is None else max(best, total)
        return best


# --- The objectives ---


def optimum(instance: Instance) -> float | None:
    """Return the best value of the instance's objective, or ``None`` if no plan exists."""
    gpus = {pool.type.name: OneGpu(instance, pool.type) for pool in instance.gpus}
    match instance.objective:
        case Objective.COST:
            cost = best_partition(instance, lambda gpu, w: -gpu.price_per_hour if gpus[gpu.name].fits(w) else None)
            return None if cost is None else -cost
        case Objective.GOODPUT:
            return best_partition(instance, lambda gpu, w: gpus[gpu.name].most_goodput(w), leave_out=True)
        case Objective.CAPACITY:
            return best_partition(instance, lambda gpu, w: gpus[gpu.name].most_capacity(w))
        case _:
            return largest_scale(instance)


def largest_scale(instance: Instance) -> float | None:
    """Return the largest scale on the grid at which all workloads fit, or ``None`` if they do not fit at the first."""
    assert instance.slo_rule is not SloRule.ASSEMBLY, "a workload may fit at a higher rate only"

    def fits(steps: int) -> bool:
        scaled = replace(instance.scaled(steps * SCALE_STEP), objective=Objective.COST)
        return optimum(scaled) is not None

    low, high = 0, round(1.0 / SCALE_STEP)
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * SCALE_STEP if low else None
