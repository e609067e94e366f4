"""Sentences about the test whether a plan holds."""

from bench.holding.attainment import POWER
from bench.holding.verdict import Holding
from bench.holding.windows import SIMULATIONS

_NAMED = 3
"""Largest number of workloads that a sentence names."""


def simulations_in_words(holding: Holding) -> str:
    """Return the number and the measured time of the simulations."""
    longest_s = max((workload.seconds / SIMULATIONS for workload in holding.workloads), default=0.0)
    longest = f" to {longest_s:,.0f} s" if longest_s > 1.001 * holding.seconds else " s"
    return f"{SIMULATIONS} x {holding.seconds:g}{longest}"


def power_in_words(holding: Holding) -> str:
    """Return the smallest missed fraction that the test would have found."""
    missed = f"{100.0 * holding.detectable:.2f} %"
    return f"a workload that misses {missed} of its requests would be found late by {100.0 * POWER:g} % of such tests"


def doubt_in_words(holding: Holding) -> str:
    """Return a sentence on the unclear workloads; empty if there are none."""
    if not holding.unclear:
        return ""
    names = _first_names([f"{workload.workload} {100.0 * workload.detectable:.1f} %" for workload in holding.unclear])
    return f"the test cannot tell; it would find these late only if they missed more than {names}"


def loads_in_words(holding: Holding) -> str:
    """Return the workloads that are late because of their load alone; empty if there are none."""
    names = _first_names(
        [f"{workload.workload} {workload.load:.2f}" for workload in holding.late if workload.load is not None]
    )
    return f"load of 1 or more: {names}" if names else ""


def _first_names(names: list[str]) -> str:
    """Return the first names of a list, and the number of the other names."""
    return ", ".join(names if len(names) <= _NAMED else [*names[:_NAMED], f"{len(names) - _NAMED} more"])
