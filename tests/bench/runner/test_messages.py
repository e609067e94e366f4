"""Messages of workers, which are untrusted: a wrong message ends its own run only."""

import json
import math
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import pytest
from hostile.collection import is_expected
from hostile.messages import BadLine

from bench.api import Bound
from bench.runner import messages
from bench.runner.messages import LineReader, checked, encode
from bench.runner.record import RunRecord
from bench.runner.scoring import Start, score
from bench.task import Task
from instances import InputError

BOUND = {
    "value": 3.0,
    "certified": True,
    "plan_class": "spatial",
    "allowed_shares": None,
    "slots_per_gpulet": 1,
    "max_batch": None,
}
PLAN = {"version": 1, "instance": "mix", "gpus": [{"type": "v100", "gpulets": []}]}
TEXT = json.dumps(PLAN, separators=(",", ":")).encode()
VALID_MESSAGES: list[dict[str, Any]] = [
    {"type": "phase", "phase": "importing it", "peak_memory_mb": 10.0},
    {"type": "clock", "at": 100.0, "import_s": 0.1, "warm_s": 0.1, "peak_memory_mb": 10.0},
    {"type": "report", "t_s": 0.1, "plan": None, "bound": BOUND, "peak_memory_mb": 10.0},
    {
        "type": "done",
        "decision_s": 0.2,
        "status": "optimal",
        "statistics": {"nodes": 3.0, "odd": None},
        "reason": "",
        "plan": PLAN,
        "bound": BOUND,
        "peak_memory_mb": 10.0,
    },
    {"type": "ended", "decision_s": None, "termination": "exception", "reason": "it failed", "peak_memory_mb": 10.0},
    {"type": "chunk", "elapsed_s": 0.1, "plans": [PLAN, None], "decision_s": [0.1, 0.1], "peak_memory_mb": 10.0},
]
ODD_VALUES = (
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    "",
    "x" * 200_001,
    "1.0",
    [],
    [[]],
    {},
    {"type": "done"},
    [None] * 20_000,
)


def mutated(message: dict[str, Any], random: Random) -> dict[str, Any]:
    """Return a message with a few fields removed, added or replaced, at any depth."""
    changed = deepcopy(message)
    for _ in range(random.randint(1, 3)):
        inner: Any = changed
        while isinstance(inner, dict) and inner:
            name = random.choice(list(inner))
            if isinstance(inner[name], dict) and random.random() < 0.7:
                inner = inner[name]
                continue
            if random.random() < 0.3:
                del inner[name]
            else:
                inner[name if random.random() < 0.8 else "further"] = random.choice(ODD_VALUES)
            break
    return changed


def feed(record: RunRecord, line: bytes) -> None:
    """Pass a line to the record as the runner does."""
    for message in LineReader().feed(line):
        record.take(checked(message), 101.0)


def accepted(record: RunRecord, line: bytes) -> bool:
    """Pass a line to the record; return whether the run continues."""
    try:
        feed(record, line)
    except InputError:
        return False
    return True


@pytest.fixture
def record(make_task: Callable[..., Task]) -> RunRecord:
    return RunRecord(make_task("Honest", time_limit_s=1.0), grace_s=0.5)


def test_valid_messages_are_accepted() -> None:
    for message in VALID_MESSAGES:
        (sent,) = LineReader().feed(encode(message))
        texts = {"plans": [TEXT, None]} if "plans" in message else {"plan": TEXT if message.get("plan") else None}
        assert sent == message | texts | {"size_bytes": len(encode(message)) - 1}
        bound = {} if message.get("bound") is None else {"bound": Bound(3.0, certified=True)}
        assert checked(sent) == sent | bound


@pytest.mark.parametrize("how", BadLine.LINES)
def test_the_error_of_an_impossible_message_is_one_line(record: RunRecord, how: str) -> None:
    with pytest.raises(InputError) as raised:
        feed(record, BadLine.LINES[how][0] + b"\n")
    assert is_expected(f"BadLine:{how}", "crashed", str(raised.value))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_the_plan_of_a_report_stays_text(record: RunRecord) -> None:
    assert accepted(record, encode(VALID_MESSAGES[1]))
    assert accepted(record, encode(VALID_MESSAGES[2] | {"plan": PLAN}))
    (point,) = record.trajectory()
    assert isinstance(point.plan_text, bytes)
    assert point.plan_text == TEXT
    assert accepted(record, encode(VALID_MESSAGES[4] | {"decision_s": 0.5}))
    assert record.plan_text == TEXT


@pytest.mark.parametrize("text", [b"nonsense", b"3", b"[" * 100_000])
def test_a_report_without_a_valid_plan_is_an_invalid_plan(record: RunRecord, text: bytes) -> None:
    assert accepted(record, encode(VALID_MESSAGES[1]))
    assert accepted(record, encode(VALID_MESSAGES[2])[:-1] + b"\t" + text + b"\n")
    assert accepted(record, encode(VALID_MESSAGES[4] | {"decision_s": 0.5}))
    row = score(record, Start("2026-11-28T09:00:00.000+00:00", None))
    assert (row.termination, row.plan) == ("invalid_plan", None)
    assert row.reason in ("plan: is no JSON (it failed)", "plan: is 3; expected an object (it failed)")


def test_messages_per_time_are_limited_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(messages.time, "monotonic", lambda: now)
    line = encode(VALID_MESSAGES[0])
    for sent, most in ((line * 1000, 20), (b'{"type":"' + b"x" * 32 * 2**20 + b'"}\n', 7)):
        reader = LineReader()
        for _ in range(most):
            reader.feed(sent)
        with pytest.raises(InputError, match=r"sent more than the bench reads: .* in 0.0 s"):
            reader.feed(sent)
    reader = LineReader()
    for now in range(60):  # noqa: B007 - the fake clock returns it
        assert len(reader.feed(line * 2000)) == 2000


def test_mutated_messages_raise_no_other_error(make_task: Callable[..., Task]) -> None:
    random, refused = Random(0), 0
    for _ in range(5000):
        record_ = RunRecord(make_task("Honest", time_limit_s=1.0), grace_s=0.5)
        if random.random() < 0.5:
            assert accepted(record_, json.dumps(VALID_MESSAGES[1]).encode() + b"\n")
        line = json.dumps(mutated(random.choice(VALID_MESSAGES), random)).encode()
        if random.random() < 0.1:
            line = line[: random.randrange(len(line))].replace(b"\n", b"")
        refused += not accepted(record_, line + b"\n")
        assert record_.clock_started is None or record_.clock_started <= 101.0
        assert record_.decision_s is None or math.isfinite(record_.decision_s)
    assert 2000 < refused < 5000


def test_a_start_in_the_future_does_not_postpone_the_kill(record: RunRecord) -> None:
    assert accepted(record, json.dumps(VALID_MESSAGES[1] | {"at": 1e9}).encode() + b"\n")
    assert record.clock_started == 101.0


@pytest.mark.parametrize(
    ("unread_since", "claimed", "size_bytes", "expected_s"),
    [
        (100.9, 0.7, 0, 0.7),  # plausible: 0.2 s to send the message
        (100.9, 0.3, 0, 1.0),
        (100.9, 0.3, 10**6, 0.3),  # plausible: a large plan takes a second
        (100.0, 0.3, 0, 0.3),  # plausible: the bench did not read for a second
        (100.9, 1.1, 0, 1.0),  # a time in the future
    ],
)
def test_an_implausible_decision_time_is_replaced(
    record: RunRecord, unread_since: float, claimed: float, size_bytes: int, expected_s: float
) -> None:
    record.take(VALID_MESSAGES[1], 100.0)
    record.unread_since = unread_since
    record.take(VALID_MESSAGES[3] | {"decision_s": claimed, "size_bytes": size_bytes}, 101.0)
    assert record.decision_s == expected_s
    assert record.reason == (
        ""
        if expected_s == claimed
        else f"the scheduler's worker claimed {claimed} s where the bench saw 1 s, which counts"
    )


def test_an_implausible_start_is_replaced(record: RunRecord) -> None:
    record.unread_since = 100.9
    record.take(VALID_MESSAGES[1] | {"at": 7.0}, 101.0)
    assert record.clock_started == 101.0


def test_a_second_start_is_refused(record: RunRecord) -> None:
    line = json.dumps(VALID_MESSAGES[1]).encode() + b"\n"
    assert accepted(record, line)
    assert not accepted(record, line)


def test_a_chunk_outside_a_scenario_set_is_refused(record: RunRecord) -> None:
    assert not accepted(record, encode(VALID_MESSAGES[5]))
