"""The scheduler that is asked again and again, called in this process."""

import math
import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from bench.api import Run, Status, refusal
from bench.evaluation import Trial
from bench.judging.judge import judge
from bench.plan_simulation import no_simulation
from bench.schedulers.parameters import instantiate, parse_overrides
from bench.schedulers.registry import entries, load, parse_spec
from instances import InputError, Instance, Plan
from instances.arrays import Floats
from instances.prepared import prepared


class SchedulerError(Exception):
    """The scheduler failed, or what it returned is no plan."""


class Planner:
    """Asks a scheduler for plans for the rates of the moment.

    Parameters
    ----------
    spec
        Its name; with ``b@a`` the one goes on from the other's plan.
    parameters
        Such as ``name.field=value``.
    instance
        Whose rates are replaced.
    headroom
        The scheduler plans as if every latency were so many times as long; where it finds no plan so, as it is.
    time_limit_s, seed
        Of every call. The simulated time does not depend on how long calls take, the plans of a scheduler that goes on
        until its time is up may.

    Attributes
    ----------
    calls_s
        How long each call took.
    without_headroom
        Whether the plan returned last had to be made without the headroom.
    """

    def __init__(
        self,
        spec: str,
        instance: Instance,
        *,
        parameters: Iterable[str] = (),
        headroom: float = 1.0,
        time_limit_s: float = 10.0,
        seed: int = 0,
    ) -> None:
        if not 0.0 < time_limit_s < math.inf:
            raise InputError("--time-limit", f"{time_limit_s:g}; expected a finite number of seconds greater than 0")
        known = entries()
        stages = parse_spec(spec, known, "--scheduler")
        overrides = parse_overrides(parameters, [*known, *(stage.name for stage in stages)])
        classes = [load(stage.target, stage.version) for stage in stages]
        for stage, found in zip(stages, classes, strict=True):
            if (refused := refusal(found, instance)) is not None:
                raise InputError("--scheduler", f"{stage.name} {refused}")
        self.name = spec
        self._schedulers = [
            instantiate(found, overrides.get(stage.name, {}), stage.name)
            for stage, found in zip(stages, classes, strict=True)
        ]
        self._instance, self._trials = prepared(instance), [Trial(factor) for factor in dict.fromkeys((headroom, 1.0))]
        self._time_limit_s, self._seed = time_limit_s, seed
        self.calls_s: list[float] = []
        self.without_headroom = False
        for scheduler in self._schedulers:
            getattr(scheduler, "warm", _nothing)()

    def first(self) -> Plan:
        """Return a plan for the rates of the instance.

        Raises
        ------
        InputError
            If there is none.
        SchedulerError
            As ``plan``.
        """
        found = self.plan(np.array([workload.rate_rps for workload in self._instance.workloads]))
        if found is None:
            problem = f"{self.name} finds no plan for the rates of {self._instance.name}; lower them or widen the pool"
            raise InputError("--scheduler", problem)
        return found

    def plan(self, rates_rps: Floats, start: Plan | None = None) -> Plan | None:
        """Return a plan, or ``None`` where the scheduler finds none that the pool can hold.

        Parameters
        ----------
        rates_rps
            Of each workload, above 0, shape (workloads,).
        start
            The plan until now.

        Raises
        ------
        SchedulerError
            If it raises, or returns what cannot be served from.
        """
        workloads = tuple(
            replace(workload, rate_rps=float(rate))
            for workload, rate in zip(self._instance.workloads, rates_rps, strict=True)
        )
        if start is not None:  # without the positions that are empty
            start = replace(start, gpus=tuple(gpu for gpu in start.gpus if gpu.gpulets))
        for number, trial in enumerate(self._trials):
            asked = trial.planned(replace(self._instance, workloads=workloads))
            plan = self._asked(asked, start)
            if plan is not None and self._fits(plan, asked):
                self.without_headroom = number > 0
                return plan
        return None

    def _asked(self, instance: Instance, start: Plan | None) -> Plan | None:
        begin = time.monotonic()
        plan = start
        try:
            for scheduler in self._schedulers:
                outcome = scheduler.schedule(instance, Run(begin + self._time_limit_s, self._seed, start=plan))
                plan = outcome.plan if outcome.status is not Status.INFEASIBLE else None
        except Exception as error:  # a scheduler may raise anything
            raise SchedulerError(f"{self.name}: {type(error).__name__}: {error}") from error
        finally:
            self.calls_s.append(time.monotonic() - begin)
        return plan

    def _fits(self, plan: Plan, asked: Instance) -> bool:
        """Whether there are as many GPUs; what else it may break shows when it serves."""
        try:
            verdict = judge(plan, asked)
        except InputError as error:
            raise SchedulerError(f"{self.name}: {error}") from None
        if (reason := no_simulation(plan, asked)) is not None:
            raise SchedulerError(f"{self.name}: its plan cannot be served from: {reason}")
        return all(violation.kind != "pool" for violation in verdict.violations)


def _nothing() -> None:
    """Warm nothing."""
