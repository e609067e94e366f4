"""Interruption by signals: the first SIGINT or SIGTERM, and further ones."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.runner.interruption import ended_in_order, signals_noted

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def outer_signals() -> Iterator[list[int]]:
    """Return the list of signals that reach the handlers outside of the functions under test."""
    numbers: list[int] = []
    before = {signum_: signal.signal(signum_, lambda number, _: numbers.append(number)) for signum_ in BOTH}
    yield numbers
    for signum_, handler in before.items():
        signal.signal(signum_, handler)


@contextmanager
def _both_signals_at_the_end() -> Iterator[None]:
    try:
        yield
    finally:
        for signum_ in BOTH:
            send(signum_)


def send(signum: int) -> None:
    os.kill(os.getpid(), signum)


def test_the_first_signal_is_only_recorded_and_the_second_reaches_its_handler(outer_signals: list[int]) -> None:
    with signals_noted() as interrupted:
        assert not interrupted
        send(signal.SIGTERM)
        assert interrupted
        assert outer_signals == []
        send(signal.SIGINT)
    assert outer_signals == [signal.SIGINT]


@pytest.mark.parametrize(
    ("signum", "as_sigint", "expected"),
    [(signal.SIGINT, False, KeyboardInterrupt), (signal.SIGTERM, True, KeyboardInterrupt)],
)
def test_the_first_signal_raises_and_further_ones_are_ignored(
    outer_signals: list[int], signum: int, as_sigint: bool, expected: type[BaseException]
) -> None:
    with pytest.raises(expected), ended_in_order(as_sigint), _both_signals_at_the_end():
        send(signum)
    assert outer_signals == []
    send(signal.SIGINT)
    assert outer_signals == [signal.SIGINT]


def test_sigterm_ends_the_process_with_its_exit_code() -> None:
    with pytest.raises(SystemExit) as ended, ended_in_order():
        send(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_signal_that_the_parent_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ended_in_order(), signals_noted() as interrupted:
        send(signal.SIGINT)
        assert not interrupted
