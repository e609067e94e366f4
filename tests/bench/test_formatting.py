"""Numbers as people read them."""

import pytest

from bench.formatting import seconds


@pytest.mark.parametrize(
    ("duration_s", "told"),
    [
        (None, "-"),
        (0.00123, "1.23 ms"),
        (2.5, "2.50 s"),
        (150.0, "150 s"),
        (1500.0, "25:00"),
        (3723.0, "1:02:03"),
        (1e300, "1e+300 s"),  # a ledger may say so
        (2**63, "9.22e+18 s"),
    ],
)
def test_durations(duration_s: float | None, told: str) -> None:
    assert seconds(duration_s) == told
