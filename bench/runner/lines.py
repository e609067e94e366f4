"""Lines of JSON between processes: one message per line."""

import json
from typing import Any

import numpy as np


def json_text(value: object, finite: bool = True) -> bytes:
    """Return a value as JSON on one line, without a line end.

    Raises
    ------
    TypeError, ValueError, RecursionError
        If the value has no JSON form. With ``finite``, NaN and infinity have none.
    """
    return json.dumps(value, allow_nan=not finite, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> Any:
    """Return a NumPy number as a Python number. Plans of schedulers that use arrays contain NumPy numbers."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} has no JSON form")


class Lines:
    """Reader that assembles lines from the pieces that a pipe or a socket delivers."""

    def __init__(self) -> None:
        self._incomplete = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """Add the next piece and return the lines that are now complete, without line ends."""
        # Only the new piece can contain a line end, so a large line in many pieces is searched only once.
        if b"\n" not in piece:
            self._incomplete += piece
            return []
        complete, _, incomplete = bytes(self._incomplete + piece).rpartition(b"\n")
        self._incomplete = bytearray(incomplete)
        return complete.split(b"\n")

    @property
    def waiting_bytes(self) -> int:
        """Length of the incomplete line."""
        return len(self._incomplete)
