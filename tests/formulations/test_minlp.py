"""``minlp``: the rows of the compact model agree with the judge, SCIP finds the optimum, and claims are confirmed."""

import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Bound, Run, Status
from bench.doctor.solvers import KNOWN_OPTIMA, KnownOptimum
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.compact.build import build
from formulations.compact.model import CompactModel
from formulations.compact.options import problem_of, why_not_compact
from formulations.compact.search import Search, SolverAnswer
from formulations.minlp import Minlp, confirmed
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.one_gpu import Resident, fit_gpu
from instances.suites import suite
from tests.formulations.compact_values import assign, broken
from tests.formulations.exhaustive import draw_workloads, least_cost, most_capacity, most_goodput, small_batches

V100 = gpu_type("v100")
COARSE = replace(V100, share_units=8)
HOT = replace(V100, hardware=replace(V100.hardware, max_power_w=120.0))
SMALL = replace(V100, name="small", share_units=10, price_per_hour=1.9, memory_mib=2000.0)
FORCED = ("others_l2", "delay", "slowdown", "k_act", "ability", "cache_ms", "lost_ms", "t_gpu")
RULES = [SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE]
TINY = small_batches(replace(V100, name="tiny", share_units=8), 4)
POWER24 = next(known for known in KNOWN_OPTIMA if known.name == "power24")


# --- The model without a solver ---


def random_instance(random: Random, objective: Objective, pools: tuple[GpuPool, ...]) -> Instance:
    drawn = generate("igniter-mix", random.randint(1, 5), random.randrange(10**6), objective, name="mix")
    return replace(drawn, gpus=pools, slo_rule=random.choice(RULES), latency_buffer=random.choice([1.0, 1.1]))


def random_plan(random: Random, model: CompactModel, gpus_of_a_type: int = 2) -> Plan | None:
    """Draw a plan that is often feasible, and often just infeasible; ``None`` if a workload has no option there."""
    instance, offers = model.instance, model.offers
    residents_of_gpu: dict[tuple[int, int], list[Resident]] = {}
    for w in range(len(instance.workloads)):
        t = random.randrange(len(offers))
        choices = offers[t].configurations[w]
        if not choices.size:
            return None
        row = random.randrange(choices.size)
        # Under ``goodput`` the model has only some batches at each rate, so another batch would not be in the model.
        from_model = instance.objective is Objective.GOODPUT or random.random() < 0.9
        batch = int(choices.batch[row]) if from_model else random.randint(1, 32)
        residents_of_gpu.setdefault((t, random.randrange(gpus_of_a_type)), []).append(
            Resident(w, batch, float(choices.rate_rps[row]))
        )
    gpus = []
    for (t, _), residents in residents_of_gpu.items():
        view = offers[t].view
        residents = [
            r._replace(batch=min(r.batch, int(view.tables.max_batch[view.model[r.workload]]))) for r in residents
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
def test_the_rows_hold_exactly_for_the_plans_that_the_judge_accepts(
    objective: Objective, pools: tuple[GpuPool, ...]
) -> None:
    random = Random(f"{objective}/{len(pools)}/{pools[0].type.hardware.max_power_w}")
    feasible = infeasible = 0
    for _ in range(24):
        instance = random_instance(random, objective, pools)
        model = build(problem_of(instance, narrow=False), [2] * len(pools))
        model.state_relations(exact=False)
        plan = random_plan(random, model)
        if plan is None:
            continue
        verdict = judge(plan, instance)
        assign(model, plan)
        broken_rows = broken(model)
        assert verdict.feasible == (not broken_rows), (plan, verdict.violations, broken_rows)
        feasible, infeasible = feasible + verdict.feasible, infeasible + (not verdict.feasible)
        if verdict.feasible:
            assert pyo.value(model.pyomo.value) == pytest.approx(verdict.value, rel=1e-9)
    assert feasible >= 5
    assert infeasible >= 5


def test_the_rows_exclude_times_and_interference_below_the_true_values() -> None:
    """Each variable of ``FORCED`` is set 0.1 % below its true value in at least ten feasible plans."""
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


def test_memory_is_counted_to_a_tenth_of_a_mebibyte() -> None:
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
        assert [name.split("[")[0] for name in broken(model)] == ([] if enough else ["space"])


def test_the_patterns_of_a_plans_values_are_those_of_the_plan() -> None:
    instance = generate("igniter-mix", 5, 3)
    model = build(problem_of(instance, narrow=False), [3])
    plan = ColGen().schedule(instance, Run()).plan
    assert plan is not None
    assign(model, plan)

    patterns = model.patterns(lambda variable: float(variable.value))

    residents = {
        frozenset((instance.workloads[r.workload].id, r.batch, r.rate_rps) for r in pattern.residents)
        for pattern in patterns
    }
    assert residents == {
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
def test_an_instance_without_a_compact_model_is_refused_with_the_reason(change: dict[str, object], reason: str) -> None:
    instance = replace(generate("igniter-mix", 2, 0), **change)  # type: ignore[arg-type]

    assert reason in why_not_compact(instance)


# --- The scheduler ---


def test_schedulers_do_not_import_pyomo_or_scip_without_a_model() -> None:
    code = """import sys; from dataclasses import replace
from bench import api; from formulations import minlp, pwl; from instances import SloRule, generate
instance = replace(generate.generate("igniter-mix", 2, 0), slo_rule=SloRule.P99)
assert all(each.schedule(instance, api.Run()).reason for each in (minlp.Minlp(), pwl.Pwl()))
print(sorted({"pyomo", "pyscipopt"} & set(sys.modules)))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("objective", [Objective.COST, Objective.CAPACITY])
def test_scip_finds_the_optimum_of_brute_force(objective: Objective, seed: int) -> None:
    drawn = generate("igniter-mix", 3, seed, objective)
    instance = replace(drawn, gpus=(GpuPool(COARSE, 2),), slo_rule=RULES[seed % 3])
    best = least_cost(instance) if objective is Objective.COST else most_capacity(instance)

    outcome = Minlp().schedule(instance, Run())

    if best is None:
        assert (outcome.status, outcome.plan) == (Status.INFEASIBLE, None)
        return
    # SCIP's plan may miss the most throughput by its tolerance, and then the certified bound does not confirm it.
    assert outcome.status is Status.OPTIMAL or (objective is Objective.CAPACITY and outcome.status is Status.FEASIBLE)
    assert outcome.plan is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert verdict.value == pytest.approx(best, rel=5e-6)


@pytest.mark.parametrize("seed", range(2))
def test_scip_finds_the_goodput_that_column_generation_proves_optimal(seed: int) -> None:
    drawn = generate("overload-mix", 3, seed, Objective.GOODPUT)
    instance = replace(drawn, gpus=(GpuPool(COARSE, 2),), slo_rule=RULES[seed % 3])
    of_colgen = ColGen().schedule(instance, Run())
    assert of_colgen.status is Status.OPTIMAL
    assert of_colgen.plan is not None

    outcome = Minlp().schedule(instance, Run())

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert verdict.value == pytest.approx(judge(of_colgen.plan, instance).value, rel=5e-6)


def test_continuous_shares_give_a_weaker_bound() -> None:
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


# --- Claims ---


def run_of(seconds: float) -> Run:
    return Run(deadline=time.monotonic() + seconds)


@pytest.fixture
def scip_says(monkeypatch: pytest.MonkeyPatch) -> Callable[[SolverAnswer], None]:
    """Return a function that replaces SCIP by a solver that finds no plan and gives an answer."""

    def replace_scip(answer: SolverAnswer) -> None:
        monkeypatch.setattr("formulations.compact.scip.solve", lambda *_: answer)

    return replace_scip


# Claim that no plan is better than the incumbent
NOTHING_BETTER = SolverAnswer(solved=False, finished=True, infeasible=True, bound=math.inf, nodes=0.0)


@pytest.mark.parametrize("known", KNOWN_OPTIMA, ids=lambda known: known.name)
def test_optima_that_scip_cuts_off_without_tolerance_are_found(known: KnownOptimum) -> None:
    instance = known.instance()

    outcome = Minlp().schedule(instance, run_of(120.0))

    assert outcome.plan is not None
    assert judge(outcome.plan, instance).value == pytest.approx(known.optimum, rel=1e-9)
    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.bound.certified


def test_a_wrong_optimum_is_not_claimed(scip_says: Callable[[SolverAnswer], None]) -> None:
    instance = POWER24.instance()
    scip_says(NOTHING_BETTER)

    outcome = Minlp().schedule(instance, run_of(60.0))

    assert outcome.plan is not None
    assert judge(outcome.plan, instance).value == pytest.approx(9.18)
    assert outcome.status is Status.FEASIBLE
    assert outcome.bound == Bound(pytest.approx(9.18), False)
    assert outcome.reason == (
        "SCIP proves 9.18, but this is not confirmed: the certified bound of column generation is 6.12"
    )


def test_with_the_equations_as_printed_no_wrong_optimum_is_claimed() -> None:
    for known in KNOWN_OPTIMA[:2]:
        instance = known.instance()
        outcome = Minlp(as_printed=True).schedule(instance, run_of(60.0))

        assert outcome.plan is not None
        is_optimal = judge(outcome.plan, instance).value == pytest.approx(known.optimum)
        assert outcome.status is (Status.OPTIMAL if is_optimal else Status.FEASIBLE)


@pytest.mark.parametrize(
    ("gpus", "status", "reason"),
    [
        (1, Status.INFEASIBLE, "too few GPUs"),
        (2, Status.UNKNOWN, "SCIP finds no plan, but this is not confirmed: column generation found a plan"),
    ],
)
def test_infeasibility_is_claimed_only_if_it_is_confirmed(
    gpus: int, status: Status, reason: str, scip_says: Callable[[SolverAnswer], None]
) -> None:
    """First fit needs three GPUs, and the optimum two, so the search has no plan on one or two."""
    scip_says(NOTHING_BETTER)

    outcome = Minlp().schedule(replace(POWER24.instance(), gpus=(GpuPool(V100, gpus),)), run_of(60.0))

    assert (outcome.status, outcome.plan) == (status, None)
    assert reason in outcome.reason


def test_a_wrong_optimum_under_capacity_is_not_claimed(
    scip_says: Callable[[SolverAnswer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without moves of single workloads, the first plan is worse than the best one.
    monkeypatch.setattr("formulations.compact.search.improved", lambda _problem, patterns, _run: patterns)
    drawn = generate("igniter-mix", 3, 1, Objective.CAPACITY)
    instance = replace(drawn, gpus=(GpuPool(replace(V100, share_units=8), 1),))
    best = ColGen().schedule(instance, run_of(60.0))
    assert best.plan is not None
    scip_says(replace(NOTHING_BETTER, bound=-math.inf))

    outcome = Minlp().schedule(instance, run_of(60.0))

    assert outcome.plan is not None
    value, optimum = judge(outcome.plan, instance).value, judge(best.plan, instance).value
    assert value < optimum * (1 - 1e-9)  # type: ignore[operator]
    assert outcome.status is Status.FEASIBLE


def test_without_time_nothing_is_confirmed() -> None:
    instance = POWER24.instance()
    plan = ColGen().schedule(instance, run_of(60.0)).plan
    assert plan is not None

    for seconds, status in ((60.0, Status.OPTIMAL), (0.0, Status.FEASIBLE)):
        search = Search.of(instance, replace(run_of(seconds), start=plan))
        assert isinstance(search, Search)
        outcome = confirmed(search, None, infeasible=False)
        assert outcome.status is status
        assert bool(outcome.reason) == (seconds == 0.0)
    without_plan = Search.of(replace(instance, gpus=(GpuPool(V100, 2),)), run_of(0.0))
    assert isinstance(without_plan, Search)
    outcome = confirmed(without_plan, None, infeasible=True)
    assert outcome.status is Status.UNKNOWN
    assert "not confirmed" in outcome.reason


def draw(seed: int, objective: Objective) -> Instance:
    random = Random(seed)
    workloads = draw_workloads(random, TINY, random.randint(1, 3), (0.2, 0.9))
    pools = (GpuPool(TINY, random.randint(1, 2)),)
    return Instance("drawn", objective, random.choice(RULES), "igniter", pools, workloads)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([Objective.COST, Objective.GOODPUT]))
def test_claims_agree_with_brute_force(seed: int, objective: Objective) -> None:
    instance = draw(seed, objective)
    best = least_cost(instance) if objective is Objective.COST else most_goodput(instance)

    outcome = Minlp().schedule(instance, run_of(10.0))

    if outcome.plan is not None:
        verdict = judge(outcome.plan, instance)
        assert verdict.feasible
        if outcome.status is Status.OPTIMAL:
            assert verdict.value == pytest.approx(best, rel=1e-9)
    assert best is None or outcome.status is not Status.INFEASIBLE
    assert best is not None or outcome.plan is None
    if outcome.bound is not None and outcome.bound.certified and best is not None:
        beyond = outcome.bound.value - best if objective is Objective.COST else best - outcome.bound.value
        assert beyond <= 1e-9 * best
