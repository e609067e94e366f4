"""``mig`` on ParvaGPU's problem: known optima, brute force on tiny GPUs, exact covers, and bounds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Bound, Outcome, Run, Status, refusal
from bench.judging.judge import judge
from formulations.mig import Mig
from formulations.mig.bounds import bounds, cheapest_cover
from formulations.mig.offers import Offers
from instances import GpuPool, InputError, Instance, Objective, Plan, PlanClass
from instances.costs import next_cost
from instances.suites import suite
from tests.formulations.tiny_mig import cheapest, random_processes, random_tiny, tiny_gpu, tiny_instance

PARVAGPU = {instance.name: instance for instance in suite("parvagpu").build()}


def solved(instance: Instance) -> tuple[Outcome, Plan]:
    outcome = Mig().schedule(instance, Run())
    assert outcome.plan is not None
    return outcome, outcome.plan


# --- Known answers ---


@pytest.mark.parametrize(("mix", "gpus"), [(1, 2), (2, 3), (3, 5), (4, 7), (5, 12), (6, 15)])
def test_parvagpus_mixes_are_solved_to_proven_optima(mix: int, gpus: int) -> None:
    instance = PARVAGPU[f"parvagpu-{mix}"]

    outcome, plan = solved(instance)

    verdict = judge(plan, instance)
    assert verdict.violations == ()
    assert verdict.gpus_used == gpus
    assert verdict.value == pytest.approx(4.10 * gpus)
    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.bound.certified
    assert outcome.bound.plan_class is PlanClass.SPLIT
    assert outcome.bound.value > 4.10 * (gpus - 1)
    assert next_cost(outcome.bound.value, instance) == pytest.approx(verdict.value)


def test_two_runs_on_one_instance_give_the_same_plan() -> None:
    assert solved(PARVAGPU["parvagpu-4"]) == solved(PARVAGPU["parvagpu-4"])


def test_no_mig_instance_can_be_left_out() -> None:
    instance = PARVAGPU["parvagpu-3"]
    _, plan = solved(instance)
    models = {w.id: w.model for w in instance.workloads}
    profile = instance.gpus[0].type.mig
    assert profile is not None

    served: dict[str, list[float]] = {w.id: [] for w in instance.workloads}
    for _, gpulet, slot in plan.slots():
        configuration = profile.configuration(models[slot.workload], gpulet.share_units, slot.batch, gpulet.processes)
        assert configuration is not None
        served[slot.workload].append(configuration.throughput_rps)

    for workload in instance.workloads:
        rates = served[workload.id]
        assert sum(rates) >= workload.rate_rps
        assert sum(rates) - min(rates) < workload.rate_rps


# --- Against brute force ---


def test_tiny_instances_are_solved_as_by_brute_force(subtests: pytest.Subtests) -> None:
    for seed in range(25):
        with subtests.test(seed=seed):
            instance = random_tiny(Random(seed), bounded=False)

            outcome, plan = solved(instance)

            verdict = judge(plan, instance)
            assert verdict.violations == ()
            assert verdict.value == pytest.approx(cheapest(instance))
            assert outcome.status is Status.OPTIMAL
            assert outcome.bound is not None
            assert verdict.value is not None
            assert outcome.bound.value <= verdict.value * (1 + 1e-12)


def test_bounded_pools_are_solved_or_refused_as_by_brute_force(subtests: pytest.Subtests) -> None:
    for seed in range(25):
        with subtests.test(seed=seed):
            instance = random_tiny(Random(1000 + seed), bounded=True)
            expected = cheapest(instance, most=4)

            outcome = Mig().schedule(instance, Run())

            if expected is None:
                assert outcome.status is Status.INFEASIBLE
                assert (outcome.plan, outcome.reason) == (None, "the GPUs of the pool do not suffice")
            else:
                assert outcome.status is Status.OPTIMAL
                assert outcome.plan is not None
                verdict = judge(outcome.plan, instance)
                assert verdict.violations == ()
                assert verdict.value == pytest.approx(expected)
                assert outcome.bound is not None
                assert outcome.bound.value <= expected * (1 + 1e-12)


def test_brute_force_finds_both_outcomes_of_bounded_pools() -> None:
    infeasible = [cheapest(random_tiny(Random(1000 + seed), bounded=True), most=4) is None for seed in range(25)]

    assert 3 <= sum(infeasible) <= 22


RUNS = (Run(), Run(), Run(deadline=0.0), Run(work_limit=1))
"""Runs that the seeds take in turn. Those without a limit must end in a proof."""


def test_no_bound_is_above_the_optimum_and_no_plan_below_it(subtests: pytest.Subtests) -> None:
    """The instances have several batches and numbers of processes, and some runs end at once."""
    for seed in range(120):
        with subtests.test(seed=seed):
            check_bounds_and_plan(seed)


def check_bounds_and_plan(seed: int) -> None:
    instance, run, reported = random_processes(Random(seed)), RUNS[seed % 4], []
    optimum = cheapest(instance, most=4)

    def listen(plan: Plan | None, bound: Bound | None) -> None:
        reported.append(bound)

    outcome = Mig().schedule(instance, replace(run, listener=listen))

    bounds_found = [bound for bound in (*reported, outcome.bound) if bound is not None]
    assert all(bound.certified for bound in bounds_found)
    if outcome.plan is not None:
        verdict = judge(outcome.plan, instance)
        assert verdict.violations == ()
        assert optimum is not None
        assert optimum <= verdict.value + 1e-9
        if outcome.status is Status.OPTIMAL:
            assert verdict.value == pytest.approx(optimum)
    if optimum is None:
        assert outcome.status in (Status.INFEASIBLE, Status.UNKNOWN)
    else:
        assert outcome.status is not Status.INFEASIBLE
        assert all(bound.value <= optimum * (1 + 1e-12) for bound in bounds_found)
    if run == Run():
        assert outcome.status in (Status.OPTIMAL, Status.INFEASIBLE)


def test_the_random_instances_have_many_costs_need_one_to_four_gpus_or_are_infeasible() -> None:
    instances = [random_processes(Random(seed)) for seed in range(120)]
    unlimited = [instance for instance in instances if any(pool.count is None for pool in instance.gpus)]
    costs = [cheapest(instance, most=4) for instance in instances]

    assert 10 <= sum(cost is None for cost in costs) <= 60
    # On an unlimited pool, an instance is infeasible only if no MIG instance serves some workload, so a fifth GPU does
    # not help.
    assert all(cheapest(instance, most=5) is None for instance in unlimited if cheapest(instance, most=4) is None)
    assert len({cost for cost in costs if cost is not None}) >= 12
    fewest_gpus = [
        next(most for most in range(1, 5) if cheapest(instance, most) == cost)
        for instance, cost in zip(instances, costs, strict=True)
        if cost is not None
    ]
    assert set(fewest_gpus) == {1, 2, 3, 4}


def test_if_the_pool_is_too_small_the_bound_is_above_its_price() -> None:
    instance = tiny_instance([GpuPool(tiny_gpu("tiny", 2.0, [[1.0, 2.0, 3.0]]), 2)], [9.0])

    outcome = Mig().schedule(instance, Run())

    assert outcome.status is Status.INFEASIBLE
    assert outcome.bound is not None
    assert outcome.bound.value > 2 * 2.0


def test_a_rate_just_above_that_of_two_mig_instances_takes_a_third() -> None:
    gpu = tiny_gpu("tiny", 1.0, [[0.0, 0.0, 1.0]])
    numbers = [len(solved(tiny_instance([GpuPool(gpu)], [rate]))[1].gpus) for rate in (2.0, 2.0000005)]

    assert numbers == [2, 3]


# --- Covers ---


def covers(rates: Sequence[int], demand: int) -> Iterator[tuple[int, ...]]:
    """Yield numbers of MIG instances of each kind that serve ``demand``, up to more than enough of each kind."""
    for numbers in product(*(range(demand // rate + 2 if rate else 1) for rate in rates)):
        if sum(number * rate for number, rate in zip(numbers, rates, strict=True)) >= demand:
            yield numbers


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=3).filter(
        lambda kinds: any(rate for _, rate in kinds)
    ),
    st.integers(1, 25),
    st.sampled_from([0, 3, 10_000]),
)
def test_the_cheapest_cover_is_that_of_brute_force(kinds: list[tuple[int, int]], demand: int, limit: int) -> None:
    prices, rates = zip(*kinds, strict=True)

    def cost(numbers: Sequence[int]) -> int:
        return sum(number * price for number, price in zip(numbers, prices, strict=True))

    least = min(map(cost, covers(rates, demand)))
    cover = cheapest_cover(prices, rates, demand, limit)

    assert sum(number * rate for number, rate in zip(cover.numbers, rates, strict=True)) >= demand
    assert cover.least_cost <= least <= cost(cover.numbers)
    if limit == 10_000:
        assert cover.least_cost == cost(cover.numbers) == least


# --- Bounds ---


@pytest.mark.parametrize("name", sorted(PARVAGPU))
def test_bounds_get_better_and_each_is_reported(name: str) -> None:
    instance, reported = PARVAGPU[name], []

    def listen(plan: Plan | None, bound: Bound | None) -> None:
        reported.append(bound)

    outcome = Mig().schedule(instance, Run(listener=listen))

    values = [bound.value for bound in reported if bound is not None]
    assert values == sorted(set(values)) == [bound.value for bound in bounds(instance, Offers.of(instance), Run())]
    assert reported[-1] == outcome.bound


def test_there_is_a_bound_even_without_time() -> None:
    outcome = Mig().schedule(PARVAGPU["parvagpu-6"], Run(deadline=0.0))

    assert outcome.status in (Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL)
    assert outcome.bound is not None
    assert 0.0 < outcome.bound.value <= 15 * 4.10


# --- Refused instances ---


def test_a_workload_that_no_mig_instance_serves_in_time_is_named() -> None:
    instance = PARVAGPU["parvagpu-1"]
    slow = replace(instance.workloads[1], slo_ms=10.0)

    outcome = Mig().schedule(replace(instance, workloads=(instance.workloads[0], slow)), Run())

    assert outcome.status is Status.INFEASIBLE
    assert outcome.reason == "densenet121: no MIG instance runs densenet121 within 5 ms"


def test_only_instances_on_mig_gpus_are_accepted() -> None:
    (on_shares,) = suite("igniter-3").build()

    assert refusal(Mig, PARVAGPU["parvagpu-1"]) is None
    assert refusal(Mig, on_shares) == "does not plan GPUs divided by shares; it plans mig"
    with pytest.raises(InputError, match="igniter-3: mig needs GPUs that are cut into MIG instances"):
        Mig().schedule(on_shares, Run())


@pytest.mark.parametrize("objective", [Objective.GOODPUT, Objective.CAPACITY, Objective.SCALE])
def test_other_objectives_are_refused(objective: Objective) -> None:
    other = replace(PARVAGPU["parvagpu-1"], objective=objective)

    assert refusal(Mig(), other) == f"does not solve {objective}; it solves cost"
