"""Largest scale of an instance: the cases that need no search, and bisection with quick plans."""

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


def bisected_scale(serves: Callable[[int], bool], first: int = 1) -> int:
    """Return the number of a scale that is served although the next scale is not; 0 if scale 1 is not served.

    Scale n is n times ``SCALE_STEP``. The number is doubled, from ``first``, until a scale fails; then it is bisected.

    Parameters
    ----------
    serves
        Function that returns whether the scale of a number is served.
    """
    fits, fails = 0, first
    while serves(fails):
        fits, fails = fails, 2 * fails
    while fails - fits > 1:
        middle = (fits + fails) // 2
        fits, fails = (middle, fails) if serves(middle) else (fits, middle)
    return fits
