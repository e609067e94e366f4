"""Settings of all tests. Hypothesis examples have no deadline, because ``tests/benchmarks`` measures speed."""

import gc
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.distribution import ByPackage

settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Pause garbage collection while tests are collected: it would free nothing, and cost most of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPackage | None:
    """Distribute files by package."""
    return ByPackage(config, log) if config.getvalue("dist") == "loadfile" else None
