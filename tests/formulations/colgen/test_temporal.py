"""``colgen`` for the class ``spatio-temporal``: no plan beats its bounds, and they are as tight as they claim."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations_with_replacement, product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Outcome, Run, Scheduler, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.scheduler import SearchedClass
from formulations.colgen.temporal.gpulet_positions import SLOTS
from formulations.colgen.temporal.pricer import TemporalPricer
from formulations.colgen.temporal.turns import CYCLE_STEP
from heuristics.baselines.local_search import LocalSearch
from heuristics.gpulet.best_fit import GreedyBestFit, GuidedSelfTuning
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning
from heuristics.gpulet.gpu_scaling import GpuScaling
from heuristics.gpulet.ideal import Ideal
from heuristics.gpulet.sbp import SquishyBinPacking
from instances import Gpulet, GpuPool, GpuType, Instance, Objective, PlacedGpu, Plan, PlanClass, SloRule, Slot, Workload
from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.interference import gpu_time_beside_ms
from instances.suites import suite
from instances.tables import gpu_tables
from instances.view import View
from tests.formulations.exhaustive import small_batches

RTX = gpu_type("rtx2080ti")
HEURISTICS: tuple[Scheduler, ...] = (
    ElasticPartitioning(),
    SquishyBinPacking(),
    Ideal(tries=200),
    GreedyBestFit(),
    GuidedSelfTuning(),
    GpuScaling(),
    LocalSearch(),
)


def bound_of(instance: Instance, limit_s: float = 60.0, start: Plan | None = None) -> Outcome:
    run = Run(deadline=time.monotonic() + limit_s, start=start)
    return ColGen(plan_class=SearchedClass.SPATIO_TEMPORAL).schedule(instance, run)


def draw(
    random: Random, gpu: GpuType, model: str, size: int, objective: Objective, count: int, load: tuple[float, float]
) -> Instance:
    """Workloads that each ask for a part of one GPU within ``load``, as batches of one on all of it."""
    tables, names = gpu_tables(gpu, model), list(gpu.models)
    workloads = []
    for number in range(size):
        row = random.randrange(len(names))
        time_ms = float(tables.active_ms[row, 1, tables.share_units] + tables.transfer_ms[row, 1])
        slo_ms, rate_rps = time_ms * random.uniform(2.5, 30.0), 1000.0 / time_ms * random.uniform(*load)
        workloads.append(Workload(f"w{number}", names[row], round(slo_ms, 2), round(rate_rps, 1)))
    rule = random.choice([SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE])
    pool = (GpuPool(gpu, count),)
    return Instance("drawn", objective, rule, model, pool, tuple(workloads), latency_buffer=random.choice([1.0, 1.1]))


# Brute force over the contents of one GPU ---------------------------------------------------------------------------


Slots = tuple[tuple[int, int], ...]
"""Of a gpulet: (workload, batch) each."""


@dataclass(frozen=True)
class Content:
    """Gpulets as (units, slots), the most that each slot serves, and the duty cycles."""

    gpulets: tuple[tuple[int, Slots], ...]
    rates_rps: tuple[tuple[float, ...], ...]
    cycles_ms: tuple[float | None, ...]

    def served_rps(self, workload: int) -> float:
        return math.fsum(
            rate
            for (_, slots), rates in zip(self.gpulets, self.rates_rps, strict=True)
            for (w, _), rate in zip(slots, rates, strict=True)
            if w == workload
        )

    def placed(self, instance: Instance) -> PlacedGpu:
        return PlacedGpu(
            instance.gpus[0].type.name,
            tuple(
                Gpulet(
                    units,
                    tuple(Slot(instance.workloads[w].id, b, r) for (w, b), r in zip(slots, rates, strict=True)),
                    cycle,
                )
                for (units, slots), rates, cycle in zip(self.gpulets, self.rates_rps, self.cycles_ms, strict=True)
            ),
        )


def all_slots(view: View) -> list[tuple[int, int]]:
    return [(w, b) for w, m in enumerate(view.model) for b in range(1, int(view.tables.max_batch[m]) + 1)]


def contents(view: View, most_gpulets: int, most_slots: int = SLOTS) -> Iterator[Content]:
    """Yield every content of one GPU, at the shortest duty cycles."""
    gpulets = [
        (int(units), chosen)
        for units in view.tables.permitted
        for size in range(1, most_slots + 1)
        for chosen in combinations_with_replacement(all_slots(view), size)
    ]
    for count in range(1, most_gpulets + 1):
        for together in combinations_with_replacement(gpulets, count):
            if sum(units for units, _ in together) <= view.tables.share_units:
                content = served(view, together)
                if content is not None:
                    yield content


def twice_each(view: View) -> Iterator[Content]:
    """Yield every content of a whole GPU in which each of up to three workloads has one slot or two."""
    assert len(view.model) <= SLOTS
    options = [
        [chosen for size in range(3) for chosen in combinations_with_replacement(own, size)]
        for own in ([slot for slot in all_slots(view) if slot[0] == w] for w in range(len(view.model)))
    ]
    for together in product(*options):
        if not any(together):
            continue
        content = served(view, ((view.tables.share_units, tuple(chain(*together))),))
        if content is not None:
            yield content


def served(view: View, gpulets: tuple[tuple[int, Slots], ...]) -> Content | None:
    """Return what the slots of a GPU serve at most, or ``None`` if some of them cannot be there."""
    tables, buffer = view.tables, view.instance.latency_buffer
    demand = np.array(
        [[max(table[view.model[w], b, units] for w, b in slots) for table in tables[1:4]] for units, slots in gpulets]
    )
    rates_rps: list[tuple[float, ...]] = []
    cycles_ms: list[float | None] = []
    for own, (units, slots) in enumerate(gpulets):
        gpu_ms = [gpu_time_beside_ms(tables, view.model[w], b, units, demand, own) for w, b in slots]
        times_ms = [
            buffer * (t + tables.transfer_ms[view.model[w], b]) for t, (w, b) in zip(gpu_ms, slots, strict=True)
        ]
        if len(slots) == 1:
            (w, b), m = slots[0], view.model[slots[0][0]]
            periods_ms = [buffer * (gpu_ms[0] + x) for x in (tables.exposed_ms[m, b], tables.transfer_ms[m, b])]
            rates = [1000.0 * b / period_ms * (1.0 - 1e-12) for period_ms in periods_ms]
            possible = [rate for rate in rates if gpu_ms[0] <= view.budget_ms(w, b, rate)]
            if not possible:
                return None
            rates_rps.append((max(possible),))
            cycles_ms.append(None)
        else:
            cycle_ms = math.fsum(times_ms) * (1.0 + 1e-12)
            if any(cycle_ms + t > view.slo_ms[w] for t, (w, _) in zip(times_ms, slots, strict=True)):
                return None
            rates_rps.append(tuple(1000.0 * b / cycle_ms for _, b in slots))
            cycles_ms.append(cycle_ms)
    return Content(gpulets, tuple(rates_rps), tuple(cycles_ms))


def worth_of(content: Content, worth: Floats, most_rps: Floats) -> float:
    return math.fsum(worth[w] * min(most_rps[w], content.served_rps(w)) for w in range(len(worth)))


def tiny(seed: int, shares: tuple[int, ...], model: str = "gpulet", size: int = 3) -> Instance:
    gpu = {"gpulet": RTX, "igniter": replace(gpu_type("v100"), share_units=10), "inss": gpu_type("a100-inss")}[model]
    pct = tuple(round(gpu.share_units * units / 10) for units in shares)
    gpu = replace(small_batches(gpu, 3), name="tiny", allowed_shares=pct)
    return draw(Random(seed), gpu, model, size, Objective.SCALE, 1, (0.05, 0.6))


@pytest.mark.parametrize("seed", range(16))
def test_the_most_that_turns_on_a_whole_gpu_are_worth(seed: int) -> None:
    """Nobody is beside a whole GPU: only duty cycles, rates (by a range) and second slots of a workload are relaxed."""
    instance, random = tiny(seed, (10,)), Random(seed)
    view = View.of(instance, instance.gpus[0].type)
    worth = np.array([random.uniform(0.2, 1.0) for _ in instance.workloads]) / view.rate_rps

    bound = TemporalPricer(view).price(worth, view.rate_rps).bound

    assert bound >= max(worth_of(content, worth, view.rate_rps) for content in contents(view, 1))
    patient = replace(view, slo_ms=view.slo_ms * (1.0 + CYCLE_STEP))
    relaxed = max(worth_of(content, worth, view.rate_rps) for content in twice_each(patient))
    assert bound <= relaxed * (1.0 + CYCLE_STEP) * (1.0 + 1e-6)


@pytest.mark.parametrize("model", ["gpulet", "igniter", "inss"])
@pytest.mark.parametrize("seed", range(4))
def test_no_content_of_a_shared_gpu_is_worth_more(model: str, seed: int) -> None:
    instance, random = tiny(seed, (4, 6), model, size=2), Random(seed)
    view = View.of(instance, instance.gpus[0].type)
    worth = np.array([random.uniform(0.2, 1.0) for _ in instance.workloads]) / view.rate_rps
    found = list(contents(view, 2))

    bound = TemporalPricer(view).price(worth, view.rate_rps).bound
    scale = bound_of(instance).bound

    assert bound >= max(worth_of(content, worth, view.rate_rps) for content in found)
    assert scale is not None
    assert scale.value >= max(min(c.served_rps(w) / view.rate_rps[w] for w in range(2)) for c in found)
    for content in random.sample(found, min(20, len(found))):
        assert judge(Plan("drawn", (content.placed(instance),)), instance).feasible


@pytest.mark.parametrize("model", ["igniter", "inss"])
@pytest.mark.parametrize("seed", range(6))
def test_no_crowd_is_worth_more(model: str, seed: int) -> None:
    """Of three gpulets or fewer, each with one slot."""
    instance, random = tiny(seed, (2, 3, 4), model), Random(seed)
    view = View.of(instance, instance.gpus[0].type)
    worth = np.array([random.uniform(0.2, 1.0) for _ in instance.workloads])

    bound = TemporalPricer(view).price(worth, np.full(3, np.inf)).bound

    best = max(math.fsum(worth[w] * c.served_rps(w) for w in range(3)) for c in contents(view, 3, most_slots=1))
    assert best <= bound


def test_who_disturbs_least_may_need_a_large_share() -> None:
    """On two units only the model that demands much is quick enough; three of the other do not disturb each other."""
    loud = replace(gpu_type("v100").model("vgg19"), name="loud", max_batch=1, l2=(0.0, 30.0), power=(0.0, 150.0))
    calm = replace(loud, name="calm", k=(0.0, 0.0, 300.0, 0.0, 0.0), l2=(0.0, 0.0), power=(0.0, 0.0))
    gpu = replace(gpu_type("v100"), share_units=12, allowed_shares=(2, 4), models={"loud": loud, "calm": calm})
    workloads = (Workload("loud", "loud", 1000.0, 10.0), Workload("calm", "calm", 25.0, 10.0))
    instance = Instance("drawn", Objective.SCALE, SloRule.HALF_SLO, "igniter", (GpuPool(gpu, 1),), workloads)
    view = View.of(instance, gpu)

    bound = TemporalPricer(view).price(np.array([0.0, 1.0]), np.full(2, np.inf)).bound

    assert bound >= max(c.served_rps(1) for c in contents(view, 3, most_slots=1))


def test_a_crowd_of_gpulets() -> None:
    """Four gpulets of a quarter each, one workload: nothing is relaxed but who is beside whom."""
    gpu = replace(small_batches(gpu_type("v100"), 1), name="quarters", share_units=4, allowed_shares=(1,))
    instance = draw(Random(0), gpu, "igniter", 1, Objective.SCALE, 1, (0.5, 0.5))
    view = View.of(instance, gpu)
    best = max(c.served_rps(0) for c in contents(view, 4))

    priced = TemporalPricer(view).price(np.ones(1), np.array([np.inf]))

    assert priced.bound == pytest.approx(best, rel=1e-6)
    assert priced.gpus[-1].served_rps[0] == pytest.approx(best, rel=1e-6)


# Whole instances ----------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    model=st.sampled_from(["igniter", "inss", "gpulet"]),
    objective=st.sampled_from([Objective.COST, Objective.SCALE, Objective.GOODPUT]),
    limit_s=st.sampled_from([0.05, 0.3]),
)
def test_no_heuristic_beats_the_bound(seed: int, model: str, objective: Objective, limit_s: float) -> None:
    """However early the bound is taken."""
    random = Random(seed)
    gpu = {"gpulet": RTX, "igniter": gpu_type("v100"), "inss": gpu_type("a100-inss")}[model]
    instance = draw(random, gpu, model, random.randint(1, 4), objective, random.randint(1, 3), (0.03, 1.0))

    outcome = bound_of(instance, limit_s)

    for scheduler in HEURISTICS:
        if objective not in scheduler.objectives:
            continue
        plan = scheduler.schedule(instance, Run(deadline=time.monotonic() + 0.2)).plan
        if plan is None or not applies(plan, model):
            continue
        verdict = judge(plan, instance)
        if verdict.feasible:
            assert verdict.value is not None
            assert outcome.status is not Status.INFEASIBLE
            assert outcome.bound is None or not_beaten(outcome.bound.value, verdict.value, objective)


def applies(plan: Plan, model: str) -> bool:
    """Whether a bound of this class speaks of such a plan."""
    slots = max(len(gpulet.slots) for gpu in plan.gpus for gpulet in gpu.gpulets)
    return slots <= SLOTS and (model != "gpulet" or all(len(gpu.gpulets) <= 2 for gpu in plan.gpus))


def not_beaten(bound: float, value: float, objective: Objective) -> bool:
    return value >= bound if objective.minimised else value <= bound


@pytest.mark.parametrize("number", [2, 3, 4])
def test_gpulets_scenarios_get_a_gap(number: int) -> None:
    (instance,) = suite(f"gpulet-scen{number}").build()
    plan = Ideal(tries=1000).schedule(instance, Run()).plan
    assert plan is not None
    value = judge(plan, instance).value
    assert value is not None

    outcome = bound_of(instance)

    assert outcome.bound is not None
    assert outcome.bound.certified
    assert outcome.bound.plan_class is PlanClass.SPATIO_TEMPORAL
    assert outcome.bound.slots_per_gpulet == SLOTS
    assert outcome.bound.allowed_shares is None
    assert value <= outcome.bound.value <= 1.1 * value


def test_one_workload_alone() -> None:
    """Two GPUs and a workload that fills them: the bound is what a whole GPU serves, twice."""
    (instance,) = suite("gpulet-scen2").build()
    instance = replace(
        instance,
        workloads=instance.workloads[:1],
        gpus=(GpuPool(replace(RTX, name="whole", allowed_shares=(RTX.share_units,)), 2),),
    )
    view = View.of(instance, instance.gpus[0].type)
    per_gpu = max(c.served_rps(0) for c in contents(view, 1) if len(c.gpulets[0][1]) == 1)

    outcome = bound_of(instance)

    assert outcome.bound is not None
    assert outcome.bound.value == pytest.approx(2.0 * per_gpu / view.rate_rps[0], rel=1e-6)


def test_a_start_plan_is_not_made_worse() -> None:
    (instance,) = suite("gpulet-traffic").build()
    start = ElasticPartitioning().schedule(instance, Run()).plan

    outcome = bound_of(instance, start=start)

    assert start is not None
    assert outcome.plan is not None
    assert judge(outcome.plan, instance).value >= judge(start, instance).value


# What is not answered -----------------------------------------------------------------------------------------------


def test_without_time_there_is_no_bound() -> None:
    (instance,) = suite("gpulet-traffic").build()

    outcome = bound_of(instance, limit_s=0.0)

    assert outcome.status is Status.UNKNOWN
    assert outcome.bound is None


def test_a_pool_that_is_too_small() -> None:
    (instance,) = suite("gpulet-traffic").build()

    outcome = bound_of(replace(instance.scaled(6.0), objective=Objective.COST))

    assert outcome.status is Status.INFEASIBLE
    assert "too few" in outcome.reason


def test_a_workload_that_no_gpu_serves() -> None:
    (instance,) = suite("gpulet-traffic").build()
    hurried = (replace(instance.workloads[0], slo_ms=0.5), *instance.workloads[1:])

    outcome = bound_of(replace(instance, objective=Objective.COST, workloads=hurried))

    assert outcome.status is Status.INFEASIBLE
    assert hurried[0].id in outcome.reason


def test_nothing_to_serve() -> None:
    (instance,) = suite("gpulet-traffic").build()

    assert bound_of(replace(instance, workloads=())).status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"slo_rule": SloRule.P99}, "p99"),
        ({"gpus": (GpuPool(RTX),)}, "number of GPUs"),
    ],
)
def test_what_is_not_bounded(change: dict[str, object], reason: str) -> None:
    (instance,) = suite("gpulet-traffic").build()

    outcome = bound_of(replace(instance, **change))  # type: ignore[arg-type]

    assert outcome.status is Status.UNKNOWN
    assert outcome.bound is None
    assert reason in outcome.reason
