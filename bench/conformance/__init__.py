"""Contract checks for schedulers, run by ``bench check-plugin`` and by the tests of third parties."""

from bench.conformance.checks import HURRIED_S, CheckResult, CheckSettings, check

__all__ = ["HURRIED_S", "CheckResult", "CheckSettings", "check"]
