"""Settings of all tests: no example has a deadline. Speed is measured in ``tests/benchmarks``."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.distribution import ByPackage

settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPackage | None:
    """Distribute files by package."""
    return ByPackage(config, log) if config.getvalue("dist") == "loadfile" else None
