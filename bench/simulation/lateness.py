"""Definition of a late request."""

from instances.compiled import inlined

ROUNDING_MS = 1e-6
"""Tolerance of an SLO: latencies are differences of sums of floats and have rounding errors."""


@inlined
def would_be_late(latency_ms: float, slo_ms: float) -> bool:
    """Return whether a predicted latency exceeds the SLO.

    The tolerance is half that of ``is_late``, so that a request that passes this check is not late by rounding alone.
    """
    return latency_ms > slo_ms + 0.5 * ROUNDING_MS


@inlined
def is_late(latency_ms: float, slo_ms: float) -> bool:
    """Return whether a latency exceeds its SLO."""
    return latency_ms > slo_ms + ROUNDING_MS
