"""Parameters of tests of which `make test` runs the first ones, and `make soak` the others."""

from collections.abc import Iterable
from typing import Any

import pytest


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """Return all values as parameters of a test; those after the first ``count`` are for `make soak`."""
    return [
        value if position < count else pytest.param(value, marks=pytest.mark.soak)
        for position, value in enumerate(values)
    ]
