"""Drawing of the library's instances: 36 families of ``pool-mix``, and mixes of two suites.

A family is an objective on one of nine settings: GPU types, performance model, SLO rule, and distributions of SLOs and
rates. A family has instances of six sizes; the size is also the seed. ``python -m instances.library.drawing``
adds the instances that the library lacks and changes no other entry.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from types import MappingProxyType

from instances.budget import SloRule
from instances.instance import GpuPool, Instance, Objective
from instances.library.collection import LIBRARY, Library
from instances.library.entry import LibraryEntry
from instances.pool_mix import RateLaw, SloLaw, pool_mix
from instances.suites import suite


@dataclass(frozen=True, slots=True)
class FamilySetting:
    """Arguments of ``pool_mix`` for a family, except the objective and the size."""

    gpus: tuple[str, ...]
    performance_model: str
    slo_rule: SloRule
    slo: SloLaw = SloLaw.MIXED
    rates: RateLaw = RateLaw.EVEN


SETTINGS: Mapping[str, FamilySetting] = MappingProxyType(
    {
        "t4": FamilySetting(("t4",), "igniter", SloRule.HALF_SLO),
        "a100": FamilySetting(("a100",), "hybrid", SloRule.HALF_SLO, SloLaw.LOOSE),
        "inss": FamilySetting(("a100-inss",), "inss", SloRule.ASSEMBLY, SloLaw.MIXED, RateLaw.ZIPF),
        "turing": FamilySetting(("rtx2080ti",), "gpulet", SloRule.DUTY_CYCLE),
        "volta-t4": FamilySetting(("v100", "t4"), "igniter", SloRule.ATTAINMENT, SloLaw.LOOSE, RateLaw.FEW_LARGE),
        "ampere-turing": FamilySetting(("a100-inss", "rtx2080ti"), "inss", SloRule.HALF_SLO, SloLaw.TIGHT),
        "three": FamilySetting(("v100", "t4", "a100-inss"), "hybrid", SloRule.ASSEMBLY, SloLaw.MIXED, RateLaw.ZIPF),
        "large-three": FamilySetting(("a100", "a100-inss", "rtx2080ti"), "inss", SloRule.ATTAINMENT, SloLaw.LOOSE),
        "four": FamilySetting(("v100", "t4", "a100", "a100-inss"), "igniter", SloRule.HALF_SLO),
    }
)

GPUS_PER_WORKLOAD = MappingProxyType({Objective.CAPACITY: 0.6, Objective.GOODPUT: 0.2, Objective.SCALE: 0.4})
"""GPUs per workload, divided evenly among the pool's types and rounded up; under ``cost`` pools are unlimited."""

SIZES = (4, 7, 10, 14, 24)
"""Five of the six sizes of every family."""

MEDIUM_SIZES = (60, 80, 100, 120, 160, 200, 240, 280, 300)
"""Sixth size of the families of each setting, in the order of ``SETTINGS``."""

LARGE = (("t4", 1000), ("a100", 1000), ("four", 1000), ("ampere-turing", 3000), ("turing", 3000))
"""Settings and sizes of large instances under ``cost``."""

LARGEST = (("volta-t4", 10_000), ("three", 10_000))
"""Settings and sizes of the largest instances under ``cost``."""

SUITES = ("llm-mix", "llm-4gpu", "llm-16gpu", "parvagpu")
"""Suites whose instances are entries, too: language models, and GPUs cut into MIG instances."""


def drawn() -> Iterator[Instance]:
    """Yield all instances of the library, under their present names and without those that were withdrawn."""
    withdrawn = LIBRARY.withdrawn()
    for instance in _drawn():
        name = LIBRARY.current(instance.name)
        if name not in withdrawn:
            yield replace(instance, name=name)


def _drawn() -> Iterator[Instance]:
    for objective in (Objective.COST, *GPUS_PER_WORKLOAD):
        for setting, medium in zip(SETTINGS, MEDIUM_SIZES, strict=True):
            for size in (*SIZES, medium):
                yield draw(setting, objective, size)
    for setting, size in (*LARGE, *LARGEST):
        yield draw(setting, Objective.COST, size)
    for name in SUITES:
        yield from (replace(instance, name=f"library-{instance.name}") for instance in suite(name).build())


def draw(setting: str, objective: Objective, size: int) -> Instance:
    """Return the instance of a family with ``size`` workloads, whose seed is ``size``, as named before any renewal."""
    count = gpus_of_each_type(setting, objective, size)
    pool = ",".join(gpu if count is None else f"{gpu}:{count}" for gpu in SETTINGS[setting].gpus)
    return mix_of_family(setting, objective, size, size, pool, f"{objective}-{setting}-{size}")


def gpus_of_each_type(setting: str, objective: Objective, size: int) -> int | None:
    """Return the number of GPUs of each type for ``size`` workloads; ``None`` if the pool is unlimited."""
    gpus_per_workload = GPUS_PER_WORKLOAD.get(objective)
    return None if gpus_per_workload is None else ceil(gpus_per_workload * size / len(SETTINGS[setting].gpus))


def mix_of_family(
    setting: str, objective: Objective, size: int, seed: int, pool: str | Sequence[GpuPool], name: str
) -> Instance:
    """Return the instance of a family with ``size`` workloads, a seed, a pool and a name; see ``pool_mix``."""
    family = SETTINGS[setting]
    return pool_mix(
        size,
        seed,
        pool,
        slo=family.slo,
        rates=family.rates,
        performance_model=family.performance_model,
        objective=objective,
        slo_rule=family.slo_rule,
        name=name,
    )


def add_missing(library: Library) -> list[str]:
    """Write an entry without plan and bound for each instance that the library lacks; return the names."""
    present = set(library.names())
    missing = [instance for instance in drawn() if instance.name not in present]
    for instance in missing:
        library.write(LibraryEntry(instance))
    return [instance.name for instance in missing]


if __name__ == "__main__":
    print(f"{len(add_missing(LIBRARY))} instances added")
