"""Plugins that send the bench what it does not expect."""

import json
import os
import pickle
import sys
from typing import Any, ClassVar

from bench.api import Bound, Outcome, Run, Status
from hostile.base import Hostile, honest_plan
from instances import Instance


def pipe(run: Run) -> int:
    """Return the pipe to the bench."""
    return run.listener._outbox  # type: ignore[attr-defined, no-any-return]


class WrongFields(Hostile):
    """Sends a report without fields."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "impossible message")
    LINE: ClassVar[bytes] = b'{"type": "report"}\n'

    def attack(self, instance: Instance, run: Run) -> None:
        os.write(pipe(run), self.LINE)


class DeepJson(WrongFields):
    """Sends 50,000 brackets."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "no message")
    LINE: ClassVar[bytes] = b"[" * 50_000 + b"\n"


class PickledCode(WrongFields):
    """Sends a pickle."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "no message")
    LINE: ClassVar[bytes] = pickle.dumps({"type": "done"}) + b"\n"


class NotANumber(WrongFields):
    """Sends NaN as its memory."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "impossible message")
    LINE: ClassVar[bytes] = b'{"type": "phase", "phase": "x", "peak_memory_mb": NaN}\n'


class HugeText(Hostile):
    """Gives a reason of 10 MB."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return Outcome(Status.FEASIBLE, honest_plan(instance), reason="x" * 10**7)


class Surrogates(Hostile):
    """Gives lone surrogates and control characters for texts."""

    ENDS: ClassVar[tuple[str, str]] = ("finished crashed invalid_plan", "")

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        odd = "\ud800\x00\x1b[2J\u202e"
        return Outcome(Status.FEASIBLE, honest_plan(instance), statistics={odd: 1.0}, reason=odd)


class ManyReports(Hostile):
    """Reports 8,000 plans and bounds."""

    ENDS: ClassVar[tuple[str, str]] = ("finished wall_limit", "")

    def attack(self, instance: Instance, run: Run) -> None:
        for number in range(4000):
            run.report(honest_plan(instance), Bound(-1.0 / (number + 1), certified=True))
            run.report(bound=Bound(-0.0, certified=True))


class Flood(Hostile):
    """Writes messages until it is killed."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "more than the bench reads")

    def attack(self, instance: Instance, run: Run) -> None:
        while True:
            os.write(pipe(run), b'{"type":"phase","phase":"x","peak_memory_mb":1.0}\n' * 1000)


class EndlessLine(Hostile):
    """Writes a line that never ends."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed wall_limit", "")

    def attack(self, instance: Instance, run: Run) -> None:
        while True:
            os.write(pipe(run), b"x" * 65536)


class FloodsOutput(Hostile):
    """Prints 50 MB on both outputs."""

    def attack(self, instance: Instance, run: Run) -> None:
        for _ in range(25):
            os.write(1, b"x" * 2**20)
            os.write(2, b"\xff\n" * 2**19)


class ClosesAll(Hostile):
    """Closes all descriptors."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed exception", "")

    def attack(self, instance: Instance, run: Run) -> None:
        os.closerange(0, 4096)


class PatchesModules(Hostile):
    """Replaces functions of json, pickle and os."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed exception invalid_plan", "")

    def attack(self, instance: Instance, run: Run) -> None:
        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("patched")

        json.dumps = json.loads = pickle.loads = pickle.dumps = os.write = broken


class Recursion(Hostile):
    """Has no limit on recursion, and recurses."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed exception memory_limit wall_limit", "")

    def attack(self, instance: Instance, run: Run) -> None:
        sys.setrecursionlimit(10**9)
        nested: list[Any] = []
        for _ in range(10**6):
            nested = [nested]
        repr(nested)
        self.attack(instance, run)


class NotAnOutcome(Hostile):
    """Returns itself."""

    ENDS: ClassVar[tuple[str, str]] = ("invalid_plan", "expected an Outcome")

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return self  # type: ignore[return-value]
