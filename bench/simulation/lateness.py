"""When a request is late."""

from instances.compiled import inlined

ROUNDING_MS = 1e-6
"""Latencies are differences of sums of floats: what is beyond an SLO by less is in time."""


@inlined
def is_late(latency_ms: float, slo_ms: float) -> bool:
    """Return whether a latency is longer than its SLO allows."""
    return latency_ms > slo_ms + ROUNDING_MS
