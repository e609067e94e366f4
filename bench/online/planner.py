"""Planner of an online run: it calls a scheduler repeatedly in this process."""

import math
import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from bench.api import Run, refusal
from bench.evaluation import Trial
from bench.judging.judge import judge
from bench.plan_simulation import no_simulation
from bench.schedulers.chain import run_chain
from bench.schedulers.parameters import instantiate, parse_overrides
from bench.schedulers.registry import entries as registered_schedulers
from bench.schedulers.registry import load, parse_spec
from instances import InputError, Instance, Plan
from instances.arrays import Floats
from instances.errors import FieldName
from instances.view import prepared


class SchedulerError(Exception):
    """Failure of a scheduler: it raised an error or returned an invalid plan."""


class Planner:
    """Planner that calls one scheduler for the current rates.

    Parameters
    ----------
    scheduler
        Name of the scheduler; in ``b@a``, scheduler ``b`` starts from the plan of ``a``.
    instance
        Instance; each call replaces its rates.
    parameters
        Overrides such as ``name.field=value``.
    headroom
        Factor on every predicted latency while planning. If the scheduler finds no plan, it is called again with 1.
    time_limit_s, seed
        Limit and seed of each call. The simulated time does not depend on the duration of calls. The plan of a
        scheduler that uses its whole time limit may depend on the speed of the machine.

    Attributes
    ----------
    without_headroom
        Whether the last plan was made without the headroom.
    """

    def __init__(
        self,
        scheduler: str,
        instance: Instance,
        *,
        parameters: Iterable[str] = (),
        headroom: float = 1.0,
        time_limit_s: float = 10.0,
        seed: int = 0,
    ) -> None:
        if not 0.0 < time_limit_s < math.inf:
            raise InputError(
                FieldName("time_limit_s"), f"{time_limit_s:g}; expected a finite number of seconds greater than 0"
            )
        registered = registered_schedulers()
        stages = parse_spec(scheduler, registered, FieldName("scheduler"))
        overrides = parse_overrides(parameters, [*registered, *(stage.name for stage in stages)])
        self.name = scheduler
        self._chain = []
        for stage in stages:
            scheduler_class = load(stage.target, stage.version)
            if (refused_reason := refusal(scheduler_class, instance)) is not None:
                raise InputError(FieldName("scheduler"), f"{stage.name} {refused_reason}")
            self._chain.append((stage.name, instantiate(scheduler_class, overrides.get(stage.name, {}), stage.name)))
        self._instance = prepared(instance)
        # First with the headroom, then without it
        self._trials = [Trial(factor) for factor in dict.fromkeys((headroom, 1.0))]
        self._time_limit_s, self._seed = time_limit_s, seed
        self.without_headroom = False
        for _, stage_scheduler in self._chain:
            if (warm := getattr(stage_scheduler, "warm", None)) is not None:
                warm(instance.objective)

    def first(self) -> Plan:
        """Return a plan for the rates of the instance.

        Raises
        ------
        InputError
            If there is none.
        SchedulerError
            See ``plan``.
        """
        plan = self.plan(np.array([workload.rate_rps for workload in self._instance.workloads]))
        if plan is None:
            problem = f"{self.name} finds no plan for the rates of {self._instance.name}; lower them or widen the pool"
            raise InputError(FieldName("scheduler"), problem)
        return plan

    def plan(self, rates_rps: Floats, start: Plan | None = None) -> Plan | None:
        """Return a plan for rates above 0, shape (workloads,), or ``None`` if the scheduler finds none within the pool.

        The scheduler may start from the plan ``start``.

        Raises
        ------
        SchedulerError
            If the scheduler raises an error or returns a plan that cannot be served.
        """
        workloads = tuple(
            replace(workload, rate_rps=float(rate))
            for workload, rate in zip(self._instance.workloads, rates_rps, strict=True)
        )
        if start is not None:  # schedulers expect plans without empty GPUs
            start = replace(start, gpus=tuple(gpu for gpu in start.gpus if gpu.gpulets))
        for attempt, trial in enumerate(self._trials):
            planned_instance = trial.planner_instance(replace(self._instance, workloads=workloads))
            plan = self._planned(planned_instance, start)
            if plan is not None and self._fits(plan, planned_instance):
                self.without_headroom = attempt > 0
                return plan
        return None

    def _planned(self, instance: Instance, start: Plan | None) -> Plan | None:
        run = Run(time.monotonic() + self._time_limit_s, self._seed, start=start)
        try:
            return run_chain(self._chain, instance, run).plan
        except Exception as error:  # a scheduler may raise anything
            raise SchedulerError(f"{self.name}: {type(error).__name__}: {error}") from error

    def _fits(self, plan: Plan, instance: Instance) -> bool:
        """Return whether the pool has enough GPUs; other violations show in the simulation."""
        try:
            verdict = judge(plan, instance)
        except InputError as error:
            raise SchedulerError(f"{self.name}: {error}") from None
        if (reason := no_simulation(plan, instance)) is not None:
            raise SchedulerError(f"{self.name}: its plan cannot be served: {reason}")
        return all(violation.kind != "pool" for violation in verdict.violations)
