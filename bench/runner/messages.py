"""Messages from a worker to the bench: one JSON object per line.

Pickle is not used, because it would let schedulers run code in the bench.

The worker executes code of schedulers, so its messages are untrusted input: ``checked`` compares each message with a
schema, and ``LineReader`` limits their rate. Plans stand on the same line, each as a JSON text after a tab. So the
bench parses only the few plans that it judges.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Discriminator, Field
from typing_extensions import TypedDict  # pydantic supports that of the standard library from Python 3.12 on

from bench.api import Bound, Status
from bench.ledger.row import Termination
from bench.ledger.row_schema import StoredProof
from bench.runner.lines import Lines, json_text
from instances import InputError
from instances.files.problems import Findings, Problem, in_pydantic_words, validated

Message = dict[str, Any]
"""Message of a worker: a JSON object with a ``type``."""

MAX_BYTES = 64 * 2**20
"""Largest message that a worker sends, in bytes."""

FREE_MESSAGES, MESSAGES_PER_S = 20_000, 2_000
"""Messages that a run may send at once, and further messages per second of its life."""

_FREE_BYTES, _BYTES_PER_S = 4 * MAX_BYTES, 100 * 2**20
"""Bytes that a run may send at once, and further bytes per second of its life."""

_MAX_CHARACTERS = 100_000
"""Largest length of a text in a message."""

_NotNegative = Annotated[float, Field(strict=True, ge=0.0, allow_inf_nan=False)]
_Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def _require_text(value: object) -> object:
    """Refuse a value that is no text or is implausibly long. File names may have lone surrogates: these are valid."""
    if not isinstance(value, str) or len(value) > _MAX_CHARACTERS:
        raise ValueError(f"expected text of at most {_MAX_CHARACTERS} characters")
    return value


_Text = Annotated[Any, AfterValidator(_require_text)]
_Plan = bytes | None
"""JSON text of a plan."""


class _WorkerMessage(TypedDict):
    peak_memory_mb: _NotNegative


class _PhaseMessage(_WorkerMessage):
    type: Literal["phase"]
    phase: _Text


class _ClockMessage(_WorkerMessage):
    type: Literal["clock"]
    at: _Finite
    import_s: _NotNegative
    warm_s: _NotNegative


class _ReportMessage(_WorkerMessage):
    type: Literal["report"]
    t_s: _NotNegative
    plan: _Plan
    bound: Bound | None


class _ChunkMessage(_WorkerMessage):
    type: Literal["chunk"]
    elapsed_s: _NotNegative
    plans: list[_Plan]
    decision_s: list[_NotNegative]


class _DoneMessage(_WorkerMessage):
    type: Literal["done"]
    decision_s: _NotNegative
    status: Status
    statistics: Annotated[dict[_Text, _Finite | None], Field(max_length=1000)]
    reason: _Text
    plan: _Plan
    bound: Bound | None
    duals: NotRequired[StoredProof]


class _SlackMessage(_WorkerMessage):
    type: Literal["slack"]
    plan: _Plan
    slack_bound: _Finite | None
    ended: Annotated[bool, Field(strict=True)]


class _EndedMessage(_WorkerMessage):
    type: Literal["ended"]
    decision_s: _NotNegative | None
    termination: Termination
    reason: _Text


_AnyMessage: Any = Annotated[
    _PhaseMessage | _ClockMessage | _ReportMessage | _ChunkMessage | _DoneMessage | _SlackMessage | _EndedMessage,
    Discriminator("type"),
]


def checked(message: Message) -> Message:
    """Return a message of a run after a comparison with its schema; a bound in it becomes a ``Bound``.

    Raises
    ------
    InputError
        If a field is missing, or has the wrong type or an impossible value.
    """
    try:
        validated_fields: Message = validated(_AnyMessage, message, "", _in_words)
    except InputError as error:
        raise InputError("worker", f"sent an impossible message: {error}"[:300]) from None
    return message | validated_fields


def _in_words(findings: Findings) -> Sequence[Problem]:
    """Return findings without the type of the message in their places."""
    return [(place[1:] or ("type",), problem) for place, problem in in_pydantic_words(findings)]


def encode(message: Mapping[str, Any]) -> bytes:
    """Return ``message``, whose plans are JSON values, as a line.

    Raises
    ------
    TypeError, ValueError, RecursionError
        If the message has no JSON form. NaN and infinity have none.
    """
    plans = message["plans"] if message["type"] == "chunk" else filter(None, [message.get("plan")])
    head = {name: value for name, value in message.items() if name not in ("plan", "plans")}
    return b"\t".join([json_text(head), *(b"" if plan is None else json_text(plan) for plan in plans)]) + b"\n"


class LineReader:
    """Parser that assembles messages from the pieces that a pipe delivers."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._since = time.monotonic()
        self._bytes = self._messages = 0

    def feed(self, data: bytes) -> list[Message]:
        """Add the next piece and return the messages that are now complete, each with its ``size_bytes``.

        Raises
        ------
        InputError
            If a line is not a message, for example because other code wrote into the pipe; or if there are too
            many lines.
        """
        self._count(data)
        lines = self._lines.feed(data)
        if self._lines.waiting_bytes > 2 * MAX_BYTES:
            raise InputError("worker", "sent a message that is too long")
        return [self._parse(line) for line in lines]

    def _count(self, data: bytes) -> None:
        """Count a piece, and refuse an endless stream, which would keep the bench from its other runs."""
        self._bytes += len(data)
        self._messages += data.count(b"\n")
        life_s = time.monotonic() - self._since
        if (
            self._messages > FREE_MESSAGES + MESSAGES_PER_S * life_s
            or self._bytes > _FREE_BYTES + _BYTES_PER_S * life_s
        ):
            amount = f"{self._messages} messages of {self._bytes} bytes in {life_s:.1f} s"
            raise InputError("worker", f"sent more than the bench reads: {amount}")

    @staticmethod
    def _parse(line: bytes) -> Message:
        head, *texts = line.split(b"\t")
        message = _parsed(head)
        if not isinstance(message, dict) or "type" not in message:
            raise InputError("worker", "sent data that is not a message; expected JSON objects, one per line")
        plans = [text or None for text in texts]
        plan_fields = {"plans": plans} if message["type"] == "chunk" else {"plan": plans[0] if plans else None}
        return message | {"size_bytes": len(line)} | plan_fields


def _parsed(text: bytes) -> object:
    """Return the value of a JSON text, or ``None`` if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
