"""Drawing of the library's instances: 36 families of ``pool-mix``, and mixes of two suites.

A family is an objective on one of nine settings: GPU types, performance model, SLO rule, and distributions of SLOs and
rates. It has instances of six sizes; the size is also the seed. ``python -m instances.library.drawing`` adds the
instances that the library lacks and changes no others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from types import MappingProxyType

from instances.budget import SloRule
from instances.instance import Instance, Objective
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
"""GPUs of a pool per workload, divided evenly among its types and rounded up; under ``cost`` pools are unlimited."""

SIZES = (4, 7, 10, 14, 24)
MEDIUM_SIZES = (60, 80, 100, 120, 160, 200, 240, 280, 300)
"""Five sizes of every family, and the sixth size of the families of each setting."""

LARGE = (("t4", 1000), ("a100", 1000), ("four", 1000), ("ampere-turing", 3000), ("turing", 3000))
LARGEST = (("volta-t4", 10_000), ("three", 10_000))
"""Settings and sizes of large instances under ``cost``."""

SUITES = ("llm-mix", "llm-4gpu", "llm-16gpu", "parvagpu")
"""Suites whose instances are entries, too: language models, and GPUs cut into MIG instances."""


def drawn() -> Iterator[Instance]:
    """Yield all instances of the library, under the names of today."""
    for one in _drawn():
        yield replace(one, name=LIBRARY.current(one.name))


def _drawn() -> Iterator[Instance]:
    for objective in (Objective.COST, *GPUS_PER_WORKLOAD):
        for setting, medium in zip(SETTINGS, MEDIUM_SIZES, strict=True):
            for size in (*SIZES, medium):
                yield draw(setting, objective, size)
    for setting, size in (*LARGE, *LARGEST):
        yield draw(setting, Objective.COST, size)
    for name in SUITES:
        yield from (replace(one, name=f"library-{one.name}") for one in suite(name).build())


def draw(setting: str, objective: Objective, size: int) -> Instance:
    """Return the instance of a family with ``size`` workloads, under its first name; its seed is ``size``."""
    chosen = SETTINGS[setting]
    factor = GPUS_PER_WORKLOAD.get(objective)
    count = "" if factor is None else f":{ceil(factor * size / len(chosen.gpus))}"
    return pool_mix(
        size,
        size,
        ",".join(f"{gpu}{count}" for gpu in chosen.gpus),
        slo=chosen.slo,
        rates=chosen.rates,
        performance_model=chosen.performance_model,
        objective=objective,
        slo_rule=chosen.slo_rule,
        name=f"{objective}-{setting}-{size}",
    )


def add_missing(library: Library) -> list[str]:
    """Write the instances that the library lacks as open entries; return their names."""
    known = set(library.names())
    missing = [instance for instance in drawn() if instance.name not in known]
    for instance in missing:
        library.write(LibraryEntry(instance))
    return [instance.name for instance in missing]


if __name__ == "__main__":
    print(f"{len(add_missing(LIBRARY))} instances added")
