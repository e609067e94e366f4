"""Admission of requests to a slot under the objective ``goodput``."""

from instances import PART_STEPS
from instances.compiled import compiled


@compiled
def admitted_rps(
    rate_rps: float, slo_ms: float, batch: int, inference_ms: float, headroom: float, steps: int = PART_STEPS
) -> float:
    """Return the largest multiple of ``rate_rps / steps``, up to ``rate_rps``, that the SLO rule ``assembly`` permits.

    The rate has an upper limit, since a batch must end before the next is full. It has a lower limit, since the first
    request of a batch waits for all others (InSS, equation 3).

    Parameters
    ----------
    rate_rps
        Rate that arrives, above 0.
    inference_ms
        Time of a batch, transfers included.
    headroom
        Factor on the inference time.
    steps
        Number of steps in ``rate_rps``; a replica has fewer than the whole rate of its workload.

    Returns
    -------
    float
        The admitted rate; 0 if no step is possible.
    """
    inference_ms *= headroom
    assembly_ms = slo_ms - inference_ms
    if assembly_ms < 0.0:
        return 0.0
    served_rps = 1000.0 * batch / inference_ms
    served_steps = steps if served_rps >= rate_rps else int(served_rps / rate_rps * steps)
    rps = rate_rps * served_steps / steps
    return rps if 1000.0 * (batch - 1) <= assembly_ms * rps else 0.0
