"""Largest scale of an instance: what needs no search, and bisection with quick plans."""

from collections.abc import Callable

from bench.api import Outcome, Status
from instances import Instance, Plan


def scale_without_search(instance: Instance) -> Outcome | None:
    """Return the outcome of an instance whose scale has no limit or that has no workloads; ``None`` for others."""
    unlimited = [pool.type.name for pool in instance.gpus if pool.count is None]
    if unlimited:
        return Outcome(Status.UNKNOWN, reason=f"scale is unbounded: the pool sets no number of {unlimited[0]} GPUs")
    if not instance.workloads:
        return Outcome(Status.FEASIBLE, Plan(instance.name, ()))
    return None


def bisected_scale(serves: Callable[[int], bool]) -> int:
    """Return a scale on the grid that is served while the next one is not; 0 if the first one is not.

    Parameters
    ----------
    serves
        Test of a scale, numbered from 1; scales are doubled until one fails.
    """
    fits, fails = 0, 1
    while serves(fails):
        fits, fails = fails, 2 * fails
    while fails - fits > 1:
        middle = (fits + fails) // 2
        fits, fails = (middle, fails) if serves(middle) else (fits, middle)
    return fits
