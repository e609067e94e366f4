"""Wrapper of a scheduler that checks properties visible only inside the worker process."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from bench.api import Outcome, Run, Scheduler
from bench.schedulers.parameters import instantiate
from bench.schedulers.registry import load
from instances import Instance, Objective, Partition

CHANGED = "conformance_changed"
"""Statistic: 1 if the scheduler changed the instance."""

DIFFERS = "conformance_differs"
"""Statistic: 1 if a second call of the same object returned another plan."""


@dataclass(frozen=True)
class Witness:
    """Scheduler that runs the scheduler at ``target`` and adds statistics on its conformance.

    Attributes
    ----------
    target
        ``module:attribute`` of the scheduler.
    overrides
        Parameters of the scheduler, as a JSON object of texts.
    again
        Whether to call the scheduler twice: with half of the time that remains, then with all that is left.
    """

    name: ClassVar[str] = "witness"
    objectives: ClassVar[frozenset[Objective]] = frozenset(Objective)
    partitions: ClassVar[frozenset[Partition]] = frozenset(Partition)

    target: str
    overrides: str = "{}"
    again: bool = False

    @cached_property
    def _scheduler(self) -> Scheduler:
        overrides: Mapping[str, str] = json.loads(self.overrides)
        return instantiate(load(self.target), overrides, self.target)

    def warm(self, objective: Objective) -> None:
        """Call the scheduler's method ``warm``, if it has one."""
        getattr(self._scheduler, "warm", lambda _: None)(objective)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return the outcome of the scheduler's first call, with the statistics on its conformance."""
        before = _contents(instance)
        first_run = replace(run, deadline=time.monotonic() + run.remaining_s / 2.0) if self.again else run
        outcome = self._scheduler.schedule(instance, first_run)
        if not isinstance(outcome, Outcome):  # the worker process refuses the wrong type
            return outcome
        statistics = {CHANGED: float(_contents(instance) != before)}
        if self.again:
            statistics[DIFFERS] = float(self._scheduler.schedule(instance, run).plan != outcome.plan)
        return replace(outcome, statistics={**outcome.statistics, **statistics})


def _contents(instance: Instance) -> tuple[str, object, object]:
    """Return the contents of the instance; a copy computes the fingerprint, because an instance caches it."""
    return replace(instance).fingerprint, dict(instance.workload_index), dict(instance.model_of)
