"""iGniter and its first-fit baselines: against the published plans and Alg. 1 in plain Python."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from random import Random

import numpy as np
import pytest

from bench.api import Outcome, Run, Scheduler, Status
from bench.judging.judge import judge
from heuristics.igniter.igniter import FfdPlus, FfdPlusPlus, IGniter
from heuristics.packing import appropriate_batch, lower_bound_share
from instances import GpuPool, GpuType, Instance, Objective
from instances.generate import FAMILIES
from instances.misspecification import slowed
from instances.suites import suite
from instances.view import View
from tests.heuristics.mixes import INTERFERENCE_AWARE, SCHEDULERS, V100, Demand, by_name, contents, instance, planned
from tests.instances import reference
from tests.instances.reference import Tenant

CASES = json.loads((Path(__file__).parents[1] / "fixtures" / "igniter_plans.json").read_text())["cases"]


# --- Known answers ---


def test_plans_equal_those_of_the_authors_code(subtests: pytest.Subtests) -> None:
    for number, case in enumerate(CASES):
        with subtests.test(number=number, workloads=len(case["workloads"])):
            plan = planned(IGniter(), instance(case["workloads"]))

            assert contents(plan) == [[(f"w{w}", units, batch) for w, units, batch in gpu] for gpu in case["gpus"]]


def test_there_are_44_plans_of_up_to_160_workloads() -> None:
    assert (len(CASES), max(len(case["workloads"]) for case in CASES)) == (44, 160)


def test_the_plan_of_table_1_takes_one_gpu() -> None:
    (problem,) = suite("igniter-3").build()

    plan = planned(IGniter(), problem)

    # One GPU: AlexNet 10 % x 4, ResNet-50 30 % x 8, VGG-19 37.5 % x 6
    (gpu,) = contents(plan)
    assert sorted(gpu) == [("W1", 4, 4), ("W2", 12, 8), ("W3", 15, 6)]
    assert judge(plan, problem).feasible


def test_igniter_serves_the_twelve_workloads_on_six_gpus() -> None:
    (problem,) = suite("igniter-12").build()

    plan = planned(IGniter(), problem)

    assert contents(plan) == [
        [("W12", 37, 8)],
        [("W8", 30, 6), ("W6", 6, 4)],
        [("W7", 24, 3), ("W4", 13, 4)],
        [("W10", 24, 2), ("W9", 15, 4)],
        [("W5", 18, 9), ("W1", 8, 6), ("W11", 6, 1)],
        [("W3", 5, 8), ("W2", 3, 3)],
    ]
    verdict = judge(plan, problem)
    assert verdict.feasible
    assert (verdict.gpus_used, verdict.value) == (6, pytest.approx(18.36))


def test_ffd_plus_uses_five_gpus_with_nine_violations() -> None:
    (problem,) = suite("igniter-12").build()

    plan = planned(FfdPlus(), problem)

    verdict = judge(plan, problem)
    assert contents(plan) == [
        [("W12", 37, 8), ("W2", 3, 3)],
        [("W8", 29, 6), ("W1", 8, 6)],
        [("W7", 24, 3), ("W9", 15, 4)],
        [("W10", 23, 2), ("W5", 17, 9)],
        [("W4", 12, 4), ("W6", 6, 4), ("W11", 6, 1), ("W3", 5, 8)],
    ]
    assert (verdict.gpus_used, verdict.value) == (5, pytest.approx(15.3))
    assert {v.kind for v in verdict.violations} == {"latency"}
    assert {v.workload for v in verdict.violations} == {f"W{n}" for n in range(1, 13)} - {"W1", "W3", "W6"}
    assert len(verdict.violations) == 9


def test_ffd_plus_plus_has_no_violations_on_six_gpus() -> None:
    (problem,) = suite("igniter-12").build()

    plan = planned(FfdPlusPlus(), problem)

    assert contents(plan) == [
        [("W12", 37, 8)],
        [("W8", 31, 6), ("W1", 8, 6)],
        [("W7", 24, 3), ("W4", 13, 4)],
        [("W10", 24, 2), ("W9", 15, 4)],
        [("W5", 19, 9), ("W6", 6, 4), ("W11", 7, 1), ("W3", 5, 8)],
        [("W2", 3, 3)],
    ]
    assert judge(plan, problem).feasible


@pytest.mark.parametrize(
    ("factor", "gpus", "split"),
    [
        (0.9, 14, {"W7", "W8", "W10", "W12"}),
        *((factor, 15, {"W5", "W7", "W8", "W10", "W12"}) for factor in (0.985, 1.0, 1.005)),
    ],
)
def test_w5_is_split_if_15_t4s_are_needed(factor: float, gpus: int, split: set[str]) -> None:
    (problem,) = suite("igniter-12-t4").build()

    plan = planned(IGniter(), slowed(problem, factor))

    parts = Counter(slot.workload for _, _, slot in plan.slots())
    assert (plan.gpus_used, {workload for workload, count in parts.items() if count > 1}) == (gpus, split)


# --- Equations 17 and 18 ---


@pytest.mark.parametrize(
    ("model", "slo_ms", "rate_rps", "batch"),
    [
        ("alexnet", 15.0, 500.0, 4),  # 3.75 requests arrive in 7.5 ms, fewer in the time that the upload leaves
        ("resnet50", 40.0, 400.0, 8),
        ("vgg19", 60.0, 200.0, 6),
        ("alexnet", 10.0, 1200.0, 6),
        ("ssd", 40.0, 50.0, 1),
        ("alexnet", 100.0, 5000.0, 32),  # the largest batch of the catalogue
        ("ssd", 30.0, 1e-6, 1),
    ],
)
def test_the_appropriate_batch_is_that_of_equation_17(model: str, slo_ms: float, rate_rps: float, batch: int) -> None:
    view = View.of(instance([(model, slo_ms, rate_rps)]), V100)
    hardware, figures = V100.hardware, V100.models[model]

    (chosen,) = appropriate_batch(view, np.array([0]), np.array([rate_rps]))

    # Equation 17 as printed, in bytes, ms and requests per ms
    per_ms, bandwidth = rate_rps / 1000, hardware.pcie_bytes_per_ms
    printed = ceil(slo_ms * per_ms * bandwidth / (2 * (bandwidth + per_ms * figures.input_bytes)))
    assert chosen == batch == min(max(printed, 1), 32)


def test_the_lower_bound_share_is_the_least_that_serves_alone() -> None:
    """Equation 18 is the inverse of equation 11; this test tries every share instead."""
    for model, slo_ms, rate_rps in [("alexnet", 15.0, 500.0), ("resnet50", 40.0, 400.0), ("vgg19", 60.0, 200.0)]:
        view, figures = View.of(instance([(model, slo_ms, rate_rps)]), V100), V100.models[model]
        batch = appropriate_batch(view, np.array([0]), np.array([rate_rps]))
        (units,) = lower_bound_share(view, np.array([0]), batch, np.array([rate_rps]))

        load_ms, feedback_ms = reference.transfers_ms(V100, figures, int(batch[0]))
        gpu_times_ms = [
            figures.scheduling_alone_ms + reference.active_ms(figures, int(batch[0]), V100.share_pct(u))
            for u in range(1, 41)
        ]
        serves = [
            load_ms + t + feedback_ms <= slo_ms / 2 and 1000 * batch[0] / (t + feedback_ms) >= rate_rps
            for t in gpu_times_ms
        ]
        assert units == serves.index(True) + 1


# --- Algorithm 1 and first fit in plain Python ---


def tenants_of(problem: Instance, gpu: GpuType) -> list[tuple[Tenant, int]]:
    """Return every workload with its batch and budget, and its least share alone."""
    tenants = []
    for workload in problem.workloads:
        model = gpu.models[workload.model]
        per_ms, bandwidth = workload.rate_rps / 1000, gpu.hardware.pcie_bytes_per_ms
        batch = ceil(workload.slo_ms * per_ms * bandwidth / (2 * (bandwidth + per_ms * model.input_bytes)))
        load_ms, feedback_ms = reference.transfers_ms(gpu, model, batch)
        budget_ms = min(workload.slo_ms / 2 - load_ms - feedback_ms, batch / per_ms - feedback_ms)
        tenant = Tenant(model, batch, budget_ms)
        alone = reference.least_fixed_point(cool(gpu), [tenant])
        assert alone is not None
        tenants.append((tenant, alone[0]))
    return tenants


def cool(gpu: GpuType) -> GpuType:
    """Return a GPU that never throttles, as equation 18 ignores a workload's own power."""
    return replace(gpu, hardware=replace(gpu.hardware, max_power_w=1e9))


def plain_igniter(problem: Instance, gpu: GpuType) -> list[list[tuple[str, int, int]]]:
    """Return the plan of algorithm 1, with the shares of every GPU computed from scratch in each step."""
    tenants = tenants_of(problem, gpu)
    order = sorted(range(len(tenants)), key=lambda w: -tenants[w][1])
    gpus: list[tuple[list[int], list[int]]] = []
    for w in order:
        options = []
        for residents, units in gpus:
            members = [tenants[i][0] for i in [*residents, w]]
            new_units = reference.least_fixed_point(gpu, members) if fits_memory(gpu, members) else None
            options.append(None if new_units is None else sum(new_units) - sum(units))
        growths = [growth for growth in options if growth is not None]
        if growths:
            target = options.index(min(growths))
            residents, units = gpus[target]
            residents.append(w)
            units[:] = reference.least_fixed_point(gpu, [tenants[i][0] for i in residents]) or []
        else:
            gpus.append(([w], [tenants[w][1]]))
    return rows(gpus, tenants)


def plain_first_fit(problem: Instance, gpu: GpuType, aware: bool) -> list[list[tuple[str, int, int]]]:
    tenants = tenants_of(problem, gpu)
    order = sorted(range(len(tenants)), key=lambda w: -tenants[w][1])
    gpus: list[tuple[list[int], list[int]]] = []
    for w in order:
        for residents, units in gpus:
            members = [tenants[i][0] for i in [*residents, w]]
            new_units = reference.least_fixed_point(gpu, members) if aware else [*units, tenants[w][1]]
            if new_units is not None and sum(new_units) <= gpu.share_units and fits_memory(gpu, members):
                residents.append(w)
                units[:] = new_units
                break
        else:
            gpus.append(([w], [tenants[w][1]]))
    return rows(gpus, tenants)


def fits_memory(gpu: GpuType, tenants: Sequence[Tenant]) -> bool:
    return sum(t.model.memory_mib(t.batch) for t in tenants) <= gpu.memory_mib


def rows(
    gpus: Sequence[tuple[list[int], list[int]]], tenants: Sequence[tuple[Tenant, int]]
) -> list[list[tuple[str, int, int]]]:
    return [
        [(f"w{w}", u, tenants[w][0].batch) for w, u in zip(residents, units, strict=True)] for residents, units in gpus
    ]


def draw(random: Random, size: int) -> list[Demand]:
    demands = FAMILIES["igniter-mix"].demands
    drawn = []
    for _ in range(size):
        model = random.choice(sorted(demands))
        slo_ms, rate_rps = demands[model]
        drawn.append((model, float(slo_ms.draw(random)), float(rate_rps.draw(random))))
    return drawn


@pytest.mark.parametrize("memory_mib", [V100.memory_mib, 2500.0], ids=["16 GB", "2.5 GB"])
def test_kernels_agree_with_plain_python(memory_mib: float) -> None:
    gpu, random = replace(V100, memory_mib=memory_mib), Random(20)
    for _ in range(12):
        problem = instance(draw(random, 10), pools=(GpuPool(gpu),))

        assert contents(planned(IGniter(), problem)) == plain_igniter(problem, gpu)
        assert contents(planned(FfdPlus(), problem)) == plain_first_fit(problem, gpu, aware=False)
        assert contents(planned(FfdPlusPlus(), problem)) == plain_first_fit(problem, gpu, aware=True)


# --- Workloads too large, too fast, too many ---


@pytest.mark.parametrize("scheduler", INTERFERENCE_AWARE, ids=by_name)
def test_an_oversized_workload_is_split_into_equal_parts(scheduler: Scheduler) -> None:
    problem = instance([("ssd", 50.0, 900.0), ("alexnet", 15.0, 500.0)])  # one V100 serves about 280 of the 900

    plan = planned(scheduler, problem)

    parts = [slot.rate_rps for _, _, slot in plan.slots() if slot.workload == "w0"]
    assert parts == [225.0] * 4
    assert judge(plan, problem).feasible


def test_fewer_parts_would_not_suffice() -> None:
    for rate_rps, parts in [(900.0, 4), (600.0, 3), (300.0, 2), (250.0, 1)]:
        plan = planned(IGniter(), instance([("ssd", 50.0, rate_rps)]))
        view = View.of(instance([("ssd", 50.0, rate_rps)]), V100)

        assert sum(1 for _ in plan.slots()) == parts
        for fewer in range(1, parts):
            rate = np.array([rate_rps / fewer])
            batch = appropriate_batch(view, np.array([0]), rate)
            assert lower_bound_share(view, np.array([0]), batch, rate)[0] > 40


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
def test_an_unservable_workload_is_named(scheduler: Scheduler) -> None:
    outcome = scheduler.schedule(instance([("alexnet", 15.0, 500.0), ("ssd", 5.0, 1.0)]), Run())

    assert outcome == Outcome(Status.INFEASIBLE, reason="w1: ssd cannot meet 5 ms on a whole v100 at any rate")


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
def test_a_pool_that_is_too_small_gives_an_unknown_status(scheduler: Scheduler) -> None:
    demands = [("ssd", 50.0, 200.0)] * 3  # each needs one GPU

    assert len(planned(scheduler, instance(demands, gpus=3)).gpus) == 3
    assert scheduler.schedule(instance(demands, gpus=2), Run()) == Outcome(
        Status.UNKNOWN, reason="1 of 3 workloads (or parts) do not fit on 2 v100"
    )


def test_without_the_memory_constraint_igniter_overfills_memory() -> None:
    (problem,) = suite("igniter-12").build()
    small = replace(problem, gpus=(GpuPool(replace(V100, memory_mib=2000.0)),))
    constrained, unconstrained = planned(IGniter(), small), planned(IGniter(memory=False), small)

    assert {violation.kind for violation in judge(constrained, small).violations}.isdisjoint({"memory"})
    assert "memory" in {violation.kind for violation in judge(unconstrained, small).violations}
    assert contents(unconstrained) == contents(planned(IGniter(), problem))  # 16 GB always suffice
    assert unconstrained.gpus_used < constrained.gpus_used


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
def test_a_workload_beyond_the_memory_of_any_gpu_is_not_placed(scheduler: Scheduler) -> None:
    tiny = replace(V100, name="tiny", memory_mib=700.0)  # AlexNet at batch 4 holds 749 MiB

    assert scheduler.schedule(instance([("alexnet", 15.0, 500.0)], pools=(GpuPool(tiny),)), Run()) == Outcome(
        Status.UNKNOWN, reason="1 of 1 workloads (or parts) do not fit on any number of tiny"
    )


CHEAP = replace(V100, name="cheap", price_per_hour=1.0)
FAST = replace(
    V100,
    name="fast",
    models={name: replace(m, k=tuple(k / 2 for k in m.k[:3]) + m.k[3:]) for name, m in V100.models.items()},
)


@pytest.mark.parametrize("scheduler", INTERFERENCE_AWARE, ids=by_name)
@pytest.mark.parametrize(
    ("objective", "pools", "chosen"),
    [
        pytest.param(Objective.COST, (GpuPool(V100), GpuPool(CHEAP)), "cheap", id="cost: the cheaper type"),
        pytest.param(Objective.COST, (GpuPool(V100), GpuPool(CHEAP, 2)), "v100", id="cost: unless there are too few"),
        pytest.param(Objective.CAPACITY, (GpuPool(V100, 3), GpuPool(FAST, 3)), "fast", id="capacity: more throughput"),
        pytest.param(Objective.CAPACITY, (GpuPool(V100, 3), GpuPool(FAST, 1)), "v100", id="capacity: all or nothing"),
        pytest.param(Objective.GOODPUT, (GpuPool(V100, 1), GpuPool(FAST, 1)), "fast", id="goodput: serves more"),
        pytest.param(Objective.GOODPUT, (GpuPool(V100, 3), GpuPool(FAST, 1)), "v100", id="goodput: more of them"),
    ],
)
def test_the_best_type_is_used(
    scheduler: Scheduler, objective: Objective, pools: tuple[GpuPool, ...], chosen: str
) -> None:
    problem = instance([("ssd", 50.0, 200.0)] * 3, objective, pools=pools)

    assert {gpu.type for gpu in planned(scheduler, problem).gpus} == {chosen}


def test_an_instance_without_workloads_needs_no_gpu() -> None:
    for scheduler in SCHEDULERS:
        assert planned(scheduler, instance([])).gpus == ()


# --- capacity ---


def table_1_on_one_gpu() -> Instance:
    (problem,) = suite("igniter-3").build()
    return replace(problem, objective=Objective.CAPACITY, gpus=(GpuPool(V100, 1),))


@pytest.mark.parametrize(
    ("spend_spare", "throughput_rps", "units"),
    [(False, 1245, {"W1": 4, "W2": 12, "W3": 15}), (True, 2255, {"W1": 13, "W2": 12, "W3": 15})],
    ids=["at least shares", "filled"],
)
def test_capacity_of_table_1(spend_spare: bool, throughput_rps: int, units: dict[str, int]) -> None:
    problem = table_1_on_one_gpu()

    plan = planned(IGniter(spend_spare=spend_spare), problem)

    verdict = judge(plan, problem)
    assert verdict.feasible
    assert round(verdict.value or 0) == throughput_rps
    assert {workload: share for workload, share, _ in contents(plan)[0]} == units


@pytest.mark.parametrize("scheduler", INTERFERENCE_AWARE, ids=by_name)
def test_spending_only_raises_shares_and_never_lowers_throughput(scheduler: IGniter | FfdPlusPlus) -> None:
    random = Random(21)
    for _ in range(10):
        problem = instance(draw(random, 8), Objective.CAPACITY, gpus=8)
        unspent, spent = (planned(replace(scheduler, spend_spare=spend), problem) for spend in (False, True))
        before, after = judge(unspent, problem), judge(spent, problem)

        assert after.feasible
        assert (after.value or 0) >= (before.value or 0)
        for least, more in zip(contents(unspent), contents(spent), strict=True):
            assert [(w, batch) for w, _, batch in least] == [(w, batch) for w, _, batch in more]
            assert all(a <= b for (_, a, _), (_, b, _) in zip(least, more, strict=True))
