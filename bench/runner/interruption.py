"""Interruption of runs by Ctrl-C, SIGTERM or another thread."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Flag that stops runs; when the flag is set, the descriptor ``wakeup`` becomes readable."""

    def __init__(self) -> None:
        self.wakeup, self._signal_end = os.pipe()
        self._is_set = False

    def __bool__(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Set the flag, from a signal handler or another thread."""
        self._is_set = True
        os.write(self._signal_end, b"!")

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self.wakeup)
        os.close(self._signal_end)


@contextmanager
def signals_noted(existing: Interruption | None = None) -> Iterator[Interruption]:
    """Set an interruption on Ctrl-C or SIGTERM. An immediate end could leave a row half stored.

    The second signal has its usual effect. The caller must close an interruption that it passes as ``existing``.
    """
    interruption = Interruption() if existing is None else existing
    try:
        with _first_signal(lambda _: interruption.set(), later=None):
            yield interruption
    finally:
        if interruption is not existing:
            interruption.close()


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

    with _first_signal(end, later=signal.SIG_IGN):
        yield


@contextmanager
def _first_signal(act: Callable[[int], None], later: signal.Handlers | None) -> Iterator[None]:
    """Call ``act`` on the first Ctrl-C or SIGTERM. Then ``later`` handles both signals.

    ``None`` as ``later`` stands for the previous handlers.

    Outside the main thread, signal handlers do not change. A signal that the parent process ignores stays ignored.
    """
    previous: dict[signal.Signals, int | Callable[[int, FrameType | None], object]] = {}

    def handle_first(signum: int, _: FrameType | None) -> None:
        for number, handler in previous.items():
            signal.signal(number, handler if later is None else later)
        act(signum)

    try:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                handler_before = signal.getsignal(signum)
                if handler_before is not signal.SIG_IGN and handler_before is not None:
                    previous[signum] = handler_before
                    signal.signal(signum, handle_first)
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
