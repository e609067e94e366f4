"""gpulet's schedulers: duty cycles by brute force, the authors' verdicts, each step by hand, what plans keep to."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.api import Bound, Run, Scheduler, Status
from bench.judge import judge
from heuristics.elastic_partitioning import (
    ElasticPartitioning,
    Variant,
    find_best_fit,
    max_efficient_partition,
    min_required_partition,
    temporal_merge,
)
from heuristics.gpu_scaling import GpuScaling, least_gpus
from heuristics.gpulet_moves import give, put, split
from heuristics.gpulet_pools import SCALE_STEP, terms_of
from heuristics.gpulets import ALONE, Gpulets, Terms, capacity_rps, duty_cycle_ms, inference_ms, settle
from heuristics.greedy_best_fit import GreedyBestFit
from heuristics.guided_self_tuning import GuidedSelfTuning
from heuristics.ideal import Ideal, layouts
from heuristics.sbp import SquishyBinPacking, _Node, merge, residual
from instances import GpuPool, InputError, Instance, Objective, Plan, PlanClass, SloRule, Workload
from instances.catalogue import gpu_type
from instances.generate import FAMILIES, generate
from instances.view import View
from tests.heuristics import glet

V100 = gpu_type("v100")
FAMILY = FAMILIES["igniter-mix"].demands
AWARE = [
    ElasticPartitioning(Variant.ATC22),
    ElasticPartitioning(Variant.ARXIV),
    GreedyBestFit(interference=True),
    SquishyBinPacking(),
    Ideal(tries=200),
    GpuScaling(),
]
BLIND = [
    ElasticPartitioning(Variant.ATC22, interference=False),
    ElasticPartitioning(Variant.ARXIV, interference=False),
    GreedyBestFit(),
    GuidedSelfTuning(),
    Ideal(interference=False, tries=200),
]


def by_name(scheduler: Scheduler) -> str:
    return f"{scheduler.name}-{getattr(scheduler, 'variant', '')}"


def view_of(problem: Instance) -> tuple[View, Terms]:
    view = View.of(problem, problem.gpus[0].type)
    return view, terms_of(view, interference=True)


def found(scheduler: Scheduler, problem: Instance) -> Plan:
    outcome = scheduler.schedule(problem, Run())
    assert outcome.status is Status.FEASIBLE, outcome.reason
    assert outcome.plan is not None
    return outcome.plan


def served_rps(plan: Plan) -> dict[str, float]:
    served: dict[str, float] = {}
    for _, _, slot in plan.slots():
        served[slot.workload] = served.get(slot.workload, 0.0) + slot.rate_rps
    return served


# --- Duty cycles ---


@given(
    st.lists(
        st.tuples(st.sampled_from(range(4)), st.floats(5.0, 900.0)), min_size=1, max_size=3, unique_by=lambda t: t[0]
    ),
    st.sampled_from([2, 4, 5, 6, 8, 10]),
)
@settings(deadline=None, max_examples=60)
def test_duty_cycles_by_brute_force(slots: list[tuple[int, float]], units: int) -> None:
    view, terms = view_of(glet.serving([1.0] * 4, 1))
    workload, rates = np.array([w for w, _ in slots]), np.array([rate for _, rate in slots])
    batch = np.zeros(8, dtype=np.int64)

    cycle = duty_cycle_ms(view.tables, terms, workload, rates, len(slots), units, ALONE, batch)

    def fits(d: float, margin: float) -> bool:
        sizes = [max(1, math.ceil(rate * d / 1000.0 - 1e-9)) for rate in rates]
        times = [inference_ms(view.tables, terms, w, b, units, ALONE) for w, b in zip(workload, sizes, strict=True)]
        lasts = all(d + t <= terms.slo_ms[w] * margin for w, t in zip(workload, times, strict=True))
        return lasts and sum(times) <= d * margin

    on_a_grid = [d for d in np.linspace(0.5, 60.0, 1191) if fits(d, 1.0 - 1e-6)]
    if on_a_grid:
        assert cycle > 0.0
    if cycle > 0.0:
        times = [
            inference_ms(view.tables, terms, w, int(b), units, ALONE) for w, b in zip(workload, batch, strict=False)
        ]
        assert sum(times) <= cycle
        assert all(cycle + t <= terms.slo_ms[w] for w, t in zip(workload, times, strict=True))
        assert all(rate * cycle <= 1000.0 * b * (1 + 1e-9) for rate, b in zip(rates, batch, strict=False))


def test_capacity_is_the_largest_rate_with_a_cycle() -> None:
    view, terms = view_of(glet.serving([1.0] * 4, 1))
    batch = np.zeros(8, dtype=np.int64)
    for w in range(4):
        for units in view.tables.permitted.tolist():
            most = capacity_rps(view.tables, terms, w, units, ALONE)
            for part, possible in [(1.0, True), (0.4, True), (1.001, False)]:
                cycle = duty_cycle_ms(
                    view.tables, terms, np.array([w]), np.array([part * most]), 1, units, ALONE, batch
                )
                assert (cycle > 0.0) is possible
            assert terms.alone_rps[w, units] == most


# --- The authors' verdicts ---


@pytest.mark.parametrize("variant", list(Variant))
@pytest.mark.parametrize(("interference", "theirs"), [(True, "gpulet-int"), (False, "gpulet-noint")])
def test_as_many_scenarios_as_the_authors_code_and_ideal_no_fewer(
    variant: Variant, interference: bool, theirs: str
) -> None:
    """The authors' plans may serve 95 % of a rate; ours serve all of it, and the judge has nothing against them."""
    scheduler, ideal = ElasticPartitioning(variant, interference), Ideal(interference, tries=300)
    by_them, by_us, at_best = Counter[tuple[str, int]](), Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for scenario in glet.SCENARIOS:
        problem = scenario.instance(interference=interference)
        by_them[scenario.group] += theirs in scenario.schedulable
        at_best[scenario.group] += ideal.schedule(problem, Run()).plan is not None
        plan = scheduler.schedule(problem, Run()).plan
        if plan is not None:
            by_us[scenario.group] += 1
            assert judge(plan, problem).violations == ()
            assert served_rps(plan) == pytest.approx({w.id: w.rate_rps for w in problem.workloads})

    assert len(by_them) == 5
    for group, count in by_them.items():
        assert count <= by_us[group] <= at_best[group]


def test_squishy_bin_packing_finds_more_than_time_sharing_in_the_authors_code() -> None:
    for scenario in glet.SCENARIOS:
        problem = scenario.instance()
        plan = SquishyBinPacking().schedule(problem, Run()).plan
        if "timesharing_only" in scenario.schedulable:
            assert plan is not None
        if plan is not None:
            assert judge(plan, problem).violations == ()


# --- Each step by hand ---


def test_least_and_most_efficient_shares() -> None:
    view, terms = view_of(glet.serving([1.0] * 4, 1))
    for w in range(4):
        rate = {u: capacity_rps(view.tables, terms, w, u, ALONE) for u in view.tables.permitted.tolist()}
        assert list(rate.values()) == sorted(rate.values())
        for fewer, more in pairwise(rate):
            assert min_required_partition(view.tables, terms, w, rate[more]) == more
            assert min_required_partition(view.tables, terms, w, rate[fewer] * 1.0001) == more
        assert min_required_partition(view.tables, terms, w, 2.0 * rate[10]) == 10
        bends = {}
        for a, b, c in zip(rate, list(rate)[1:], list(rate)[2:], strict=False):
            points = [(u / 10, rate[u] / rate[10]) for u in (a, b, c)]
            area = abs(np.linalg.det([[x, y, 1.0] for x, y in points])) / 2
            sides = math.prod(
                math.dist(p, q) for p, q in [(points[0], points[1]), (points[1], points[2]), (points[0], points[2])]
            )
            bends[b] = 4 * area / sides
        assert max_efficient_partition(view, terms, w) == max(bends, key=lambda u: bends[u])


def test_the_best_fit_is_the_smallest_that_is_large_enough() -> None:
    view, _ = view_of(glet.serving([1.0] * 4, 4))
    gpulets = Gpulets.undivided(4, 10)
    split(view.tables, gpulets, 2, 4)
    split(view.tables, gpulets, 4, 2)
    split(view.tables, gpulets, 6, 5)
    nobody = np.zeros(8, dtype=np.bool_)
    assert gpulets.units.tolist() == [10, 0, 4, 6, 2, 8, 5, 5]

    assert [find_best_fit(gpulets, ideal, nobody) for ideal in (1, 2, 3, 5, 6, 7, 9)] == [4, 4, 2, 6, 3, 5, 0]
    put(gpulets, 6, 0, 1.0)
    assert find_best_fit(gpulets, 5, nobody) == 7
    assert find_best_fit(gpulets, 9, np.array([True] + [False] * 7)) == 5  # none is large enough: the largest
    assert find_best_fit(gpulets, 1, ~nobody) == -1


def test_a_newcomer_takes_turns_or_moves_everyone_to_the_larger_gpulet() -> None:
    view, terms = view_of(glet.serving([100.0, 100.0, 40.0, 20.0], 2))
    gpulets = Gpulets.undivided(2, 10)
    split(view.tables, gpulets, 0, 2)
    rest = np.array([100.0, 100.0, 0.0, 0.0])
    assert give(view.tables, terms, gpulets, 0, 0, 100.0, rest)
    assert temporal_merge(view.tables, terms, gpulets, 1, 1, rest)
    assert gpulets.slots.tolist() == [2, 0, 0, 0]
    assert rest.tolist() == [0.0, 0.0, 0.0, 0.0]

    rest[3] = 60.0  # too much for a fifth of the GPU beside the two others
    assert temporal_merge(view.tables, terms, gpulets, 1, 3, rest)
    assert gpulets.slots.tolist() == [0, 3, 0, 0]
    assert gpulets.rate_rps[1, :3].tolist() == [100.0, 100.0, 60.0]

    rest[2] = 5000.0
    assert not temporal_merge(view.tables, terms, gpulets, -1, 2, rest)
    assert rest[2] == 5000.0
    assert gpulets.slots.tolist() == [0, 3, 0, 0]


def test_what_a_newcomer_costs_its_neighbour_is_served_elsewhere() -> None:
    view, terms = view_of(glet.serving([1.0, 1.0, 1.0, 400.0], 1))
    gpulets = Gpulets.undivided(1, 10)
    split(view.tables, gpulets, 0, 5)
    rest = np.array([0.0, 0.0, 0.0, 400.0])
    most = capacity_rps(view.tables, terms, 3, 5, ALONE)

    assert give(view.tables, terms, gpulets, 0, 3, most, rest)
    assert give(view.tables, terms, gpulets, 1, 3, 0.8 * most, rest)

    assert gpulets.rate_rps[0, 0] < most
    assert gpulets.rate_rps[:, 0].sum() + rest[3] == pytest.approx(400.0)
    assert settle(view.tables, terms, gpulets, 0)


def test_nexus_own_example() -> None:
    """Shen et al., SOSP 2019: rests of 64, 32 and 32 requests/s; A and B share a GPU, C does not fit.

    There B takes 50 ms, which fills the cycle to the last; rounding needs a hair less.
    """
    latency_ms = {"A": {4: 50, 8: 75, 16: 100}, "B": {4: 49.99, 8: 90, 16: 125}, "C": {4: 60, 8: 95, 16: 125}}
    times = []
    for batches in latency_ms.values():
        column = np.full(17, np.inf)
        column[list(batches)] = list(batches.values())
        times.append(column)
    nodes = [residual(times[w], w, slo, rate) for w, (slo, rate) in enumerate([(200, 64), (250, 32), (250, 32)])]
    a, b, c = (node for node in nodes if node is not None)
    view, _ = view_of(glet.serving([1.0] * 3 + [0.0], 1))

    assert [(node.sessions[0][1], round(node.cycle_ms)) for node in (a, b, c)] == [(8, 125), (4, 125), (4, 125)]
    together = merge(view, times, a, b)
    assert together == _Node(a.cycle_ms, [(0, 8, 64), (1, 4, 32)])
    assert merge(view, times, a, c) is None


def test_squishy_bin_packing_takes_halves_for_gpus() -> None:
    rates, few = [200.0, 100.0, 60.0, 40.0], 3
    whole = found(SquishyBinPacking(), glet.serving(rates, few))
    halved = found(SquishyBinPacking(halves=True), glet.serving(rates, few))
    assert {gpulet.share_units for gpu in whole.gpus for gpulet in gpu.gpulets} == {10}
    assert {gpulet.share_units for gpu in halved.gpus for gpulet in gpu.gpulets} == {5}
    assert max(len(gpu.gpulets) for gpu in halved.gpus) == 2
    assert {slot.workload for _, _, slot in halved.slots()} == {slot.workload for _, _, slot in whole.slots()}
    assert sum(slot.rate_rps for _, _, slot in halved.slots()) == pytest.approx(sum(rates))


def test_the_last_share_of_squishy_bin_packing_is_never_cut() -> None:
    plan = found(SquishyBinPacking(), glet.serving([900.0, 700.0, 300.0, 350.0], 8))

    assert {gpulet.share_units for gpu in plan.gpus for gpulet in gpu.gpulets} == {10}
    assert plan.plan_class is PlanClass.SPATIO_TEMPORAL


def test_spatial_baselines_never_take_turns() -> None:
    problem = glet.serving([200.0, 100.0, 80.0, 60.0], 4)
    greedy, tuned = found(GreedyBestFit(), problem), found(GuidedSelfTuning(), problem)

    for plan in (greedy, tuned):
        assert all(
            len(gpulet.slots) == 1 and gpulet.duty_cycle_ms is None for gpu in plan.gpus for gpulet in gpu.gpulets
        )
    assert sum(gpu.share_units for gpu in greedy.gpus) <= sum(gpu.share_units for gpu in tuned.gpus)


def test_all_layouts_of_two_gpus() -> None:
    view, _ = view_of(glet.serving([1.0] * 4, 2))

    seen = [tuple(gpulets.units.tolist()) for gpulets in layouts(view, 2)]

    assert len(seen) == len(set(seen)) == 10
    assert (2, 8, 5, 5) in seen


# --- Pools and objectives ---


def test_scaling_adds_gpus_until_it_fits() -> None:
    problem = replace(glet.serving([600.0, 400.0, 200.0, 250.0], None))
    view, _ = view_of(problem)
    plan = found(GpuScaling(), problem)

    assert judge(plan, problem).feasible
    assert least_gpus(view) <= plan.gpus_used <= found(ElasticPartitioning(), problem).gpus_used
    for gpus in range(1, plan.gpus_used):
        assert ElasticPartitioning().cut(view, gpus) is None
    again = GpuScaling().schedule(problem, Run(start=plan)).plan
    assert again == plan


@pytest.mark.parametrize("of", ["elastic-partitioning", "sbp", "greedy-best-fit", "guided-self-tuning", "ideal"])
def test_scaling_wraps_every_rule(of: str) -> None:
    assert served_rps(found(GpuScaling(of), glet.serving([100.0, 100.0, 50.0, 30.0], None))).keys() == set(glet.MODELS)


def test_scaling_of_an_unknown_rule() -> None:
    with pytest.raises(InputError, match='unknown rule "spb"; did you mean "sbp"'):
        GpuScaling("spb")


@pytest.mark.parametrize("scheduler", [ElasticPartitioning(), SquishyBinPacking(), GreedyBestFit()], ids=by_name)
def test_the_largest_scale_before_the_first_failure(scheduler: Scheduler) -> None:
    problem = glet.serving([400.0, 300.0, 150.0, 120.0], 2, Objective.SCALE)

    plan = found(scheduler, problem)
    scale = judge(plan, problem).value

    assert scale is not None
    steps = round(scale / SCALE_STEP)
    assert scale == pytest.approx(steps * SCALE_STEP)
    for step, possible in [(steps - 1, True), (steps, True), (steps + 1, False)]:
        once = replace(problem.scaled(step * SCALE_STEP), objective=Objective.COST)
        assert (scheduler.schedule(once, Run()).plan is not None) is possible


def test_without_a_limit_there_is_no_largest_scale() -> None:
    outcome = ElasticPartitioning().schedule(glet.serving([1.0] * 4, None, Objective.SCALE), Run())
    assert (outcome.status, outcome.plan) == (Status.UNKNOWN, None)
    assert outcome.reason == "scale has no limit: the pool has as many glet-v100 as needed"


def test_scales_are_reported_as_they_grow() -> None:
    problem = glet.serving([400.0, 300.0, 150.0, 120.0], 1, Objective.SCALE)
    values: list[float] = []

    def listener(plan: Plan | None, bound: Bound | None) -> None:
        assert plan is not None
        values.append(judge(plan, problem).value or 0.0)

    outcome = ElasticPartitioning().schedule(problem, Run(listener=listener))

    assert outcome.plan is not None
    assert values == pytest.approx([SCALE_STEP * n for n in range(1, len(values) + 1)])
    assert judge(outcome.plan, problem).value == values[-1]


@pytest.mark.parametrize("scheduler", [*AWARE, *BLIND], ids=by_name)
def test_what_cannot_be_served_is_said(scheduler: Scheduler) -> None:
    hopeless = Instance(
        "mix", Objective.COST, SloRule.DUTY_CYCLE, "igniter", (GpuPool(V100),), (Workload("w0", "ssd", 5.0, 1.0),)
    )
    for problem in (hopeless, glet.serving([900.0, 900.0, 900.0, 900.0], 1)):
        outcome = scheduler.schedule(problem, Run())
        assert (outcome.status, outcome.plan) == (Status.UNKNOWN, None)
        assert outcome.reason.startswith("not everything fits on ")


def test_the_cheapest_type_is_taken() -> None:
    cheap = replace(V100, name="cheap", price_per_hour=1.0)
    problem = replace(generate("igniter-mix", 4, 0), slo_rule=SloRule.DUTY_CYCLE)

    plan = found(ElasticPartitioning(), replace(problem, gpus=(GpuPool(V100), GpuPool(cheap))))

    assert {gpu.type for gpu in plan.gpus} == {"cheap"}


# --- What every plan keeps to ---


@st.composite
def mixes(draw: st.DrawFn) -> Instance:
    if draw(st.booleans()):
        rates = [draw(st.one_of(st.just(0.0), st.floats(1.0, 1500.0))) for _ in range(4)]
        assume(any(rates))
        return glet.serving(rates, draw(st.one_of(st.none(), st.integers(1, 6))))
    workloads = []
    for n in range(draw(st.integers(1, 6))):
        model = draw(st.sampled_from(sorted(FAMILY)))
        slo, rate = FAMILY[model]
        workloads.append(
            Workload(f"w{n}", model, float(draw(st.integers(slo.low, slo.high))), draw(st.floats(1.0, 2.0 * rate.high)))
        )
    rule = draw(st.sampled_from([SloRule.DUTY_CYCLE, SloRule.HALF_SLO, SloRule.ASSEMBLY]))
    memory = draw(st.sampled_from([V100.memory_mib, 3000.0]))
    pool = GpuPool(replace(V100, memory_mib=memory), draw(st.one_of(st.none(), st.integers(1, 6))))
    return Instance("mix", Objective.COST, rule, "igniter", (pool,), tuple(workloads))


def check_physics(plan: Plan, problem: Instance) -> None:
    (pool,) = problem.gpus
    gpu_type, model = pool.type, {w.id: w.model for w in problem.workloads}
    assert pool.count is None or plan.gpus_used <= pool.count
    assert served_rps(plan) == pytest.approx({w.id: w.rate_rps for w in problem.workloads})
    for gpu in plan.gpus:
        assert 1 <= len(gpu.gpulets) <= 2
        assert gpu.share_units <= gpu_type.share_units
        assert all(gpulet.share_units in (gpu_type.allowed_shares or range(1, 41)) for gpulet in gpu.gpulets)
        slots = [slot for gpulet in gpu.gpulets for slot in gpulet.slots]
        assert sum(gpu_type.models[model[s.workload]].memory_mib(s.batch) for s in slots) <= gpu_type.memory_mib


@pytest.mark.parametrize("scheduler", AWARE, ids=by_name)
@given(mixes())
@settings(deadline=None, max_examples=40)
def test_who_looks_at_neighbours_breaks_no_promise(scheduler: Scheduler, problem: Instance) -> None:
    plan = scheduler.schedule(problem, Run()).plan
    if plan is not None:
        check_physics(plan, problem)
        assert judge(plan, problem).violations == ()


@pytest.mark.parametrize("scheduler", BLIND, ids=by_name)
@given(mixes())
@settings(deadline=None, max_examples=40)
def test_who_does_not_breaks_promises_of_time_only(scheduler: Scheduler, problem: Instance) -> None:
    plan = scheduler.schedule(problem, Run()).plan
    if plan is not None:
        check_physics(plan, problem)
        assert {v.kind for v in judge(plan, problem).violations} <= {"latency", "duty-cycle"}


@pytest.mark.parametrize("scheduler", [*AWARE, *BLIND], ids=by_name)
def test_the_contract(scheduler: Scheduler) -> None:
    assert isinstance(scheduler, Scheduler)
    assert scheduler.warm() is None  # type: ignore[attr-defined]
    assert found(scheduler, glet.serving([0.0] * 4, 2)).gpus == ()
