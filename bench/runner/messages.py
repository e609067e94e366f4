"""Messages from a worker to the bench: one JSON object per line, never pickle, since schedulers make the content."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from instances import InputError

Message = dict[str, Any]

MAX_BYTES = 64 * 2**20
"""A message beyond this, which only a plan can be, is refused."""


def encode(message: Mapping[str, object]) -> bytes:
    """Return ``message`` as a line.

    Raises
    ------
    TypeError, ValueError, RecursionError
        If it holds something that JSON cannot, NaN and infinity included.
    """
    return json.dumps(message, allow_nan=False, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: object) -> object:
    """Return NumPy's numbers as Python's: schedulers that compute in arrays leave them in their plans."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is not JSON")


class LineReader:
    """Puts messages together from the pieces that a pipe delivers."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Take the next piece and return the messages that are now complete.

        Raises
        ------
        InputError
            If a line is no JSON object: something else wrote into the pipe.
        """
        # Only the new piece can hold a line end: a large plan in many pieces is not searched again and again.
        if b"\n" not in data:
            self._rest += data
            if len(self._rest) > 2 * MAX_BYTES:
                raise InputError("worker", "sent a message without end")
            return []
        complete, _, rest = bytes(self._rest + data).rpartition(b"\n")
        self._rest = bytearray(rest)
        return [self._parse(line) for line in complete.split(b"\n")]

    @staticmethod
    def _parse(line: bytes) -> Message:
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict) or "type" not in message:
            raise InputError("worker", "sent something that is no message")
        return message
