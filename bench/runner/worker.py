"""Code of the worker process, which executes one run from loading the scheduler to reporting its outcome.

For a scenario set, the worker decides one chunk per order of the parent. An order is the position of the chunk's first
scenario.

The worker sends messages to the parent as lines of JSON (``bench.runner.messages``), each with a ``type``:

- ``phase``: the phase that begins; the parent names it in the reason if the worker does not survive it;
- ``clock``: the scheduler is warm, the tables are filled, and the clock starts (``at`` on the system-wide monotonic
  clock);
- ``report``: an incumbent, a bound, or both, ``t_s`` seconds after the start of the clock; the worker slows down
  schedulers that report faster than the bench reads;
- ``done``: the outcome;
- ``chunk``: the ``plans`` of consecutive scenarios (null where there is none) and the ``decision_s`` of each; every
  chunk has its own ``clock`` message;
- ``ended``: the run has no outcome; ``termination`` and ``reason`` give the cause.

After the last message the worker waits to be killed, so that exit handlers of libraries do not run.
"""

import gc
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from multiprocessing.connection import Connection
from time import monotonic, sleep

from bench.api import Bound, Branching, Duals, Outcome, ProofNode, Run, Scheduler, Status, refusal
from bench.ledger.row import Termination
from bench.runner import worker_limits
from bench.runner.messages import FREE_MESSAGES, MAX_BYTES, MESSAGES_PER_S, Message, encode
from bench.runner.worker_limits import in_control_group
from bench.schedulers import registry
from bench.schedulers.parameters import instantiate
from bench.task import Task
from instances import Instance, Plan, PlanClass, ScenarioSet
from instances.files import plan_to_json
from instances.view import prepared

TRACEBACK_FRAMES = 8
"""Number of innermost frames of an exception in the log."""

CHUNK = 256
"""Most scenarios per chunk."""

CHUNK_PART = 0.5
"""Fraction of the time limit after which a chunk is sent with fewer scenarios."""

_MEMORY_SIGNS = (
    "bad_alloc",
    "cannot allocate memory",
    "can't allocate memory",
    "out of memory",
    "failed to map segment",
    "unable to allocate",
    "memoryerror",
)


class RefusedError(Exception):
    """Error of a scheduler that returned or reported an invalid plan, bound or outcome."""


class SkippedError(Exception):
    """Error of a scheduler that does not support the instance."""


def main(inbox: Connection, outbox: Connection, log: Connection) -> None:
    """Run the worker process: receive one task, execute it, report the outcome, and wait to be killed."""
    worker_limits.become_worker(log)
    try:
        # Pickle is safe here, since the bench sends the task, and it supports instances that no file can store.
        task: Task = pickle.loads(inbox.recv_bytes())  # noqa: S301
    except EOFError:  # the bench has ended
        return
    worker_limits.limit_threads(task.threads)
    report = Report(outbox.fileno())
    try:
        # A control group, if the runner has made one, limits memory instead.
        worker_limits.limit_memory(None if in_control_group() else task.memory_limit_mb)
        if task.scenarios is None:
            _run(task, report)
        else:
            _run_scenarios(task, task.scenarios, report, inbox)
    except BaseException as error:  # noqa: BLE001 - every exception of a scheduler is a result, SystemExit included
        elapsed_s = report.elapsed_s
        report.send(_ended(error, task) | {"decision_s": elapsed_s})
    wait_to_be_killed(inbox)


def wait_to_be_killed(inbox: Connection) -> None:
    """Wait until the parent kills this process or ends."""
    try:
        inbox.recv_bytes()
    except (EOFError, OSError):
        os._exit(0)


class Report:
    """Channel to the parent; schedulers report to it from any of their threads."""

    def __init__(self, outbox: int) -> None:
        self._outbox = outbox
        self._process = os.getpid()
        self._one_at_a_time = threading.Lock()
        self._start: float | None = None
        self._reports = 0
        self.plan: Plan | None = None
        self.refusal: str | None = None

    @property
    def elapsed_s(self) -> float | None:
        """Seconds since the clock started, or ``None`` before."""
        return None if self._start is None else monotonic() - self._start

    def start_clock(self, import_s: float, warm_s: float) -> float:
        """Tell the parent that the scheduler starts, and return the start time."""
        self.send({"type": "clock", "at": monotonic(), "import_s": import_s, "warm_s": warm_s})
        self._start = monotonic()
        return self._start

    def send(self, message: Message) -> None:
        """Send a message without interleaving it with those of other threads.

        Raises
        ------
        RefusedError
            If the message has no JSON form, is too large, or comes from a fork of the worker.
        """
        if os.getpid() != self._process:
            raise RefusedError("a process that the scheduler forked tried to report")
        line = memoryview(_line(message | {"peak_memory_mb": worker_limits.peak_memory_mb()}))
        with self._one_at_a_time:
            while line:
                line = line[os.write(self._outbox, line) :]

    def __call__(self, plan: Plan | None, bound: Bound | None) -> None:
        """Send an incumbent or a bound to the parent.

        Raises
        ------
        RefusedError
            If it is neither. The run then ends as ``invalid_plan``, even if a solver's callback catches the error.
        """
        try:
            self._hold_back()
            message = {"type": "report", "t_s": self.elapsed_s, **_result(plan, bound)}
            if plan is not None or message["bound"] is not None:
                self.send(message)
        except RefusedError as error:
            self.refusal = self.refusal or f"report: {error}"
            raise
        if plan is not None:
            self.plan = plan

    def _hold_back(self) -> None:
        """Wait if the scheduler reports faster than the bench reads."""
        self._reports += 1
        ahead_s = (self._reports - FREE_MESSAGES / 2) / MESSAGES_PER_S - (self.elapsed_s or 0.0)
        if ahead_s > 0.0:
            sleep(ahead_s)


def _loaded(task: Task, report: Report) -> tuple[list[Scheduler], float, float]:
    """Load and warm the schedulers; return them with the seconds of both steps."""
    begin = monotonic()
    schedulers = []
    for stage in task.stages:
        report.send({"type": "phase", "phase": f"importing {stage.target}"})
        found = registry.load(stage.target, stage.version)
        refused = refusal(found, task.instance)
        if refused is not None:
            raise SkippedError(f"{stage.name} {refused}")
        schedulers.append(instantiate(found, stage.overrides, stage.name))
    imported = monotonic()
    for stage, scheduler in zip(task.stages, schedulers, strict=True):
        report.send({"type": "phase", "phase": f"warming {stage.name}"})
        warm = getattr(scheduler, "warm", None)
        if warm is not None:
            warm()
    return schedulers, imported - begin, monotonic() - imported


def _instance_seen(task: Task, report: Report) -> Instance:
    """Return the instance for the scheduler and fill the tables of its GPU types before the clock starts."""
    report.send({"type": "phase", "phase": "tabulating the GPU types"})
    return prepared(task.trial.planned(task.instance))


def _run(task: Task, report: Report) -> None:
    schedulers, import_s, warm_s = _loaded(task, report)
    instance = _instance_seen(task, report)
    start = report.start_clock(import_s, warm_s)
    outcome = _schedule(task, instance, schedulers, start, report)
    decision_s = report.elapsed_s
    gc.disable()  # a collection would delay the message; the bench compares the time of its arrival with decision_s
    worker_limits.lift_memory_limit()
    if report.refusal is not None:
        raise RefusedError(report.refusal)
    done = {
        "type": "done",
        "decision_s": decision_s,
        "status": outcome.status.value,
        "statistics": _statistics(outcome),
        "reason": _shortened(str(outcome.reason or "")),
        **_result(outcome.plan, outcome.bound),
        **_duals(outcome.proof),
    }
    _final_plan(outcome, report.plan)
    report.send(done)  # before this function returns and frees the scheduler's data


def _final_plan(outcome: Outcome, reported: Plan | None) -> Plan | None:
    """Return the final plan of a scheduler: the returned one, else the last reported one.

    The status ``infeasible`` means no plan, even if one was reported before.

    Raises
    ------
    RefusedError
        If the status claims a plan but none was returned or reported.
    """
    plan = outcome.plan or (None if outcome.status is Status.INFEASIBLE else reported)
    if outcome.status in (Status.OPTIMAL, Status.FEASIBLE) and plan is None:
        raise RefusedError(f'status is "{outcome.status}" but there is no plan')
    return plan


class _Latest:
    """Listener that keeps the latest reported plan."""

    def __init__(self) -> None:
        self.plan: Plan | None = None

    def __call__(self, plan: Plan | None, bound: Bound | None) -> None:
        self.plan = plan or self.plan


def _run_scenarios(task: Task, scenarios: ScenarioSet, report: Report, inbox: Connection) -> None:
    """Decide chunks on the parent's orders until it closes the pipe or kills this process."""
    schedulers, import_s, warm_s = _loaded(task, report)
    seen = replace(scenarios, base=_instance_seen(task, report))
    while True:
        try:
            first: int = pickle.loads(inbox.recv_bytes())  # noqa: S301 - the bench sent it
        except EOFError:
            os._exit(0)
        start = report.start_clock(import_s, warm_s)
        handed_over_at = start + CHUNK_PART * task.time_limit_s
        plans, decision_s = [], []
        for index in range(first, min(first + CHUNK, len(scenarios))):
            scenario, latest = seen.scenario(index), _Latest()
            begin = monotonic()
            try:
                outcome = _schedule(task, scenario, schedulers, start, latest)
                decision_s.append(monotonic() - begin)
                plans.append(_result(_final_plan(outcome, latest.plan), None)["plan"])
            except BaseException as error:
                error.add_note(f"({scenario.name})")
                raise
            if monotonic() >= handed_over_at:
                break
        report.send({"type": "chunk", "elapsed_s": report.elapsed_s, "plans": plans, "decision_s": decision_s})


def _schedule(
    task: Task, instance: Instance, schedulers: Sequence[Scheduler], start: float, report: "Report | _Latest"
) -> Outcome:
    """Run the schedulers in turn, each starting from the plan of the previous one."""
    plan: Plan | None = None
    for position, (stage, scheduler) in enumerate(zip(task.stages, schedulers, strict=True)):
        run = Run(
            start + task.time_limit_s, task.seed, task.threads, task.memory_limit_mb, plan, report, task.work_limit
        )
        outcome = _checked(scheduler.schedule(instance, run), stage.name)
        if position + 1 < len(schedulers):
            report(outcome.plan, outcome.bound)
            plan = outcome.plan or report.plan
    return outcome


def _checked(outcome: object, name: str) -> Outcome:
    if not isinstance(outcome, Outcome):
        raise RefusedError(f"{name} returned a {type(outcome).__name__}; expected an Outcome")
    if not isinstance(outcome.status, Status):
        raise RefusedError(f"{name}: status is a {type(outcome.status).__name__}; expected a Status")
    return outcome


def _result(plan: object, bound: object) -> Message:
    """Return a plan and a bound as JSON values.

    Raises
    ------
    RefusedError
        If one of them, or a part of it, has the wrong type.
    """
    if plan is not None and not isinstance(plan, Plan):
        raise RefusedError(f"plan is a {type(plan).__name__}; expected a Plan")
    if bound is not None and not isinstance(bound, Bound):
        raise RefusedError(f"bound is a {type(bound).__name__}; expected a Bound")
    try:
        return {"plan": None if plan is None else plan_to_json(plan), "bound": _bound(bound)}
    except Exception as error:  # plugin data of the wrong types can raise any exception
        raise RefusedError(f"the plan or bound has no JSON form: {_one_line(error)}") from error


def _duals(proof: Sequence[ProofNode]) -> Message:
    """Return a proof as JSON values; one with infinite numbers, which proves nothing, counts as none."""
    nodes: list[Message] = []
    for node in proof:
        if isinstance(node, Duals):
            if not all(map(isfinite, (*node.workloads, *node.gpus))):
                return {}
            nodes.append({"workloads": list(node.workloads), "gpus": list(node.gpus)})
        elif isinstance(node, Branching):
            nodes.append({"on": node.on, "first": node.first, "second": node.second, "branches": list(node.branches)})
        else:
            raise RefusedError(f"proof has a {type(node).__name__}; expected Duals and Branching")
    return {"duals": {"nodes": nodes}} if nodes else {}


def _line(message: Message) -> bytes:
    try:
        line = encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise RefusedError(f"the message has no JSON form: {_one_line(error)}") from error
    if len(line) > MAX_BYTES:
        raise RefusedError(f"the message takes {len(line)} bytes as JSON; at most {MAX_BYTES} are accepted")
    return line


def _bound(bound: Bound | None) -> Message | None:
    """Return a bound as JSON values; an infinite bound counts as none."""
    if bound is None or not isfinite(bound.value):
        return None
    for name in ("slots_per_gpulet", "max_batch", "part_steps"):
        most = getattr(bound, name)
        if most is not None and not 0 < int(most) < 2**31:
            raise RefusedError(f"bound: {name} is {most}; expected a whole number from 1")
    found: Message = {
        "value": float(bound.value),
        "certified": bool(bound.certified),
        "plan_class": PlanClass(bound.plan_class).value,
        "allowed_shares": None if bound.allowed_shares is None else [int(units) for units in bound.allowed_shares],
        "slots_per_gpulet": int(bound.slots_per_gpulet),
        "max_batch": None if bound.max_batch is None else int(bound.max_batch),
    }
    if bound.split_workloads is not None:
        found["split_workloads"] = [str(name) for name in bound.split_workloads]
    if bound.part_steps is not None:
        found["part_steps"] = int(bound.part_steps)
    if bound.parts_apart:
        found["parts_apart"] = True
    return found


def _statistics(outcome: Outcome) -> dict[str, float | None]:
    try:
        numbers = {str(name): float(value) for name, value in outcome.statistics.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise RefusedError(f"statistics: {_one_line(error)}; expected numbers by name") from error
    return {name: number if isfinite(number) else None for name, number in numbers.items()}


def _ended(error: BaseException, task: Task) -> Message:
    """Return the last message of a run that ended by ``error``."""
    memory = _is_memory_failure(error, task.memory_limit_mb)
    if memory or task.memory_limit_mb is not None:
        worker_limits.lift_memory_limit()
    match error:
        case RefusedError():
            termination, reason = Termination.INVALID_PLAN, " ".join([str(error), *getattr(error, "__notes__", ())])
        case SkippedError():
            return {"type": "ended", "termination": Termination.SKIPPED, "reason": str(error)}
        case _ if memory:
            limit = "without a limit" if task.memory_limit_mb is None else f"limit {task.memory_limit_mb:g} MiB"
            termination, reason = Termination.MEMORY_LIMIT, f"{limit}: {_one_line(error)}"
        case _:
            termination, reason = Termination.EXCEPTION, _one_line(error)
    traceback.print_exception(error, limit=-TRACEBACK_FRAMES, file=sys.stderr)
    return {"type": "ended", "termination": termination, "reason": reason}


def _is_memory_failure(error: BaseException, limit_mb: float | None) -> bool:
    """Return whether memory ran out: on a ``MemoryError``, or under a limit on an error whose text says so."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or (limit_mb is not None and tells_of_memory(_one_line(cause))):
            return True
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


def tells_of_memory(text: str) -> bool:
    """Return whether ``text`` contains a message of allocators, loaders or runtimes about refused memory."""
    lowered = text.lower()
    return any(sign in lowered for sign in _MEMORY_SIGNS)


def _one_line(error: BaseException) -> str:
    """Return type and message of an exception on one line."""
    return _shortened("".join(traceback.format_exception_only(error)))


def _shortened(text: str) -> str:
    """Return ``text`` on one line of at most 500 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 500 else line[:497] + "..."
