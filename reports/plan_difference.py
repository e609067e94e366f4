"""Difference between two plans of one instance, in sentences."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from instances import Instance, Plan


def plan_difference(plan: Plan, reference: Plan, instance: Instance, named_workloads: int = 3) -> list[str]:
    """Return the differences of ``plan`` from ``reference`` in words: GPUs, allocated share, and gpulets of workloads.

    Parameters
    ----------
    plan, reference
        Plans for ``instance``, such as a scheduler's plan and the best known plan.
    named_workloads
        Largest number of workloads to name. Workloads with the largest differences of share come first.
    """
    differences = []
    plan_gpus, reference_gpus = _gpus(plan), _gpus(reference)
    if plan_gpus != reference_gpus:
        differences.append(f"GPUs: {_counts(plan_gpus)} instead of {_counts(reference_gpus)}")
    plan_shares, reference_shares = _shares(plan, instance), _shares(reference, instance)
    plan_total, reference_total = sum(plan_shares.values()), sum(reference_shares.values())
    if abs(plan_total - reference_total) >= 0.005:
        differences.append(f"allocated: {100 * plan_total:,.0f} % of a GPU instead of {100 * reference_total:,.0f} %")
    plan_places, reference_places = _places(plan, instance), _places(reference, instance)
    changed_workloads = [
        name for name in {**plan_shares, **reference_shares} if plan_places.get(name) != reference_places.get(name)
    ]
    changed_workloads.sort(key=lambda name: (-abs(plan_shares.get(name, 0.0) - reference_shares.get(name, 0.0)), name))
    not_placed = "not placed"
    differences += [
        f"{name}: {plan_places.get(name, not_placed)} instead of {reference_places.get(name, not_placed)}"
        for name in changed_workloads[:named_workloads]
    ]
    if len(changed_workloads) > named_workloads:
        differences.append(f"and {len(changed_workloads) - named_workloads} more workloads differ")
    return differences or ["the plans place every workload alike"]


def _gpus(plan: Plan) -> Counter[str]:
    return Counter(gpu.type for gpu in plan.gpus if gpu.gpulets)


def _counts(gpus: Mapping[str, int]) -> str:
    return " + ".join(f"{count} {name}" for name, count in sorted(gpus.items())) or "none"


def _units(gpu_type: str, instance: Instance) -> int:
    pool = instance.pool(gpu_type)
    return pool.type.share_units if pool is not None else 100


def _shares(plan: Plan, instance: Instance) -> dict[str, float]:
    """Return the share of each workload as a fraction of a GPU; the slots of a gpulet divide its share equally."""
    shares: dict[str, float] = defaultdict(float)
    for position, gpulet, slot in plan.slots():
        shares[slot.workload] += gpulet.share_units / len(gpulet.slots) / _units(plan.gpus[position].type, instance)
    return shares


def _places(plan: Plan, instance: Instance) -> dict[str, str]:
    """Return the gpulets of each workload in words. GPUs are named by their type, not by their number."""
    places: dict[str, list[str]] = defaultdict(list)
    for position, gpulet, slot in plan.slots():
        gpu = plan.gpus[position]
        share = 100.0 * gpulet.share_units / _units(gpu.type, instance)
        gpu_text = f" on {gpu.type}" if len(instance.gpus) > 1 else ""
        gpu_workloads = {gpu_slot.workload for gpu_gpulet in gpu.gpulets for gpu_slot in gpu_gpulet.slots}
        neighbours = sorted(gpu_workloads - {slot.workload})
        neighbour_text = f" beside {_few(neighbours)}" if neighbours else " alone"
        places[slot.workload].append(f"{share:.3g} %{gpu_text} at batch {slot.batch}{neighbour_text}")
    return {name: " and ".join(sorted(gpulet_texts)) for name, gpulet_texts in places.items()}


def _few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
