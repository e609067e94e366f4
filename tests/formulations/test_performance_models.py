"""Exact methods under every performance model: they find the optimum of brute force on tiny instances."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from random import Random

import numpy as np
import pytest

from bench.api import Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from formulations.minlp import Minlp
from formulations.pwl import Pwl
from instances import GpuPool, GpuType, Instance, Objective, SloRule, Workload
from instances.gpu import Company, PairFactor, SoloProfile
from instances.performance import performance_model, performance_model_names
from instances.performance.model import transfers_ms
from tests.formulations.exhaustive import best_partition
from tests.instances.reference import LARGE, SMALL, TOY
from tests.soak import first

SHARES = (20.0, 60.0, 100.0)
SOLO = SoloProfile(
    batch=(1, 2, 3),
    share_pct=SHARES,
    gpu_ms=((5.0, 3.0, 3.0), (9.0, 3.5, 3.0), (14.0, 5.0, 3.5)),
    l2_pct=(20.0, 30.0, 40.0),
    dram_pct=(30.0, 50.0, 60.0),
    l2=(0.04, 5.0),
    dram=(0.06, 5.0),
    span=0.6,
)
BIG = replace(SOLO, gpu_ms=((12.0, 5.0, 4.0), (22.0, 8.0, 6.0), (33.0, 12.0, 8.0)))
SENSITIVE = Company(((8.0, 6.0, 6.0), (11.0, 6.5, 5.0), (15.0, 6.0, 4.0)), 0.002, 0.003)
"""Co-location factors with which a larger share may take longer beside others."""

TINY = replace(
    TOY,
    name="tiny",
    share_units=5,
    models={
        "small": replace(SMALL, max_batch=3, solo=SOLO, inss=(0.003, 0.004), company=SENSITIVE),
        "large": replace(LARGE, max_batch=3, solo=BIG, inss=(0.002, 0.001), company=Company(BIG.gpu_ms, 0.001, 0.002)),
    },
    # The factor is clipped for light pairs only, and the part of the slowed model itself grows with its share.
    pair=PairFactor(0.4, 0.6, 0.5, 0.3, 0.75),
)
EXACT = (CpSat(), ColGen())


@dataclass(frozen=True, slots=True)
class Tenant:
    """A workload with a batch at a rate."""

    workload: Workload
    batch: int
    rate_rps: float


@cache
def alone(model_name: str, dnn: str, batch: int, units: int) -> dict[str, float]:
    """Return the demands and sensitivities of a DNN model alone, by the performance model, as plain numbers."""
    performance, model = performance_model(model_name), TINY.models[dnn]
    demand = performance.demand(TINY, model, np.array(float(batch)), np.array(TINY.share_pct(units)))
    sensitivity = performance.sensitivity(TINY, model)
    return {field.name: float(getattr(part, field.name)) for part in (demand, sensitivity) for field in fields(part)}


def times_ms(model_name: str, tenants: Sequence[Tenant], units: Sequence[int]) -> list[float]:
    """Return the GPU time of each tenant when they share a GPU, in plain Python."""
    contention, pairwise = performance_model(model_name).contention(TINY), performance_model(model_name).pairwise
    figures = [alone(model_name, t.workload.model, t.batch, u) for t, u in zip(tenants, units, strict=True)]
    excess = max(0.0, contention.idle_power_w + sum(f["power_w"] for f in figures) - contention.max_power_w)
    clock = 1.0 + contention.throttle_per_w * excess
    if clock <= 0.0:
        return [math.inf] * len(figures)
    delay = contention.alpha_sch * len(figures) + contention.beta_sch if len(figures) > 1 else 0.0
    gpu_ms = []
    for i, tenant in enumerate(figures):
        others = [other for j, other in enumerate(figures) if j != i]
        linear = [tenant["alpha_l2"] * other["l2_pct"] + tenant["alpha_dram"] * other["dram_pct"] for other in others]
        if pairwise:
            growth = 1.0 + sum(max(1.0, tenant["company"] + x) - 1.0 for x in linear)
        else:
            growth = (tenant["company"] if others else 1.0) + sum(linear)
        scheduling = tenant["scheduling_alone_ms"] + tenant["kernels"] * delay
        gpu_ms.append((scheduling + tenant["active_ms"] * growth) / clock)
    return gpu_ms


def budget_ms(instance: Instance, gpu: GpuType, tenant: Tenant) -> float:
    """Return the longest GPU time that the SLO rule allows."""
    performance = performance_model(instance.performance_model)
    load, feedback = transfers_ms(gpu, gpu.models[tenant.workload.model], np.array(float(tenant.batch)))
    transfer, exposed = float(load + feedback), float(feedback if performance.loading_overlaps else load + feedback)
    slo, period = tenant.workload.slo_ms, 1000.0 * tenant.batch / tenant.rate_rps
    if instance.slo_rule is SloRule.HALF_SLO:
        return min(slo / 2 - transfer, period - exposed)
    assert instance.slo_rule is SloRule.DUTY_CYCLE
    return min(slo / 2, period) - transfer


def layouts(gpu: GpuType, count: int) -> Iterator[tuple[int, ...]]:
    """Yield every vector of shares that the GPU has room for."""
    return (units for units in product(range(1, gpu.share_units + 1), repeat=count) if sum(units) <= gpu.share_units)


def tenant_choices(
    instance: Instance, gpu: GpuType, members: Sequence[int], steps: Sequence[float]
) -> Iterator[tuple[Tenant, ...]]:
    """Yield every choice of batches and rates for the members; ``steps`` are the permitted fractions of a rate."""
    workloads = [instance.workloads[w] for w in members]
    choices = [
        [Tenant(w, batch, w.rate_rps * step) for batch in range(1, gpu.models[w.model].max_batch + 1) for step in steps]
        for w in workloads
    ]
    return product(*choices)


def fits(instance: Instance, gpu: GpuType, tenants: Sequence[Tenant]) -> bool:
    """Return whether some shares keep every tenant within its budget."""
    if performance_model(instance.performance_model).pairwise and len(tenants) > 2:
        return False  # exact methods put at most two gpulets on a GPU
    budgets = [budget_ms(instance, gpu, tenant) for tenant in tenants]
    for units in layouts(gpu, len(tenants)):
        times = times_ms(instance.performance_model, tenants, units)
        if all(time <= budget for time, budget in zip(times, budgets, strict=True)):
            return True
    return False


def optimum(instance: Instance) -> float | None:
    """Return the least cost or the most goodput by brute force; ``None`` if no plan exists."""
    is_cost = instance.objective is Objective.COST
    steps = [1.0] if is_cost else [s / 20 for s in range(20, 0, -1)]

    def total_rps(tenants: tuple[Tenant, ...]) -> float:
        return sum(tenant.rate_rps for tenant in tenants)

    def worth(gpu: GpuType, members: tuple[int, ...]) -> float | None:
        candidates = sorted(tenant_choices(instance, gpu, members, steps), key=total_rps, reverse=True)
        fitting = next((tenants for tenants in candidates if fits(instance, gpu, tenants)), None)
        if fitting is None:
            return None
        return -gpu.price_per_hour if is_cost else total_rps(fitting)

    value = best_partition(instance, worth, leave_out=not is_cost)
    if value is None:
        return None
    return -value if is_cost else value


def most_capacity(instance: Instance) -> float | None:
    """Return the most throughput with all workloads placed, by brute force; ``None`` if no plan exists."""
    performance = performance_model(instance.performance_model)

    def throughput_rps(tenant: Tenant, time_ms: float) -> float:
        model = TINY.models[tenant.workload.model]
        load, feedback = transfers_ms(TINY, model, np.array(float(tenant.batch)))
        return 1000.0 * tenant.batch / (time_ms + float(feedback if performance.loading_overlaps else load + feedback))

    def worth(gpu: GpuType, members: tuple[int, ...]) -> float | None:
        if performance.pairwise and len(members) > 2:
            return None
        values = []
        for tenants in tenant_choices(instance, gpu, members, [1.0]):
            budgets = [budget_ms(instance, gpu, tenant) for tenant in tenants]
            for units in layouts(gpu, len(tenants)):
                times = times_ms(instance.performance_model, tenants, units)
                if all(time <= budget for time, budget in zip(times, budgets, strict=True)):
                    values.append(sum(map(throughput_rps, tenants, times)))
        return max(values, default=None)

    return best_partition(instance, worth)


def draw(random: Random, model_name: str, objective: Objective, count: int, gpus: int | None) -> Instance:
    """Return an instance whose workloads need about half a GPU each."""
    workloads = []
    for number in range(count):
        name = random.choice(list(TINY.models))
        tenant = Tenant(Workload("x", name, 1.0, 1.0), random.randint(1, 3), 1.0)
        time_ms = times_ms(model_name, [tenant], [random.randint(1, 3)])[0]
        slo_ms = round(2.2 * time_ms * random.uniform(1.1, 1.8), 1)
        workloads.append(
            Workload(f"w{number}", name, slo_ms, round(1000.0 * tenant.batch / time_ms * random.uniform(0.6, 1.1)))
        )
    rule = random.choice([SloRule.HALF_SLO, SloRule.DUTY_CYCLE])
    return Instance("drawn", objective, rule, model_name, (GpuPool(TINY, gpus),), tuple(workloads))


def solved(scheduler: CpSat | ColGen, instance: Instance) -> float | None:
    """Return the judge's value of the proven optimum; ``None`` if no plan exists."""
    outcome = scheduler.schedule(instance, Run())
    if outcome.plan is None:
        assert outcome.status is Status.INFEASIBLE, outcome.reason
        return None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible, verdict.violations
    assert outcome.status is Status.OPTIMAL
    return verdict.value


@cache
def least_costs(model_name: str) -> list[tuple[Instance, float | None]]:
    """Return instances, and the least cost of each by brute force."""
    random = Random(f"cost {model_name}")
    instances = [draw(random, model_name, Objective.COST, random.randint(2, 4), None) for _ in range(12)]
    return [(instance, optimum(instance)) for instance in instances]


@pytest.mark.parametrize("scheduler", EXACT, ids=lambda scheduler: scheduler.name)
@pytest.mark.parametrize("model_name", performance_model_names())
def test_the_least_cost_is_that_of_brute_force(scheduler: CpSat | ColGen, model_name: str) -> None:
    for instance, expected in least_costs(model_name):
        cost = solved(scheduler, instance)
        assert (cost is None) == (expected is None), instance
        assert cost is None or math.isclose(cost, expected or 0.0), instance
    # The instances differ in the number of GPUs that they need.
    assert len({expected for _, expected in least_costs(model_name) if expected is not None}) > 1


@cache
def most_goodputs(model_name: str) -> list[tuple[Instance, float | None]]:
    """Return instances, and the most goodput of each by brute force."""
    random = Random(f"goodput {model_name}")
    instances = [draw(random, model_name, Objective.GOODPUT, 2, 1) for _ in range(4)]
    return [(instance, optimum(instance)) for instance in instances]


@pytest.mark.parametrize("scheduler", EXACT, ids=lambda scheduler: scheduler.name)
@pytest.mark.parametrize("model_name", performance_model_names())
def test_the_most_goodput_is_that_of_brute_force(scheduler: CpSat | ColGen, model_name: str) -> None:
    for instance, expected in most_goodputs(model_name):
        assert solved(scheduler, instance) == pytest.approx(expected, rel=1e-9), instance


@cache
def most_throughputs(model_name: str) -> list[tuple[Instance, float | None]]:
    """Return instances, and the most throughput of each by brute force."""
    random = Random(f"capacity {model_name}")
    instances = [draw(random, model_name, Objective.CAPACITY, random.randint(2, 3), 2) for _ in range(8)]
    return [(instance, most_capacity(instance)) for instance in instances]


@pytest.mark.parametrize("model_name", performance_model_names())
def test_the_throughput_of_column_generation_is_at_most_the_optimum_and_its_bound_at_least(model_name: str) -> None:
    reached = 0
    for instance, expected in most_throughputs(model_name):
        outcome = ColGen().schedule(instance, Run(deadline=time.monotonic() + 60.0))
        if expected is None:
            assert outcome.plan is None
            continue
        assert outcome.plan is not None
        verdict = judge(outcome.plan, instance)
        assert verdict.feasible
        assert verdict.value is not None
        assert verdict.value <= expected * (1 + 1e-9)
        assert outcome.bound is None or outcome.bound.value >= expected * (1 - 1e-9)
        reached += math.isclose(verdict.value, expected, rel_tol=1e-9)
    assert reached >= 4


@pytest.mark.parametrize("model_name", first(2, performance_model_names()))
def test_the_most_throughput_of_cpsat_is_that_of_brute_force(model_name: str) -> None:
    for instance, expected in most_throughputs(model_name):
        throughput = solved(CpSat(), instance)
        assert (throughput is None) == (expected is None), instance
        assert throughput is None or math.isclose(throughput, expected or 0.0, rel_tol=1e-9), instance
    assert any(expected is not None for _, expected in most_throughputs(model_name))


@cache
def drawn(model_name: str) -> list[tuple[Instance, float | None]]:
    """Return eight instances, under ``cost`` or ``goodput``, with their optima."""
    instances = []
    for seed in range(8):
        random = Random(f"{model_name} {seed}")
        if seed % 3:
            instances.append(draw(random, model_name, Objective.COST, random.randint(2, 3), None))
        else:
            instances.append(draw(random, model_name, Objective.GOODPUT, 2, 1))
    return [(instance, optimum(instance)) for instance in instances]


@pytest.mark.parametrize("model_name", performance_model_names())
def test_scip_solves_the_compact_model_of_every_performance_model(model_name: str) -> None:
    for instance, expected in drawn(model_name)[:6]:
        outcome = Minlp().schedule(instance, Run(deadline=time.monotonic() + 60.0))

        assert outcome.plan is not None
        assert expected is not None
        verdict = judge(outcome.plan, instance)
        assert verdict.feasible
        assert verdict.value == pytest.approx(expected, rel=1e-5)
        assert outcome.status is Status.OPTIMAL


@pytest.mark.parametrize("model_name", first(2, sorted(performance_model_names(), reverse=True)))
def test_scip_finds_the_most_throughput_of_every_performance_model(
    model_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without moves of single workloads, every better plan and every bound comes from SCIP."""
    monkeypatch.setattr("formulations.compact.search.improved", lambda _problem, patterns, _run: patterns)
    values = []
    for instance, expected in most_throughputs(model_name)[:6]:
        outcome = Minlp().schedule(instance, Run(deadline=time.monotonic() + 60.0))
        if expected is None:
            assert outcome.plan is None
            continue
        assert outcome.plan is not None
        verdict = judge(outcome.plan, instance)
        assert verdict.feasible
        assert verdict.value == pytest.approx(expected, rel=5e-6)
        assert outcome.bound is not None
        assert outcome.bound.value >= expected * (1.0 - 1e-9)
        values.append(expected)
    assert len(values) >= 3


@pytest.mark.parametrize("model_name", performance_model_names())
def test_the_certified_linearisation_bounds_the_optimum_under_every_performance_model(model_name: str) -> None:
    solved = 0
    for instance, expected in drawn(model_name):
        outcome = Pwl(certified=True).schedule(instance, Run(deadline=time.monotonic() + 60.0))

        assert outcome.bound is not None
        assert outcome.plan is not None
        assert expected is not None
        assert judge(outcome.plan, instance).feasible
        sign = 1 if instance.objective.minimised else -1
        assert sign * outcome.bound.value <= sign * expected + 1e-6
        solved += outcome.status is Status.OPTIMAL
    assert solved >= 4


def test_under_the_model_gpulet_no_gpu_has_more_than_two_gpulets() -> None:
    random = Random(0)
    instance = draw(random, "gpulet", Objective.COST, 3, None)
    for scheduler in EXACT:
        plan = scheduler.schedule(instance, Run(deadline=time.monotonic() + 60.0)).plan
        assert plan is not None
        assert all(len(gpu.gpulets) <= 2 for gpu in plan.gpus)
