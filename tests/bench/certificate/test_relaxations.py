"""GPUs exactly at the judge's limits: every plan that the judge accepts is in the checker's relaxation.

Every case is a GPU whose shares add up to the whole, whose memory is the least that the judge accepts, and whose SLOs
and rates are the last floats that the judge accepts. Certificates may exclude none of them.
"""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.certificate.certificate import BoundClaim
from bench.certificate.conditions import Conditions
from bench.certificate.divided import divided_on
from bench.certificate.divided_search import DividedSearch
from bench.certificate.dual import offers_of
from bench.certificate.exhaustive import exhaustive_bound
from bench.certificate.failures import NotProvenError
from bench.certificate.patterns import candidates_on, ignore
from bench.certificate.plans import value_of
from bench.certificate.search import GpuSearch
from bench.certificate.statement import Statement
from bench.judging.judge import judge
from instances import GpuPool, GpuType, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from instances.catalogue import gpu_type
from instances.interference import gpu_times_ms
from instances.tables import gpu_tables
from instances.tolerance import widened
from instances.view import View
from tests.formulations.exhaustive import small_batches

BATCHES = 6
V100 = small_batches(gpu_type("v100"), BATCHES)
UNITS = 8
RULES = (SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE)
OBJECTIVES = (Objective.COST, Objective.GOODPUT, Objective.CAPACITY)


class Slot(NamedTuple):
    model: str
    batch: int
    units: int
    rate_rps: float


class Tight(NamedTuple):
    """A full GPU: its type, and a workload and a slot for each resident."""

    gpu: GpuType
    workloads: tuple[Workload, ...]
    slots: tuple[Slot, ...]

    def instance(self, objective: Objective, rule: SloRule, performance: str, buffer: float) -> Instance:
        return Instance(
            "tight", objective, rule, performance, (GpuPool(self.gpu, 1),), self.workloads, latency_buffer=buffer
        )

    @property
    def plan(self) -> Plan:
        placed = [(w.id, s.units, s.batch, s.rate_rps) for w, s in zip(self.workloads, self.slots, strict=True)]
        return Plan("tight", (spatial_gpu("tight", placed),))


def bits_of(number: float) -> int:
    integer: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return integer


def last_float(low: float, high: float, accepted: Callable[[float], bool]) -> float:
    """Return the accepted float closest to ``low``, by bisection over bit patterns; ``high`` must be accepted."""
    first, last = bits_of(low), bits_of(high)
    assert accepted(high)
    while last - first > 1:
        middle = (first + last) // 2
        if accepted(struct.unpack("<d", struct.pack("<q", middle))[0]):
            last = middle
        else:
            first = middle
    result: float = struct.unpack("<d", struct.pack("<q", last))[0]
    return result


def with_memory(gpu: GpuType, slots: Sequence[Slot]) -> GpuType:
    """Return the GPU type with the least memory with which the judge accepts the slots."""
    rows = list(gpu.models)

    def accepted(memory_mib: float) -> bool:
        tables = gpu_tables(replace(gpu, memory_mib=memory_mib), "igniter")
        total = sum(float(tables.memory_mib[rows.index(s.model), s.batch]) for s in slots)
        return total <= tables.memory_limit_mib

    whole = math.fsum(gpu.models[s.model].memory_mib(s.batch) for s in slots)
    return replace(gpu, memory_mib=last_float(whole * (1.0 - 1e-8), whole * (1.0 + 1e-8), accepted))


def tighten(
    gpu: GpuType, slots: Sequence[Slot], rule: SloRule, performance: str, buffer: float, served_over_rate: int
) -> Tight:
    """Give every slot a workload with the shortest SLO that the judge accepts.

    ``served_over_rate`` is -1 if each slot serves as much less than its workload's rate as the judge permits, 1 if it
    """
    gpu = with_memory(gpu, slots)
    tables = gpu_tables(gpu, performance)
    model = np.array([list(gpu.models).index(s.model) for s in slots])
    batch, units = (np.array([getattr(s, name) for s in slots]) for name in ("batch", "units"))
    times_ms = np.empty(len(slots))
    gpu_times_ms(tables, model, batch, units, len(slots), times_ms)
    workloads, tight_slots = [], []
    for n, (slot, t_gpu) in enumerate(zip(slots, times_ms.tolist(), strict=True)):
        transfer_ms = float(tables.transfer_ms[model[n], slot.batch])
        rate = (
            slot.rate_rps * 1000.0 * slot.batch / (buffer * (t_gpu + transfer_ms))
        )  # a fraction of the slot's capacity
        least_rps = last_float(0.99 * rate, rate, lambda lower, rate=rate: rate <= widened(lower))
        rate, arriving = {-1: (least_rps, rate), 0: (rate, rate), 1: (rate, least_rps)}[served_over_rate]
        asked = Workload(f"w{n}", slot.model, 1.0, arriving)

        def accepted(
            slo_ms: float,
            asked: Workload = asked,
            slot: Slot = slot,
            rates: tuple[float, float] = (rate, arriving),
            t: float = t_gpu,
        ) -> bool:
            shortened = replace(asked, slo_ms=slo_ms)
            instance = Instance(
                "one", Objective.COST, rule, performance, (GpuPool(gpu),), (shortened,), latency_buffer=buffer
            )
            view = View.of(instance, gpu)
            return all(t <= float(view.budget_ms(0, slot.batch, rate_rps)) for rate_rps in rates)

        most_ms = 4.0 * buffer * (t_gpu + transfer_ms) + 4000.0 * slot.batch / rate
        workloads.append(replace(asked, slo_ms=last_float(1e-3, most_ms, accepted)))
        tight_slots.append(slot._replace(rate_rps=rate))
    return Tight(gpu, tuple(workloads), tuple(tight_slots))


@st.composite
def gpus(draw: st.DrawFn, most_slots: int) -> tuple[GpuType, list[Slot]]:
    """Draw a GPU type with memories in tenths of MiB, and slots whose shares add up to the whole GPU."""
    count = draw(st.integers(1, most_slots))
    cuts = sorted(draw(st.permutations(range(1, UNITS)))[: count - 1])
    units = [b - a for a, b in zip([0, *cuts], [*cuts, UNITS], strict=True)]
    per_item = draw(st.sampled_from((0.0, 0.0, 0.7)))  # without it, the memory is full at every batch
    models = {
        name: replace(model, memory_base_mib=draw(st.integers(1, 50_000)) / 10, memory_per_item_mib=per_item)
        for name, model in V100.models.items()
    }
    # Over a slow bus, a small change of the rate is a large change of the budget.
    hardware = replace(V100.hardware, pcie_bytes_per_ms=draw(st.sampled_from((1e7, 1e5))))
    slots = [
        Slot(
            draw(st.sampled_from(sorted(models))),
            draw(st.integers(1, BATCHES)),
            u,
            draw(st.sampled_from((0.01, 0.3, 0.9, 1.0 - 1e-9, 1.0))),
        )
        for u in units
    ]
    return replace(V100, name="tight", models=models, hardware=hardware, share_units=UNITS), slots


def assert_next_floats_refused(tight: Tight, rule: SloRule, performance: str, buffer: float) -> None:
    """Assert that the checker refuses the plan at an SLO or a memory one float smaller, as the judge does."""
    instance = tight.instance(Objective.COST, rule, performance, buffer)
    claim = BoundClaim(bound="1", plan_class="spatial")
    first, *others = instance.workloads
    shorter = replace(first, slo_ms=math.nextafter(first.slo_ms, 0.0))
    smaller_gpu = replace(tight.gpu, memory_mib=math.nextafter(tight.gpu.memory_mib, 0.0))
    for changed in (
        replace(instance, workloads=(shorter, *others)),
        replace(instance, gpus=(GpuPool(smaller_gpu, 1),)),
    ):
        assert not judge(tight.plan, changed).feasible
        with pytest.raises(NotProvenError):
            value_of(tight.plan, changed, claim)


def assert_not_excluded(tight: Tight, rule: SloRule, performance: str, buffer: float) -> None:
    """Assert that the judge accepts the GPU and no certificate may exclude it, under every objective."""
    for objective in OBJECTIVES:
        instance, plan = tight.instance(objective, rule, performance, buffer), tight.plan
        if objective is Objective.GOODPUT:  # under goodput, the served rate is a whole number of steps
            workloads = tuple(
                replace(w, rate_rps=s.rate_rps) for w, s in zip(instance.workloads, tight.slots, strict=True)
            )
            instance = replace(instance, workloads=workloads)
        verdict = judge(plan, instance)
        assert verdict.feasible, verdict.violations
        claim = BoundClaim(bound="1", plan_class="spatial")
        assert float(value_of(plan, instance, claim)) == pytest.approx(verdict.value, rel=1e-12)
        bound = exhaustive_bound(Statement.of(instance, claim), ignore)
        assert bound <= Fraction(verdict.value) if objective.minimised else bound >= Fraction(verdict.value)
        if len(tight.slots) <= 3 and objective is not Objective.CAPACITY:
            statement = Statement.of(instance, BoundClaim(bound="1", plan_class="split"))
            worth = dict.fromkeys(range(len(statement.copies)), 1000)
            slots = divided_on(statement.views[0], worth, statement.member, statement.copies)
            assert DividedSearch(statement.views[0].tables, slots).above(1000 * len(instance.workloads) - 1)
    statement = Statement.of(tight.instance(Objective.COST, rule, performance, buffer), claim)
    duals = [1000] * len(statement.copies)
    candidates = candidates_on(statement.views[0], offers_of(statement, duals, 1, range(len(duals))))
    conditions = Conditions.root(statement).matrices(len(duals))
    search = GpuSearch(statement.views[0].tables, candidates, statement.copies, *conditions)
    assert search.above(1000 * len(tight.workloads) - 1)[1]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tight, SloRule, str, float]:
    """Draw a full GPU, a rule, a performance model and a latency buffer."""
    performance = draw(st.sampled_from(("igniter", "inss", "gpulet", "hybrid")))
    gpu, slots = draw(gpus(2 if performance == "gpulet" else 4))
    rule, buffer = draw(st.sampled_from(RULES)), draw(st.sampled_from((1.0, 1.1)))
    return tighten(gpu, slots, rule, performance, buffer, draw(st.sampled_from((-1, 0, 1)))), rule, performance, buffer


@given(cases())
@settings(max_examples=30)
def test_plans_that_the_judge_accepts_are_in_the_relaxation(case: tuple[Tight, SloRule, str, float]) -> None:
    assert_not_excluded(*case)
    assert_next_floats_refused(*case)


@pytest.mark.soak
@given(cases())
@settings(max_examples=2_000)
def test_plans_that_the_judge_accepts_are_in_the_relaxation_2000_times(case: tuple[Tight, SloRule, str, float]) -> None:
    assert_not_excluded(*case)
