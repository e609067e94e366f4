"""From a rule that groups what shares a GPU to a scheduler: workloads with shares, or best-effort jobs without."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.api import Outcome, Status
from heuristics.demand_items import DemandItems
from heuristics.options import shares_alone
from heuristics.packing import Pack, Packing, pack_pools, warm_packing
from heuristics.utilisation import Utilisation, of_items, of_jobs
from instances import Gpulet, Instance, Job, Objective, PlacedGpu, Plan, Slot
from instances.least_shares import raise_to_feasible
from instances.view import View

Ints = NDArray[np.int64]

OBJECTIVES = frozenset({Objective.COST, Objective.CAPACITY, Objective.GOODPUT, Objective.COLOCATION})

Fits = Callable[[list[int]], bool]
"""Whether these positions fit on one GPU for other reasons than how busy they are: shares, memory."""

Group = Callable[[Utilisation, Fits], list[list[int]]]
"""A rule: profile and test to groups of positions; every position is in exactly one."""


def fill_groups(
    opens: Sequence[int], ranked: Callable[[list[int], list[int]], list[int]], fits: Fits
) -> list[list[int]]:
    """Fill one group after the other (MediatorDNN, Algorithm 3, lines 3-20).

    Parameters
    ----------
    opens
        Positions in the order in which they open groups.
    ranked
        Candidates in the order in which they are tried, given the group and the candidates.
    fits
        Whether a group fits on one GPU. A group of one always stands.
    """
    left = list(opens)
    groups = []
    while left:  # line 4
        group = [left.pop(0)]  # lines 5-8
        candidates = list(left)
        while candidates:  # line 9
            for i in ranked(group, candidates):  # lines 10-14
                candidates.remove(i)  # who does not fit now fits beside more even less
                if fits([*group, i]):  # line 15
                    group.append(i)  # line 16
                    left.remove(i)
                    break
        groups.append(group)  # lines 17-19
    return groups


def schedule_groups(instance: Instance, group: Group, spend_spare: bool) -> Outcome:
    """Make every group of the workloads or the jobs of ``instance`` a GPU."""
    if instance.objective is not Objective.COLOCATION:
        return pack_pools(instance, pack_by(group), spend_spare)
    found: list[tuple[float, Plan]] = []
    for pool in instance.gpus:
        view = View.of(instance, pool.type)
        groups = group(of_jobs(view, instance.jobs), _memory_test(view, instance.jobs))
        if pool.count is None or len(groups) <= pool.count:
            gpus = tuple(_shared_gpu(view, [instance.jobs[i] for i in each]) for each in groups)
            found.append((pool.type.price_per_hour * len(gpus), Plan(instance.name, gpus)))
    if not found:
        return Outcome(Status.UNKNOWN, reason="no GPU type has as many GPUs as there are groups")
    return Outcome(Status.FEASIBLE, min(found, key=lambda each: each[0])[1])


def _memory_test(view: View, jobs: Sequence[Job]) -> Fits:
    largest = [view.gpu.models[job.model].memory_mib(largest_batch(view, job)) for job in jobs]
    return lambda positions: sum(largest[i] for i in positions) <= view.tables.memory_limit_mib


def largest_batch(view: View, job: Job) -> int:
    """Return the largest batch in which a job is served: larger ones are cut."""
    return min(max(job.batches), view.gpu.models[job.model].max_batch)


def _shared_gpu(view: View, jobs: Sequence[Job]) -> PlacedGpu:
    """Return a GPU that jobs share without shares: one gpulet, a slot for each at its largest batch and mean rate."""
    slots = []
    for job in jobs:
        size, gap_ms = (
            float(np.average(values, weights=weights))
            for values, weights in ((job.batches, job.batch_weights), (job.interarrival_ms, job.interarrival_weights))
        )
        slots.append(Slot(job.id, largest_batch(view, job), 1000.0 * size / gap_ms))
    return PlacedGpu(view.gpu.name, (Gpulet(view.tables.share_units, tuple(slots)),))


def pack_by(rule: Group) -> Pack:
    """Return the packing rule that gives each group a GPU and its members the least shares that keep every promise.

    Where the pool is too small the groups that serve the most requests are taken.
    """

    def pack(view: View, items: DemandItems, available: int) -> Packing:
        tables, most = view.tables, view.tables.share_units
        model, (count, rates) = view.model[items.workload], items.batch.shape
        alone = shares_alone(tables, np.repeat(model, rates), items.batch.ravel(), items.budget_ms.ravel())
        alone = alone.reshape(count, rates)
        column = np.argmax(alone <= most, axis=1)  # the highest rate that a full GPU serves
        servable = np.flatnonzero(alone[np.arange(count), column] <= most)
        at = (servable, column[servable])
        model, batch, lower = model[servable], items.batch[at], alone[at]
        budget_ms, rate_rps = items.budget_ms[at], items.rate_rps[at]
        memory_mib = tables.memory_mib[model, batch]

        def shares(members: list[int]) -> tuple[bool, Ints]:
            least = lower[members]
            if least.sum() > most or memory_mib[members].sum() > tables.memory_limit_mib:
                return False, least
            at = (model[members], batch[members], budget_ms[members])
            return raise_to_feasible(tables, *at, least, len(members)), least

        profile = of_items(view, items.workload[servable], batch, lower, rate_rps)
        groups = rule(profile, lambda members: shares(members)[0])
        if view.instance.objective is Objective.GOODPUT:
            groups.sort(key=lambda each: -float(rate_rps[each].sum()))
        chosen = np.full(count, -1, dtype=np.int64)
        resident, units = np.zeros((2, available, most + 1), dtype=np.int64)
        residents = np.zeros(available, dtype=np.int64)
        for g, each in enumerate(groups[:available]):
            residents[g] = len(each)
            resident[g, : len(each)], units[g, : len(each)] = servable[each], shares(each)[1]
            chosen[servable[each]] = column[servable[each]]
        return chosen, resident, units, residents

    return pack


def warm_grouping(group: Group) -> None:
    """Run a rule once on a tiny instance, so that its kernels are loaded before the clock starts."""
    warm_packing(pack_by(group))
