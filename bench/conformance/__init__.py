"""Contract checks for schedulers, run by ``bench check-plugin`` and by the tests of third parties."""

from bench.conformance.checks import HURRIED_S, Finding, Terms, check

__all__ = ["HURRIED_S", "Finding", "Terms", "check"]
