"""Processes of a replay or a light profile: their start, messages, clock and end."""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.runner.lines import Lines, json_text
from bench.runner.watchdog import kill_tree

Message = dict[str, Any]
"""Message between the driver and one of its processes."""

LOG_TAIL_BYTES = 2000
"""Bytes from the end of a child's output that are searched for its error message."""

PATIENCE_S = 5.0
"""Time limit for children to end by themselves."""

_PIECE_BYTES = 2**16
"""Largest number of bytes in one read from a channel."""

_ROOT = Path(__file__).resolve().parents[2]
"""Folder from which children import the bench."""


class ChildError(Exception):
    """Failure of a child process: it reported an error, died, or did not answer in time."""


class Clock:
    """Milliseconds since the beginning of a replay, on one clock for all of its processes."""

    def __init__(self, zero_ns: int) -> None:
        self.zero_ns = zero_ns

    def __call__(self) -> float:
        """Return the time now."""
        return (time.monotonic_ns() - self.zero_ns) / 1e6


class Channel:
    """One end of the socket between the driver and one of its processes; a message is one line of JSON."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._lines = Lines()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor, for ``select``."""
        return self.socket.fileno()

    def say(self, **message: object) -> None:
        """Send a message; it is lost if the other end is closed."""
        with self._sending, suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(json_text(message, finite=False) + b"\n")

    def read(self) -> list[Message] | None:
        """Wait for messages and return them, or ``None`` if the other end is closed."""
        try:
            data = self.socket.recv(_PIECE_BYTES)
        except ConnectionResetError:
            return None
        if not data:
            return None
        return [json.loads(line) for line in self._lines.feed(data)]

    def messages(self) -> Iterator[Message]:
        """Yield messages until the other end is closed."""
        while (messages := self.read()) is not None:
            yield from messages


class Child:
    """Handle of a child process in the driver.

    Parameters
    ----------
    module
        Module that the child runs; its only argument is the descriptor of the child's end of the channel.
    order
        First message to the child.
    descriptors
        File descriptors that the child inherits.
    environment
        Variables in addition to the variables of the driver.
    """

    def __init__(
        self, module: str, order: Message, descriptors: Collection[int], environment: Mapping[str, str]
    ) -> None:
        driver_end, child_end = socket.socketpair()
        self.channel = Channel(driver_end)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in ``end``
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        with child_end:
            # The child has its own session: only the driver receives Ctrl-C, and then ends all processes in order.
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", module, str(child_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(child_end.fileno(), *descriptors),
                env={**os.environ, "PYTHONPATH": path, **environment},
                start_new_session=True,
            )
        self.channel.say(**order)

    def log_tail(self) -> str:
        """Return the last line of the child's output."""
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), LOG_TAIL_BYTES, max(0, size - LOG_TAIL_BYTES))
        lines = tail.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close_channel(self) -> None:
        """Close the channel: the process ends as soon as it can."""
        self.channel.socket.close()

    def end(self, patience_s: float) -> int:
        """Wait for the process to end, kill it and all processes that it started, and return its exit code."""
        self.close_channel()
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
        finally:
            kill_tree(self.process.pid)
            code = self.process.wait()
            self._log.close()
        return code


class Supervisor:
    """Child processes of one run.

    Attributes
    ----------
    children
        Children that were started and not ended yet.
    """

    def __init__(self) -> None:
        self.children: list[Child] = []

    def start(self, module: str, order: Message, descriptors: Collection[int], environment: Mapping[str, str]) -> Child:
        """Start a child; see ``Child`` for the parameters."""
        child = Child(module, order, descriptors, environment)
        self.children.append(child)
        return child

    def received(self, wait_s: float) -> list[tuple[Child, Message | None]]:
        """Wait at most ``wait_s`` for messages; ``None`` marks a child that closed its channel."""
        channels = {child.channel: child for child in self.children}
        readable, _, _ = select.select([*channels], [], [], wait_s)
        results: list[tuple[Child, Message | None]] = []
        for channel in readable:
            messages = channel.read()
            results += [(channels[channel], message) for message in ([None] if messages is None else messages)]
        return results

    def ask(self, child: Child, limit_s: float, **message: object) -> Message:
        """Send a message and return the child's ``answer``."""
        child.channel.say(**message)
        return self.answer(child, limit_s)

    def answer(self, child: Child, limit_s: float) -> Message:
        """Wait for the next message of a child.

        Raises
        ------
        ChildError
            If the message reports a failure, the child dies, or it does not answer within ``limit_s``.
        """
        child.channel.socket.settimeout(limit_s)
        try:
            messages = child.channel.read()
        except TimeoutError:
            raise ChildError(f"a worker did not answer within {limit_s:.0f} s") from None
        if not messages:
            raise ChildError(f"a worker died: {child.log_tail() or 'it left no message'}")
        if "failed" in messages[0]:
            raise ChildError(messages[0]["failed"])
        return messages[0]

    def end(self, children: Sequence[Child], patience_s: float = PATIENCE_S) -> None:
        """End children; all children together have ``patience_s`` to end by themselves."""
        children = list(children)
        self.children = [child for child in self.children if child not in children]
        for child in children:
            child.close_channel()
        deadline = time.monotonic() + patience_s
        for child in children:
            child.end(max(0.0, deadline - time.monotonic()))

    def collect(self, child: Child) -> tuple[int, str]:
        """End a child that closed its channel; return its exit code and the last line of its output."""
        self.children.remove(child)
        last_line = child.log_tail()
        return child.end(PATIENCE_S), last_line


def run_child(main: Callable[[Channel, Iterator[Message]], None]) -> None:
    """Run ``main`` with the channel and its messages, in the process that a ``Child`` started."""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    main(channel, channel.messages())


def end_when_closed(messages: Iterator[Message]) -> None:
    """End this process as soon as the driver closes the channel; ignore all messages before that."""

    def listen() -> None:
        for _ in messages:
            pass
        os._exit(1)

    threading.Thread(target=listen, name="listener", daemon=True).start()


def pin_to_cores(cores: Sequence[int]) -> None:
    """Restrict this process to ``cores``, if the system supports it."""
    if cores and sys.platform == "linux":
        os.sched_setaffinity(0, cores)


def raise_priority() -> None:
    """Give this thread priority over all ordinary threads, if the system permits it.

    Without priority, a thread that wakes on a busy core waits for milliseconds.
    """
    if sys.platform == "linux":
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
