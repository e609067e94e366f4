"""Schedulers that send malformed, too many or odd messages to the bench."""

import fcntl
import os
import pickle
from dataclasses import dataclass
from typing import ClassVar

from toy_schedulers import honest_plan

from bench.api import Bound, Outcome, Run, Status
from hostile.base import Hostile
from instances import Instance

NO_MESSAGE = "worker: sent data that is not a message; expected JSON objects, one per line"


def pipe(run: Run) -> int:
    """Return the pipe to the bench."""
    return run.listener._run.listener._outbox  # type: ignore[attr-defined, no-any-return]


class BadLine(Hostile):
    """Writes a line that is not a message, or an impossible one."""

    LINES: ClassVar = {
        "no-fields": (b'{"type": "report"}', "worker: sent an impossible message: peak_memory_mb: Field required"),
        "no-type": (b'{"type": []}', "worker: sent an impossible message: type: Input tag ..."),
        "other-type": (b'{"type": "order"}', "worker: sent an impossible message: type: Input tag ..."),
        "no-number": (
            b'{"type": "phase", "phase": "x", "peak_memory_mb": NaN}',
            "worker: sent an impossible message: peak_memory_mb: Input should be a finite number",
        ),
        "negative-time": (
            b'{"type": "report", "t_s": -1e6, "plan": null, "bound": null, "peak_memory_mb": 1.0}',
            "worker: sent an impossible message: t_s: Input should be greater than or equal to 0",
        ),
        "deep": (b"[" * 50_000, NO_MESSAGE),
        "no-object": (b"NaN", NO_MESSAGE),
        "pickle": (pickle.dumps({"type": "done"}), NO_MESSAGE),
        "no-text": (b"\xff", NO_MESSAGE),
    }
    ENDS: ClassVar = {how: ("crashed", reason) for how, (_, reason) in LINES.items()}

    def attack(self, instance: Instance, run: Run) -> None:
        os.write(pipe(run), self.LINES[self.how][0] + b"\n")


class Flood(Hostile):
    """Writes into the pipe directly, without the bench's limits on messages, until it is killed."""

    BLOCKS: ClassVar = {
        "messages": b'{"type":"phase","phase":"x","peak_memory_mb":1.0}\n' * 1000,
        "endless-line": b"x" * 2**20,
    }
    ENDS: ClassVar = {
        "messages": ("crashed", "worker: sent more than the bench reads: ... messages of ... bytes in ... s"),
        "endless-line": ("crashed", "worker: sent a message that is too long"),
    }

    def attack(self, instance: Instance, run: Run) -> None:
        fcntl.fcntl(pipe(run), fcntl.F_SETPIPE_SZ, 2**20)  # a large pipe, so that even a busy host reads enough in time
        while True:
            os.write(pipe(run), self.BLOCKS[self.how])


@dataclass(frozen=True)
class ManyReports(Hostile):
    """Reports ``reports`` plans and bounds; the bound rises by 1 each time, up to -1."""

    reports: int = 4000

    def attack(self, instance: Instance, run: Run) -> None:
        for left in range(self.reports, 0, -1):
            run.report(honest_plan(instance))
            run.report(bound=Bound(-float(left), certified=True))


class OddTexts(Hostile):
    """Gives a reason of 10 MB, or of lone surrogates and control characters."""

    ODD: ClassVar = {"huge": "x" * 10**7, "surrogates": "\ud800\x00\x1b[2J\u202e"}
    ENDS: ClassVar = {
        "huge": ("finished", "x" * 497 + "..."),
        "surrogates": ("finished", "?\x00\x1b[2J\u202e"),
    }

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        odd = self.ODD[self.how]
        return Outcome(Status.FEASIBLE, honest_plan(instance), statistics={odd[:9]: 1.0}, reason=odd)


class ForkedReport(Hostile):
    """Forks a child that returns an answer as if it were the worker."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        child = os.fork()
        if child == 0:
            return Outcome(Status.FEASIBLE, None)
        os.waitpid(child, 0)
        return super().schedule(instance, run)
