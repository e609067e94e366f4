"""Configurations: complete before the filters, sufficient after them, with linear conditions equal to the time test."""

from dataclasses import replace
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from instances import GpuPool, GpuType, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from instances.configurations import (
    BATCHES_TRIED,
    Configurations,
    Rates,
    lean_configurations,
    leanest,
    rates_of,
    servable_configurations,
)
from instances.dominance import configurations_on, largest_others, undominated, why_not_exact, without_needless_shares
from instances.suites import suite
from instances.tables import gpu_tables
from instances.view import View
from tests.formulations import exhaustive
from tests.instances import reference
from tests.instances.reference import TOY, Tenant

V100 = gpu_type("v100")
COARSE = exhaustive.small_batches(replace(V100, name="coarse", share_units=10), 5)
GAPS = exhaustive.small_batches(replace(V100, name="gaps", allowed_shares=(2, 5, 8, 9, 16, 20, 33, 40)), 4)
HOT = replace(COARSE, name="hot", hardware=replace(V100.hardware, max_power_w=150.0))
GRIDS = (COARSE, GAPS, HOT, TOY)
RULES = (SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE)


def draw(seed: int, count: int = 3, objective: Objective = Objective.COST) -> View:
    random = Random(seed)
    gpu = random.choice(GRIDS)
    workloads = exhaustive.draw_workloads(random, gpu, count, (0.1, 0.4))
    instance = Instance(
        "drawn",
        objective,
        random.choice(RULES),
        "igniter",
        (GpuPool(gpu, 2),),
        workloads,
        latency_buffer=random.choice((1.0, 1.1)),
    )
    return View.of(instance, gpu)


def all_choices(view: View) -> list[Configurations]:
    return [servable_configurations(view, w, rates_of(view.instance, w)) for w in range(len(view.instance.workloads))]


def tenant(view: View, workload: int, choices: Configurations, k: int) -> Tenant:
    model = view.gpu.models[view.instance.workloads[workload].model]
    batch, rate = int(choices.batch[k]), float(choices.rate_rps[k])
    return Tenant(model, batch, exhaustive.budget_ms(view.instance, view.gpu, workload, batch, rate))


def feasible(view: View, group: dict[int, tuple[Configurations, int]]) -> bool:
    """Return whether workloads with these choices fit on one GPU together, in plain Python."""
    tenants = [tenant(view, w, *choice) for w, choice in group.items()]
    memory = sum(t.model.memory_mib(t.batch) for t in tenants)
    units = [int(choices.units[k]) for choices, k in group.values()]
    return memory <= view.gpu.memory_mib and reference.fits(view.gpu, tenants, units)


def random_group(random: Random, lists: list[Configurations]) -> dict[int, tuple[Configurations, int]]:
    """Return random workloads with random choices, often small enough to fit together."""
    members = random.sample(range(len(lists)), random.randint(1, len(lists)))
    group = {}
    for w in members:
        small = np.flatnonzero(lists[w].units <= np.quantile(lists[w].units, random.choice((0.2, 0.5, 1.0))))
        group[w] = (lists[w], int(random.choice(small.tolist())))
    return group


@pytest.mark.parametrize("seed", range(12))
def test_servable_choices_are_all_those_that_fit_alone(seed: int) -> None:
    view = draw(seed)

    for w, choices in enumerate(all_choices(view)):
        servable = set(zip(choices.batch.tolist(), choices.units.tolist(), strict=True))
        rate = view.instance.workloads[w].rate_rps
        expected = {
            (t.batch, units)
            for t in exhaustive.tenants(view.instance, view.gpu, w, rate)
            for units in reference.permitted(view.gpu)
            if reference.fits(view.gpu, [t], [units]) and t.model.memory_mib(t.batch) <= view.gpu.memory_mib
        }
        assert servable == expected


@given(st.integers(0, 10**6))
@settings(max_examples=150)
def test_the_linear_conditions_equal_the_time_test(seed: int) -> None:
    random = Random(seed)
    view = draw(random.randrange(40), count=4)
    lists = all_choices(view)
    assume(all(choices.size for choices in lists))
    group = random_group(random, lists)
    tenants = [tenant(view, w, *choice) for w, choice in group.items()]
    times = reference.gpu_times_ms(view.gpu, tenants, [int(choices.units[k]) for choices, k in group.values()])
    total = sum(choices.demand(view.tables)[k] for choices, k in group.values())

    for (choices, k), resident, time in zip(group.values(), tenants, times, strict=True):
        rows = choices.conditions(view.tables)[k]
        sums = np.array([len(group), *(total - choices.demand(view.tables)[k])])
        if len(group) > 1 and abs(time - resident.budget_ms) > 1e-9:
            assert bool(np.all(rows[:, :4] @ sums <= rows[:, 4])) == (time < resident.budget_ms)
        if len(group) == 1:
            assert np.all(rows[:, :4] @ sums <= rows[:, 4] + 1e-9)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=200)
def test_a_dominated_choice_can_be_replaced_in_any_feasible_gpu(seed: int, count_steps: bool) -> None:
    random = Random(seed)
    view = draw(random.randrange(40), objective=random.choice((Objective.COST, Objective.GOODPUT)))
    lists = all_choices(view)
    assume(all(choices.size for choices in lists))
    group = random_group(random, lists)
    assume(feasible(view, group))

    w = random.choice(list(group))
    choices, k = group[w]
    remaining = undominated(choices, view.tables, count_steps)
    replacements = [
        other
        for other in range(remaining.size)
        if remaining.units[other] <= choices.units[k]
        and (not count_steps or remaining.step[other] >= choices.step[k])
        and feasible(view, {**group, w: (remaining, other)})
    ]
    assert replacements


def test_dominance_leaves_few_choices() -> None:
    """Without the filters, a V100 workload has hundreds of choices."""
    workloads = exhaustive.draw_workloads(Random(1), V100, 6, (0.1, 0.4))
    instance = Instance("six", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), workloads)
    view = View.of(instance, V100)

    before = sum(choices.size for choices in all_choices(view))
    after = sum(choices.size for choices in configurations_on(view, [rates_of(instance, w) for w in range(6)]))

    assert 6 <= after < 0.1 * before


@pytest.mark.parametrize("seed", range(25))
def test_least_shares_of_feasible_groups_pass_the_filter(seed: int) -> None:
    view = draw(seed)
    lists = all_choices(view)
    remaining = [
        set(zip(c.batch.tolist(), c.units.tolist(), strict=True))
        for c in without_needless_shares(lists, gpu_tables(view.gpu, "igniter"))
    ]

    for members in exhaustive.subsets((0, 1, 2)):
        for group in exhaustive.fitting_batches(view.instance, view.gpu, members):
            units = reference.least_fixed_point(view.gpu, group)
            assert units is not None
            for w, resident, share in zip(members, group, units, strict=True):
                assert (resident.batch, share) in remaining[w]


@pytest.mark.parametrize("seed", range(12))
def test_filtered_choices_admit_the_same_groups(seed: int) -> None:
    """Any groups that some batches and shares admit have a combination of filtered choices, and no others do."""
    view = draw(seed)
    lists = configurations_on(view, [rates_of(view.instance, w) for w in range(3)])

    for members in exhaustive.subsets((0, 1, 2)):
        if members:
            possible = any(
                feasible(view, {w: (lists[w], k) for w, k in zip(members, combination, strict=True)})
                for combination in product(*(range(lists[w].size) for w in members))
            )
            assert possible == any(exhaustive.fitting_batches(view.instance, view.gpu, members))


def test_bounds_on_the_others_hold_for_every_group_that_fits() -> None:
    view = draw(3)
    lists = all_choices(view)
    most = largest_others(lists, view.tables)

    for group in (random_group(Random(seed), lists) for seed in range(200)):
        units = sum(int(choices.units[k]) for choices, k in group.values())
        if units <= view.gpu.share_units:
            sums = [len(group), *sum(choices.demand(view.tables)[k] for choices, k in group.values())]
            absent = [w for w in range(3) if w not in group]
            for w in [*absent, -1]:
                assert np.all(np.array(sums) <= most[:, w, units] * (1 + 1e-12))


def test_goodput_offers_every_twentieth_of_the_rate() -> None:
    view = draw(0, objective=Objective.GOODPUT)
    full_rps = view.instance.workloads[0].rate_rps

    rates = rates_of(view.instance, 0)

    assert rates.step.tolist() == list(range(1, 21))
    assert rates.rate_rps == pytest.approx(full_rps * np.arange(1, 21) / 20, rel=1e-12)
    assert rates.rate_rps[-1] == full_rps


@pytest.mark.parametrize("rule", RULES)
def test_a_higher_rate_has_a_smaller_budget(rule: SloRule) -> None:
    view = draw(5, objective=Objective.GOODPUT)
    view = View.of(replace(view.instance, slo_rule=rule), view.gpu)

    for w, choices in enumerate(all_choices(view)):
        for batch in set(choices.batch.tolist()):
            offered = sorted(
                set(zip(*(a[choices.batch == batch].tolist() for a in (choices.step, choices.rate_rps)), strict=True))
            )
            budgets = [exhaustive.budget_ms(view.instance, view.gpu, w, batch, rate) for _, rate in offered]
            assert all(low > high for low, high in pairwise(budgets))


def test_of_rates_of_equal_value_the_largest_budget_is_offered() -> None:
    """Under ``assembly`` a batch of 8 fills in 35 ms at 200 req/s, and in 47 or 70 ms at lower rates."""
    view = draw(0)
    workload = replace(view.instance.workloads[0], model="alexnet", slo_ms=60.0, rate_rps=100.0)
    instance = replace(view.instance, slo_rule=SloRule.ASSEMBLY, workloads=(workload,), gpus=(GpuPool(V100),))

    choices = servable_configurations(
        View.of(instance, V100), 0, Rates(np.array([100.0, 200.0, 150.0]), np.ones(3, dtype=np.int64))
    )

    assert set(choices.rate_rps[choices.batch == 8].tolist()) == {200.0}
    assert set(choices.rate_rps[choices.batch == 1].tolist()) == {100.0}


def test_a_workload_that_no_gpu_serves_has_no_choices() -> None:
    view = draw(0)
    workloads = (replace(view.instance.workloads[0], slo_ms=0.1), view.instance.workloads[1])
    instance = replace(view.instance, workloads=workloads)

    choices = configurations_on(View.of(instance, view.gpu), [rates_of(instance, w) for w in range(2)])

    assert [c.size > 0 for c in choices] == [False, True]


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT])
def test_lean_configurations_have_the_fewest_units_at_each_rate(objective: Objective) -> None:
    view = draw(4, objective=objective)

    for choices in all_choices(view):
        lean = leanest(choices, BATCHES_TRIED)
        for step in set(choices.step.tolist()):
            least: dict[tuple[int, float], int] = {}
            at = choices.only(choices.step == step)
            for batch, rate, units in zip(at.batch.tolist(), at.rate_rps.tolist(), at.units.tolist(), strict=True):
                least[batch, rate] = min(units, least.get((batch, rate), units))
            assert lean.units[lean.step == step].tolist() == sorted(least.values())[:BATCHES_TRIED]
        assert lean.step.tolist() == sorted(lean.step.tolist(), reverse=True)


@pytest.mark.parametrize("part", [1.0, 0.1])
def test_lean_configurations_of_services_have_the_least_share_of_every_batch(part: float) -> None:
    """Only large batches of a decoding workload may serve its rate; the smallest ones do not represent them."""
    (instance,) = (each for each in suite("hold").build() if each.name == "llm-16gpu-hold")
    view = View.of(instance, instance.gpus[0].type)
    workload = np.arange(8)
    every = lean_configurations(view, workload, part * view.rate_rps[workload], batches=range(1, 200))

    lean = lean_configurations(view, workload, part * view.rate_rps[workload])

    for w in workload.tolist():
        assert lean.units[lean.item == w].min() == every.units[every.item == w].min()


def test_the_batch_of_a_start_plan_is_never_filtered_out() -> None:
    view = draw(4)
    workload, rate_rps = np.zeros(1, dtype=np.int64), view.rate_rps[:1]
    last = lean_configurations(view, workload, rate_rps, batches=99).batch[-1:]

    lean = lean_configurations(view, workload, rate_rps, last, batches=1)

    assert last[0] in lean.batch
    assert lean.size == 2


def test_given_batches_are_the_only_ones_beside_the_start_plans() -> None:
    view = draw(4)
    workload, rate_rps = np.zeros(1, dtype=np.int64), view.rate_rps[:1]
    every = lean_configurations(view, workload, rate_rps, batches=range(1, 200))
    largest = every.batch.max(keepdims=True)

    given = lean_configurations(view, workload, rate_rps, largest, batches=[1, 2])

    assert set(every.batch.tolist()) == set(range(1, int(largest[0]) + 1))
    assert largest[0] > 2
    assert set(given.batch.tolist()) == {1, 2, int(largest[0])}


def test_joined_configurations_hold_those_of_each_item() -> None:
    lists = all_choices(draw(4))
    joined = Configurations.joined(lists)

    for item, choices in enumerate(lists):
        rows = slice(*joined.first[item : item + 2])
        assert joined.batch[rows].tolist() == choices.batch.tolist()
        assert set(joined.item[rows].tolist()) == {item}
    assert joined.item_count == len(lists)


def broken(gpu: GpuType, **change: float) -> GpuType:
    return replace(gpu, name="broken", hardware=replace(gpu.hardware, **change))


def test_the_premise_that_fails_is_named() -> None:
    helpful = replace(TOY, name="helpful", models={"small": replace(TOY.models["small"], alpha_cache=-0.1)})

    assert why_not_exact(gpu_tables(TOY, "igniter")) == ""
    assert "least shares" in why_not_exact(gpu_tables(helpful, "igniter"))
    assert why_not_exact(gpu_tables(broken(TOY, alpha_sch=0.02, beta_sch=0.01), "igniter")) == ""
    assert "least shares" in why_not_exact(gpu_tables(broken(TOY, alpha_sch=0.01, beta_sch=-0.05), "igniter"))
