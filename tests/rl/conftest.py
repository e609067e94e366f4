from collections.abc import Iterator

import pytest

from rl.networks import limited_threads


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Networks this small take longer on several threads, above all beside other tests."""
    with limited_threads(1):
        yield
