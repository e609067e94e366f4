"""Exhaustive proof for a few workloads on MIG instances: the cheapest set of cut GPUs that serves them.

The sets of GPUs come in the order of their costs. For each set, a search gives MIG instances to one workload after the
other. The first set that serves all workloads is the cheapest.
"""

from collections.abc import Iterator
from fractions import Fraction
from heapq import heappop, heappush
from itertools import product
from math import inf

from bench.certificate.exhaustive import MOST_WORKLOADS
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.mig.rates import MigRates, profiles_of
from bench.certificate.patterns import Progress
from bench.certificate.statement import Statement
from instances import MigProfile

MOST_SETS = 20_000
"""Largest number of sets of cut GPUs that are tried."""

MOST_LAYOUTS = 1_000
"""Largest number of layouts of a GPU type."""

MOST_TRIALS = 1_000_000
"""Largest number of ways to give MIG instances to a workload that are tried, over all sets."""

Counts = tuple[int, ...]
"""Number of MIG instances of each size, in the order of ``MigRates.sizes``."""


def exhaustive_mig_bound(statement: Statement, progress: Progress) -> Fraction | float:
    """Return the least cost of a plan; infinite if no plan exists.

    Raises
    ------
    NotProvenError
        If there are too many workloads.
    GivenUpError
        If there are too many sets of GPUs, layouts, or ways to divide MIG instances among the workloads.
    """
    count = int(statement.copies.sum())
    if count > MOST_WORKLOADS:
        raise NotProvenError(f"{count} workloads; an exhaustive proof takes at most {MOST_WORKLOADS}")
    rates = MigRates.of(statement)
    if rates.unserved:
        return inf
    division = _Division(statement, rates)
    for cost, instances in _sets_by_cost(statement, rates):
        progress(1.0 / MOST_SETS)
        if division.serves_all(instances):
            return cost
    return inf


def _sets_by_cost(statement: Statement, rates: MigRates) -> Iterator[tuple[Fraction, Counts]]:
    """Yield the cost and the MIG instances of every set of cut GPUs, the cheapest first."""
    # A cut is a GPU type with the numbers of MIG instances in one of its layouts.
    cuts = [
        (gpu_type, instances)
        for gpu_type, profile in enumerate(profiles_of(statement.instance))
        if statement.limits[gpu_type] != 0
        for instances in _layouts(profile, [position for t, position in rates.sizes if t == gpu_type])
    ]
    positions = [[n for n, (t, _) in enumerate(rates.sizes) if t == gpu_type] for gpu_type, _ in cuts]
    # A set is a sequence of cuts in ascending order, so that every set comes once.
    heap: list[tuple[Fraction, Counts]] = [(Fraction(0), ())]
    tried = 0
    while heap:
        cost, chosen = heappop(heap)
        tried += 1
        if tried > MOST_SETS:
            raise GivenUpError(f"an exhaustive proof over more than {MOST_SETS:,} sets of cut GPUs")
        instances = [0] * len(rates.sizes)
        for cut in chosen:
            for position, number in zip(positions[cut], cuts[cut][1], strict=True):
                instances[position] += number
        yield cost, tuple(instances)
        for cut in range(chosen[-1] if chosen else 0, len(cuts)):
            gpu_type = cuts[cut][0]
            limit = statement.limits[gpu_type]
            if limit is None or sum(cuts[chosen_cut][0] == gpu_type for chosen_cut in chosen) < limit:
                heappush(heap, (cost + statement.prices[gpu_type], (*chosen, cut)))


def _layouts(profile: MigProfile, sizes: list[int]) -> list[Counts]:
    """Return the number of MIG instances of each size, for every layout that no other layout contains.

    ``sizes`` are positions in ``profile.slices``.
    """
    placements = sorted(
        (start, start + max(profile.slices[position].units, profile.slices[position].span, 1), number)
        for number, position in enumerate(sizes)
        for start in profile.slices[position].starts
    )
    # Layouts by the position at which their last MIG instance ends
    by_end: dict[int, set[Counts]] = {0: {(0,) * len(sizes)}}
    for start, end, number in placements:
        shorter = {counts for earlier_end, layouts in by_end.items() if earlier_end <= start for counts in layouts}
        longer = by_end.setdefault(end, set())
        longer |= {(*counts[:number], counts[number] + 1, *counts[number + 1 :]) for counts in shorter}
        if sum(map(len, by_end.values())) > 10 * MOST_LAYOUTS:
            raise GivenUpError(f"more than {MOST_LAYOUTS:,} layouts of a GPU type")
    all_layouts = {counts for layouts in by_end.values() for counts in layouts}
    if len(all_layouts) > MOST_LAYOUTS:
        raise GivenUpError(f"more than {MOST_LAYOUTS:,} layouts of a GPU type")
    return sorted(counts for counts in all_layouts if not any(_contains(other, counts) for other in all_layouts))


def _contains(larger: Counts, smaller: Counts) -> bool:
    """Return whether one layout has all MIG instances of another one, and more."""
    return larger != smaller and all(m <= n for n, m in zip(larger, smaller, strict=True))


class _Division:
    """Search for a division of MIG instances among the workloads."""

    def __init__(self, statement: Statement, rates: MigRates) -> None:
        self._classes = [class_ for class_, n in enumerate(statement.copies.tolist()) for _ in range(n)]
        self._rates = rates
        self._trials = 0
        # Pairs of a workload and the free MIG instances that do not serve the workloads from this one on.
        self._known_failures: set[tuple[int, Counts]] = set()

    def serves_all(self, instances: Counts) -> bool:
        """Return whether the MIG instances can be divided so that every workload is served."""
        self._known_failures.clear()
        return self._serves_from(0, instances)

    def _serves_from(self, workload: int, free: Counts) -> bool:
        """Return whether the free MIG instances serve the workloads from this one on."""
        if workload == len(self._classes):
            return True
        if (workload, free) in self._known_failures:
            return False
        class_ = self._classes[workload]
        served, needed = self._rates.served[class_], self._rates.needed[class_]
        for taken in product(*(range(n + 1 if rate else 1) for n, rate in zip(free, served, strict=True))):
            self._trials += 1
            if self._trials > MOST_TRIALS:
                raise GivenUpError(f"more than {MOST_TRIALS:,} ways to divide MIG instances among the workloads")
            surplus = sum(n * rate for n, rate in zip(taken, served, strict=True)) - needed
            # A workload takes no MIG instance that it can do without.
            if surplus >= 0 and all(rate > surplus for n, rate in zip(taken, served, strict=True) if n):
                still_free = tuple(n - m for n, m in zip(free, taken, strict=True))
                if self._serves_from(workload + 1, still_free):
                    return True
        self._known_failures.add((workload, free))
        return False
