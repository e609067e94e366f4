"""Interruption of runs by Ctrl-C, SIGTERM or another thread."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Flag that stops runs; the descriptor ``wakeup`` becomes readable when it is set."""

    def __init__(self) -> None:
        self.wakeup, self._ring = os.pipe()
        self._came = False

    def __bool__(self) -> bool:
        return self._came

    def come(self) -> None:
        """Set the flag, from a signal handler or another thread."""
        self._came = True
        os.write(self._ring, b"!")

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self.wakeup)
        os.close(self._ring)


@contextmanager
def signals_noted(given: Interruption | None = None) -> Iterator[Interruption]:
    """Set an interruption on Ctrl-C or SIGTERM, because an end at once could leave a row half stored.

    The second signal has its usual effect. The caller must close an interruption that it passes as ``given``.
    """
    state = Interruption() if given is None else given
    try:
        with _first_signal(lambda _: state.come(), further=None):
            yield state
    finally:
        if state is not given:
            state.close()


@contextmanager
def ended_in_order(sigterm_as_sigint: bool = False) -> Iterator[None]:
    """Turn the first Ctrl-C or SIGTERM into an exception, and ignore further ones while it is handled.

    Ctrl-C raises ``KeyboardInterrupt``, and so does SIGTERM with ``sigterm_as_sigint``; otherwise it raises
    ``SystemExit``.
    """

    def end(signum: int) -> None:
        if signum == signal.SIGINT or sigterm_as_sigint:
            raise KeyboardInterrupt
        raise SystemExit(128 + signum)

    with _first_signal(end, further=signal.SIG_IGN):
        yield


@contextmanager
def _first_signal(act: Callable[[int], None], further: signal.Handlers | None) -> Iterator[None]:
    """Call ``act`` on the first Ctrl-C or SIGTERM; then ``further`` handles both, or what handled them before.

    Outside the main thread, signal handlers do not change. A signal stays ignored if the parent process set it so.
    """
    before: dict[signal.Signals, int | Callable[[int, FrameType | None], object]] = {}

    def first(signum: int, _: FrameType | None) -> None:
        for each, handler in before.items():
            signal.signal(each, handler if further is None else further)
        act(signum)

    try:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                known = signal.getsignal(signum)
                if known is not signal.SIG_IGN and known is not None:
                    before[signum] = known
                    signal.signal(signum, first)
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
