"""Named suites: the instances that papers and people compare on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.errors import unknown_name
from instances.generate import generate
from instances.instance import GpuPool, Instance, Objective
from instances.parvagpu import parvagpu
from instances.workload import Workload


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of instances, built on demand."""

    name: str
    description: str
    build: Callable[[], tuple[Instance, ...]]


def _igniter(name: str, demands: list[tuple[str, float, float]], source: str) -> Instance:
    return Instance(
        name=name,
        objective=Objective.COST,
        slo_rule=SloRule.HALF_SLO,
        performance_model="igniter",
        gpus=(GpuPool(gpu_type("v100")),),
        workloads=tuple(
            Workload(f"W{position + 1}", model, slo_ms, rate_rps)
            for position, (model, slo_ms, rate_rps) in enumerate(demands)
        ),
        provenance=source,
    )


def _igniter_3() -> tuple[Instance, ...]:
    demands = [("alexnet", 15.0, 500.0), ("resnet50", 40.0, 400.0), ("vgg19", 60.0, 200.0)]
    return (_igniter("igniter-3", demands, "iGniter, Sec. 2.3 and Table 1"),)


def _igniter_12() -> tuple[Instance, ...]:
    demands = [
        ("alexnet", 10.0, 1200.0),
        ("alexnet", 15.0, 400.0),
        ("alexnet", 20.0, 800.0),
        ("resnet50", 20.0, 400.0),
        ("resnet50", 30.0, 600.0),
        ("resnet50", 40.0, 200.0),
        ("vgg19", 20.0, 300.0),
        ("vgg19", 30.0, 400.0),
        ("vgg19", 40.0, 200.0),
        ("ssd", 25.0, 150.0),
        ("ssd", 40.0, 50.0),
        ("ssd", 55.0, 300.0),
    ]
    return (_igniter("igniter-12", demands, "iGniter, Table 3, in the reading that reproduces its published plan"),)


def _64gpu() -> tuple[Instance, ...]:
    return (
        generate("heavy-mix", 160, 0, Objective.COST, name="64gpu-cost"),
        generate("heavy-mix", 160, 15, Objective.COST, gpus=72, name="64gpu-pool"),
        generate("heavy-mix", 160, 7, Objective.CAPACITY, gpus=64, name="64gpu-capacity"),
        generate("overload-mix", 160, 1, Objective.GOODPUT, gpus=64, name="64gpu-goodput"),
    )


def _smoke() -> tuple[Instance, ...]:
    return (
        *_igniter_3(),
        generate("igniter-mix", 5, 0, Objective.COST, name="smoke-cost"),
        generate("igniter-mix", 4, 1, Objective.CAPACITY, gpus=2, name="smoke-capacity"),
        generate("overload-mix", 4, 2, Objective.GOODPUT, gpus=2, name="smoke-goodput"),
    )


def _igniter_scaling() -> tuple[Instance, ...]:
    return tuple(generate("igniter-mix", size, 0) for size in (10, 20, 50, 100, 200, 500, 1000))


def _exact_scaling() -> tuple[Instance, ...]:
    return tuple(
        generate("igniter-mix", size, seed, name=f"exact-{size}-s{seed}")
        for size in (5, 10, 15, 20, 30, 40, 80, 160)
        for seed in range(3)
    )


SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("igniter-3", "iGniter's motivating example: three workloads, cost on V100s", _igniter_3),
        Suite("igniter-12", "iGniter's evaluation: twelve workloads, cost on V100s", _igniter_12),
        Suite(
            "64gpu",
            "four instances of 160 workloads for about 64 V100s: cost, cost on a bounded pool, capacity, goodput",
            _64gpu,
        ),
        Suite("igniter-scaling", "random mixes of 10 to 1,000 workloads, for decision times", _igniter_scaling),
        Suite("parvagpu", "ParvaGPU's six service mixes: cost on A100s cut into MIG instances", parvagpu),
        Suite("exact-scaling", "three random mixes of each of 5 to 160 workloads, for exact methods", _exact_scaling),
        Suite("smoke", "four tiny instances of every objective, for a check in seconds", _smoke),
    )
}


def suite(name: str, where: str = "suite") -> Suite:
    """Return the suite called ``name``.

    Raises
    ------
    InputError
        If there is none; ``where`` names the place that asked.
    """
    if name not in SUITES:
        raise unknown_name(where, "suite", name, list(SUITES))
    return SUITES[name]
