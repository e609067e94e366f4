"""Messages from a worker to the bench: one JSON object per line. Pickle would let schedulers run code in the bench."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from instances import InputError

Message = dict[str, Any]

MAX_BYTES = 64 * 2**20
"""Largest accepted message; only a message with a plan can be larger."""


def encode(message: Mapping[str, object]) -> bytes:
    """Return ``message`` as a line.

    Raises
    ------
    TypeError, ValueError, RecursionError
        If the message has no JSON form; NaN and infinity have none.
    """
    return json.dumps(message, allow_nan=False, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: object) -> object:
    """Return a NumPy number as a Python number, since schedulers that use arrays put NumPy numbers in plans."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} has no JSON form")


class LineReader:
    """Parser that assembles messages from the pieces that a pipe delivers."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Add the next piece and return the messages that are now complete.

        Raises
        ------
        InputError
            If a line is no message, for example because other code wrote into the pipe.
        """
        # Only the new piece can contain a line end, so a large plan in many pieces is searched only once.
        if b"\n" not in data:
            self._rest += data
            if len(self._rest) > 2 * MAX_BYTES:
                raise InputError("worker", "sent a message that is too long")
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
            raise InputError("worker", "sent data that is no message; expected JSON objects, one per line")
        return message
