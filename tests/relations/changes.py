"""Changes of an instance that can only help, or that scale every value; most say how a plan stays feasible."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from formulations.colgen.scheduler import SearchedClass
from instances import Gpulet, GpuPool, GpuType, Objective, PlacedGpu, Plan, SloRule
from instances.arrays import Floats
from tests.formulations.exhaustive import slower
from tests.relations.drawn import WIDER, Case, classes_of


@dataclass(frozen=True)
class Changed:
    """A case after a change.

    Attributes
    ----------
    plan
        Function that turns a feasible plan of the case before the change into one of this case; ``None`` if there is
        not always such a plan.
    factor
        Value of a plan after the change, divided by its value before.
    """

    case: Case
    plan: Callable[[Plan], Plan] | None
    factor: float = 1.0


Change = Callable[[Case, float], Changed | None]
"""Function that changes a case by a size from 0 to 1; it returns ``None`` if the case does not permit the change."""


def same(plan: Plan) -> Plan:
    """Return the plan, which the change leaves feasible."""
    return plan


def _with(case: Case, **fields: object) -> Case:
    return replace(case, instance=replace(case.instance, **fields))  # type: ignore[arg-type]


def longer_slo(case: Case, size: float) -> Changed:
    longer = tuple(replace(w, slo_ms=w.slo_ms * (1.0 + 4.0 * size)) for w in case.instance.workloads)
    return Changed(_with(case, workloads=longer), same)


def far_longer_slo(case: Case, size: float) -> Changed:
    longer = tuple(replace(w, slo_ms=w.slo_ms * 10.0 ** (2.0 + 6.0 * size)) for w in case.instance.workloads)
    return Changed(_with(case, workloads=longer), same)


def lower_rate(case: Case, size: float) -> Changed | None:
    """Lower the rates.

    This does not help under ``assembly``, where batches fill more slowly, under ``p99``, or if the objective counts the
    rates.
    """
    if case.instance.slo_rule in (SloRule.ASSEMBLY, SloRule.P99):
        return None
    if case.instance.objective in (Objective.GOODPUT, Objective.SCALE):
        return None
    lower = tuple(replace(w, rate_rps=w.rate_rps * (1.0 - 0.7 * size)) for w in case.instance.workloads)
    return Changed(_with(case, workloads=lower), same)


def smaller_buffer(case: Case, size: float) -> Changed:
    return Changed(_with(case, latency_buffer=case.instance.latency_buffer * (1.0 - 0.5 * size)), same)


def lower_attainment(case: Case, size: float) -> Changed | None:
    if case.instance.slo_rule is not SloRule.ATTAINMENT:
        return None
    return Changed(_with(case, attainment=case.instance.attainment - 0.3 * size), same)


def _types(case: Case, change: Callable[[GpuType], GpuType]) -> Case:
    return _with(case, gpus=tuple(replace(pool, type=change(pool.type)) for pool in case.instance.gpus))


def more_memory(case: Case, size: float) -> Changed:
    return Changed(_types(case, lambda gpu: replace(gpu, memory_mib=gpu.memory_mib * (1.0 + size))), same)


def one_more_gpu(case: Case, size: float) -> Changed | None:
    gpus = list(case.instance.gpus)
    position = round(size * (len(gpus) - 1))
    count = gpus[position].count
    if count is None:
        return None
    gpus[position] = replace(gpus[position], count=count + 1)
    return Changed(_with(case, gpus=tuple(gpus)), same)


def one_more_type(case: Case, size: float) -> Changed:
    first = case.instance.gpus[0].type
    third = replace(slower(first, "third", 1.1, first.price_per_hour * (0.5 + size)))
    return Changed(_with(case, gpus=(*case.instance.gpus, GpuPool(third, 1))), same)


def finer_shares(case: Case, size: float) -> Changed | None:
    """Divide every share unit into two or three, so that there are more shares to choose from."""
    factor = 2 + round(size)

    def finer(plan: Plan) -> Plan:
        return replace(plan, gpus=tuple(_finer(gpu, factor) for gpu in plan.gpus))

    return Changed(_types(case, lambda gpu: replace(gpu, share_units=gpu.share_units * factor)), finer)


def _finer(gpu: PlacedGpu, factor: int) -> PlacedGpu:
    gpulets = tuple(replace(gpulet, share_units=gpulet.share_units * factor) for gpulet in gpu.gpulets)
    return replace(gpu, gpulets=gpulets)


def wider_class(case: Case, size: float) -> Changed | None:
    classes = [wider for wider in WIDER[case.plan_class] if wider in classes_of(case.instance)]
    if not classes:
        return None
    return Changed(replace(case, plan_class=classes[round(size * (len(classes) - 1))]), same)


def fewer_workloads(case: Case, size: float) -> Changed | None:
    """Remove a workload; under ``goodput`` and ``capacity``, which count its requests, the value may fall."""
    workloads = case.instance.workloads
    if len(workloads) < 2 or case.instance.objective in (Objective.GOODPUT, Objective.CAPACITY):
        return None
    removed = workloads[round(size * (len(workloads) - 1))]

    def without(plan: Plan) -> Plan:
        gpus = (_without(gpu, removed.id) for gpu in plan.gpus)
        return replace(plan, gpus=tuple(gpu for gpu in gpus if gpu.gpulets))

    remaining = tuple(w for w in workloads if w is not removed)
    return Changed(_with(case, workloads=remaining), without if case.plan_class is SearchedClass.SPATIAL else None)


def _without(gpu: PlacedGpu, workload: str) -> PlacedGpu:
    return replace(gpu, gpulets=tuple(g for g in gpu.gpulets if g.slots[0].workload != workload))


def wider_rule(case: Case, size: float) -> Changed | None:
    """Replace ``duty-cycle`` by ``half-slo``, which permits every plan without turns that ``duty-cycle`` permits."""
    if case.instance.slo_rule is not SloRule.DUTY_CYCLE or case.plan_class is SearchedClass.SPATIO_TEMPORAL:
        return None
    return Changed(_with(case, slo_rule=SloRule.HALF_SLO), same)


def merged(case: Case, size: float) -> Changed | None:
    """Merge two identical workloads into one of twice the rate, and search split plans instead of spatial ones.

    Each slot keeps its rate and its batch, and the budget of a slot must depend on nothing else. The objective is
    ``cost``.
    """
    first, *later = case.instance.workloads
    twins = [w for w in later if (w.model, w.slo_ms, w.rate_rps) == (first.model, first.slo_ms, first.rate_rps)]
    spatial_cost = case.plan_class is SearchedClass.SPATIAL and case.instance.objective is Objective.COST
    if not twins or not spatial_cost or case.instance.slo_rule not in (SloRule.HALF_SLO, SloRule.DUTY_CYCLE):
        return None
    others = [w for w in later if w is not twins[0]]
    workloads = (replace(first, rate_rps=2.0 * first.rate_rps), *others)
    names = {w.id: w.id for w in case.instance.workloads} | {twins[0].id: first.id}

    def join(plan: Plan) -> Plan:
        return replace(plan, gpus=tuple(_renamed(gpu, names) for gpu in plan.gpus))

    after = _with(replace(case, plan_class=SearchedClass.SPLIT), workloads=workloads)
    return Changed(after, join)


# Changes after which no plan is worse, and no bound is tighter
HELPFUL: tuple[Change, ...] = (
    longer_slo,
    far_longer_slo,
    lower_rate,
    smaller_buffer,
    lower_attainment,
    more_memory,
    one_more_gpu,
    one_more_type,
    finer_shares,
    wider_class,
    fewer_workloads,
    wider_rule,
    merged,
)


ON_ALL_GPUS: tuple[Change, ...] = (longer_slo, lower_rate, one_more_gpu)
"""Helpful changes that also apply to services, and to GPUs that are cut into MIG instances."""


def other_order(case: Case, size: float) -> Changed:
    """Rename and reorder the workloads and reorder the GPU types."""
    names = {w.id: f"{chr(ord('z') - n)}-{w.id}" for n, w in enumerate(case.instance.workloads)}
    shift = round(size * len(names))
    renamed = [replace(w, id=names[w.id]) for w in case.instance.workloads]

    def rename(plan: Plan) -> Plan:
        return replace(plan, gpus=tuple(_renamed(gpu, names) for gpu in plan.gpus))

    workloads = tuple(reversed(renamed[shift:] + renamed[:shift]))
    return Changed(_with(case, workloads=workloads, gpus=case.instance.gpus[::-1]), rename)


def _renamed(gpu: PlacedGpu, names: dict[str, str]) -> PlacedGpu:
    return replace(gpu, gpulets=tuple(_renamed_gpulet(gpulet, names) for gpulet in gpu.gpulets))


def _renamed_gpulet(gpulet: Gpulet, names: dict[str, str]) -> Gpulet:
    return replace(gpulet, slots=tuple(replace(slot, workload=names[slot.workload]) for slot in gpulet.slots))


def other_currency(case: Case, size: float) -> Changed:
    factor = (0.25, 3.0, 7.77)[round(2 * size)]
    changed = _types(case, lambda gpu: replace(gpu, price_per_hour=gpu.price_per_hour * factor))
    return Changed(changed, same, factor if case.instance.objective is Objective.COST else 1.0)


def other_clock(case: Case, size: float) -> Changed | None:
    """Multiply all times by a power of two, and divide the rates by it.

    Under ``attainment`` budgets are on a grid of absolute times, so they do not scale.
    """
    if case.instance.slo_rule is SloRule.ATTAINMENT:
        return None
    factor = (0.5, 4.0)[round(size)]

    def slow(plan: Plan) -> Plan:
        return replace(plan, gpus=tuple(_slow_gpu(gpu, factor) for gpu in plan.gpus))

    workloads = tuple(
        replace(w, slo_ms=w.slo_ms * factor, rate_rps=w.rate_rps / factor) for w in case.instance.workloads
    )
    slowed = replace(_types(case, lambda gpu: _slow_type(gpu, factor)))
    counted = case.instance.objective in (Objective.GOODPUT, Objective.CAPACITY)
    return Changed(_with(slowed, workloads=workloads), slow, 1.0 / factor if counted else 1.0)


def _slow_gpu(gpu: PlacedGpu, factor: float) -> PlacedGpu:
    gpulets = []
    for gpulet in gpu.gpulets:
        slots = tuple(replace(slot, rate_rps=slot.rate_rps / factor) for slot in gpulet.slots)
        cycle_ms = None if gpulet.duty_cycle_ms is None else gpulet.duty_cycle_ms * factor
        gpulets.append(replace(gpulet, slots=slots, duty_cycle_ms=cycle_ms))
    return replace(gpu, gpulets=tuple(gpulets))


def _slow_type(gpu: GpuType, factor: float) -> GpuType:
    """Return the GPU type on which everything takes ``factor`` times as long.

    Demands grow linearly with the throughput, so their slopes are multiplied by ``factor``.
    """
    hardware = gpu.hardware
    models = {}
    for name, model in gpu.models.items():
        k1, k2, k3, k4, k5 = model.k
        assert model.solo is not None
        assert model.company is not None
        solo = replace(
            model.solo,
            gpu_ms=_times(model.solo.gpu_ms, factor),
            l2=(model.solo.l2[0] * factor, model.solo.l2[1]),
            dram=(model.solo.dram[0] * factor, model.solo.dram[1]),
        )
        models[name] = replace(
            model,
            k=(k1 * factor, k2 * factor, k3 * factor, k4, k5 * factor),
            power=(model.power[0] * factor, model.power[1]),
            l2=(model.l2[0] * factor, model.l2[1]),
            scheduling_alone_ms=model.scheduling_alone_ms * factor,
            solo=solo,
            company=replace(model.company, gpu_ms=_times(model.company.gpu_ms, factor)),
        )
    return replace(
        gpu,
        models=models,
        hardware=replace(
            hardware,
            pcie_bytes_per_ms=hardware.pcie_bytes_per_ms / factor,
            alpha_sch=hardware.alpha_sch * factor,
            beta_sch=hardware.beta_sch * factor,
        ),
    )


def _times(rows: tuple[tuple[float, ...], ...] | Floats, factor: float) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(time) * factor for time in row) for row in rows)


EQUAL: tuple[Change, ...] = (other_order, other_currency, other_clock)
"""Changes that scale the value of every plan by a factor."""
