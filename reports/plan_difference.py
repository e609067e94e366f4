"""Difference between two plans of one instance, in sentences."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from instances import Instance, Plan


def plan_difference(own: Plan, other: Plan, instance: Instance, most: int = 3) -> list[str]:
    """Return the differences of ``own`` from ``other`` in words: GPUs, allocated share, and gpulets of workloads.

    Parameters
    ----------
    own, other
        Plans for ``instance``, such as a scheduler's and the best known one.
    most
        Largest number of workloads to name; those with the largest differences of share come first.
    """
    found = []
    used, needed = _gpus(own), _gpus(other)
    if used != needed:
        found.append(f"GPUs: {_counts(used)} instead of {_counts(needed)}")
    shares, others = _shares(own, instance), _shares(other, instance)
    total, instead = sum(shares.values()), sum(others.values())
    if abs(total - instead) >= 0.005:
        found.append(f"allocated: {100 * total:,.0f} % of a GPU instead of {100 * instead:,.0f} %")
    places, elsewhere = _places(own, instance), _places(other, instance)
    changed = [name for name in {**shares, **others} if places.get(name) != elsewhere.get(name)]
    changed.sort(key=lambda name: (-abs(shares.get(name, 0.0) - others.get(name, 0.0)), name))
    absent = "not placed"
    found += [f"{name}: {places.get(name, absent)} instead of {elsewhere.get(name, absent)}" for name in changed[:most]]
    if len(changed) > most:
        found.append(f"and {len(changed) - most} more workloads differ")
    return found or ["the plans place every workload alike"]


def _gpus(plan: Plan) -> Counter[str]:
    return Counter(gpu.type for gpu in plan.gpus if gpu.gpulets)


def _counts(gpus: Mapping[str, int]) -> str:
    return " + ".join(f"{count} {name}" for name, count in sorted(gpus.items())) or "none"


def _units(gpu_type: str, instance: Instance) -> int:
    pool = instance.pool(gpu_type)
    return pool.type.share_units if pool is not None else 100


def _shares(plan: Plan, instance: Instance) -> dict[str, float]:
    """Return the share of each workload as a fraction of a GPU; the slots of a gpulet divide its share equally."""
    found: dict[str, float] = defaultdict(float)
    for position, gpulet, slot in plan.slots():
        found[slot.workload] += gpulet.share_units / len(gpulet.slots) / _units(plan.gpus[position].type, instance)
    return found


def _places(plan: Plan, instance: Instance) -> dict[str, str]:
    """Return the gpulets of each workload in words, without the numbers of their GPUs."""
    found: dict[str, list[str]] = defaultdict(list)
    for position, gpulet, slot in plan.slots():
        gpu = plan.gpus[position]
        share = 100.0 * gpulet.share_units / _units(gpu.type, instance)
        on = f" on {gpu.type}" if len(instance.gpus) > 1 else ""
        beside = sorted({other.workload for each in gpu.gpulets for other in each.slots} - {slot.workload})
        mates = f" beside {_few(beside)}" if beside else " alone"
        found[slot.workload].append(f"{share:.3g} %{on} at batch {slot.batch}{mates}")
    return {name: " and ".join(sorted(each)) for name, each in found.items()}


def _few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
