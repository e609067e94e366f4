"""gpulet's own schedulers in the figures of its papers."""

from typing import Literal

from reports.figure import Need

ELASTIC = "elastic-partitioning"
_GENEROUS_S = 300.0

Variant = Literal["arxiv", "atc22"]


def elastic(
    instances: str, variant: Variant, *, interference: bool, second_pass: bool = False, quick: str | None = None
) -> Need:
    """Return runs of elastic partitioning as printed in one of the papers, with or without interference.

    The papers do not have ``second_pass``.
    """
    told = (
        f"{ELASTIC}.variant={variant}",
        f"{ELASTIC}.interference={'true' if interference else 'false'}",
        f"{ELASTIC}.second_pass={'true' if second_pass else 'false'}",
    )
    return Need(instances, (ELASTIC,), quick=quick, parameters=told)


def ideal(instances: str, *, quick: str | None = None) -> Need:
    """Return runs of the ideal scheduler, which enumerates all partitions and takes interference into account.

    The scheduler counts the gpulets that it tries. The time limit is too large to be reached.
    """
    parameters = ("ideal.interference=true",)
    return Need(instances, ("ideal",), quick=quick, parameters=parameters, time_limit_s=_GENEROUS_S)
