"""Runs on scenario sets: thousands of instances, solved in chunks, judged one by one, and counted in one row."""

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import fsum
from statistics import median
from typing import Any

import numpy as np

from bench.ledger.row import JsonObject, Row, Termination
from instances import InputError, ScenarioSet
from instances.arrays import Flags
from instances.files import plan_from_text

OBJECTIVE = "scenarios"
"""Objective in the row of a set. The value is the number of scenarios whose plan the judge finds feasible."""


class Tally:
    """Results of the scenarios of a set that are decided so far, in their order.

    Parameters
    ----------
    scenarios
        The set; the judge uses its instances.
    chunks
        Results of ``judge_scenarios`` from an earlier run, by position; chunks after a gap are ignored.
    """

    def __init__(self, scenarios: ScenarioSet, chunks: Iterable[JsonObject] = ()) -> None:
        self.scenarios = scenarios
        self._accepted: list[bool] = []
        self._served: list[bool] = []
        self._decision_s: list[float] = []
        for chunk in chunks:
            if chunk["first"] == self.decided:
                self.add(chunk)

    @property
    def decided(self) -> int:
        """Number of scenarios that are solved and judged; also the position of the next one."""
        return len(self._accepted)

    @property
    def all_accepted(self) -> bool:
        """Whether the scheduler has a plan for every scenario so far."""
        return all(self._accepted)

    @property
    def decision_s(self) -> float:
        """Time of the scheduler for all scenarios so far."""
        return fsum(self._decision_s)

    def add(self, chunk: JsonObject) -> None:
        """Count a chunk of ``judge_scenarios`` that begins with the next scenario."""
        self._accepted += chunk["accepted"]
        self._served += chunk["served"]
        self._decision_s += chunk["decision_s"]

    def to_json(self) -> dict[str, Any]:
        """Return the value of the column ``scenarios`` in the row of the set."""
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


def judge_scenarios(
    scenarios: ScenarioSet, first: int, plans: Sequence[bytes | None], decision_s: Sequence[float]
) -> JsonObject:
    """Judge the plans of consecutive scenarios.

    Parameters
    ----------
    scenarios, first
        The set, whose instances the judge uses, and the position of the first scenario.
    plans, decision_s
        Plan of each scenario as JSON text, or ``None``, and the time that the scheduler took for each.

    Returns
    -------
    JsonObject
        The chunk: the position of its ``first`` scenario and, for each scenario, whether the scheduler has a plan
        (``accepted``), whether the judge finds it feasible (``served``), and the time (``decision_s``).

    Raises
    ------
    InputError
        If a plan does not belong to its scenario; the message names the scenario.
    """
    from bench.judging.judge import judge  # `bench list` describes sets without kernels

    accepted, served = [], []
    for position, plan in enumerate(plans, first):
        scenario = scenarios.scenario(position)
        accepted.append(plan is not None)
        try:
            served.append(plan is not None and judge(plan_from_text(plan), scenario).feasible)
        except InputError as error:
            raise InputError(scenario.name, str(error)) from None
    return {"first": first, "accepted": accepted, "served": served, "decision_s": list(decision_s)}


def row_of_set(row: Row, tally: Tally, fingerprint: str) -> Row:
    """Return the row of a run on the set with this fingerprint.

    ``row`` is the row of the base instance; ``tally`` has the results of the scenarios.
    """
    counts = tally.to_json()
    accepted, served = counts["accepted"], counts["served"]
    finished = row.termination is Termination.FINISHED
    unfinished_reason = f"{row.reason}; {tally.decided:,} of {len(tally.scenarios):,} scenarios were decided"
    return replace(
        row,
        instance_hash=fingerprint,
        objective=OBJECTIVE,
        throughput_of=None,
        reason=row.reason if finished else unfinished_reason,
        value=float(served) if tally.decided else None,
        feasible=accepted == served if accepted else None,
        violations=accepted - served if accepted else None,
        scenarios=counts,
        decision_s=tally.decision_s if tally.decided else row.decision_s,
    )


def pack(verdicts: Sequence[bool]) -> str:
    """Return verdicts as text: one bit per verdict, deflated, in base 64."""
    return base64.b64encode(zlib.compress(np.packbits(np.array(verdicts, dtype=bool)).tobytes(), 9)).decode()


def unpack(text: str, count: int) -> Flags:
    """Return the ``count`` verdicts that ``pack`` wrote, shape (count,)."""
    packed = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)
    return np.unpackbits(packed, count=count).astype(bool)
