"""Result of an online run: a series of periods and their sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bench.online.observation import Seen
from instances import Plan


class PeriodEnd(StrEnum):
    """Action at the end of a period.

    ``kept``: no change, or only new rates for the same processes. ``exchanged``: immediate switch to another plan.
    ``reorganised``: start of the preparation of new processes. ``under way``: the preparation continues.
    ``unschedulable``: the scheduler found no plan for these rates, and the old plan continues.
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
    seen
        Observation; it counts requests that finish in the period and may have arrived earlier.
    plan
        Active plan at the end of the period.
    gpus_held
        Mean number of GPUs with processes that serve, are in preparation or stand by.
    memory_pct
        Peak memory on the fullest GPU, including processes in preparation or on standby. Above 100 the switch would be
        impossible. ``None`` for MIG.
    without_headroom
        Whether its plan was made without the requested headroom, because none was found with it.
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
        """Share units that the plan allocates on all GPUs."""
        return sum(gpu.share_units for gpu in self.plan.gpus)

    def to_json(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the period as JSON values, with the workloads by id."""
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
            "workloads": {name: seen.of_workload(w) for w, name in enumerate(ids)},
        }


@dataclass(frozen=True, slots=True)
class OnlineRun:
    """An online run, or a part of one, of at least one period; ``ids`` are those of the workloads."""

    ids: tuple[str, ...]
    periods: tuple[Period, ...]

    @property
    def seen(self) -> Seen:
        """Observation of the whole run."""
        return sum((period.seen for period in self.periods), Seen.nothing(len(self.ids)))

    @property
    def gpus_held(self) -> float:
        """Mean number of held GPUs."""
        return math.fsum(p.gpus_held * p.seen.seconds for p in self.periods) / self.seen.seconds

    @property
    def memory_pct(self) -> float | None:
        """Peak resident memory on the fullest GPU, in percent of its memory."""
        return max((p.memory_pct for p in self.periods if p.memory_pct is not None), default=None)

    @property
    def overfull(self) -> int:
        """Number of periods in which the resident processes exceed the memory of a GPU."""
        return sum(p.memory_pct is not None and p.memory_pct > 100.0 for p in self.periods)

    @property
    def without_headroom(self) -> int:
        """Number of periods whose plan was made without the requested headroom."""
        return sum(period.without_headroom for period in self.periods)

    def count(self, answer: PeriodEnd) -> int:
        """Return the number of periods that ended with ``answer``."""
        return sum(period.answer is answer for period in self.periods)

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON values: totals, results by workload, and the series of periods."""
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
                    **seen.of_workload(w),
                    "violation_rate": float(seen.violations[w] / max(1, seen.served[w] + seen.dropped[w])),
                }
                for w, name in enumerate(self.ids)
            ],
            "periods": [period.to_json(self.ids) for period in self.periods],
        }
