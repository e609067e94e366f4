"""MediatorDNN and its baselines: scores worked out by hand, the paper's example, and constraints of every plan."""

from dataclasses import replace
from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run, Scheduler, Status
from bench.judging.judge import judge
from heuristics.mediator.closest import fill_closest
from heuristics.mediator.grouping import fill_groups
from heuristics.mediator.mediator import BinPacking, Fill, Horus, HorusRule, Mediator, con_score, ranked_by, ruv_score
from heuristics.mediator.utilisation import Utilisation
from instances import GpuPool, Instance, Job, Objective, Plan, SloRule, Workload
from instances.catalogue import gpu_type
from instances.generate import FAMILIES
from instances.suites import suite
from tests.frozen import frozen
from tests.heuristics.mediator_jobs import jobs

V100 = gpu_type("v100")
FAMILY = FAMILIES["heavy-mix"].demands
AS_PRINTED = [Mediator(), Horus(), BinPacking()]
SCHEDULERS = [*AS_PRINTED, Horus(rule=HorusRule.COST), BinPacking(fill=Fill.BUSIEST)]
LITTLE_MEMORY = np.full(9, 0.01)  # memory so small that it never limits
THIRD = sqrt(3 / 2)  # with two others, each has this distance from their mean in deviations


def by_name(scheduler: Scheduler) -> str:
    return scheduler.name


def profile(mean: list[float], deviation: list[float], metrics: list[list[float]] | None = None) -> Utilisation:
    return Utilisation(np.array(mean), np.array(deviation), np.array(metrics or [[1.0]] * len(mean)))


def anything(_: list[int]) -> bool:
    return True


# --- Scores ---


def test_con_score_of_three_jobs_is_as_worked_out_by_hand() -> None:
    scores = con_score(np.array([[0.0], [3.0], [7.0]]))

    # Distances 3 and 7, 3 and 4, 7 and 4: mean 5, 3.5, 5.5; deviation over N = 3 sqrt(8/3), sqrt(1/6), sqrt(3/2)
    assert scores == pytest.approx(
        np.array(
            [[0, -2 / sqrt(8 / 3), 2 / sqrt(8 / 3)], [-0.5 * sqrt(6), 0, 0.5 * sqrt(6)], [1.5 / THIRD, -1.5 / THIRD, 0]]
        )
    )
    assert np.abs(scores[~np.eye(3, dtype=bool)]) == pytest.approx(THIRD)


def test_metrics_are_standardised_on_request_only() -> None:
    metrics = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1e6], [0.5, 2e5]])
    standardised, constant = con_score(metrics, standardise=True), np.full(4, 7.0)

    assert con_score(metrics * [1.0, 1e-3], standardise=True) == pytest.approx(standardised)
    assert con_score(np.column_stack([metrics, constant]), standardise=True) == pytest.approx(standardised)
    assert con_score(metrics * [1.0, 1e-6]) != pytest.approx(con_score(metrics))


@pytest.mark.parametrize("scheduler", [Mediator, Horus])
def test_groups_depend_on_raw_metrics_by_default(scheduler: type[Mediator] | type[Horus]) -> None:
    """The second metric has the largest values: raw, it decides alone; standardised, both have equal weight."""
    jobs = profile([0.5, 0.4, 0.4, 0.4], [0.0] * 4, [[3.0, 700.0], [8.0, 700.0], [5.0, 800.0], [0.0, 100.0]])

    assert scheduler().groups(jobs, anything) == [[0, 2], [1, 3]]
    assert scheduler(standardise=True).groups(jobs, anything) == [[0, 1], [2, 3]]


def test_ruv_score_of_three_jobs_is_as_worked_out_by_hand() -> None:
    deviation = np.array([0.2, 0.1, 0.4])

    assert ruv_score(deviation) == pytest.approx(np.array([[0, THIRD, -THIRD], [THIRD, 0, -THIRD], [THIRD, -THIRD, 0]]))
    # As printed the third job prefers the second, the farthest from it
    assert ruv_score(deviation, signed=True) == pytest.approx(
        np.array([[0, THIRD, -THIRD], [THIRD, 0, -THIRD], [-THIRD, THIRD, 0]])
    )


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_equal_jobs_have_scores_of_zero(count: int) -> None:
    assert not ruv_score(np.full(count, 0.3)).any()
    assert not con_score(np.full((count, 2), 0.3)).any()


def test_the_weight_of_con_score_decides_whether_contention_counts() -> None:
    """All jobs vary equally, so only ConScore distinguishes them; without it their order decides."""
    jobs = profile([0.5, 0.4, 0.4, 0.4], [0.0] * 4, [[0.0], [1.0], [9.0], [2.0]])

    assert Mediator().groups(jobs, anything) == [[0, 2], [1, 3]]
    assert Mediator(con_weight=0.0).groups(jobs, anything) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="con_weight is -1"):
        Mediator(con_weight=-1.0)


# --- Groups ---


def test_groups_of_figure_4_deviate_by_31_instead_of_40() -> None:
    """Of four jobs with mean 30, two deviate by 20 and two by 2: pairs of equals deviate by 31, others by 40."""
    jobs = profile([30.0, 30.0, 30.0, 30.0], [20.0, 2.0, 20.0, 2.0])

    def total_deviation(groups: list[list[int]]) -> float:
        return sum(sqrt(sum(jobs.deviation[i] ** 2 for i in group)) for group in groups)

    groups = Mediator().groups(jobs._replace(mean=jobs.mean / 100, deviation=jobs.deviation / 100), anything)

    assert groups == [[0, 2], [1, 3]]
    assert round(total_deviation(groups)) == 31
    assert round(total_deviation(Horus().groups(jobs._replace(mean=jobs.mean / 70), anything))) == 40
    assert round(total_deviation(BinPacking().groups(jobs._replace(mean=jobs.mean / 70), anything))) == 40


def test_mediator_limits_the_portfolio_and_others_the_means() -> None:
    jobs = profile([0.5, 0.45], [0.3, 0.2])  # 0.95 + sqrt(0.13) is more than one GPU

    assert Mediator().groups(jobs, anything) == [[0], [1]]
    assert Horus().groups(jobs, anything) == BinPacking().groups(jobs, anything) == [[0, 1]]


def test_bin_packing_adds_the_busiest_that_fits() -> None:
    assert BinPacking().groups(profile([0.5, 0.6, 0.3, 0.2, 0.1], [0.0] * 5), anything) == [[1, 2, 4], [0, 3]]


def test_bin_packing_of_jobs_comes_closest_to_the_capacity() -> None:
    """The busiest of 55, 35, 30 and 15 % that fit are 55 and 35 %; 55, 30 and 15 % come closer to the capacity."""
    assert BinPacking().groups_of_jobs(profile([0.5, 0.6, 0.3, 0.2, 0.1], [0.0] * 5), LITTLE_MEMORY, anything) == [
        [1, 2, 4],
        [0, 3],
    ]
    unlike = profile([0.55, 0.35, 0.3, 0.15], [0.0] * 4)
    assert BinPacking().groups_of_jobs(unlike, LITTLE_MEMORY, anything) == [[0, 2, 3], [1]]
    assert BinPacking(fill=Fill.BUSIEST).groups_of_jobs(unlike, LITTLE_MEMORY, anything) == [[0, 1], [2, 3]]


@given(st.lists(st.integers(1, 120), min_size=1, max_size=9), st.integers(1, 5))
def test_bin_packing_of_jobs_agrees_with_enumeration(percent: list[int], most: int) -> None:
    """The first group has the largest sum within the capacity of all subsets of at most ``most`` jobs."""
    mean = np.array(percent) / 100.0

    def fits(group: list[int]) -> bool:
        return len(group) <= most

    groups = fill_closest(mean, fits)

    assert sorted(i for group in groups for i in group) == list(range(len(percent)))
    left = list(range(len(percent)))
    for group in groups:
        sums = [
            sum(percent[i] for i in subset)
            for size in range(1, most + 1)
            for subset in combinations(left, size)
            if sum(percent[i] for i in subset) <= 100
        ]
        assert sum(percent[i] for i in group) == (max(sums) if sums else max(percent[i] for i in left))
        assert len(group) <= most
        left = [i for i in left if i not in group]


def test_jobs_slightly_beyond_the_capacity_are_separate() -> None:
    """Two jobs of 50.002 % each: utilisations are rounded up to steps of 0.01 %, not down."""
    assert fill_closest(np.array([0.50002, 0.50002]), anything) == [[0], [1]]
    assert fill_closest(np.array([0.5, 0.5]), anything) == [[0, 1]]


def test_bin_packing_of_jobs_limits_its_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tries, each job has a separate GPU; with a few, groups are small. No job is lost."""
    sizes = {}
    for tries in (0, 4):
        monkeypatch.setattr("heuristics.mediator.closest.TRIES", tries)
        groups = fill_closest(np.full(30, 0.03), anything)
        assert sorted(i for group in groups for i in group) == list(range(30))
        sizes[tries] = {len(group) for group in groups}
    assert sizes[0] == {1}
    assert max(sizes[4]) == 5


def test_horus_groups_the_least_similar_jobs() -> None:
    jobs = profile([0.5, 0.4, 0.4, 0.4], [0.0] * 4, [[0.0], [1.0], [9.0], [2.0]])

    assert Horus().groups(jobs, anything) == [[0, 2], [1, 3]]


def test_horus_by_cost_is_as_worked_out_by_hand() -> None:
    """Means add up to 1.7, so there are two GPUs.

    The job of 80 % opens the first, that of 60 % the second: a second job on a GPU costs 1. The job of 30 % costs 1.3 *
    0.3 + 1.6 * 0.1 + 1 = 1.55 on the first GPU and 1.3 * 0.5 + 0.1 + 1 = 1.75 on the second, which has more memory in
    use. With little memory everywhere, the second is cheaper, as the job does not overload it.
    """
    jobs = profile([0.6, 0.3, 0.8], [0.0] * 3)
    by_cost = Horus(rule=HorusRule.COST)

    assert by_cost.groups_of_jobs(jobs, np.array([0.4, 0.1, 0.2]), anything) == [[2, 1], [0]]
    assert by_cost.groups_of_jobs(jobs, np.array([0.1, 0.1, 0.1]), anything) == [[2], [0, 1]]
    # A job that fits on no GPU opens one
    assert by_cost.groups_of_jobs(jobs, np.ones(3), lambda group: len(group) <= 1) == [[2], [0], [1]]
    assert by_cost.groups_of_jobs(profile([], []), np.zeros(0), anything) == []
    assert by_cost.groups(jobs, anything) == Horus().groups(jobs, anything)


def test_total_scores_are_recomputed_and_ties_keep_the_order() -> None:
    score = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 5.0], [1.0, 5.0, 0.0]])

    assert ranked_by(score, [0], [2, 1]) == [1, 2]
    assert ranked_by(score, [0, 2], [1]) == [1]


@given(st.integers(0, 9), st.data())
def test_every_item_is_in_exactly_one_group_that_fits(count: int, data: st.DataObject) -> None:
    sizes = [data.draw(st.floats(0.05, 1.0)) for _ in range(count)]

    def fits(group: list[int]) -> bool:
        return sum(sizes[i] for i in group) <= 1.0

    groups = fill_groups(range(count), lambda group, left: list(left), fits)

    assert sorted(i for group in groups for i in group) == list(range(count))
    assert all(len(group) == 1 or fits(group) for group in groups)
    # No member of a later group fits into an earlier one
    for position, group in enumerate(groups):
        assert not any(fits([*group, i]) for later in groups[position + 1 :] for i in later)


# --- As schedulers ---


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
def test_jobs_are_grouped_and_none_is_lost(scheduler: Scheduler) -> None:
    problem = Instance("c", Objective.COLOCATION, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), (), jobs=jobs(12))

    outcome = scheduler.schedule(problem, Run())

    assert outcome.status is Status.FEASIBLE
    assert outcome.plan is not None
    assert sorted(slot.workload for _, _, slot in outcome.plan.slots()) == sorted(job.id for job in problem.jobs)
    assert 1 < len(outcome.plan.gpus) < 12
    assert {gpulet.share_units for _, gpulet, _ in outcome.plan.slots()} == {40}
    verdict = judge(outcome.plan, problem)
    assert verdict.violations == ()
    assert verdict.value == pytest.approx(sum(job.rate_rps for job in problem.jobs), rel=0.2)
    one_gpu = replace(problem, gpus=(GpuPool(V100, 1),))
    assert scheduler.schedule(one_gpu, Run()).status is Status.UNKNOWN


def test_a_job_without_gaps_is_placed_at_the_gpus_capacity() -> None:
    (job,) = jobs(1)
    endless = replace(job, interarrival_ms=(0.0,), interarrival_weights=(1.0,))
    problem = Instance("c", Objective.COLOCATION, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), (), jobs=(endless,))
    plan = Mediator().schedule(problem, Run()).plan
    assert plan is not None
    assert judge(plan, problem).feasible


def test_mediator_uses_more_gpus_and_is_faster_on_forty_jobs() -> None:
    """Room for variation means more GPUs, less time over capacity and faster batches (MediatorDNN, IV-C)."""
    for problem in (frozen("mediator-40-s0"), frozen("mediator-40-s1")):
        verdicts = {}
        for scheduler in AS_PRINTED:
            plan = scheduler.schedule(problem, Run()).plan
            assert plan is not None
            verdicts[scheduler.name] = judge(plan, problem)
            assert verdicts[scheduler.name].violations == ()
        mediator = verdicts.pop("mediator")
        for other in verdicts.values():
            slowdowns = [
                of_other.t_inf_ms / of_mediator.t_inf_ms
                for of_mediator in mediator.slots
                for of_other in other.slots
                if of_mediator.workload == of_other.workload
            ]
            assert len(slowdowns) == 40
            assert np.mean(slowdowns) > 1.1
            assert mediator.gpus_used > other.gpus_used
            assert mediator.over_capacity_pct is not None
            assert other.over_capacity_pct is not None
            assert mediator.over_capacity_pct < 0.5 * other.over_capacity_pct
            assert mediator.throughput_rps > other.throughput_rps


@st.composite
def instances_of_jobs(draw: st.DrawFn) -> Instance:
    drawn = []
    for n in range(draw(st.integers(1, 9))):
        sizes = tuple(draw(st.lists(st.integers(1, 100), min_size=1, max_size=3)))
        gaps = tuple(draw(st.lists(st.floats(20.0, 1000.0), min_size=1, max_size=3)))
        weights = (1.0,) * len(sizes), (1.0,) * len(gaps)
        drawn.append(Job(f"j{n}", draw(st.sampled_from(sorted(V100.models))), sizes, weights[0], gaps, weights[1]))
    pool = GpuPool(replace(V100, memory_mib=draw(st.sampled_from([4000.0, 16000.0]))))
    seed = draw(st.integers(0, 3))
    rule = SloRule.HALF_SLO
    return Instance("crowd", Objective.COLOCATION, rule, "igniter", (pool,), (), jobs=tuple(drawn), seed=seed)


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
@given(instances_of_jobs())
@settings(max_examples=12)
def test_no_job_is_lost_and_memory_suffices(scheduler: Scheduler, problem: Instance) -> None:
    outcome = scheduler.schedule(problem, Run())

    assert outcome.plan is not None
    assert judge(outcome.plan, problem).violations == ()


def test_the_twelve_workloads_need_six_gpus() -> None:
    (problem,) = suite("igniter-12").build()
    for scheduler in SCHEDULERS:
        plan = scheduler.schedule(problem, Run()).plan
        assert plan is not None
        verdict = judge(plan, problem)
        assert (verdict.gpus_used, verdict.violations) == (6, ())


@st.composite
def mixes(draw: st.DrawFn) -> Instance:
    objective = draw(st.sampled_from([Objective.COST, Objective.CAPACITY, Objective.GOODPUT]))
    workloads = []
    for n in range(draw(st.integers(1, 7))):
        model = draw(st.sampled_from(sorted(FAMILY)))
        slo, rate = FAMILY[model]
        slo_ms = float(draw(st.integers(slo.low, slo.high)))
        workloads.append(Workload(f"w{n}", model, slo_ms, draw(st.floats(1.0, 1.5 * rate.high))))
    pool = GpuPool(replace(V100, memory_mib=4000.0), None if objective is Objective.COST else draw(st.integers(1, 6)))
    return Instance("mix", objective, SloRule.HALF_SLO, "igniter", (pool,), tuple(workloads))


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
@given(mixes())
@settings(max_examples=40)
def test_every_plan_is_feasible(scheduler: Scheduler, problem: Instance) -> None:
    outcome = scheduler.schedule(problem, Run())

    if outcome.plan is None:
        assert outcome.reason
        return
    assert judge(outcome.plan, problem).violations == ()
    assert scheduler.schedule(problem, Run(seed=1)) == outcome


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
def test_schedulers_fulfil_the_contract(scheduler: Scheduler) -> None:
    assert isinstance(scheduler, Scheduler)
    for objective in scheduler.objectives:
        assert scheduler.warm(objective) is None  # type: ignore[attr-defined]
    empty = Instance("empty", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), ())
    assert scheduler.schedule(empty, Run()).plan == Plan("empty", ())
