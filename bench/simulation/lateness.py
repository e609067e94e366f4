"""Definition of a late request."""

from instances.compiled import inlined

ROUNDING_MS = 1e-6
"""Latencies are differences of sums of floats: what is beyond an SLO by less is in time."""


@inlined
def would_be_late(latency_ms: float, slo_ms: float) -> bool:
    """Return whether a latency that is foreseen is longer; less tolerant, so that who is served then is not late."""
    return latency_ms > slo_ms + 0.5 * ROUNDING_MS


@inlined
def is_late(latency_ms: float, slo_ms: float) -> bool:
    """Return whether a latency is longer than its SLO allows."""
    return latency_ms > slo_ms + ROUNDING_MS
