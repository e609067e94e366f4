"""Algorithm 1 of gpulet (ATC'22), transcribed line by line and worked out by hand on two small instances."""

import math
from dataclasses import dataclass, replace
from itertools import count

import pytest

from bench.api import Run
from bench.judging.judge import judge
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning, RemainingGpulets, Variant
from instances import DnnModel, GpuPool, GpuType, Hardware, Instance, Objective, Provenance, SloRule, Workload
from instances.gpu import PairFactor, SoloProfile
from instances.view import View
from tests.frozen import frozen

SIZES_PCT = (20, 40, 50, 60, 80, 100)
BATCHES = (1, 2, 3, 4)

MODELS = {"steady": (5.0, 40), "large": (4.0, 50), "small": (2.0, 40)}
"""Time of a request in ms on a share at the knee or beyond it, and the knee in percent."""

Allocation = dict[tuple[int, int], dict[str, float]]
"""Rates by (GPU, size in percent) and workload."""


def latency_ms(model: str, batch: int, size_pct: int) -> float:
    """Return ``L(b, p)``: below the knee inversely proportional to the share, beyond it constant."""
    per_request_ms, knee_pct = MODELS[model]
    return batch * per_request_ms * max(1.0, knee_pct / size_pct)


# --- The printed pseudo-code ---


@dataclass
class Part:
    """A gpulet: its GPU, its size, and the rates that it serves."""

    gpu: int
    size_pct: int
    rates_rps: dict[str, float]


@dataclass
class Transcription:
    """Algorithm 1; line numbers are those of the paper.

    Attributes
    ----------
    workloads
        Workloads to serve, by id.
    parts
        All gpulets; those without rates are the remaining ones.
    factor
        ``intf``: the factor by which a gpulet slows the other one on its GPU.
    """

    workloads: dict[str, Workload]
    parts: list[Part]
    factor: float

    def elastic_partitioning(self) -> bool:
        for m in sorted(self.workloads.values(), key=lambda m: m.rate_rps * m.slo_ms):  # line 2
            rate = m.rate_rps  # line 5
            while rate > 0.0:  # line 4
                if all(part.rates_rps for part in self.parts):  # line 4, ISREMAINGPULET
                    return False
                p_eff = MODELS[m.model][1]  # line 6: "it is determined during profiling"
                p_req = self.min_required_partition(m, rate)  # line 7
                served = self.find_best_fit(min(p_eff, p_req), m, rate)  # lines 8-10
                if served == 0.0:
                    return False
                rate -= served
        return True

    def min_required_partition(self, m: Workload, rate: float) -> int:
        return next((p for p in SIZES_PCT if self.capacity_rps(m, p, 1.0) >= rate), 100)

    def find_best_fit(self, p_ideal: int, m: Workload, rate: float) -> float:
        for gpulet in sorted(self.parts, key=lambda part: part.size_pct):  # lines 14-15
            if gpulet.rates_rps or gpulet.size_pct < p_ideal:  # line 16
                continue
            if gpulet.size_pct == 100:  # lines 17-19
                gpulet.size_pct = p_ideal
                self.parts.append(Part(gpulet.gpu, 100 - p_ideal, {}))
            capacity = self.capacity_rps(m, gpulet.size_pct, self.beside(gpulet))  # line 20
            if capacity > 0.0:  # line 21
                served = min(rate, capacity)
                gpulet.rates_rps[m.id] = served
                self.temporal_scheduling(gpulet)  # line 22
                return served  # line 23
        return 0.0

    def temporal_scheduling(self, gpulet: Part) -> None:
        """Merge the gpulet with the first allocated one that permits it, into the larger of the two."""
        for other in sorted(self.parts, key=lambda part: part.size_pct):
            if other is gpulet or not other.rates_rps:
                continue
            larger, smaller = (gpulet, other) if gpulet.size_pct > other.size_pct else (other, gpulet)
            rates = dict(larger.rates_rps)
            for name, rate in smaller.rates_rps.items():
                rates[name] = rates.get(name, 0.0) + rate
            if self.take_turns(rates, larger.size_pct, self.beside(larger, but=smaller)):
                larger.rates_rps, smaller.rates_rps = rates, {}
                mate = next(part for part in self.parts if part.gpu == smaller.gpu and part is not smaller)
                if not mate.rates_rps:
                    self.parts.remove(mate)
                    smaller.size_pct = 100
                return

    def beside(self, gpulet: Part, but: Part | None = None) -> float:
        busy = (p.gpu == gpulet.gpu and p is not gpulet and p is not but and p.rates_rps for p in self.parts)
        return self.factor if any(busy) else 1.0

    def capacity_rps(self, m: Workload, size_pct: int, factor: float) -> float:
        """Return the largest rate of a workload alone, with duty cycles as long as their batch (Sec. 2.2)."""
        times = [(b, factor * latency_ms(m.model, b, size_pct)) for b in BATCHES]
        return max((1000.0 * b / t for b, t in times if 2.0 * t <= m.slo_ms), default=0.0)

    def take_turns(self, rates_rps: dict[str, float], size_pct: int, factor: float) -> bool:
        """Return whether a duty cycle with a batch of each workload meets every SLO (Sec. 2.2)."""
        for duty_ms in (1000.0 * b / rate for rate in rates_rps.values() for b in BATCHES):
            times_ms = {}
            for name, rate in rates_rps.items():
                batch = math.ceil(rate * duty_ms / 1000.0 - 1e-9)
                long = math.inf if batch > BATCHES[-1] else latency_ms(self.workloads[name].model, batch, size_pct)
                times_ms[name] = factor * long
            in_time = all(duty_ms + time <= self.workloads[name].slo_ms for name, time in times_ms.items())
            if in_time and sum(times_ms.values()) <= duty_ms:
                return True
        return False


def transcribed(instance: Instance, factor: float) -> Allocation | None:
    """Return the allocation of the printed pseudo-code, or ``None`` if it fails."""
    (pool,) = instance.gpus
    assert pool.count is not None
    parts = [Part(g, 100, {}) for g in range(pool.count)]
    run = Transcription({w.id: w for w in instance.workloads}, parts, factor)
    if not run.elastic_partitioning():
        return None
    return {(part.gpu, part.size_pct): part.rates_rps for part in run.parts if part.rates_rps}


# --- The kernel on the same instances ---


def gpu_type(factor: float) -> GpuType:
    """Return a GPU type with the times above, on which neighbours slow each other by a constant factor."""
    provenance = Provenance("measured", "made up for a replay by hand")
    models = {}
    for name in MODELS:
        times = tuple(tuple(latency_ms(name, b, p) for p in SIZES_PCT) for b in BATCHES)
        flat = (0.0,) * len(BATCHES)
        solo = SoloProfile(BATCHES, tuple(map(float, SIZES_PCT)), times, flat, flat, (0.0, 0.0), (0.0, 0.0), 1.0)
        unused = (1.0,) * 5
        models[name] = DnnModel(
            name, BATCHES[-1], unused, (0.0, 0.0), (0.0, 0.0), 0.0, 0.0, 0, 0, 0, 0.0, 0.0, provenance, solo
        )
    return GpuType(
        name="by-hand",
        share_units=10,
        memory_mib=1e6,
        price_per_hour=1.0,
        hardware=Hardware(1e7, 0.0, 1e9, 1530.0, 0.0, 0.0, 0.0),
        models=models,
        provenance=provenance,
        allowed_shares=tuple(p // 10 for p in SIZES_PCT),
        pair=PairFactor(0.0, 0.0, 0.0, 0.0, factor),
    )


def serving(factor: float, gpus: int, *workloads: Workload) -> Instance:
    pools = (GpuPool(gpu_type(factor), gpus),)
    return Instance("by-hand", Objective.COST, SloRule.DUTY_CYCLE, "gpulet", pools, workloads)


def allocated(instance: Instance, scheduler: ElasticPartitioning) -> Allocation | None:
    """Return the scheduler's allocation, after checking that its plan has no violations."""
    (pool,) = instance.gpus
    assert pool.count is not None
    gpulets = scheduler.cut(View.of(instance, pool.type), pool.count)
    if gpulets is None:
        return None
    plan = scheduler.schedule(instance, Run()).plan
    assert plan is not None
    assert judge(plan, instance).violations == ()
    names = [workload.id for workload in instance.workloads]
    return {
        (i // 2, 10 * int(units)): {
            names[w]: float(rate)
            for w, rate in zip(gpulets.workload[i, :slots], gpulets.rate_rps[i, :slots], strict=True)
        }
        for i, units, slots in zip(count(), gpulets.units, gpulets.slots, strict=False)
        if slots
    }


def check(allocation: Allocation | None, by_hand: Allocation) -> None:
    assert allocation is not None
    assert allocation.keys() == by_hand.keys()
    for gpulet, rates in by_hand.items():
        assert allocation[gpulet] == pytest.approx(rates)


PARTS = serving(1.0, 2, Workload("b", "small", 41.0, 100.0), Workload("a", "steady", 41.0, 290.0))
"""There is no interference.

*b* (rate times SLO 4,100) comes before *a* (11,890). *b* needs 20 %, where 4 requests take 16 ms: GPU 0 is cut 20:80.
*a* needs more than a whole GPU, so it is given its knee, 40 %. The smallest gpulet left that is as large is the 80 % of
GPU 0, where 4 requests take 20 ms: 200 req/s. The rest of 90 req/s needs 20 %, where 2 requests take 20 ms: GPU 1 is
cut 20:80. *a* is busy for 90 % of the time there and *b* would be for 40 %: there are no turns.
"""
PARTS_BY_HAND: Allocation = {(0, 20): {"b": 100.0}, (0, 80): {"a": 200.0}, (1, 20): {"a": 90.0}}

TURNS = serving(
    1.25,
    2,
    Workload("slow", "small", 1000.0, 20.0),
    Workload("second", "large", 41.5, 150.0),
    Workload("first", "large", 41.0, 150.0),
)
"""A neighbour makes every batch take 1.25 times as long.

*first* (6,150) needs 40 %, where it can have 200 req/s: GPU 0 is cut 40:60. *second* (6,225) needs 40 % and is given
the 60 % that are left; together they would need 300 req/s of a gpulet that serves at most 250. *slow* (20,000) needs
20 %, for which GPU 1 is cut. Turns with *first*: 3 requests in 20 ms take 18.75 ms, and one of *slow* 2.5 ms more: too
much. Turns with *second*: 15 ms and 2.5 ms are within 20 ms. GPU 1 is whole again and empty.
"""
TURNS_BY_HAND: Allocation = {(0, 40): {"first": 150.0}, (0, 60): {"second": 150.0, "slow": 20.0}}


@pytest.mark.parametrize(
    ("instance", "factor", "by_hand"),
    [
        pytest.param(PARTS, 1.0, PARTS_BY_HAND, id="parts"),
        pytest.param(TURNS, 1.25, TURNS_BY_HAND, id="turns"),
    ],
)
def test_the_printed_lines_and_the_kernel_agree_with_values_by_hand(
    instance: Instance, factor: float, by_hand: Allocation
) -> None:
    check(transcribed(instance, factor), by_hand)
    check(allocated(instance, ElasticPartitioning()), by_hand)
    check(allocated(instance, ElasticPartitioning(turns=RemainingGpulets.FREE_GPULETS)), by_hand)


def test_the_preprint_computes_the_required_share_of_the_whole_rate() -> None:
    """Line 10 of the preprint: the last 90 of 490 req/s are given the knee too, although 20 % would suffice."""
    instance = serving(1.0, 2, Workload("a", "steady", 41.0, 490.0))
    whole = {(0, 40): {"a": 200.0}, (0, 60): {"a": 200.0}}

    check(allocated(instance, ElasticPartitioning()), whole | {(1, 20): {"a": 90.0}})
    check(allocated(instance, ElasticPartitioning(Variant.ARXIV)), whole | {(1, 40): {"a": 90.0}})


def test_turns_without_a_free_gpulet_are_another_reading() -> None:
    """Both gpulets are allocated before *late*: as printed, no gpulet "remains", although one could serve more."""
    workloads = [replace(workload, id=f"late-{workload.id}") for workload in TURNS.workloads[:1]]
    instance = serving(1.25, 1, *TURNS.workloads[1:], *workloads)

    assert transcribed(instance, 1.25) is None
    assert allocated(instance, ElasticPartitioning(turns=RemainingGpulets.FREE_GPULETS)) is None
    check(
        allocated(instance, ElasticPartitioning()),
        {(0, 40): {"first": 150.0}, (0, 60): {"second": 150.0, "late-slow": 20.0}},
    )


@pytest.mark.parametrize(("second_pass", "largest"), [(False, 5.465), (True, 6.755)])
def test_the_second_pass_serves_larger_scales(second_pass: bool, largest: float) -> None:
    scen3 = frozen("gpulet-scen3")
    (pool,) = scen3.gpus
    assert pool.count is not None
    scheduler = ElasticPartitioning(second_pass=second_pass)
    cuts = [scheduler.cut(View.of(scen3.scaled(scale), pool.type), pool.count) for scale in (largest, largest + 0.005)]

    assert [gpulets is not None for gpulets in cuts] == [True, False]
