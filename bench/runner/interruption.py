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

    The second signal has its usual effect. Outside the main thread, signal handlers do not change. Ctrl-C stays
    ignored if the parent process set it so. The caller must close an interruption that it passes as ``given``.
    """
    state = Interruption() if given is None else given
    before: dict[signal.Signals, int | Callable[[int, FrameType | None], object]] = {}

    def note(signum: int, frame: FrameType | None) -> None:
        state.come()
        restore()

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    try:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(signum)
                if handler is not signal.SIG_IGN and handler is not None:
                    before[signum] = handler
                    signal.signal(signum, note)
        yield state
    finally:
        restore()
        if state is not given:
            state.close()
