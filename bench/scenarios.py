"""Scenario sets: thousands of instances in one run, decided in chunks, judged one by one, and added up to one row."""

import base64
import zlib
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from math import fsum
from statistics import median
from typing import Any

import numpy as np

from bench.judging.judge import judge
from bench.ledger.row import JsonObject, Row, Termination
from instances import InputError, ScenarioSet
from instances.arrays import Flags
from instances.files import plan_from_json

OBJECTIVE = "scenarios"
"""The objective in a set's row, whose value is the number of scenarios with a plan that the judge accepts."""

_JUDGED_AT_ONCE = 16


class Tally:
    """What became of the scenarios of a set so far, in their order.

    Parameters
    ----------
    scenarios
        The set as its plans are judged.
    chunks
        What ``judge`` returned in an earlier run, by position; those that do not join on are left out.
    """

    def __init__(self, scenarios: ScenarioSet, chunks: Iterable[JsonObject] = ()) -> None:
        self.scenarios = scenarios
        self._accepted: list[bool] = []
        self._served: list[bool] = []
        self._decision_s: list[float] = []
        for chunk in chunks:
            if chunk["first"] == self.decided:
                self._add(chunk)

    @property
    def decided(self) -> int:
        """How many scenarios were decided and judged, which is also the position of the next one."""
        return len(self._accepted)

    @property
    def complete(self) -> bool:
        """Whether all were."""
        return self.decided == len(self.scenarios)

    @property
    def all_accepted(self) -> bool:
        """Whether the scheduler has a plan for every scenario decided."""
        return all(self._accepted)

    @property
    def decision_s(self) -> float:
        """The scheduler's own time for all of them."""
        return fsum(self._decision_s)

    def judge(self, plans: Sequence[Any], decision_s: Sequence[float]) -> Generator[None, None, JsonObject]:
        """Judge the plans of the next scenarios, pausing now and then so that other runs can be looked after.

        Parameters
        ----------
        plans
            In the plan file's format; ``None`` where the scheduler has none.
        decision_s
            What each took.

        Returns
        -------
        JsonObject
            The chunk: the position of its ``first`` scenario, and of each which plan is ``accepted`` by the scheduler,
            ``served`` according to the judge, and after how many seconds.

        Raises
        ------
        InputError
            If a plan is none for its scenario; names it. Nothing of the chunk is counted.
        """
        first, accepted, served = self.decided, [], []
        for offset, plan in enumerate(plans):
            scenario = self.scenarios.scenario(first + offset)
            accepted.append(plan is not None)
            try:
                served.append(plan is not None and judge(plan_from_json(plan), scenario).feasible)
            except InputError as error:
                raise InputError(scenario.name, str(error)) from None
            if offset % _JUDGED_AT_ONCE == 0:
                yield
        chunk = {"first": first, "accepted": accepted, "served": served, "decision_s": list(decision_s)}
        self._add(chunk)
        return chunk

    def _add(self, chunk: JsonObject) -> None:
        self._accepted += chunk["accepted"]
        self._served += chunk["served"]
        self._decision_s += chunk["decision_s"]

    def to_json(self) -> dict[str, Any]:
        """Return what the set's row has in its column ``scenarios``."""
        return {
            "count": len(self.scenarios),
            "decided": self.decided,
            "accepted": sum(self._accepted),
            "served": sum(self._served),
            "decision_median_s": median(self._decision_s) if self._decision_s else None,
            "decision_max_s": max(self._decision_s, default=None),
            "accepted_bits": pack(self._accepted),
            "served_bits": pack(self._served),
        }


def row_of_set(row: Row, tally: Tally, fingerprint: str) -> Row:
    """Return the row of a run on the set with this fingerprint: ``row``, of its base instance, and what was tallied."""
    found = tally.to_json()
    accepted, served = found["accepted"], found["served"]
    whole = row.termination is Termination.FINISHED
    so_far = f"{row.reason}; {tally.decided:,} of {len(tally.scenarios):,} scenarios were decided"
    return replace(
        row,
        instance_hash=fingerprint,
        objective=OBJECTIVE,
        throughput_of=None,
        reason=row.reason if whole else so_far,
        value=float(served) if tally.decided else None,
        feasible=accepted == served if accepted else None,
        violations=accepted - served if accepted else None,
        scenarios=found,
        decision_s=tally.decision_s if tally.decided else row.decision_s,
    )


def pack(verdicts: Sequence[bool]) -> str:
    """Return verdicts as text: a bit each, deflated, in base 64."""
    return base64.b64encode(zlib.compress(np.packbits(np.array(verdicts, dtype=bool)).tobytes(), 9)).decode()


def unpack(text: str, count: int) -> Flags:
    """Return the ``count`` verdicts that ``pack`` wrote, shape (count,)."""
    packed = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)
    return np.unpackbits(packed, count=count).astype(bool)
