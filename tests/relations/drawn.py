"""Random small instances of every objective, SLO rule, performance model, plan class and pool."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from formulations.colgen.scheduler import SearchedClass
from instances import (
    GpuPool,
    GpuType,
    Instance,
    MigConfiguration,
    MigProfile,
    Objective,
    SloRule,
    Workload,
)
from instances.catalogue import gpu_type
from instances.gpu import ISOLATED
from instances.instance import instance_of_services
from instances.mig import MIG_TABLE
from instances.services import Service
from tests.formulations.exhaustive import slower, small_batches
from tests.formulations.tiny_mig import SLICES
from tests.instances.reference import INVENTED

V100, A100, A100_LLM = gpu_type("v100"), gpu_type("a100"), gpu_type("a100-llm")
SHARED_MODELS = ("igniter", "inss", "hybrid", "gpulet")
"""Performance models of GPUs that are divided by shares."""

WIDER = {
    SearchedClass.SPATIAL: (SearchedClass.SPLIT, SearchedClass.SPATIO_TEMPORAL),
    SearchedClass.SPLIT: (SearchedClass.SPATIO_TEMPORAL,),
    SearchedClass.SPATIO_TEMPORAL: (),
}
"""Wider plan classes of each plan class: they contain all its plans."""


@dataclass(frozen=True, repr=False)
class Case:
    """An instance, and the plan class that is searched."""

    instance: Instance
    plan_class: SearchedClass

    def __repr__(self) -> str:
        """Return all fields but the coefficients of the models, for Hypothesis's messages."""
        drawn = self.instance
        gpus = [
            (p.type.name, p.count, p.type.share_units, p.type.memory_mib, p.type.price_per_hour) for p in drawn.gpus
        ]
        workloads = [(w.id, w.model, w.slo_ms, w.rate_rps) for w in drawn.workloads]
        batches = {model.name: model.max_batch for model in drawn.gpus[0].type.models.values()}
        return (
            f"{self.plan_class} {drawn.objective} {drawn.slo_rule} {drawn.performance_model}"
            f" buffer {drawn.latency_buffer} attainment {drawn.attainment} dropping {drawn.dropping};"
            f" {gpus}; {batches}; {workloads}"
        )


@st.composite
def gpu_types(draw: st.DrawFn, name: str) -> GpuType:
    """A GPU type of few shares and small batches, with three models."""
    base = draw(st.sampled_from([V100, A100]))
    names = draw(st.permutations(sorted(base.models)))[:3]
    three_models = replace(base, models={model: base.models[model] for model in names})
    small = small_batches(three_models, draw(st.integers(1, 4)))
    memory_mib = draw(st.sampled_from([base.memory_mib, 3000.0, 4500.0]))
    units = draw(st.integers(3, 8))
    return replace(small, name=name, share_units=units, memory_mib=memory_mib, price_per_hour=draw(prices))


prices = st.sampled_from([1.0, 0.1, 3.06, 2.0 / 3.0, 17.25])


@st.composite
def pools(draw: st.DrawFn, bounded: bool) -> tuple[GpuPool, ...]:
    """One or two GPU types with the same models."""
    first = draw(gpu_types("first"))
    counts = st.integers(1, 2) if bounded else st.none() | st.integers(1, 3)
    pool = [GpuPool(first, draw(counts))]
    if draw(st.booleans()):
        pool.append(GpuPool(slower(first, "second", draw(st.sampled_from([1.3, 2.0])), draw(prices)), draw(counts)))
        # Measured tables have no slower version, so then only the price differs.
        if first.models and next(iter(first.models.values())).solo is not None:
            pool[1] = replace(pool[1], type=replace(first, name="second", price_per_hour=draw(prices)))
    return tuple(pool)


@st.composite
def cases(draw: st.DrawFn, rules: tuple[SloRule, ...] = tuple(SloRule)) -> Case:
    """An instance of one to four workloads, of which the largest take about a whole GPU each."""
    objective = draw(st.sampled_from([Objective.COST, Objective.GOODPUT, Objective.CAPACITY, Objective.SCALE]))
    bounded = objective is not Objective.COST
    pool = draw(pools(bounded))
    gpu = pool[0].type
    rule = draw(st.sampled_from(rules))
    workloads = []
    for number in range(draw(st.integers(1, 3 if bounded else 4))):
        model = gpu.models[draw(st.sampled_from(sorted(gpu.models)))]
        solo = model.solo
        assert solo is not None
        alone_ms = solo.gpu_ms[0][-1]
        slo_ms = round(alone_ms * draw(st.floats(3.0, 40.0)), 2)
        rate_rps = round(1000.0 / alone_ms * draw(st.floats(0.02, 1.2)), 2)
        workloads.append(Workload(f"w{number}", model.name, slo_ms, rate_rps))
    if len(workloads) > 1 and draw(st.booleans()):
        workloads[1] = replace(workloads[0], id="w1")
    instance = Instance(
        "drawn",
        objective,
        rule,
        draw(st.sampled_from(SHARED_MODELS)),
        pool,
        tuple(workloads),
        latency_buffer=draw(st.sampled_from([1.0, 1.1])),
        attainment=draw(st.sampled_from([0.9, 0.99])) if rule is SloRule.ATTAINMENT else 0.99,
        dropping=draw(st.booleans()) if rule is SloRule.ATTAINMENT else True,
    )
    return Case(instance, draw(st.sampled_from(classes_of(instance))))


def classes_of(instance: Instance) -> list[SearchedClass]:
    """Return the plan classes that column generation searches for an instance."""
    classes = [SearchedClass.SPATIAL]
    if instance.objective in (Objective.COST, Objective.GOODPUT) and instance.slo_rule is not SloRule.P99:
        classes.append(SearchedClass.SPLIT)
        if instance.takes_turns:
            classes.append(SearchedClass.SPATIO_TEMPORAL)
    return classes


@st.composite
def cases_of_services(draw: st.DrawFn) -> Case:
    """An instance of one or two language-model services."""
    objective = draw(st.sampled_from([Objective.COST, Objective.SCALE]))
    count = draw(st.integers(2, 3)) if objective is not Objective.COST else draw(st.none() | st.integers(2, 4))
    services = []
    for number in range(draw(st.integers(1, 2))):
        prompt, output = draw(st.sampled_from([64, 128, 256])), draw(st.sampled_from([64, 192]))
        ttft_ms, tpot_ms = draw(st.floats(800.0, 4000.0)), draw(st.floats(30.0, 120.0))
        service = Service(f"s{number}", "llama-13b", prompt, output, round(ttft_ms, 1), round(tpot_ms, 1))
        services.append((service, round(draw(st.floats(0.1, 3.0)), 2)))
    instance = instance_of_services(
        "drawn",
        services,
        [GpuPool(replace(A100_LLM, price_per_hour=draw(prices)), count)],
        objective=objective,
        slo_rule=draw(st.sampled_from([SloRule.HALF_SLO, SloRule.ATTAINMENT])),
        latency_buffer=draw(st.sampled_from([1.0, 1.1])),
    )
    split = draw(st.booleans()) and objective is Objective.COST
    return Case(instance, SearchedClass.SPLIT if split else SearchedClass.SPATIAL)


@st.composite
def cases_of_mig_instances(draw: st.DrawFn) -> Case:
    """An instance of one to three workloads on one or two types of GPUs that are cut into MIG instances."""
    models = [f"m{number}" for number in range(draw(st.integers(1, 3)))]
    pool = []
    for number in range(draw(st.integers(1, 2))):
        profile = {model: tuple(draw(mig_configurations())) for model in models}
        gpu = GpuType(f"mig{number}", 3, 1000.0, draw(prices), ISOLATED, {}, INVENTED, mig=MigProfile(SLICES, profile))
        pool.append(GpuPool(gpu, draw(st.none() | st.integers(1, 3))))
    workloads = tuple(
        Workload(f"w{model}", model, round(draw(st.floats(10.0, 90.0)), 1), round(draw(st.floats(1.0, 60.0)), 1))
        for model in models
    )
    instance = Instance("drawn", Objective.COST, SloRule.HALF_SLO, MIG_TABLE, tuple(pool), workloads)
    return Case(instance, SearchedClass.SPLIT)


@st.composite
def mig_configurations(draw: st.DrawFn) -> list[MigConfiguration]:
    """Configurations of a model in every size of MIG instance: one or two batches, one process each."""
    configurations = []
    for units in (1, 2, 3):
        for batch in range(1, draw(st.integers(1, 2)) + 1):
            rate_rps = round(draw(st.floats(2.0, 20.0)) * units, 1)
            configurations.append(MigConfiguration(units, batch, 1, rate_rps, round(draw(st.floats(4.0, 40.0)), 1)))
    return configurations
