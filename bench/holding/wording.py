"""Sentences about the test whether a plan holds."""

from bench.holding.attainment import POWER
from bench.holding.verdict import Holding
from bench.holding.windows import SIMULATIONS

_NAMED = 3
"""Most workloads that a sentence names."""


def simulations_in_words(found: Holding) -> str:
    """Return the number and the measured time of the simulations."""
    longest_s = max((one.seconds / SIMULATIONS for one in found.workloads), default=0.0)
    longer = f" to {longest_s:,.0f} s" if longest_s > 1.001 * found.seconds else " s"
    return f"{SIMULATIONS} x {found.seconds:g}{longer}"


def power_in_words(found: Holding) -> str:
    """Return the smallest missed fraction that the test would have found."""
    part = f"{100.0 * found.detectable:.2f} %"
    return f"a workload that misses {part} of its requests would be found late by {100.0 * POWER:g} % of such tests"


def doubt_in_words(found: Holding) -> str:
    """Return what the test cannot tell; empty if it can tell."""
    if not found.unclear:
        return ""
    named = _first([f"{one.workload} {100.0 * one.detectable:.1f} %" for one in found.unclear])
    return f"the test cannot tell; it would find these late only if they missed more than {named}"


def loads_in_words(found: Holding) -> str:
    """Return the workloads that are late because of their load alone; empty without any."""
    named = _first([f"{one.workload} {one.load:.2f}" for one in found.late if one.load is not None])
    return f"load of 1 or more: {named}" if named else ""


def _first(named: list[str]) -> str:
    """Return the first words of a list, and how many more there are."""
    return ", ".join(named if len(named) <= _NAMED else [*named[:_NAMED], f"{len(named) - _NAMED} more"])
