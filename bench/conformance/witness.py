"""A scheduler that lets another one work and looks over its shoulder, from inside the worker process."""

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
"""Statistic: 1 where the instance was changed."""

DIFFERS = "conformance_differs"
"""Statistic: 1 where the same object gave another plan when asked again."""


@dataclass(frozen=True)
class Witness:
    """Runs the scheduler at ``target`` and notes what only its own process can see.

    Attributes
    ----------
    target
        As ``module:attribute``.
    overrides
        Its parameters, as JSON of texts by name.
    again
        Ask it twice, in half of the time each.
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

    def warm(self) -> None:
        """Warm the scheduler."""
        getattr(self._scheduler, "warm", lambda: None)()

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return what the scheduler returns, with statistics of our own."""
        before = _state(instance)
        first_run = replace(run, deadline=time.monotonic() + run.remaining_s / 2.0) if self.again else run
        outcome = self._scheduler.schedule(instance, first_run)
        if not isinstance(outcome, Outcome):  # for the worker to refuse
            return outcome
        noted = {CHANGED: float(_state(instance) != before)}
        if self.again:
            noted[DIFFERS] = float(self._scheduler.schedule(instance, run).plan != outcome.plan)
        return replace(outcome, statistics={**outcome.statistics, **noted})


def _state(instance: Instance) -> tuple[str, object, object]:
    """Return all that is in the instance; its own fingerprint is remembered, that of a copy is not."""
    return replace(instance).fingerprint, dict(instance.workload_index), dict(instance.model_of)
