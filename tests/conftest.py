"""Settings of all tests: no example has a deadline. Speed is measured in ``tests/benchmarks``."""

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
