"""What every scheduler must keep to, checked: ``bench check-plugin`` and the tests of third parties run it."""

from bench.conformance.checks import HURRIED_S, Finding, Terms, check

__all__ = ["HURRIED_S", "Finding", "Terms", "check"]
