"""Schedulers on language-model services: exact ones against brute force from the measured tables, and heuristics."""

from dataclasses import replace
from functools import cache
from itertools import combinations, product
from random import Random

import pytest

from bench.api import Run, Scheduler, Status, refusal
from bench.judging.judge import judge
from bench.plan_simulation import Settings, finished
from bench.simulation.services import ServiceSimulation
from formulations.colgen import ColGen
from formulations.colgen.scheduler import SearchedClass
from formulations.cpsat import CpSat
from formulations.minlp import Minlp
from heuristics.baselines.local_search import LocalSearch
from heuristics.baselines.random_fit import RandomFit
from heuristics.baselines.ruin_recreate import RuinRecreate
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning
from heuristics.igniter.gslice_plus import GslicePlus
from heuristics.igniter.igniter import FfdPlus, FfdPlusPlus, IGniter
from instances import GpuPool, Instance, Objective, PlacedGpu, PlanClass, SloRule
from instances.catalogue import gpu_type
from instances.costs import next_cost
from instances.instance import instance_of_services
from instances.services import Service
from instances.suites import suite
from instances.tables import gpu_tables
from tests.instances.erlang import waiting_probability
from tests.soak import first

MIXES = 50
"""Number of random instances."""

SERVICES = 3
"""Number of services in each of them."""

BUFFER = 1.2
"""Latency buffer: factor on every predicted time."""

WAITING = 0.01
"""Largest probability that a request waits for a place in the decoding batch."""


def needs(position: int, instance: Instance) -> list[tuple[int, float]]:
    """Return the undominated (units, MiB) of the batches of a workload, each at its least share, from the tables alone.

    Batches that violate the rules at every share are left out.
    """
    workload, gpu = instance.workloads[position], instance.gpus[0].type
    tables, row = gpu_tables(gpu, "table"), list(gpu.models).index(workload.model)
    feasible = []
    for batch in range(1, int(tables.max_batch[row]) + 1):
        for units in gpu.allowed_shares or ():
            time_ms = BUFFER * float(tables.active_ms[row, batch, units])
            if workload.steps:
                load = workload.rate_rps * workload.steps * time_ms / 1000.0
                holds = time_ms <= workload.slo_ms and waiting_probability(batch, load) <= WAITING
            else:
                holds = time_ms <= min(workload.slo_ms / 2.0, 1000.0 * batch / workload.rate_rps)
            if holds:
                feasible.append((units, gpu.models[workload.model].memory_mib(batch)))
                break

    def is_dominated(units: int, mib: float) -> bool:
        return any(o[0] <= units and o[1] <= mib and o != (units, mib) for o in feasible)

    return [(units, mib) for units, mib in feasible if not is_dominated(units, mib)]


def fewest_gpus(instance: Instance) -> int:
    """Return the optimum: the least number of GPUs over all partitions of the workloads."""
    options = [needs(w, instance) for w in range(len(instance.workloads))]
    gpu = instance.gpus[0].type

    @cache
    def fits(members: tuple[int, ...]) -> bool:
        return any(
            sum(units for units, _ in chosen) <= gpu.share_units and sum(mib for _, mib in chosen) <= gpu.memory_mib
            for chosen in product(*(options[w] for w in members))
        )

    @cache
    def fewest(unplaced: tuple[int, ...]) -> int:
        if not unplaced:
            return 0
        first, later = unplaced[0], unplaced[1:]
        # At most three workloads fit on a GPU: the least share is 17 of 54 units.
        sets = ((first, *others) for size in range(3) for others in combinations(later, size))
        return 1 + min(fewest(tuple(w for w in unplaced if w not in members)) for members in sets if fits(members))

    return fewest(tuple(range(len(options))))


def random_mix(seed: int, rule: SloRule = SloRule.HALF_SLO) -> Instance:
    """Return an instance of three services, whose prefill and decode workloads each fit on part of a GPU."""
    random, pool = Random(seed), [GpuPool(gpu_type("a100-llm"))]
    services: list[tuple[Service, float]] = []
    while len(services) < SERVICES:
        prompt, output = random.choice([(64, 64), (128, 128), (256, 128), (384, 96), (128, 320)])
        service = Service(
            f"s{len(services)}", random.choice(["llama-7b", "llama-13b"]), prompt, output,
            random.choice([400.0, 800.0, 1500.0]), random.choice([40.0, 60.0, 90.0]),
        )  # fmt: skip
        rate = round(random.uniform(1.0, 20.0), 1)
        alone = instance_of_services("alone", [(service, rate)], pool)
        if all(needs(w, alone) for w in range(2)):
            services.append((service, rate))
    return instance_of_services(f"mix-{seed}", services, pool, latency_buffer=BUFFER, slo_rule=rule)


def solved(scheduler: Scheduler, instance: Instance) -> tuple[Status, int, float]:
    """Return the status, the number of GPUs of the plan, which must be feasible, and the bound."""
    outcome = scheduler.schedule(instance, Run())
    assert outcome.plan is not None
    assert outcome.bound is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible, verdict.violations
    return outcome.status, verdict.gpus_used, outcome.bound.value


@pytest.mark.parametrize("seeds", first(1, (range(10), range(10, MIXES))), ids=str)
def test_brute_force_agrees_with_both_exact_methods(seeds: range, subtests: pytest.Subtests) -> None:
    for seed in seeds:
        with subtests.test(seed=seed):
            instance = random_mix(seed)
            expected, price = fewest_gpus(instance), instance.gpus[0].type.price_per_hour

            for scheduler in (ColGen(), CpSat()):
                status, gpus, bound = solved(scheduler, instance)
                assert (status, gpus) == (Status.OPTIMAL, expected)
                assert price * (expected - 1) < bound <= price * expected * (1.0 + 1e-9)


def test_the_mixes_need_two_to_four_gpus() -> None:
    assert {fewest_gpus(random_mix(seed)) for seed in range(MIXES)} == {2, 3, 4}


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_splitting_costs_no_more_and_is_certified(seed: int) -> None:
    instance = random_mix(seed)
    outcome = ColGen(plan_class=SearchedClass.SPLIT).schedule(instance, Run(work_limit=200_000))

    assert outcome.plan is not None
    assert outcome.bound is not None
    assert outcome.bound.certified
    assert outcome.bound.plan_class is PlanClass.SPLIT
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible, verdict.violations
    assert outcome.bound.value <= verdict.value <= fewest_gpus(instance) * instance.gpus[0].type.price_per_hour + 1e-9


def test_a_service_beyond_one_gpu_is_split() -> None:
    heavy = Service("heavy", "llama-13b", 256, 256, 1500.0, 60.0)
    instance = instance_of_services("heavy", [(heavy, 12.0)], [GpuPool(gpu_type("a100-llm"))])

    assert ColGen().schedule(instance, Run()).status is Status.INFEASIBLE
    outcome = ColGen(plan_class=SearchedClass.SPLIT).schedule(instance, Run(work_limit=200_000))
    assert outcome.plan is not None
    assert judge(outcome.plan, instance).feasible
    assert outcome.plan.plan_class is PlanClass.SPLIT
    simulated = finished(ServiceSimulation(outcome.plan, instance, Settings(seconds=120.0), instance).run())
    decoding = simulated.workloads[1]
    assert not decoding.violating


def test_exact_methods_agree_under_attainment_and_under_the_objective_scale() -> None:
    attained = random_mix(1, SloRule.ATTAINMENT)
    assert solved(ColGen(), attained)[:2] == solved(CpSat(), attained)[:2]

    pool = GpuPool(attained.gpus[0].type, 3)
    scale = replace(random_mix(1), objective=Objective.SCALE, gpus=(pool,))
    values = []
    for scheduler in (ColGen(), CpSat()):
        outcome = scheduler.schedule(scale, Run())
        assert outcome.plan is not None
        verdict = judge(outcome.plan, scale)
        assert verdict.feasible
        values.append(verdict.value)
    assert values[0] == pytest.approx(values[1])


@pytest.mark.parametrize("name", ["llm-4gpu", "llm-16gpu"])
def test_the_suites_are_solved_with_a_certified_gap_of_at_most_three_percent(name: str) -> None:
    (instance,) = suite(name).build()
    outcome = ColGen().schedule(instance, Run(work_limit=2_000_000))

    assert outcome.plan is not None
    assert outcome.bound is not None
    assert outcome.bound.certified
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert next_cost(outcome.bound.value, instance) >= 0.97 * verdict.value


@pytest.mark.parametrize(
    "scheduler", [IGniter(), FfdPlus(), FfdPlusPlus(), LocalSearch(), RuinRecreate(rounds=400), RandomFit()]
)
@pytest.mark.parametrize("seed", range(4))
def test_heuristics_plan_services_within_their_latency_budgets(scheduler: Scheduler, seed: int) -> None:
    instance = random_mix(seed)
    outcome = scheduler.schedule(instance, Run(work_limit=20))

    assert outcome.plan is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible, verdict.violations
    assert verdict.gpus_used >= fewest_gpus(instance) or outcome.plan.plan_class is PlanClass.SPLIT


def test_schedulers_that_cannot_plan_services_give_a_reason() -> None:
    instance = random_mix(0)
    assert "does not plan language-model services" in str(refusal(GslicePlus(), instance))
    assert refusal(IGniter(), instance) is None
    for scheduler in (ElasticPartitioning(), Minlp(), ColGen(plan_class=SearchedClass.SPATIO_TEMPORAL)):
        outcome = scheduler.schedule(instance, Run())
        assert outcome.plan is None
        assert "continuous" in outcome.reason or "decoding" in outcome.reason


def test_decoding_in_turns_is_a_violation() -> None:
    instance = random_mix(0)
    plan = CpSat().schedule(instance, Run()).plan
    assert plan is not None
    assert judge(plan, instance).feasible
    decoding = next(gpulet for _, gpulet, slot in plan.slots() if slot.workload.endswith("/decode"))
    in_turns = replace(decoding, duty_cycle_ms=50.0)
    gpus = tuple(
        PlacedGpu(gpu.type, tuple(in_turns if gpulet is decoding else gpulet for gpulet in gpu.gpulets))
        for gpu in plan.gpus
    )
    verdict = judge(replace(plan, gpus=gpus), instance)
    assert "duty-cycle" in {violation.kind for violation in verdict.violations}
