"""Instances of other suites under the SLO rule ``attainment``, whose plans meet the SLOs under random arrivals."""

from collections.abc import Callable
from dataclasses import replace

from instances.budget import SloRule
from instances.generate import sixty_four_gpus
from instances.instance import Instance
from instances.suites import gpulet, igniter, inss, llm

_BUILDERS: tuple[Callable[[], tuple[Instance, ...]], ...] = (
    igniter.igniter_12,
    lambda: sixty_four_gpus()[:1],
    inss.overloaded,
    lambda: gpulet.scenario(3),
    lambda: gpulet.by_rates("equal"),
    llm.sixteen_gpus,
)


def hold() -> tuple[Instance, ...]:
    """Return instances that ask for 99 % of each workload's Poisson arrivals to be served within the SLO."""
    return tuple(
        replace(
            instance,
            name=f"{instance.name}-hold",
            slo_rule=SloRule.ATTAINMENT,
            provenance=f"{instance.provenance}; under attainment 0.99",
        )
        for build in _BUILDERS
        for instance in build()
    )
