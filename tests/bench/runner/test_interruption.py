"""The first Ctrl-C or SIGTERM, and those after it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.runner.interruption import ended_in_order, signals_noted

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def heard() -> Iterator[list[int]]:
    """Signals that reach the handlers outside of the guard under test."""
    numbers: list[int] = []
    before = {each: signal.signal(each, lambda number, _: numbers.append(number)) for each in BOTH}
    yield numbers
    for each, handler in before.items():
        signal.signal(each, handler)


@contextmanager
def _more_signals() -> Iterator[None]:
    try:
        yield
    finally:
        for each in BOTH:
            send(each)


def send(signum: int) -> None:
    os.kill(os.getpid(), signum)


def test_the_first_signal_is_noted_and_the_second_has_its_usual_effect(heard: list[int]) -> None:
    with signals_noted() as interrupted:
        assert not interrupted
        send(signal.SIGTERM)
        assert interrupted
        assert heard == []
        send(signal.SIGINT)
    assert heard == [signal.SIGINT]


@pytest.mark.parametrize(
    ("signum", "as_sigint", "expected"),
    [(signal.SIGINT, False, KeyboardInterrupt), (signal.SIGTERM, True, KeyboardInterrupt)],
)
def test_the_first_signal_is_an_exception_and_further_ones_are_ignored(
    heard: list[int], signum: int, as_sigint: bool, expected: type[BaseException]
) -> None:
    with pytest.raises(expected), ended_in_order(as_sigint), _more_signals():
        send(signum)
    assert heard == []
    send(signal.SIGINT)
    assert heard == [signal.SIGINT]


def test_sigterm_ends_the_process_with_its_exit_code() -> None:
    with pytest.raises(SystemExit) as ended, ended_in_order():
        send(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_signal_that_the_parent_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ended_in_order(), signals_noted() as interrupted:
        send(signal.SIGINT)
        assert not interrupted
