"""Suites of random instances: large instances, and series of growing size."""

from instances.generate import generate
from instances.instance import Instance, Objective
from instances.suites.igniter import igniter_3


def sixty_four_gpus() -> tuple[Instance, ...]:
    """Return four instances of 160 workloads for about 64 V100s."""
    return (
        generate("heavy-mix", 160, 0, Objective.COST, name="64gpu-cost"),
        generate("heavy-mix", 160, 15, Objective.COST, gpus=72, name="64gpu-pool"),
        generate("heavy-mix", 160, 7, Objective.CAPACITY, gpus=64, name="64gpu-capacity"),
        generate("overload-mix", 160, 1, Objective.GOODPUT, gpus=64, name="64gpu-goodput"),
    )


def smoke() -> tuple[Instance, ...]:
    """Return tiny instances of every objective of the papers' schedulers."""
    return (
        *igniter_3(),
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
