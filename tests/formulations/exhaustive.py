"""Optima of tiny instances by brute force, for comparison with exact schedulers.

It is plain Python on top of the one-GPU reference: no NumPy, no Numba, no tables. It tries every distribution of the
workloads over the GPUs of the pool, with every batch (and under ``goodput`` every rate step). Shares are the least
fixed point or, where spare shares count (``capacity``), every vector of permitted shares. Residents only slow each
other down, so a search over batches and rates stops where the residents so far do not fit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from random import Random

from instances import GpuType, Instance, SloRule, Workload
from tests.instances import reference
from tests.instances.reference import Tenant

STEPS = 20
"""Steps of a rate under ``goodput``."""


def budget_ms(instance: Instance, gpu: GpuType, workload: int, batch: int, rate_rps: float) -> float:
    """Return the longest GPU time at which the instance's rule holds: half-slo, assembly or duty-cycle."""
    model, slo_ms = gpu.models[instance.workloads[workload].model], instance.workloads[workload].slo_ms
    load_ms, feedback_ms = reference.transfers_ms(gpu, model, batch)
    buffer, transfer_ms, period_ms = instance.latency_buffer, load_ms + feedback_ms, 1000.0 * batch / rate_rps
    if instance.slo_rule is SloRule.HALF_SLO:
        return min(slo_ms / 2 / buffer - transfer_ms, period_ms / buffer - feedback_ms)
    if instance.slo_rule is SloRule.ASSEMBLY:
        return min(slo_ms - 1000.0 * (batch - 1) / rate_rps, period_ms) / buffer - transfer_ms
    assert instance.slo_rule is SloRule.DUTY_CYCLE
    return min(slo_ms / 2, period_ms) / buffer - transfer_ms


def tenants(instance: Instance, gpu: GpuType, workload: int, rate_rps: float) -> Iterator[Tenant]:
    """Yield the workload at every batch whose budget is positive."""
    model = gpu.models[instance.workloads[workload].model]
    for batch in range(1, model.max_batch + 1):
        budget = budget_ms(instance, gpu, workload, batch, rate_rps)
        if budget > 0:
            yield Tenant(model, batch, budget)


def fit(gpu: GpuType, residents: Sequence[Tenant]) -> bool:
    """Return whether these tenants fit on one GPU, memory included."""
    memory = sum(tenant.model.memory_mib(tenant.batch) for tenant in residents)
    return memory <= gpu.memory_mib and reference.least_fixed_point(gpu, residents) is not None


def fitting_batches(
    instance: Instance, gpu: GpuType, members: Sequence[int], beside: tuple[Tenant, ...] = ()
) -> Iterator[tuple[Tenant, ...]]:
    """Yield every choice of batches at which the members, at their own rates, fit beside the tenants ``beside``."""
    if not members:
        yield beside
        return
    rate = instance.workloads[members[0]].rate_rps
    for tenant in tenants(instance, gpu, members[0], rate):
        if fit(gpu, (*beside, tenant)):
            yield from fitting_batches(instance, gpu, members[1:], (*beside, tenant))


def most_goodput_of(instance: Instance, gpu: GpuType, members: Sequence[int]) -> float:
    """Return the most requests per second of the members on one GPU, each at one of its rate steps or left out."""
    best = 0.0

    def extend(chosen: tuple[Tenant, ...], left: Sequence[int], served: float) -> None:
        nonlocal best
        best = max(best, served)
        if not left:
            return
        whole_rps = instance.workloads[left[0]].rate_rps
        most_later = sum(instance.workloads[w].rate_rps for w in left[1:])
        for step in range(STEPS, 0, -1):
            rate = whole_rps * step / STEPS
            if served + rate + most_later <= best * (1 + 1e-12):
                return
            for tenant in tenants(instance, gpu, left[0], rate):
                if fit(gpu, (*chosen, tenant)):
                    extend((*chosen, tenant), left[1:], served + rate)
        extend(chosen, left[1:], served)

    extend((), members, 0.0)
    return best


def best_partition(
    instance: Instance, worth: Callable[[GpuType, tuple[int, ...]], float | None], leave_out: bool = False
) -> float | None:
    """Return the largest sum of ``worth(gpu, members)`` over all distributions of the workloads over the pool.

    ``worth`` is ``None`` if the members do not fit on one such GPU. With ``leave_out``, workloads may be left out. The
    result is ``None`` if there is no distribution.
    """
    types = [pool.type for pool in instance.gpus]
    cached_worth = cache(lambda t, members: worth(types[t], members))

    @cache
    def best(unplaced: tuple[int, ...], free: tuple[int, ...]) -> float | None:
        if not unplaced:
            return 0.0
        sums = [best(unplaced[1:], free)] if leave_out else []
        for t, count in enumerate(free):
            if count > 0:
                fewer = (*free[:t], count - 1, *free[t + 1 :])
                for others in subsets(unplaced[1:]):
                    worth_of_others = best(tuple(w for w in unplaced[1:] if w not in others), fewer)
                    worth_of_gpu = cached_worth(t, (unplaced[0], *others))
                    if worth_of_others is not None and worth_of_gpu is not None:
                        sums.append(worth_of_others + worth_of_gpu)
        return max((total for total in sums if total is not None), default=None)

    workloads = tuple(range(len(instance.workloads)))
    return best(workloads, tuple(len(workloads) if p.count is None else p.count for p in instance.gpus))


def subsets(members: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for size in range(len(members) + 1):
        yield from combinations(members, size)


# --- The objectives ---


def least_cost(instance: Instance) -> float | None:
    """Return the least price of GPUs that serve all workloads, or ``None`` if no plan exists."""

    def worth(gpu: GpuType, members: tuple[int, ...]) -> float | None:
        return -gpu.price_per_hour if any(fitting_batches(instance, gpu, members)) else None

    value = best_partition(instance, worth)
    return None if value is None else -value


def most_goodput(instance: Instance) -> float:
    """Return the most requests per second served on the pool."""
    value = best_partition(instance, lambda gpu, members: most_goodput_of(instance, gpu, members), leave_out=True)
    assert value is not None
    return value


def most_capacity(instance: Instance) -> float | None:
    """Return the most throughput of all workloads together over every vector of shares, or ``None`` without a plan.

    It is quick enough only if few shares are permitted.
    """

    def worth(gpu: GpuType, members: tuple[int, ...]) -> float | None:
        start = [reference.permitted(gpu)[0]] * len(members)
        choices = fitting_batches(instance, gpu, members)
        return max((reference.most_throughput_rps(gpu, group, start) for group in choices), default=None)

    return best_partition(instance, worth)


def largest_scale(instance: Instance, step: float) -> float | None:
    """Return the largest multiple of ``step`` at which all rates fit on the pool, or ``None`` if no multiple does.

    The rule ``assembly`` is not supported: under it, a workload may fit only at a higher rate.
    """
    assert instance.slo_rule is not SloRule.ASSEMBLY

    def fits(steps: int) -> bool:
        factor = steps * step
        workloads = tuple(replace(w, rate_rps=w.rate_rps * factor) for w in instance.workloads)
        return least_cost(replace(instance, workloads=workloads)) is not None

    if not fits(1):
        return None
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * step


# --- Random cases ---


def small_batches(gpu: GpuType, max_batch: int) -> GpuType:
    """Return the GPU type with batches up to ``max_batch``, so that there are fewer combinations to try."""
    return replace(gpu, models={name: replace(model, max_batch=max_batch) for name, model in gpu.models.items()})


def slower(gpu: GpuType, name: str, factor: float, price_per_hour: float) -> GpuType:
    """Return a GPU type whose active times are ``factor`` times as long."""
    models = {}
    for key, model in gpu.models.items():
        k1, k2, k3, k4, k5 = model.k
        models[key] = replace(model, k=(factor * k1, factor * k2, factor * k3, k4, factor * k5))
    return replace(gpu, name=name, price_per_hour=price_per_hour, models=models)


def draw_workloads(random: Random, gpu: GpuType, count: int, part: tuple[float, float]) -> tuple[Workload, ...]:
    """Return workloads that each need a fraction of one such GPU, roughly in the range ``part``."""
    drawn = []
    for number in range(count):
        model = random.choice(list(gpu.models.values()))
        batch, share_pct = random.randint(1, model.max_batch), 100.0 * random.uniform(*part)
        time_ms = reference.active_ms(model, batch, share_pct) + model.scheduling_alone_ms
        slo_ms = round(2.4 * time_ms * random.uniform(1.0, 1.6), 1)
        drawn.append(
            Workload(f"w{number}", model.name, slo_ms, round(900.0 * batch / time_ms, random.choice((0, 1, 3))))
        )
    return tuple(drawn)
