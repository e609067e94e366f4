"""Generator of random instances from a family, a size and a seed; suites of such instances."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.errors import InputError, unknown_name
from instances.instance import GpuPool, Instance, Objective
from instances.workload import Workload

MOST_WORKLOADS = 100_000
"""Largest number of workloads: larger files take minutes to read, and no scheduler finishes on such instances."""


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from ``low`` to ``high``, both included, all equally likely."""

    low: int
    high: int

    def draw(self, random: Random) -> int:
        """Draw a number with ``Random.random``, whose sequence Python guarantees across versions."""
        return self.at(random.random())

    def at(self, unit: float) -> int:
        """Return the number at a fraction of the range, from 0 to below 1."""
        return self.low + int(unit * (self.high - self.low + 1))


@dataclass(frozen=True, slots=True)
class Family:
    """A distribution of instances on one GPU type.

    Attributes
    ----------
    name, description
        Name, and description in ``bench list`` and ``--help``.
    gpu
        Name of the GPU type.
    demands
        Ranges of the SLO in ms and of the rate in requests per second, by model.
    """

    name: str
    description: str
    gpu: str
    demands: Mapping[str, tuple[Range, Range]]


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "igniter-mix",
            "iGniter's four models with SLOs and rates about those of its Table 3; one V100 serves any workload",
            "v100",
            {
                "alexnet": (Range(10, 25), Range(100, 1200)),
                "resnet50": (Range(20, 50), Range(50, 600)),
                "vgg19": (Range(20, 60), Range(30, 400)),
                "ssd": (Range(25, 70), Range(20, 240)),
            },
        ),
        Family(
            "heavy-mix",
            "the same models at higher rates: 160 workloads need about 64 V100s; one V100 serves any workload",
            "v100",
            {
                "alexnet": (Range(10, 25), Range(200, 1800)),
                "resnet50": (Range(20, 50), Range(100, 800)),
                "vgg19": (Range(20, 60), Range(50, 450)),
                "ssd": (Range(25, 70), Range(30, 240)),
            },
        ),
        Family(
            "overload-mix",
            "rates at which 64 V100s can serve about three quarters of the requests of 160 workloads at best",
            "v100",
            {
                "resnet50": (Range(20, 50), Range(1000, 1500)),
                "vgg19": (Range(20, 60), Range(350, 520)),
                "ssd": (Range(25, 70), Range(180, 260)),
            },
        ),
    )
}


def check_size(size: int) -> None:
    """Raise ``InputError`` if an instance cannot have ``size`` workloads."""
    if not 1 <= size <= MOST_WORKLOADS:
        raise InputError("size", f"{size} workloads; expected 1 to {MOST_WORKLOADS:,}")


def generate(
    family: str,
    size: int,
    seed: int,
    objective: Objective = Objective.COST,
    gpus: int | None = None,
    name: str | None = None,
) -> Instance:
    """Draw an instance.

    Parameters
    ----------
    family
        A name from ``FAMILIES``.
    size
        Number of workloads, 1 to ``MOST_WORKLOADS``; their models are drawn uniformly.
    seed
        The same family, size and seed give the same workloads in every version.
    gpus
        Size of the pool; ``None`` for an unlimited pool.
    name
        Name of the instance; by default it consists of family, size and seed.

    Raises
    ------
    InputError
        If the family is unknown or the size is out of range.
    """
    if family not in FAMILIES:
        raise unknown_name("family", "instance family", family, list(FAMILIES))
    check_size(size)
    distribution = FAMILIES[family]
    random = Random(f"{family}/{size}/{seed}")
    models = list(distribution.demands)
    workloads = []
    for position in range(size):
        model = models[int(random.random() * len(models))]
        slo_ms, rate_rps = (range_.draw(random) for range_ in distribution.demands[model])
        workloads.append(Workload(f"w{position + 1}", model, float(slo_ms), float(rate_rps)))
    return Instance(
        name=name or f"{family}-{size}-s{seed}",
        objective=objective,
        slo_rule=SloRule.HALF_SLO,
        performance_model="igniter",
        gpus=(GpuPool(gpu_type(distribution.gpu), gpus),),
        workloads=tuple(workloads),
        seed=seed,
        provenance=f"generated: family {family}, {size} workloads, seed {seed}",
    )


def sixty_four_gpus() -> tuple[Instance, ...]:
    """Return four instances of 160 workloads for about 64 V100s."""
    return (
        generate("heavy-mix", 160, 0, Objective.COST, name="64gpu-cost"),
        generate("heavy-mix", 160, 15, Objective.COST, gpus=72, name="64gpu-pool"),
        generate("heavy-mix", 160, 7, Objective.CAPACITY, gpus=64, name="64gpu-capacity"),
        generate("overload-mix", 160, 1, Objective.GOODPUT, gpus=64, name="64gpu-goodput"),
    )


def smoke() -> tuple[Instance, ...]:
    """Return a tiny instance under each of ``cost``, ``capacity`` and ``goodput``."""
    return (
        generate("igniter-mix", 5, 0, Objective.COST, name="smoke-cost"),
        generate("igniter-mix", 4, 1, Objective.CAPACITY, gpus=2, name="smoke-capacity"),
        generate("overload-mix", 4, 2, Objective.GOODPUT, gpus=2, name="smoke-goodput"),
    )


def igniter_scaling() -> tuple[Instance, ...]:
    """Return one mix of each size from 10 to 1,000 workloads."""
    return tuple(generate("igniter-mix", size, 0) for size in (10, 20, 50, 100, 200, 500, 1000))


def exact_scaling() -> tuple[Instance, ...]:
    """Return three mixes of each size from 5 to 160 workloads."""
    return tuple(
        generate("igniter-mix", size, seed, name=f"exact-{size}-s{seed}")
        for size in (5, 10, 15, 20, 30, 40, 80, 160)
        for seed in range(3)
    )
