"""The compact model says what the judge says; SCIP finds its optimum, and claims only what is confirmed."""

import subprocess
import sys
from dataclasses import replace
from random import Random

import pyomo.environ as pyo
import pytest

from bench.api import Bound, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.compact.build import build
from formulations.compact.model import CompactModel
from formulations.compact.options import problem_of, why_not_compact
from formulations.compact.search import Search
from formulations.minlp import Minlp
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.one_gpu import Resident, fit_gpu
from instances.suites import suite
from tests.formulations.compact_values import assign, broken
from tests.formulations.exhaustive import least_cost, most_capacity

V100 = gpu_type("v100")
COARSE = replace(V100, share_units=8)
HOT = replace(V100, hardware=replace(V100.hardware, max_power_w=120.0))
SMALL = replace(V100, name="small", share_units=10, price_per_hour=1.9, memory_mib=2000.0)
FORCED = ("others_l2", "delay", "slowdown", "k_act", "ability", "cache_ms", "lost_ms", "t_gpu")
RULES = [SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE]


# --- The model without a solver ---


def random_instance(random: Random, objective: Objective, pools: tuple[GpuPool, ...]) -> Instance:
    drawn = generate("igniter-mix", random.randint(1, 5), random.randrange(10**6), objective, name="mix")
    return replace(drawn, gpus=pools, slo_rule=random.choice(RULES), latency_buffer=random.choice([1.0, 1.1]))


def random_plan(random: Random, model: CompactModel, gpus_of_a_type: int = 2) -> Plan | None:
    """Draw a plan that is often feasible, often just not; ``None`` if it needs an option that there is none of."""
    instance, offers = model.instance, model.offers
    homes: dict[tuple[int, int], list[Resident]] = {}
    for w in range(len(instance.workloads)):
        t = random.randrange(len(offers))
        choices = offers[t].configurations[w]
        if not len(choices):
            return None
        pick = random.randrange(len(choices))
        # Under ``goodput`` the model leaves out a batch at a rate if a higher rate has as large a budget.
        offered = instance.objective is Objective.GOODPUT or random.random() < 0.9
        batch = int(choices.batch[pick]) if offered else random.randint(1, 32)
        homes.setdefault((t, random.randrange(gpus_of_a_type)), []).append(
            Resident(w, batch, float(choices.rate_rps[pick]))
        )
    gpus = []
    for (t, _), residents in homes.items():
        view = offers[t].view
        residents = [
            replace(r, batch=min(r.batch, int(view.tables.max_batch[view.model[r.workload]]))) for r in residents
        ]
        least = fit_gpu(view, residents)
        if least is not None and random.random() < 0.8:
            units = [gpulet.share_units for gpulet in least.gpulets]
            if random.random() < 0.5:
                units[random.randrange(len(units))] += random.choice([-1, 1])
        else:
            units = [random.randint(1, view.tables.share_units) for _ in residents]
        rows = [
            (instance.workloads[r.workload].id, min(max(1, u), view.tables.share_units), r.batch, r.rate_rps)
            for r, u in zip(residents, units, strict=True)
        ]
        gpus.append(spatial_gpu(view.gpu.name, rows))
    return Plan(instance.name, tuple(gpus))


@pytest.mark.parametrize("objective", [Objective.COST, Objective.CAPACITY, Objective.GOODPUT])
@pytest.mark.parametrize(
    "pools", [(GpuPool(V100),), (GpuPool(HOT),), (GpuPool(V100), GpuPool(SMALL))], ids=["v100", "hot", "mixed"]
)
def test_its_rows_hold_exactly_for_the_plans_that_the_judge_accepts(
    objective: Objective, pools: tuple[GpuPool, ...]
) -> None:
    random = Random(f"{objective}/{len(pools)}/{pools[0].type.hardware.max_power_w}")
    feasible = infeasible = 0
    for _ in range(45):
        instance = random_instance(random, objective, pools)
        model = build(problem_of(instance, narrow=False), [2] * len(pools))
        model.state_relations(exact=False)
        plan = random_plan(random, model)
        if plan is None:
            continue
        verdict = judge(plan, instance)
        assign(model, plan)
        wrong = broken(model)
        assert verdict.feasible == (not wrong), (plan, verdict.violations, wrong)
        feasible, infeasible = feasible + verdict.feasible, infeasible + (not verdict.feasible)
        if verdict.feasible:
            assert pyo.value(model.pyomo.value) == pytest.approx(verdict.value, rel=1e-9)
    assert feasible >= 10
    assert infeasible >= 10


def test_its_rows_leave_no_time_or_interference_below_the_true_one() -> None:
    random = Random("forced")
    forced = dict.fromkeys(FORCED, 0)
    for _ in range(300):
        if min(forced.values()) >= 10:
            return
        instance = random_instance(random, random.choice([Objective.COST, Objective.CAPACITY]), (GpuPool(HOT),))
        model = build(problem_of(instance, narrow=False), [2])
        model.state_relations(exact=True)
        plan = random_plan(random, model)
        if plan is None or not judge(plan, instance).feasible:
            continue
        assign(model, plan)
        assert not broken(model)
        for name in FORCED:
            for variable in getattr(model.pyomo, name).values():
                true = variable.value
                if true > 0.0:
                    variable.set_value(0.999 * true, skip_validation=True)
                    assert broken(model), (name, plan)
                    variable.set_value(true, skip_validation=True)
                    forced[name] += 1
    pytest.fail(f"too few plans to say anything: {forced}")


def test_memory_is_counted_to_the_last_mebibyte() -> None:
    (instance,) = suite("igniter-3").build()
    plan = ColGen().schedule(instance, Run()).plan
    assert plan is not None
    needed = sum(
        V100.model(instance.workloads[instance.workload_index[slot.workload]].model).memory_mib(slot.batch)
        for _, _, slot in plan.slots()
    )
    for memory_mib, enough in ((needed - 0.1, False), (needed + 0.1, True)):
        smaller = replace(instance, gpus=(GpuPool(replace(V100, memory_mib=memory_mib)),))
        model = build(problem_of(smaller, narrow=False), [1])
        model.state_relations(exact=True)
        assign(model, plan)

        assert judge(plan, smaller).feasible == enough
        assert not broken(model) if enough else [name.split("[")[0] for name in broken(model)] == ["space"]


def test_a_plan_becomes_values_and_is_read_off_them_again() -> None:
    instance = generate("igniter-mix", 5, 3)
    model = build(problem_of(instance, narrow=False), [3])
    plan = ColGen().schedule(instance, Run()).plan
    assert plan is not None
    assign(model, plan)

    groups = model.groups(lambda variable: float(variable.value))

    read = {
        frozenset((instance.workloads[r.workload].id, r.batch, r.rate_rps) for r in group.residents) for group in groups
    }
    assert read == {
        frozenset((s.workload, s.batch, s.rate_rps) for gpulet in gpu.gpulets for s in gpulet.slots)
        for gpu in plan.gpus
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"slo_rule": SloRule.P99}, "table"),
        ({"gpus": (GpuPool(replace(V100, allowed_shares=(8, 16, 20, 24, 32, 40))),)}, "permits only some shares"),
    ],
)
def test_what_the_equations_cannot_say_is_refused_with_the_reason(change: dict[str, object], reason: str) -> None:
    instance = replace(generate("igniter-mix", 2, 0), **change)  # type: ignore[arg-type]

    assert reason in why_not_compact(instance)


# --- The scheduler ---


def test_the_module_imports_neither_pyomo_nor_scip() -> None:
    code = "import sys, formulations.minlp, formulations.pwl;print(sorted({'pyomo', 'pyscipopt'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("objective", [Objective.COST, Objective.CAPACITY])
def test_scip_finds_the_optimum_that_trying_everything_finds(objective: Objective, seed: int) -> None:
    drawn = generate("igniter-mix", 3, seed, objective)
    instance = replace(drawn, gpus=(GpuPool(COARSE, 2),), slo_rule=RULES[seed % 3])
    best = least_cost(instance) if objective is Objective.COST else most_capacity(instance)

    outcome = Minlp().schedule(instance, Run())

    if best is None:
        assert (outcome.status, outcome.plan) == (Status.INFEASIBLE, None)
        return
    # A bound on throughput within SCIP's tolerances need not be confirmed to the last digit.
    assert outcome.status is Status.OPTIMAL or (objective is Objective.CAPACITY and outcome.status is Status.FEASIBLE)
    assert outcome.plan is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert verdict.value == pytest.approx(best, rel=5e-6)


@pytest.mark.parametrize("seed", range(2))
def test_scip_serves_as_many_requests_as_column_generation_proves_possible(seed: int) -> None:
    drawn = generate("overload-mix", 3, seed, Objective.GOODPUT)
    instance = replace(drawn, gpus=(GpuPool(COARSE, 2),), slo_rule=RULES[seed % 3])
    known = ColGen().schedule(instance, Run())
    assert known.status is Status.OPTIMAL
    assert known.plan is not None

    outcome = Minlp().schedule(instance, Run())

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert verdict.value == pytest.approx(judge(known.plan, instance).value, rel=5e-6)


def test_a_relaxed_share_bounds_the_whole_one() -> None:
    instance = replace(generate("overload-mix", 2, 1, Objective.GOODPUT), gpus=(GpuPool(COARSE, 1),))
    whole = Minlp().schedule(instance, Run()).bound
    relaxed = Minlp(continuous_shares=True).schedule(instance, Run()).bound

    assert isinstance(whole, Bound)
    assert isinstance(relaxed, Bound)
    assert relaxed.value >= whole.value * (1.0 - 1e-6)


def test_a_workload_that_no_gpu_serves_is_named() -> None:
    huge = Workload("huge", "vgg19", 20.0, 5000.0)
    instance = replace(generate("igniter-mix", 2, 0), workloads=(huge,))
    outcome = Search.of(instance, Run())

    assert getattr(outcome, "status", None) is Status.INFEASIBLE
    assert "huge" in getattr(outcome, "reason", "")
