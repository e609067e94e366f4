"""Schedulers for testing the harness: one that behaves, and one for every way not to."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numba
import numpy as np

from bench.api import Bound, Outcome, Run, Status
from instances import Instance, Objective, Plan, spatial_gpu
from instances.catalogue import gpu_type, gpu_type_names
from instances.tables import gpu_tables
from instances.view import View


def good_plan(instance: Instance, units: int = 20) -> Plan:
    """Every workload on a GPU of its own."""
    gpu = instance.gpus[0].type.name
    return Plan(instance.name, tuple(spatial_gpu(gpu, [(w.id, units, 1, w.rate_rps)]) for w in instance.workloads))


def wait_for_ever() -> None:
    while True:
        signal.pause()


@dataclass(frozen=True)
class Base:
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})
    name: ClassVar[str] = "base"

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return Outcome(Status.FEASIBLE, good_plan(instance))


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

    def warm(self) -> None:
        print("warming")

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        run.report(good_plan(instance, self.units), Bound(3.0, certified=True))
        run.report(bound=Bound(4.0, certified=True))
        return Outcome(Status.OPTIMAL, good_plan(instance, self.units), Bound(6.0, certified=True), {"nodes": 3})


@dataclass(frozen=True)
class EchoStart(Base):
    """Returns the plan it was given, and says how it was called."""

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
    """Fails if it is the first to tabulate a GPU type, or if the cache has to compare types field by field."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        before = gpu_tables.cache_info()
        for pool in instance.gpus:
            View.of(instance, pool.type)
            known = pool.type.name in gpu_type_names() and gpu_type(pool.type.name) == pool.type
            assert not known or gpu_type(pool.type.name) is pool.type
        after = gpu_tables.cache_info()
        assert after.misses == before.misses, "tabulated while the clock ran"
        assert after.hits == before.hits + len(instance.gpus)
        return super().schedule(instance, run)


@dataclass(frozen=True)
class Sleeper(Base):
    """Reports a plan and a bound, then never returns; ignores what can be ignored."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        run.report(good_plan(instance), Bound(5.0, certified=False))
        wait_for_ever()
        raise AssertionError


@dataclass(frozen=True)
class SlowToWarm(Base):
    def warm(self) -> None:
        wait_for_ever()


@dataclass(frozen=True)
class FailsUnless(Base):
    """Fails unless a file is there."""

    mark: str = ""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        if not Path(self.mark).exists():
            raise RuntimeError("not yet")
        return Outcome(Status.FEASIBLE, good_plan(instance))


@dataclass(frozen=True)
class Locker(Base):
    """Keeps a lock for processes, as some libraries do from the moment they are imported, and works with others."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        self.kept.append(multiprocessing.Lock())
        with multiprocessing.Pool(1) as pool:
            (units,) = pool.map(abs, [-20])
        return Outcome(Status.FEASIBLE, good_plan(instance, units))

    kept: ClassVar[list[object]] = []


@dataclass(frozen=True)
class Hogger(Base):
    """Waits in C with the interpreter lock held, after noting its pid."""

    pids: str = os.devnull

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        run.report(good_plan(instance))
        Path(self.pids).write_text(str(os.getpid()))
        spin = ctypes.PyDLL(None).pause  # PyDLL keeps the lock; pause() returns on signals only
        while True:
            spin()


@dataclass(frozen=True)
class Parent(Base):
    """Starts children, in its group, in a session of its own and without a parent of its own, and notes their pids."""

    pids: str = ""
    finish: bool = False

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        sleep = ["sh", "-c", "trap '' TERM; sleep 1000"]
        children = [os.getpid(), subprocess.Popen(sleep).pid, subprocess.Popen(sleep, start_new_session=True).pid]
        children.append(int(subprocess.check_output(["sh", "-c", "setsid sleep 1000 >&2 & echo $!"])))
        partial = Path(self.pids + ".partial")
        partial.write_text(" ".join(map(str, children)))
        partial.rename(self.pids)
        if not self.finish:
            wait_for_ever()
        return Outcome(Status.FEASIBLE, good_plan(instance))


@dataclass(frozen=True)
class Allocator(Base):
    """Takes memory until there is none, in Python or in an array."""

    array: bool = False

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        run.report(good_plan(instance))
        if self.array:
            np.ones((2**20, 2**20))
        held = []
        while True:
            held.append(bytearray(2**26))


@dataclass(frozen=True)
class Aborter(Base):
    """Dies the way C++ does when an allocation fails."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
        os.abort()


@dataclass(frozen=True)
class Raiser(Base):
    odd: bool = False

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        print("about to fail")
        if self.odd:
            raise LookupError("half a pair: \udc80 " + "and so on " * 100)
        raise LookupError("no such\nthing")


@dataclass(frozen=True)
class Quitter(Base):
    def schedule(self, instance: Instance, run: Run) -> Outcome:
        sys.exit(3)


@dataclass(frozen=True)
class Crasher(Base):
    how: str = "segfault"

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        run.report(good_plan(instance))
        match self.how:
            case "segfault":
                ctypes.string_at(0)
            case "exit":
                os._exit(7)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang-up":
                os.closerange(3, 256)
                wait_for_ever()
        raise AssertionError


@dataclass(frozen=True)
class Printer(Base):
    """Prints far more than anybody wants to keep, then fails."""

    megabytes: int = 100

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        line = b"x" * 1023 + b"\n"
        for _ in range(self.megabytes):
            os.write(1, line * 1024)
        print("the last line")
        raise RuntimeError("done printing")


def _garbage(kind: str, instance: Instance) -> object:
    good = good_plan(instance)
    gpu, w = instance.gpus[0].type.name, instance.workloads[0]
    match kind:
        case "none":
            return None
        case "text":
            return "a plan"
        case "no plan":
            return Outcome(Status.OPTIMAL)
        case "plan is text":
            return Outcome(Status.FEASIBLE, "a plan")  # type: ignore[arg-type]
        case "status is text":
            return Outcome("splendid", good)  # type: ignore[arg-type]
        case "gpus are text":
            return Outcome(Status.FEASIBLE, Plan(instance.name, ("gpu",)))  # type: ignore[arg-type]
        case "bound is a number":
            return Outcome(Status.FEASIBLE, good, 3.0)  # type: ignore[arg-type]
        case "statistics are text":
            return Outcome(Status.FEASIBLE, good, statistics={"nodes": "many"})  # type: ignore[dict-item]
        case "negative share":
            return Outcome(Status.FEASIBLE, Plan(instance.name, (spatial_gpu(gpu, [(w.id, -4, 1, w.rate_rps)]),)))
        case "NaN":
            return Outcome(Status.FEASIBLE, Plan(instance.name, (spatial_gpu(gpu, [(w.id, 4, 1, float("nan"))]),)))
        case "other instance":
            return Outcome(Status.FEASIBLE, Plan("another", good.gpus))
        case "unknown workload":
            return Outcome(Status.FEASIBLE, Plan(instance.name, (spatial_gpu(gpu, [("nobody", 4, 1, 1.0)]),)))
    raise ValueError(kind)


@dataclass(frozen=True)
class Garbage(Base):
    kind: str = "none"

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return _garbage(self.kind, instance)  # type: ignore[return-value]


@dataclass(frozen=True)
class Swallower(Base):
    """Reports nonsense where exceptions are swallowed, as in a solver's callback."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        try:
            run.report("nonsense")  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001 - what it is here to do
            print("swallowed")
        return Outcome(Status.FEASIBLE, good_plan(instance))


@dataclass(frozen=True)
class ArrayPlan(Base):
    """Leaves NumPy's numbers in its plan, and says of nothing what it is worth."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        gpu = instance.gpus[0].type.name
        rows = [[(w.id, np.int64(20), np.int32(1), np.float64(w.rate_rps))] for w in instance.workloads]
        plan = Plan(instance.name, tuple(spatial_gpu(gpu, row) for row in rows))
        bound = Bound(float("-inf"), certified=True)
        return Outcome(Status.FEASIBLE, plan, bound, {"nodes": np.int64(3), "ratio": float("inf")})


@dataclass(frozen=True)
class Flood(Base):
    """Reports very often; every plan uses one GPU less than the one before."""

    reports: int = 2000

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        plan = good_plan(instance)
        for number in range(self.reports):
            run.report(plan)
            run.report(bound=Bound(float(number), certified=True))
        return Outcome(Status.FEASIBLE, plan)


@dataclass(frozen=True)
class PipeFlood(Base):
    """Writes messages into the bench's pipe, past everything that slows it down, until it is killed."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        outbox = run.listener._outbox  # type: ignore[attr-defined]
        while True:
            os.write(outbox, b'{"type":"phase","phase":"x","peak_memory_mb":1.0}\n' * 1000)


@dataclass(frozen=True)
class SetsTheClock(Base):
    """Works for a second, with a clock that does not move, in every module."""

    def warm(self) -> None:
        begin = time.monotonic()

        def clock() -> float:
            return begin + 1e-3

        for module in [*sys.modules.values()]:
            for name in ("monotonic", "perf_counter"):
                if name in vars(module):
                    setattr(module, name, clock)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        time.sleep(1.0)
        run.report(good_plan(instance))
        return Outcome(Status.FEASIBLE, good_plan(instance))


@dataclass(frozen=True)
class KillsTheForkserver(Base):
    """Kills its parent, once if ``once`` names a file to note it in, then works."""

    once: str = ""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        if not self.once or not Path(self.once).exists():
            Path(self.once or os.devnull).touch()
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(2.0)
        return Outcome(Status.FEASIBLE, good_plan(instance))


@dataclass(frozen=True)
class Escaper(Base):
    """Starts processes that try to survive the run, and notes their pids in the folder ``pids``; reports its mark."""

    how: str = "daemon"
    count: int = 1
    pids: str = ""
    finish: bool = True

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        library = ctypes.CDLL(None)
        if self.how != "daemon":
            library.prctl(36, 0, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        for _ in range(self.count):
            if os.fork() == 0:
                os.setsid()
                child = os.fork()
                if child == 0:
                    self._survive(library)
                while not Path(self.pids, str(child)).exists():
                    time.sleep(0.001)
                os._exit(0)
        while len(list(Path(self.pids).iterdir())) < self.count:
            time.sleep(0.001)
        if self.how == "forkserver":
            os.kill(os.getppid(), signal.SIGKILL)
            wait_for_ever()
        if not self.finish:
            wait_for_ever()
        if self.how == "daemon":
            os._exit(0)
        return Outcome(Status.FEASIBLE, good_plan(instance), reason=os.environ["GPUSHARE_BENCH_RUN"])

    def _survive(self, library: ctypes.CDLL) -> None:
        os.setsid()
        Path(self.pids, str(os.getpid())).touch()
        match self.how:
            case "bare":
                os.execve("/bin/sleep", ["sleep", "1000"], {})
            case "secret":
                library.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
            case "moving":
                while os.fork() == 0:
                    os.setsid()
                os._exit(0)
        wait_for_ever()


@dataclass(frozen=True)
class Brief(Base):
    """Notes that it runs, then takes some milliseconds."""

    log: str = os.devnull

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        note = os.open(self.log, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(note, f"{os.getpid()} {run.seed}\n".encode())
        os.close(note)
        run.report(good_plan(instance))
        time.sleep(run.seed * 7919 % 30 / 1000.0)
        return Outcome(Status.FEASIBLE, good_plan(instance))


@dataclass(frozen=True)
class Gated(Base):
    """Notes that it began, and with seeds from 3 on waits, spinning, until a file exists."""

    log: str = os.devnull
    gate: str = ""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        with Path(self.log).open("a") as log:
            log.write(f"{os.getpid()} {run.seed}\n")
        while run.seed >= 3 and not Path(self.gate).exists():
            pass
        return Outcome(Status.FEASIBLE, good_plan(instance))


@dataclass(frozen=True)
class ForkedReport(Base):
    """Forks, and the child goes on as if it were the worker."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        child = os.fork()
        if child == 0:
            return Outcome(Status.FEASIBLE, None)
        os.waitpid(child, 0)
        return Outcome(Status.FEASIBLE, good_plan(instance))


@dataclass(frozen=True)
class Needy(Base):
    size: int = field()
    """Has no default."""


@dataclass(frozen=True)
class Stumbles(Base):
    """Notes every scenario and serves those of the first workload alone, until it comes to one named ``at``."""

    at: str = ""
    how: str = "raise"
    log: str = os.devnull
    gate: str = ""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        with Path(self.log).open("a") as log:
            log.write(f"{instance.name}\n")
        if instance.name == self.at:
            self._stumble(instance)
        if len(instance.workloads) == 1:
            return Outcome(Status.FEASIBLE, good_plan(instance))
        run.report(good_plan(instance))
        return Outcome(Status.INFEASIBLE)

    def _stumble(self, instance: Instance) -> None:
        match self.how:
            case "raise":
                raise LookupError("no such thing")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                wait_for_ever()
            case "exhaust":
                raise MemoryError("as if")
            case "wait":
                while not Path(self.gate).exists():
                    pass


@dataclass(frozen=True)
class HandsOver(Base):
    """Hands over odd things for one scenario, named ``at``."""

    kind: str = "none"
    at: str = ""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        if instance.name == self.at:
            return _garbage(self.kind, instance)  # type: ignore[return-value]
        return Outcome(Status.FEASIBLE, good_plan(instance))


@dataclass(frozen=True)
class UsesHalfTheTime(Base):
    """Returns when half of the time that is left is over."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        due = run.remaining_s / 2.0
        while run.remaining_s > due:
            pass
        return Outcome(Status.FEASIBLE, good_plan(instance))
