"""Instances of other suites under the SLO rule ``attainment``: their plans must hold under random arrivals."""

from collections.abc import Callable
from dataclasses import replace

from instances.budget import SloRule
from instances.generate import sixty_four_gpus
from instances.instance import Instance
from instances.suites import gpulet, igniter, inss, llm

_ATTAINMENT = 0.99
"""Fraction of each workload's requests that must be in time."""

_BUILDERS: tuple[Callable[[], tuple[Instance, ...]], ...] = (
    igniter.igniter_12,
    lambda: sixty_four_gpus()[:1],
    inss.overloaded,
    lambda: gpulet.scenario(3),
    lambda: gpulet.by_rates("equal"),
    llm.sixteen_gpus,
)

_WITHOUT_DROPPING = _BUILDERS[:2]
"""Builders of the instances that the suite also has for servers that drop no requests."""


def hold() -> tuple[Instance, ...]:
    """Return instances whose plans must serve ``_ATTAINMENT`` of each workload's Poisson arrivals within the SLO."""
    dropping = (_with_attainment(instance, True) for build in _BUILDERS for instance in build())
    serving_all = (_with_attainment(instance, False) for build in _WITHOUT_DROPPING for instance in build())
    return (*dropping, *serving_all)


def _with_attainment(instance: Instance, dropping: bool) -> Instance:
    note = f"under attainment {_ATTAINMENT:g}" + ("" if dropping else ", no request is dropped")
    return replace(
        instance,
        name=f"{instance.name}-hold{'' if dropping else '-no-drop'}",
        slo_rule=SloRule.ATTAINMENT,
        attainment=_ATTAINMENT,
        dropping=dropping,
        provenance=f"{instance.provenance}; {note}",
    )
