"""Scheduler based on a rule that groups workloads or best-effort jobs on GPUs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run
from heuristics.fleet import Fleet
from heuristics.mediator.utilisation import Utilisation, largest_batch, of_items, of_jobs
from heuristics.packing import PackingRule, cheapest, pack_pools, warm_packing
from heuristics.tiny import tiny_instance
from instances import Gpulet, Instance, Job, Objective, PlacedGpu, Plan, Slot
from instances.arrays import Floats, Ints
from instances.configurations import Configurations
from instances.least_shares import raise_to_feasible, shares_alone
from instances.view import View

CAPACITY = 1.0
"""Upper limit on the sum of the utilisations of a group: the whole GPU (MediatorDNN's ``HRC``)."""

Fits = Callable[[list[int]], bool]
"""Type of a test whether these positions fit on one GPU by shares and memory, regardless of utilisation."""


def fill_groups(
    opening_order: Sequence[int], ranked: Callable[[list[int], list[int]], list[int]], fits: Fits
) -> list[list[int]]:
    """Fill one group after the other (MediatorDNN, Algorithm 3, lines 3-20).

    Parameters
    ----------
    opening_order
        All positions; the first that has no group opens the next group.
    ranked
        Function that orders the candidates, given the group and the candidates.
    fits
        Test whether a group fits on one GPU. It does not apply to a group of one.
    """
    ungrouped = list(opening_order)
    groups = []
    while ungrouped:  # line 4
        group = [ungrouped.pop(0)]  # lines 5-8
        candidates = list(ungrouped)
        while candidates:  # line 9
            for i in ranked(group, candidates):  # lines 10-14
                candidates.remove(i)  # a position that does not fit now does not fit beside more members
                if fits([*group, i]):  # line 15
                    group.append(i)  # line 16
                    ungrouped.remove(i)
                    break
        groups.append(group)  # lines 17-19
    return groups


def fill_by_mean(
    profile: Utilisation, ranked: Callable[[list[int], list[int]], list[int]], fits: Fits
) -> list[list[int]]:
    """Fill groups up to the limit on mean utilisation; the busiest position left opens the next group (Sec. IV-A)."""

    def within(group: list[int]) -> bool:
        return bool(profile.mean[group].sum() <= CAPACITY) and fits(group)

    busiest = np.argsort(-profile.mean, kind="stable").tolist()
    return fill_groups(busiest, ranked, within)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Scheduler based on a rule that forms groups.

    Attributes
    ----------
    spend_spare
        Whether spare shares are distributed for throughput under ``capacity``.
    """

    objectives: ClassVar[frozenset[Objective]] = frozenset(
        {Objective.COST, Objective.CAPACITY, Objective.GOODPUT, Objective.COLOCATION}
    )

    no_services: ClassVar[str] = "utilisation is simulated for whole requests"

    spend_spare: bool = field(default=True, kw_only=True)

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels."""
        warm_packing(_pack_by(self.groups))
        self.schedule(tiny_instance(Objective.COLOCATION), Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan with one GPU for every group."""
        if instance.objective is not Objective.COLOCATION:
            return pack_pools(instance, _pack_by(self.groups), self.spend_spare)
        plans = []
        for pool in instance.gpus:
            view = View.of(instance, pool.type)
            memory_mib = _largest_memory_mib(view, instance.jobs)
            groups = self.groups_of_jobs(
                of_jobs(view, instance.jobs), memory_mib / view.gpu.memory_mib, _memory_test(view, memory_mib)
            )
            if pool.count is None or len(groups) <= pool.count:
                gpus = (_shared_gpu(view, [instance.jobs[i] for i in members]) for members in groups)
                plans.append(Plan(instance.name, tuple(gpus)))
        return cheapest(plans, instance, "no GPU type of the pool has enough GPUs for all groups")

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Return groups of positions, each position in exactly one; ``fits`` tests whether a group is permitted."""
        raise NotImplementedError

    def groups_of_jobs(self, profile: Utilisation, memory: Floats, fits: Fits) -> list[list[int]]:
        """Return groups of positions of best-effort jobs; by default, by the rule for workloads.

        ``memory`` has the memory of each job as a fraction of the GPU's.
        """
        return self.groups(profile, fits)


def _largest_memory_mib(view: View, jobs: Sequence[Job]) -> Floats:
    return np.array([view.gpu.models[job.model].memory_mib(largest_batch(view.gpu, job)) for job in jobs])


def _memory_test(view: View, memory_mib: Floats) -> Fits:
    return lambda positions: sum(memory_mib[i] for i in positions) <= view.tables.memory_limit_mib


def _shared_gpu(view: View, jobs: Sequence[Job]) -> PlacedGpu:
    """Return a GPU shared by all jobs: each has a gpulet of the whole GPU, at its largest batch and rate."""
    gpulets = []
    for job in jobs:
        batch, model = largest_batch(view.gpu, job), list(view.gpu.models).index(job.model)
        alone_ms = view.tables.scheduling_ms[model] + view.tables.active_ms[model, batch, view.tables.share_units]
        rate_rps = min(job.rate_rps, 1000.0 * batch / float(alone_ms))  # the rate of a job without gaps is infinite
        gpulets.append(Gpulet(view.tables.share_units, (Slot(job.id, batch, rate_rps),)))
    return PlacedGpu(view.gpu.name, tuple(gpulets))


def _pack_by(rule: Callable[[Utilisation, Fits], list[list[int]]]) -> PackingRule:
    """Return the packing rule that gives each group a GPU, and its members the least shares within their budgets.

    If the pool is too small, the groups that serve the most requests are placed.
    """

    def pack(view: View, configurations: Configurations, available: int) -> Fleet:
        tables, share_units = view.tables, view.tables.share_units
        units_alone = shares_alone(tables, configurations.model, configurations.batch, configurations.budget_ms)
        servable = np.flatnonzero(units_alone <= share_units)
        # The highest rate of each item that a full GPU serves
        row = servable[np.unique(configurations.item[servable], return_index=True)[1]]
        highest, least_units = configurations.only(row), units_alone[row]
        memory_mib = highest.memory_mib(tables)

        def fitted_shares(members: list[int]) -> tuple[bool, Ints]:
            """Return whether the members fit on one GPU, and their shares."""
            units = least_units[members]
            if units.sum() > share_units or memory_mib[members].sum() > tables.memory_limit_mib:
                return False, units
            residents = (highest.model[members], highest.batch[members], highest.budget_ms[members])
            return raise_to_feasible(tables, *residents, units, len(members)), units

        profile = of_items(view, highest.workload, highest.batch, least_units, highest.rate_rps)
        groups = rule(profile, lambda members: fitted_shares(members)[0])
        if view.instance.objective is Objective.GOODPUT:
            groups.sort(key=lambda members: -float(highest.rate_rps[members].sum()))
        fleet = Fleet.empty(available, share_units)
        for g, members in enumerate(groups[:available]):
            units = fitted_shares(members)[1]
            fleet.residents[g], fleet.allocated[g] = len(members), units.sum()
            fleet.memory_mib[g] = memory_mib[members].sum()
            fleet.row[g, : len(members)], fleet.units[g, : len(members)] = row[members], units
        return fleet

    return pack
