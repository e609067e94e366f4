"""Part of the requests that may be late; a file of its own because printing a result needs no simulator."""

VIOLATIONS_ALLOWED = 0.01
"""Permitted fraction of requests not served in time; with at most this fraction, the P99 latency meets the SLO."""
