"""Failures of a check, and the limit of its memory."""

from math import prod

MOST_NUMBERS = 50_000_000
"""Largest number of 8-byte numbers in the arrays of one kind: 400 MB.

Kinds are, for example, the tables of the GPU types, or the alternatives of a search. Each kind is counted before it is
allocated.
"""


class NotProvenError(Exception):
    """The first step of a proof that fails, in words."""


class GivenUpError(NotProvenError):
    """A limit of the checker that ended the check, in words: the claim may be true or false."""


def check_memory(kind: str, *lengths: int) -> None:
    """Check that arrays whose size is the product of ``lengths`` are within the limit.

    Raises
    ------
    GivenUpError
        If they are not; its message names the arrays by ``kind``.
    """
    if (numbers := prod(lengths)) > MOST_NUMBERS:
        raise GivenUpError(f"{kind} would take {numbers:,} numbers in memory, at most {MOST_NUMBERS:,} are allowed")
