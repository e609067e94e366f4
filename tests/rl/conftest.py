from collections.abc import Iterator

import pytest

from rl.networks import limited_threads


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Run PyTorch with one thread: such small networks are slower with several, especially beside other tests."""
    with limited_threads(1):
        yield
