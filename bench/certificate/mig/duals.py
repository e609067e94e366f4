"""Bound from duals of MIG instances in whole numbers.

Let every size s of MIG instance have a dual ``q_s >= 0``, every class c of identical workloads a dual ``p_c``, and
every GPU type t a dual ``g_t >= 0``. A *layout* is a set of MIG instances that one GPU can be cut into, and a *cover*
of a workload is a set of MIG instances that serves it.

- If every layout of a GPU of type t has ``sum q_s <= price_t + g_t``, then the MIG instances of a plan are worth at
  most its cost plus ``sum g_t count_t``. ``g_t > 0`` needs a limit on the GPUs.
- If every cover of a workload of class c has ``sum q_s >= p_c``, then the MIG instances of a plan are worth at least
  ``sum p_c copies_c``: a MIG instance has one slot, so it belongs to the cover of one workload.

Together, every plan costs at least ``sum p_c copies_c - sum g_t count_t``.
"""

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from math import floor, inf

from bench.certificate.certificate import SliceProof
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.mig.rates import MigRates, profiles_of
from bench.certificate.patterns import Progress
from bench.certificate.statement import Statement
from instances import MigProfile

MOST_NODES = 200_000
"""Largest number of nodes of the search for the cheapest cover of a workload."""

MOST_SIZES = 200
"""Largest number of sizes among which a cover is searched, one level of the search for each."""


def slice_bound(statement: Statement, proof: SliceProof, progress: Progress) -> Fraction | float:
    """Return the bound that duals of MIG instances prove; infinite if a workload is in time on no MIG instance.

    Raises
    ------
    NotProvenError
        If a dual has the wrong sign, a layout is worth more than its GPU, or a cover is worth less than its workload.
    GivenUpError
        If the search for a cover has too many nodes.
    """
    _check_duals(statement, proof)
    for gpu_type, (profile, duals) in enumerate(zip(profiles_of(statement.instance), proof.slices, strict=True)):
        if statement.limits[gpu_type] != 0:
            allowed = floor(statement.prices[gpu_type] * proof.unit) + proof.gpus[gpu_type]
            if (worth := layout_worth(profile, duals)) > allowed:
                name = statement.instance.gpus[gpu_type].type.name
                raise NotProvenError(f"a layout of {name} is worth {worth}, more than the {allowed} of the GPU")
    rates = MigRates.of(statement)
    if rates.unserved:
        return inf
    size_duals = [proof.slices[gpu_type][position] for gpu_type, position in rates.sizes]
    total = 0
    for class_, (dual, served, needed) in enumerate(zip(proof.workloads, rates.served, rates.needed, strict=True)):
        progress(1.0 / len(rates.served))
        if least_cover(size_duals, served, needed, dual) < dual:
            name = statement.instance.workloads[int(statement.member[class_])].id
            raise NotProvenError(f"MIG instances that serve {name} are worth less than its dual")
        total += dual * int(statement.copies[class_])
    total -= sum(dual * (limit or 0) for dual, limit in zip(proof.gpus, statement.limits, strict=True))
    return Fraction(total, proof.unit)


def _check_duals(statement: Statement, proof: SliceProof) -> None:
    """Check that there is a dual for each class, GPU type and size, and that the signs of the duals are permitted."""
    pools = statement.instance.gpus
    for kind, count, expected in (
        ("classes of workloads", len(proof.workloads), len(statement.copies)),
        ("GPU types", len(proof.gpus), len(pools)),
        ("lists of sizes", len(proof.slices), len(pools)),
    ):
        if count != expected:
            raise NotProvenError(f"{count} duals for {expected} {kind}")
    for pool, profile, dual, duals in zip(
        pools, profiles_of(statement.instance), proof.gpus, proof.slices, strict=True
    ):
        name = pool.type.name
        if len(duals) != len(profile.slices):
            raise NotProvenError(f"{len(duals)} duals for {len(profile.slices)} sizes of {name}")
        if min((dual, *duals)) < 0:
            raise NotProvenError(f"a dual of {name} or of its MIG instances is negative")
        if dual > 0 and pool.count is None:
            raise NotProvenError(f"{name} has a dual, but no limit on its GPUs")
    if min(proof.workloads, default=0) < 0:
        raise NotProvenError("the dual of a class of workloads is negative")


def layout_worth(profile: MigProfile, duals: Sequence[int]) -> int:
    """Return the largest sum of duals of the MIG instances that one GPU can be cut into, over all layouts.

    Placements (sizes at starts) are sorted. From each placement on, the best layout begins with the placement or leaves
    it out.
    """
    # Under the judge's rules, a MIG instance occupies its units and blocks its span.
    placements = sorted(
        (start, start + max(slice_.units, slice_.span, 1), dual)
        for slice_, dual in zip(profile.slices, duals, strict=True)
        if profile.slice_of(slice_.units) is slice_
        for start in slice_.starts
    )
    starts = [start for start, _, _ in placements]
    worth_from = [0] * (len(placements) + 1)
    for position in reversed(range(len(placements))):
        _, end, dual = placements[position]
        worth_from[position] = max(worth_from[position + 1], dual + worth_from[bisect_left(starts, end)])
    return worth_from[0]


def least_cover(duals: Sequence[int], served: Sequence[int], needed: int, enough: int | None = None) -> int:
    """Return the least sum of duals of MIG instances that together serve ``needed``; at most ``enough``.

    Parameters
    ----------
    duals, served
        Dual and rate of a MIG instance of each size; at least one rate is positive.
    enough
        Sum at which the search may stop: if no cover is worth less, it is returned.

    Raises
    ------
    GivenUpError
        If there are too many sizes, or the search has too many nodes.
    """
    sizes = _undominated(duals, served)
    if len(sizes) > MOST_SIZES:
        raise GivenUpError(f"covers of more than {MOST_SIZES} sizes of MIG instances")
    least = -(-needed // sizes[0][1]) * sizes[0][0]
    least = least if enough is None else min(least, enough)
    nodes = 0

    def search(depth: int, remaining: int, spent: int) -> None:
        nonlocal least, nodes
        dual, rate = sizes[depth]
        count = -(-remaining // rate)
        least = min(least, spent + count * dual)
        if depth + 1 == len(sizes):
            return
        next_dual, next_rate = sizes[depth + 1]
        while count > 0:
            count -= 1
            left, cost = remaining - count * rate, spent + count * dual
            # No cover with ``count`` MIG instances of this size has a smaller sum than the left-hand side: the next
            # size has the least dual per request of all that follow. With fewer MIG instances of this size, the
            # left-hand side does not fall, because this size has an even smaller dual per request.
            if cost - (-left * next_dual // next_rate) >= least:
                return
            nodes += 1
            if nodes > MOST_NODES:
                raise GivenUpError(f"the search for the cheapest MIG instances has more than {MOST_NODES:,} nodes")
            search(depth + 1, left, cost)

    if fractional_cover(duals, served, needed) < least:
        search(0, needed, 0)
    return least


def fractional_cover(duals: Sequence[int], served: Sequence[int], needed: int) -> int:
    """Return a lower bound on the duals of a cover: ``needed`` times the least dual per request."""
    dual, rate = _undominated(duals, served)[0]
    return -(-needed * dual // rate)


def _undominated(duals: Sequence[int], served: Sequence[int]) -> list[tuple[int, int]]:
    """Return the (dual, rate) of the sizes that may be in a cheapest cover, by ascending dual per request."""
    undominated: list[tuple[int, int]] = []
    most_rate = 0
    for dual, rate in sorted(zip(duals, served, strict=True), key=lambda size: (size[0], -size[1])):
        if rate > most_rate:  # no size with a smaller or equal dual serves as much
            undominated.append((dual, rate))
            most_rate = rate
    return sorted(undominated, key=lambda size: (Fraction(*size), -size[1]))
