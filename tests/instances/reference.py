"""One GPU in plain Python, straight from the equations: what the compiled kernels must agree with.

Nothing here uses NumPy, Numba or the tables. ``TOY`` is hardware with round coefficients, for numbers worked by hand.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from random import Random

from instances import DnnModel, GpuType, Hardware, Provenance

INVENTED = Provenance("calibrated", "invented for tests")

# Active times: small 40 b / r + 1, large 160 b / r + 2.
SMALL = DnnModel(
    name="small",
    max_batch=8,
    k=(0.0, 40.0, 0.0, 0.0, 1.0),
    power=(0.1, 10.0),
    l2=(0.01, 1.0),
    alpha_cache=0.01,
    scheduling_alone_ms=0.1,
    kernels=10,
    input_bytes=100_000,
    output_bytes=50_000,
    memory_base_mib=500.0,
    memory_per_item_mib=100.0,
    provenance=INVENTED,
)
LARGE = replace(
    SMALL,
    name="large",
    k=(0.0, 160.0, 0.0, 0.0, 2.0),
    power=(0.4, 10.0),
    l2=(0.04, 2.0),
    alpha_cache=0.02,
    scheduling_alone_ms=0.2,
    kernels=20,
)
TOY = GpuType(
    name="toy",
    share_units=10,
    memory_mib=4000.0,
    price_per_hour=2.0,
    # 1 MB/ms; 0.1 % of the frequency lost per watt beyond 300; kernels wait 0.01 ms beside one other, 0.03 beside two
    hardware=Hardware(1e6, 50.0, 300.0, 1000.0, -1.0, 0.02, -0.03),
    models={"small": SMALL, "large": LARGE},
    provenance=INVENTED,
)


@dataclass(frozen=True)
class Tenant:
    """A workload to place on the GPU: its model, its batch and the longest GPU time that meets its SLO."""

    model: DnnModel
    batch: int
    budget_ms: float


# --- The performance model: iGniter, equations 1 to 11 ---


def active_ms(model: DnnModel, batch: int, share_pct: float) -> float:
    k1, k2, k3, k4, k5 = model.k
    return (k1 * batch * batch + k2 * batch + k3) / (share_pct + k4) + k5


def line(coefficients: tuple[float, float], model: DnnModel, batch: int, share_pct: float) -> float:
    slope, intercept = coefficients
    return slope * 1000.0 * batch / active_ms(model, batch, share_pct) + intercept


def power_w(model: DnnModel, batch: int, share_pct: float) -> float:
    return line(model.power, model, batch, share_pct)


def l2_pct(model: DnnModel, batch: int, share_pct: float) -> float:
    return line(model.l2, model, batch, share_pct)


def batching_ms(model: DnnModel, batch: int) -> float:
    """Time to assemble a batch on the host, linear between the batches of the profile."""
    solo = model.solo
    if solo is None or not solo.batching_ms:
        return 0.0
    known = dict(zip(solo.batch, solo.batching_ms, strict=True))
    below, above = max(b for b in known if b <= batch), min(b for b in known if b >= batch)
    part = 0.0 if below == above else (batch - below) / (above - below)
    return known[below] + part * (known[above] - known[below])


def transfers_ms(gpu: GpuType, model: DnnModel, batch: int) -> tuple[float, float]:
    bandwidth = gpu.hardware.pcie_bytes_per_ms
    return batching_ms(model, batch) + model.input_bytes * batch / bandwidth, model.output_bytes * batch / bandwidth


def delay_per_kernel_ms(hardware: Hardware, residents: int) -> float:
    return hardware.alpha_sch * residents + hardware.beta_sch if residents > 1 else 0.0


def frequency_mhz(hardware: Hardware, demand_w: float) -> float:
    beyond_w = hardware.idle_power_w + demand_w - hardware.max_power_w
    return hardware.max_frequency_mhz + (hardware.alpha_f * beyond_w if beyond_w > 0 else 0.0)


def gpu_times_ms(gpu: GpuType, tenants: Sequence[Tenant], units: Sequence[int]) -> list[float]:
    """GPU time of each tenant when they share ``gpu`` with these shares."""
    hardware, shares = gpu.hardware, [100.0 * u / gpu.share_units for u in units]
    l2 = [l2_pct(t.model, t.batch, share) for t, share in zip(tenants, shares, strict=True)]
    mhz = frequency_mhz(hardware, sum(power_w(t.model, t.batch, s) for t, s in zip(tenants, shares, strict=True)))
    if mhz <= 0:
        return [inf] * len(tenants)
    times = []
    for i, tenant in enumerate(tenants):
        model = tenant.model
        scheduling = model.scheduling_alone_ms + model.kernels * delay_per_kernel_ms(hardware, len(tenants))
        others = sum(c for j, c in enumerate(l2) if j != i)
        active = active_ms(model, tenant.batch, shares[i]) * (1.0 + model.alpha_cache * others)
        times.append((scheduling + active) / (mhz / hardware.max_frequency_mhz))
    return times


# --- Shares of one GPU ---


def permitted(gpu: GpuType) -> list[int]:
    return sorted(gpu.allowed_shares or range(1, gpu.share_units + 1))


def fits(gpu: GpuType, tenants: Sequence[Tenant], units: Sequence[int]) -> bool:
    return sum(units) <= gpu.share_units and all(
        time <= tenant.budget_ms for time, tenant in zip(gpu_times_ms(gpu, tenants, units), tenants, strict=True)
    )


def share_vectors(gpu: GpuType, start: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every vector of permitted shares, none below ``start``, whose sum fits on the GPU."""
    for units in product(*([u for u in permitted(gpu) if u >= least] for least in start)):
        if sum(units) <= gpu.share_units:
            yield units


def feasible_vectors(gpu: GpuType, tenants: Sequence[Tenant]) -> list[tuple[int, ...]]:
    """Return every vector of shares at which all tenants meet their budgets and fit in memory, by exhaustive search."""
    if sum(t.model.memory_mib(t.batch) for t in tenants) > gpu.memory_mib:
        return []
    return [units for units in share_vectors(gpu, [1] * len(tenants)) if fits(gpu, tenants, units)]


def least_fixed_point(gpu: GpuType, tenants: Sequence[Tenant]) -> list[int] | None:
    """Return the shares of Alg. 2, from the least shares alone (equation 18), or None; memory is ignored."""
    steps = permitted(gpu)
    units = []
    for tenant in tenants:
        alone = [
            u
            for u in steps
            if tenant.model.scheduling_alone_ms + active_ms(tenant.model, tenant.batch, 100.0 * u / gpu.share_units)
            <= tenant.budget_ms
        ]
        if not alone:
            return None
        units.append(alone[0])
    while sum(units) <= gpu.share_units:
        times = gpu_times_ms(gpu, tenants, units)
        late = [i for i, tenant in enumerate(tenants) if times[i] > tenant.budget_ms]
        if not late:
            return units
        for i in late:
            larger = [u for u in steps if u > units[i]]
            if not larger:
                return None
            units[i] = larger[0]
    return None


def throughput_rps(gpu: GpuType, tenants: Sequence[Tenant], units: Sequence[int]) -> float:
    """Requests per second of all tenants together: ``b / (t_gpu + feedback)`` each (equation 2)."""
    return sum(
        1000.0 * t.batch / (time + transfers_ms(gpu, t.model, t.batch)[1])
        for time, t in zip(gpu_times_ms(gpu, tenants, units), tenants, strict=True)
    )


def most_throughput_rps(gpu: GpuType, tenants: Sequence[Tenant], start: Sequence[int]) -> float:
    """Return the largest throughput of feasible shares at or above ``start``, by exhaustive search."""
    return max(throughput_rps(gpu, tenants, units) for units in share_vectors(gpu, start) if fits(gpu, tenants, units))


# --- The queue in front of a slot ---


def served_latencies_ms(arrivals_ms: Sequence[float], batch: int, service_ms: float, timeout_ms: float) -> list[float]:
    """Return the latency of every request, event by event: arrivals, dispatch timers and the end of each batch."""
    arrival, free, timer = range(3)  # the order at one instant: a request that arrives just then still joins the batch
    events = [(at, arrival, request) for request, at in enumerate(arrivals_ms)]
    heapq.heapify(events)
    waiting: list[int] = []
    latencies = [inf] * len(arrivals_ms)
    busy = False
    while events:
        now, kind, request = heapq.heappop(events)
        if kind == arrival:
            waiting.append(request)
            heapq.heappush(events, (arrivals_ms[request] + timeout_ms, timer, request))
        elif kind == free:
            busy = False
        if events and events[0][:2] == (now, arrival):
            continue
        if waiting and not busy and (len(waiting) >= batch or now >= arrivals_ms[waiting[0]] + timeout_ms):
            in_batch, waiting = waiting[:batch], waiting[batch:]
            for member in in_batch:
                latencies[member] = now + service_ms - arrivals_ms[member]
            busy = True
            heapq.heappush(events, (now + service_ms, free, in_batch[0]))
    return latencies


def percentile_99(latencies_ms: Sequence[float]) -> float:
    """The smallest latency that at least 99 of 100 requests do not exceed."""
    ordered = sorted(latencies_ms)
    return next(ms for rank, ms in enumerate(ordered, 1) if 100 * rank >= 99 * len(ordered))


# --- Random cases ---


def draw_tenants(random: Random, gpu: GpuType, count: int) -> list[Tenant]:
    """Return random tenants with loose to tight budgets, which may or may not fit on the GPU together."""
    tenants = []
    for _ in range(count):
        model = random.choice(list(gpu.models.values()))
        batch = random.randint(1, model.max_batch)
        fair_pct = 100.0 / count * random.uniform(0.5, 1.3)
        alone_ms = model.scheduling_alone_ms + active_ms(model, batch, fair_pct)
        tenants.append(Tenant(model, batch, alone_ms * random.uniform(1.0, 1.3)))
    return tenants
