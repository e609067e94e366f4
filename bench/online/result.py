"""Result of an online run: a series of periods and their sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bench.online.observation import Seen
from instances import Plan


class PeriodEnd(StrEnum):
    """What was done at the end of a period.

    ``kept``: nothing, or only rates were redirected. ``exchanged``: another plan at once, whose processes were ready.
    ``reorganised``: new processes are being prepared. ``under way``: they still were. ``unschedulable``: there is no
    plan for these rates, the old one serves on.
    """

    KEPT = "kept"
    EXCHANGED = "exchanged"
    REORGANISED = "reorganised"
    UNDER_WAY = "under way"
    UNSCHEDULABLE = "unschedulable"


@dataclass(frozen=True, slots=True)
class Period:
    """One period of an online run.

    Attributes
    ----------
    begin_s
        When it began.
    seen
        What happened; requests that came to an end in it may have come before.
    plan
        In use when it ended.
    gpus_held
        On average over the period, those included on which processes are prepared or stand by.
    memory_pct
        Of the fullest GPU at the fullest moment, with all processes that are prepared or stand by. Beyond 100 the
        exchange would not be possible. ``None`` for MIG.
    answer
        What followed from it.
    without_headroom
        Whether its plan had to be made without the headroom asked for, since none was found with it.
    """

    begin_s: float
    seen: Seen
    plan: Plan
    gpus_held: float
    memory_pct: float | None
    answer: PeriodEnd
    without_headroom: bool = False

    @property
    def gpus_used(self) -> int:
        """GPUs of the plan."""
        return self.plan.gpus_used

    @property
    def share_units(self) -> int:
        """Units that the plan allocates on them all."""
        return sum(gpu.share_units for gpu in self.plan.gpus)

    def to_json(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return it as JSON values, those of workloads by id."""
        seen = self.seen
        return {
            "begin_s": self.begin_s,
            "end_s": self.begin_s + seen.seconds,
            "gpus_used": self.gpus_used,
            "share_units": self.share_units,
            "gpus_held": self.gpus_held,
            "memory_pct": self.memory_pct,
            "answer": str(self.answer),
            "without_headroom": self.without_headroom,
            "requests": int(seen.came.sum()),
            "throughput_rps": float(seen.throughput_rps.sum()),
            "late": int(seen.late.sum()),
            "dropped": int(seen.dropped.sum()),
            "violation_rate": seen.violation_rate,
            "workloads": {
                name: {
                    "requests": int(seen.came[w]),
                    "throughput_rps": float(seen.throughput_rps[w]),
                    "late": int(seen.late[w]),
                    "dropped": int(seen.dropped[w]),
                }
                for w, name in enumerate(ids)
            },
        }


@dataclass(frozen=True, slots=True)
class OnlineRun:
    """An online run, or as much of it as there is.

    Attributes
    ----------
    ids
        Of the workloads.
    periods
        At least one.
    """

    ids: tuple[str, ...]
    periods: tuple[Period, ...]

    @property
    def seen(self) -> Seen:
        """What happened from beginning to end."""
        return sum((period.seen for period in self.periods), Seen.nothing(len(self.ids)))

    def part(self, first: int, end: int) -> "OnlineRun":
        """Return the periods from ``first`` to before ``end``."""
        return OnlineRun(self.ids, self.periods[first:end])

    @property
    def gpus_held(self) -> float:
        """GPUs held on average."""
        return math.fsum(p.gpus_held * p.seen.seconds for p in self.periods) / self.seen.seconds

    @property
    def memory_pct(self) -> float | None:
        """Memory resident on the fullest GPU at the fullest moment, in percent of its memory."""
        return max((p.memory_pct for p in self.periods if p.memory_pct is not None), default=None)

    @property
    def overfull(self) -> int:
        """Periods in which more was resident on a GPU than its memory holds."""
        return sum(p.memory_pct is not None and p.memory_pct > 100.0 for p in self.periods)

    @property
    def without_headroom(self) -> int:
        """Periods whose plan had to be made without the headroom asked for."""
        return sum(period.without_headroom for period in self.periods)

    def count(self, answer: PeriodEnd) -> int:
        """Return after how many periods ``answer`` was given."""
        return sum(period.answer is answer for period in self.periods)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values: totals, by workload, and the series."""
        seen = self.seen
        came, served, dropped = (int(count.sum()) for count in (seen.came, seen.served, seen.dropped))
        return {
            "seconds": seen.seconds,
            "requests": came,
            "late": int(seen.late.sum()),
            "dropped": dropped,
            "unfinished": came - served - dropped,
            "throughput_rps": float(seen.throughput_rps.sum()),
            "violation_rate": seen.violation_rate,
            "gpus_held": self.gpus_held,
            "gpus_used": [min(p.gpus_used for p in self.periods), max(p.gpus_used for p in self.periods)],
            "memory_pct": self.memory_pct,
            "overfull_periods": self.overfull,
            "periods_without_headroom": self.without_headroom,
            "answers": {str(answer): self.count(answer) for answer in PeriodEnd},
            "workloads": [
                {
                    "id": name,
                    "requests": int(seen.came[w]),
                    "throughput_rps": float(seen.throughput_rps[w]),
                    "late": int(seen.late[w]),
                    "dropped": int(seen.dropped[w]),
                    "violation_rate": float(seen.violations[w] / max(1, seen.served[w] + seen.dropped[w])),
                }
                for w, name in enumerate(self.ids)
            ],
            "periods": [period.to_json(self.ids) for period in self.periods],
        }
