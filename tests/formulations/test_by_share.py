"""Exact methods where budgets depend on the share, against an enumeration of every content of a GPU."""

import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.scheduler import ColGen, SearchedClass
from formulations.colgen.spatial import pricer
from formulations.colgen.spatial import problem as spatial_problem
from formulations.cpsat import CpSat
from formulations.cpsat.progress import NO_PLAN_IN_TIME
from instances import PART_STEPS, SCALE_STEP, GpuPool, Instance, Objective, SloRule, Workload
from instances.configurations import Rates
from instances.generate import generate
from instances.one_gpu import Pattern, fit_gpu
from instances.performance import performance_model_names
from instances.view import View
from tests.formulations.by_share import (
    CHEAP,
    FEW,
    GAPS,
    draw,
    least_cost,
    most_capacity,
    most_goodput,
    one,
    oversized,
    value,
)
from tests.formulations.cpsat.tiny import Reports, check_reports, without_shortcuts
from tests.formulations.exhaustive import small_batches
from tests.formulations.test_performance_models import TINY
from tests.soak import first

QUICK, SOAK = range(3), range(3, 108)
"""Seeds of the quick tests and of the soak tests."""


def cpsat(instance: Instance, reports: Reports | None = None) -> Outcome:
    return CpSat().schedule(instance, Run(listener=reports or Reports()))


def check(outcome: Outcome, instance: Instance, optimum: float) -> None:
    """Check that the plan has the optimal value, and that the bound is certified and does not exclude it."""
    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) == pytest.approx(optimum, rel=1e-9)
    assert outcome.bound is not None
    assert outcome.bound.certified
    sense = -1.0 if instance.objective.minimised else 1.0
    assert sense * outcome.bound.value >= sense * optimum - 1e-9 * optimum


def compare_cost(instance: Instance) -> None:
    reports = Reports()
    large = oversized(instance)
    best = least_cost(instance, large)

    outcome, generated = cpsat(instance, reports), ColGen().schedule(instance, Run())

    if best is None:
        assert outcome.status is Status.INFEASIBLE
        assert generated.status is Status.INFEASIBLE
        return
    check(outcome, instance, value(best, instance))
    check_reports(reports, instance, value(best, instance))
    check(generated, instance, value(best, instance))
    for bound in (outcome.bound, generated.bound):
        assert bound is not None
        assert bound.parts_apart == bool(large)
        assert bound.split_workloads == (tuple(instance.workloads[w].id for w in sorted(large)) or None)


def compare_split(instance: Instance) -> None:
    best_plan = least_cost if instance.objective is Objective.COST else most_goodput
    best = best_plan(instance, range(len(instance.workloads)))

    outcome = ColGen(plan_class=SearchedClass.SPLIT).schedule(instance, Run())

    if best is None:
        assert outcome.status is Status.INFEASIBLE
    else:
        check(outcome, instance, value(best, instance))


def compare_goodput(instance: Instance) -> None:
    reports = Reports()
    best = value(most_goodput(instance), instance)

    check(cpsat(instance, reports), instance, best)
    check(ColGen().schedule(instance, Run()), instance, best)
    check_reports(reports, instance, best)


def compare_capacity(instance: Instance) -> None:
    reports = Reports()
    best = most_capacity(instance)

    outcome, generated = cpsat(instance, reports), ColGen().schedule(instance, Run())

    if best is None:
        assert outcome.status is Status.INFEASIBLE
        assert generated.status is Status.INFEASIBLE
    else:
        check(outcome, instance, best)
        check(generated, instance, best)
        check_reports(reports, instance, best)


def compare_scale(instance: Instance) -> None:
    outcome = cpsat(instance)

    scale = value(outcome.plan, instance)
    assert outcome.status is Status.OPTIMAL
    assert outcome.bound == Bound(pytest.approx(scale + SCALE_STEP), certified=True)
    for factor, fits in ((scale, True), (scale + SCALE_STEP, False)):
        scaled = replace(instance.scaled(factor), objective=Objective.COST)
        assert (not oversized(scaled) and least_cost(scaled) is not None) == fits


COMPARISONS = {
    Objective.COST: (compare_cost, 4),
    Objective.GOODPUT: (compare_goodput, 3),
    Objective.CAPACITY: (compare_capacity, 4),
    Objective.SCALE: (compare_scale, 3),
}
"""Comparison under each objective, and the largest number of workloads with which enumeration stays quick."""


def compare(seed: int, objective: Objective) -> None:
    compare_one, most = COMPARISONS[objective]
    compare_one(draw(seed, objective, most))


@pytest.mark.parametrize("seed", first(1, QUICK))
@pytest.mark.parametrize("objective", first(2, [Objective.COST, Objective.GOODPUT, Objective.CAPACITY]))
def test_the_optimum_is_that_of_enumeration(objective: Objective, seed: int) -> None:
    compare(seed, objective)


@pytest.mark.parametrize("seed", first(3, range(60)))
@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT])
def test_with_bounds_on_budgets_the_optimum_is_that_of_enumeration(
    objective: Objective, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than ``MOST_BUDGETS`` budgets are bounded first, and computed where a pattern needs them."""
    monkeypatch.setattr(spatial_problem, "MOST_BUDGETS", 0)
    compare(200 + seed, objective)


@pytest.mark.parametrize("seed", first(1, QUICK))
@pytest.mark.parametrize(("objective", "most"), [(Objective.COST, 3), (Objective.GOODPUT, 2)])
def test_the_optimum_of_split_plans_is_that_of_enumeration(objective: Objective, most: int, seed: int) -> None:
    compare_split(draw(seed, objective, most))


def divisible_pricer(instance: Instance) -> pricer.Pricer:
    """Return the pricing problem of the first GPU type, where every workload may be served in parts."""
    view, count = View.of(instance, instance.gpus[0].type), len(instance.workloads)
    step = np.arange(1, PART_STEPS + 1)
    rates = [Rates(float(rate) * (step / PART_STEPS), step) for rate in view.rate_rps]
    return pricer.Pricer(view, 0, np.arange(count), np.full(count, -1), rates, True, bracketed=True)


@pytest.mark.parametrize("seed", first(1, QUICK))
def test_many_choices_are_priced_like_few(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pricers of many choices have few boxes, which are halved by their bounds, and an entry for each batch."""
    instance = replace(draw(seed, Objective.COST, 3), gpus=(GpuPool(GAPS),))
    few = divisible_pricer(instance)
    monkeypatch.setattr(pricer, "MANY_OPTIONS", 1)
    many = divisible_pricer(instance)
    worth = np.random.default_rng(seed).uniform(0.5, 2.0, len(instance.workloads)) / few.view.rate_rps
    profit_few, profit_many = (p.choices.rate_rps * worth[p.choices.workload] for p in (few, many))
    limits = 10**7, 100_000, 100_000
    best = max((worth_of(pattern, worth) for pattern in few.price(profit_few, 0.0, *limits).patterns), default=0.0)

    above, below = (many.price(profit_many, best * factor, *limits) for factor in (1.0 + 1e-6, 1.0 - 1e-6))

    assert many.by_batch
    assert max(len(many.boxes.of_box(i).of) for i in range(many.boxes.count)) > len(few.choices.workload) > 0
    assert above.patterns == []
    assert above.bound == best * (1.0 + 1e-6)
    assert max(worth_of(pattern, worth) for pattern in below.patterns) == pytest.approx(best)


@pytest.mark.parametrize("seed", first(1, range(1, 8)))
def test_the_optimum_with_many_choices_is_that_of_enumeration(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricer, "MANY_OPTIONS", 1)
    compare_split(draw(seed, Objective.COST, 3))


def worth_of(pattern: Pattern, worth: np.ndarray) -> float:
    return sum(float(worth[w]) * rate for w, _, rate in pattern.residents)


@pytest.mark.parametrize("seed", first(1, range(2)))
def test_bounds_on_budgets_exclude_no_pattern_and_become_exact_where_a_pattern_needs_it(seed: int) -> None:
    instance = replace(generate("igniter-mix", 3, seed, Objective.COST), slo_rule=SloRule.ATTAINMENT)
    divisible = divisible_pricer(instance)
    view = divisible.view
    rough_before, choices = divisible.rough.copy(), divisible.choices
    outshone = np.isneginf(choices.sure_ms).all(axis=1)

    patterns = divisible.price(choices.rate_rps, 0.0, 2_000, 20, 200).patterns

    assert rough_before.any()
    assert outshone.any()
    assert patterns
    for pattern in patterns:
        assert fit_gpu(view, pattern.residents) is not None
    for k, (w, rate) in enumerate(zip(choices.workload.tolist(), choices.rate_rps.tolist(), strict=True)):
        for o in range(choices.option[k], choices.option[k + 1]):
            budget_ms = view.budgets_ms(w, int(choices.batch[o]), rate)
            assert np.all(choices.sure_ms[o] <= budget_ms)
            assert np.all(budget_ms <= choices.budget_ms[o])
            if not divisible.rough[o]:
                assert np.array_equal(budget_ms, choices.budget_ms[o])


@pytest.mark.parametrize("seed", range(3))
def test_the_scale_is_that_of_enumeration(seed: int) -> None:
    compare(seed, Objective.SCALE)


def under(model: str, seed: int, objective: Objective) -> Instance:
    """Return a tiny instance under a performance model; a larger share of its GPU may take longer beside others."""
    random, bounded = Random(seed), objective is not Objective.COST
    workloads = tuple(
        Workload(f"w{i}", random.choice(("small", "large")), random.uniform(20.0, 60.0), random.uniform(20.0, 250.0))
        for i in range(3)
    )
    pool = (GpuPool(TINY, random.choice((1, 2)) if bounded else None),)
    return Instance("tiny", objective, SloRule.ATTAINMENT, model, pool, workloads, attainment=0.95)


@pytest.mark.parametrize("seed", first(1, range(2)))
@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT, Objective.CAPACITY])
@pytest.mark.parametrize("model", performance_model_names())
def test_the_optimum_under_every_performance_model(model: str, objective: Objective, seed: int) -> None:
    COMPARISONS[objective][0](under(model, seed, objective))


@pytest.mark.soak
@pytest.mark.parametrize("objective", sorted(COMPARISONS))
def test_the_optima_of_a_hundred_instances_are_those_of_enumeration(objective: Objective) -> None:
    for seed in SOAK:
        compare(seed, objective)


@pytest.mark.soak
@pytest.mark.parametrize(("objective", "most"), [(Objective.COST, 3), (Objective.GOODPUT, 2)])
def test_the_optima_of_a_hundred_split_plans_are_those_of_enumeration(objective: Objective, most: int) -> None:
    for seed in SOAK:
        compare_split(draw(seed, objective, most))


@pytest.mark.soak
@pytest.mark.parametrize("model", performance_model_names())
def test_the_optima_of_many_instances_under_every_performance_model(model: str) -> None:
    for objective in (Objective.COST, Objective.GOODPUT, Objective.CAPACITY):
        for seed in range(2, 42):
            COMPARISONS[objective][0](under(model, seed, objective))


@pytest.mark.parametrize("seed", first(2, range(5)))
def test_cpsat_alone_finds_the_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a first plan and the bound by volume, the assignment model decides."""
    without_shortcuts(monkeypatch)
    compare(seed, Objective.COST)
    compare(seed, Objective.GOODPUT)


@pytest.mark.parametrize("objective", sorted(CpSat.objectives))
def test_without_time_for_the_budgets_the_result_is_unknown(objective: Objective) -> None:
    instance = replace(draw(1, objective), gpus=(GpuPool(FEW, 1),))

    outcome = CpSat().schedule(instance, Run(deadline=time.monotonic() - 1.0))

    assert outcome.status is Status.UNKNOWN
    assert outcome.reason in ("the time was over before all latency budgets were known", NO_PLAN_IN_TIME)


def test_equal_workloads_that_no_gpu_serves_whole_are_both_served_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Workload("small", "alexnet", 15.0, 60.0)
    large = tuple(Workload(name, "vgg19", 35.0, 520.0) for name in "ab")
    instance = replace(one("vgg19", 1.0), workloads=(small, *large), gpus=(GpuPool(FEW, 4),))
    best = value(least_cost(instance, {1, 2}), instance)
    assert best == 3 * FEW.price_per_hour

    check(cpsat(instance), instance, best)
    without_shortcuts(monkeypatch)
    outcome = cpsat(instance)

    check(outcome, instance, best)
    for name in "ab":
        assert sum(s.rate_rps for _, _, s in outcome.plan.slots() if s.workload == name) == pytest.approx(520.0)


def test_under_sampled_arrivals_cpsat_splits_no_workload() -> None:
    instance = one("vgg19", 900.0, arrivals="gamma:2")

    outcome = cpsat(instance)

    assert outcome.status is Status.UNKNOWN
    assert outcome.reason.startswith("w: no GPU of the pool alone serves 900 req/s of vgg19 within 35 ms")


@pytest.mark.parametrize(("arrivals", "certified"), [("poisson", True), ("gamma:2", False)])
def test_a_bound_on_the_scale_is_certified_for_poisson_arrivals_only(arrivals: str, certified: bool) -> None:
    instance = replace(one("alexnet", 500.0, objective=Objective.SCALE), gpus=(GpuPool(CHEAP, 1),), arrivals=arrivals)

    outcome = cpsat(instance)

    assert outcome.bound is not None
    assert outcome.bound.certified == certified


@pytest.mark.parametrize("arrivals", ["gamma:0.2", "gamma:3"])
def test_arrivals_are_as_bursty_at_every_scale(arrivals: str) -> None:
    """Below scale 1, a slot serves all requests of a workload of a lower rate, not a part of the original requests."""
    few = GpuPool(replace(small_batches(FEW, 2), name="two", share_units=2), 1)
    instance = replace(one("vgg19", 1500.0, objective=Objective.SCALE), gpus=(few,), arrivals=arrivals)

    scales = [value(scheduler.schedule(instance, Run()).plan, instance) for scheduler in (CpSat(), ColGen())]

    assert scales[0] == scales[1] < 0.9
    at_one = replace(instance.scaled(scales[0]), objective=Objective.COST)
    assert least_cost(at_one) is not None
    assert oversized(replace(instance.scaled(scales[0] + SCALE_STEP), objective=Objective.COST)) == {0}
