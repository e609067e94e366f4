"""Result of an online run: a series of periods and their sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bench.online.observation import Observation
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
    observation
        Counts of the period, which include requests that arrived earlier and finish in the period.
    plan
        Active plan at the end of the period.
    gpus_held
        Mean number of GPUs with resident processes: serving, in preparation, or on standby.
    memory_pct
        Peak memory of the resident processes on the fullest GPU, in percent of its memory; ``None`` for MIG. Above 100,
        a real GPU could not hold these processes; the simulation continues.
    without_headroom
        Whether the plan was made without the requested headroom, because no plan was found with the headroom.
    """

    begin_s: float
    observation: Observation
    plan: Plan
    gpus_held: float
    memory_pct: float | None
    action: PeriodEnd
    without_headroom: bool = False

    @property
    def gpus_used(self) -> int:
        """Number of GPUs of the plan."""
        return self.plan.gpus_used

    @property
    def share_units(self) -> int:
        """Share units that the plan allocates on all GPUs."""
        return sum(gpu.share_units for gpu in self.plan.gpus)

    def to_json(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the period as JSON values, with the workloads by id."""
        observation = self.observation
        return {
            "begin_s": self.begin_s,
            "end_s": self.begin_s + observation.seconds,
            "gpus_used": self.gpus_used,
            "share_units": self.share_units,
            "gpus_held": self.gpus_held,
            "memory_pct": self.memory_pct,
            "answer": str(self.action),
            "without_headroom": self.without_headroom,
            "requests": int(observation.arrived.sum()),
            "throughput_rps": float(observation.throughput_rps.sum()),
            "late": int(observation.late.sum()),
            "dropped": int(observation.dropped.sum()),
            "violation_rate": observation.violation_rate,
            "workloads": {name: observation.of_workload(position) for position, name in enumerate(ids)},
        }


@dataclass(frozen=True, slots=True)
class OnlineRun:
    """An online run, or a part of one, of at least one period; ``ids`` are the ids of the workloads."""

    ids: tuple[str, ...]
    periods: tuple[Period, ...]

    @property
    def observation(self) -> Observation:
        """Observation of the whole run."""
        return sum((period.observation for period in self.periods), Observation.empty(len(self.ids)))

    @property
    def gpus_held(self) -> float:
        """Mean number of GPUs with resident processes."""
        return (
            math.fsum(period.gpus_held * period.observation.seconds for period in self.periods)
            / self.observation.seconds
        )

    @property
    def memory_pct(self) -> float | None:
        """Peak resident memory on the fullest GPU, in percent of its memory."""
        return max((period.memory_pct for period in self.periods if period.memory_pct is not None), default=None)

    @property
    def overfull(self) -> int:
        """Number of periods in which the resident processes exceed the memory of a GPU."""
        return sum(period.memory_pct is not None and period.memory_pct > 100.0 for period in self.periods)

    @property
    def without_headroom(self) -> int:
        """Number of periods with a plan that was made without the requested headroom."""
        return sum(period.without_headroom for period in self.periods)

    def count(self, action: PeriodEnd) -> int:
        """Return the number of periods that ended with ``action``."""
        return sum(period.action is action for period in self.periods)

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON values: totals, results by workload, and the series of periods."""
        observation = self.observation
        arrived, served, dropped = (
            int(count.sum()) for count in (observation.arrived, observation.served, observation.dropped)
        )
        return {
            "seconds": observation.seconds,
            "requests": arrived,
            "late": int(observation.late.sum()),
            "dropped": dropped,
            "unfinished": arrived - served - dropped,
            "throughput_rps": float(observation.throughput_rps.sum()),
            "violation_rate": observation.violation_rate,
            "gpus_held": self.gpus_held,
            "gpus_used": [
                min(period.gpus_used for period in self.periods),
                max(period.gpus_used for period in self.periods),
            ],
            "memory_pct": self.memory_pct,
            "overfull_periods": self.overfull,
            "periods_without_headroom": self.without_headroom,
            "answers": {str(action): self.count(action) for action in PeriodEnd},
            "workloads": [
                {
                    "id": name,
                    **observation.of_workload(position),
                    "violation_rate": float(
                        observation.violations[position]
                        / max(1, observation.served[position] + observation.dropped[position])
                    ),
                }
                for position, name in enumerate(self.ids)
            ],
            "periods": [period.to_json(self.ids) for period in self.periods],
        }
