"""Harmless schedulers for tests: they answer at once, wait, or record how they were called."""

import multiprocessing
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numba
import numpy as np

from bench.api import Bound, Outcome, Run, Status
from bench.schedulers.registry import load
from instances import Instance, Objective, Plan, spatial_gpu
from instances.catalogue import gpu_type, gpu_type_names
from instances.tables import tables_in_order
from instances.view import View


def honest_plan(instance: Instance, units: int = 20) -> Plan:
    """Return the plan with every workload alone on a GPU."""
    gpu = instance.gpus[0].type.name
    return Plan(instance.name, tuple(spatial_gpu(gpu, [(w.id, units, 2, w.rate_rps)]) for w in instance.workloads))


def note(log: str, line: object) -> None:
    """Append a line to a file."""
    with Path(log).open("a") as file:
        file.write(f"{line}\n")


@dataclass(frozen=True)
class Base:
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})
    name: ClassVar[str] = "base"

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return Outcome(Status.FEASIBLE, honest_plan(instance))


@dataclass(frozen=True)
class Honest(Base):
    """Returns a plan and a bound.

    This second paragraph is not for lists.
    """

    units: int = 20
    scale: float | None = None
    mode: str = "plain"
    quick: bool = False

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ValueError(f"units is {self.units}; expected at least 1")

    def warm(self, objective: Objective) -> None:
        print("warming")

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        run.report(honest_plan(instance, self.units), Bound(3.0, certified=True))
        run.report(bound=Bound(4.0, certified=True))
        return Outcome(Status.OPTIMAL, honest_plan(instance, self.units), Bound(6.0, certified=True), {"nodes": 3})


@dataclass(frozen=True)
class EchoStart(Base):
    """Returns the plan that it was given; its statistics are the arguments and settings of the run."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        statistics = {
            "started": float(run.start is not None),
            "seed": run.seed,
            "threads": run.threads,
            "openmp_threads": float(os.environ["OMP_NUM_THREADS"]),
            "numba_threads": numba.config.NUMBA_NUM_THREADS,
            "remaining_s": run.remaining_s,
        }
        return Outcome(Status.FEASIBLE if run.start else Status.UNKNOWN, run.start, statistics=statistics)


@dataclass(frozen=True)
class LooksForTables(Base):
    """Fails unless the bench tabulated every GPU type before the run, and passed the catalogue's own objects."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        before = tables_in_order.cache_info()
        for pool in instance.gpus:
            View.of(instance, pool.type)
            in_catalogue = pool.type.name in gpu_type_names() and gpu_type(pool.type.name) == pool.type
            assert not in_catalogue or gpu_type(pool.type.name) is pool.type
        after = tables_in_order.cache_info()
        assert after.misses == before.misses, "tabulated while the clock ran"
        assert after.hits == before.hits + len(instance.gpus)
        return super().schedule(instance, run)


@dataclass(frozen=True)
class ArrayPlan(Base):
    """Has NumPy's numbers in its plan and statistics, and an infinite bound."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        gpu = instance.gpus[0].type.name
        rows = [[(w.id, np.int64(20), np.int32(2), np.float64(w.rate_rps))] for w in instance.workloads]
        plan = Plan(instance.name, tuple(spatial_gpu(gpu, row) for row in rows))
        bound = Bound(float("-inf"), certified=True)
        return Outcome(Status.FEASIBLE, plan, bound, {"nodes": np.int64(3), "ratio": float("inf")})


@dataclass(frozen=True)
class Locker(Base):
    """Holds a multiprocessing lock until the process ends, as some libraries do, and uses a pool of processes."""

    locks: ClassVar[list[object]] = []

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        self.locks.append(multiprocessing.Lock())
        with multiprocessing.Pool(1) as pool:
            (units,) = pool.map(abs, [-20])
        return Outcome(Status.FEASIBLE, honest_plan(instance, units))


@dataclass(frozen=True)
class Needy(Base):
    size: int = field()
    """Has no default."""


@dataclass(frozen=True)
class FailsUnless(Base):
    """Fails unless the file ``mark`` exists."""

    mark: str = ""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        if not Path(self.mark).exists():
            raise RuntimeError("not yet")
        return super().schedule(instance, run)


@dataclass(frozen=True)
class UsesHalfTheTime(Base):
    """Returns after half of the remaining time."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        due = run.remaining_s / 2.0
        while run.remaining_s > due:
            pass
        return super().schedule(instance, run)


@dataclass(frozen=True)
class Brief(Base):
    """Logs that it runs, then takes 0 to 29 ms, depending on the seed."""

    log: str = os.devnull

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        note(self.log, f"{os.getpid()} {run.seed}")
        run.report(honest_plan(instance))
        time.sleep(run.seed * 7919 % 30 / 1000.0)
        return super().schedule(instance, run)


@dataclass(frozen=True)
class Gated(Base):
    """Logs that it began; with seeds from 3 on, it spins until the file ``gate`` exists."""

    log: str = os.devnull
    gate: str = ""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        note(self.log, f"{os.getpid()} {run.seed}")
        while run.seed >= 3 and not Path(self.gate).exists():
            pass
        return super().schedule(instance, run)


@dataclass(frozen=True)
class ServesOne(Base):
    """Logs every scenario and serves those with a single workload.

    For the scenario named ``at`` it waits until the file ``gate`` exists, if one is named, and leaves the answer to
    the class ``other``, if one is named, with ``how`` as its parameter.
    """

    at: str = ""
    other: str = ""
    how: str = ""
    log: str = os.devnull
    gate: str = ""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        note(self.log, instance.name)
        if instance.name == self.at:
            while self.gate and not Path(self.gate).exists():
                pass
            if self.other:
                return load(self.other)(how=self.how).schedule(instance, run)  # type: ignore[call-arg]
        if len(instance.workloads) == 1:
            return super().schedule(instance, run)
        run.report(honest_plan(instance))
        return Outcome(Status.INFEASIBLE)


@dataclass(frozen=True)
class ThenFails(Base):
    """Answers well at first; asked for a plan with more slack, it fails as ``how`` says."""

    how: str = "ends"

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        if instance.latency_buffer > 1.0:
            if self.how == "raises":
                raise SystemExit("no more")
            if self.how == "exits":
                os._exit(3)
            if self.how == "hangs":
                time.sleep(60.0)
            return Outcome(Status.UNKNOWN)
        plan = honest_plan(instance)
        if self.how == "reports late":
            threading.Thread(target=_reports_later, args=(run, plan), daemon=True).start()
        return Outcome(Status.OPTIMAL, plan, Bound(instance.cost_per_hour(plan.gpus), certified=True))


def _reports_later(run: Run, plan: Plan) -> None:
    time.sleep(0.2)
    run.report(plan=Plan(plan.instance, (*plan.gpus, *plan.gpus)))
