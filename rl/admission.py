"""Admission of requests to a slot under the objective ``goodput``."""

from numba import njit

from instances import GOODPUT_STEP

STEPS = round(1.0 / GOODPUT_STEP)
"""In the whole rate of a workload."""


@njit(cache=True)
def admitted_rps(
    rate_rps: float, slo_ms: float, batch: int, inference_ms: float, headroom: float, steps: int = STEPS
) -> float:
    """Return the most of ``rate_rps``, in so many equal steps, that the SLO rule ``assembly`` permits.

    A batch has to be done before the next is full, and its first request waits for all others (InSS, equation 3):
    too much is as wrong as too little.

    Parameters
    ----------
    rate_rps
        That comes, greater than 0.
    slo_ms
        Latency objective.
    batch
        At least 1.
    inference_ms
        Of a batch, transfers included.
    headroom
        The admission reckons with inference that takes so many times as long.
    steps
        In ``rate_rps``: fewer than those of a workload's whole rate where this is a part of it.

    Returns
    -------
    float
        0 where no step is possible.
    """
    inference_ms *= headroom
    assembly_ms = slo_ms - inference_ms
    if assembly_ms < 0.0:
        return 0.0
    served_rps = 1000.0 * batch / inference_ms
    served_steps = steps if served_rps >= rate_rps else int(served_rps / rate_rps * steps)
    rps = rate_rps * served_steps / steps
    return rps if 1000.0 * (batch - 1) <= assembly_ms * rps else 0.0
