"""Code of the worker process: it executes one run, from loading the scheduler to reporting the outcome.

For a scenario set, the worker solves one chunk per order of the parent. An order is the position of the first scenario
of the chunk.

The worker sends messages to the parent as lines of JSON (``bench.runner.messages``), each with a ``type``:

- ``phase``: the phase that begins; if the worker dies in this phase, the parent names the phase in the reason;
- ``clock``: the scheduler is warm, the tables are filled, and the clock starts (``at`` on the system-wide monotonic
  clock);
- ``report``: an incumbent, a bound, or both, ``t_s`` seconds after the start of the clock; a scheduler that reports
  faster than the bench reads has to wait;
- ``done``: the outcome;
- ``slack``: after ``done``, a plan of equal cost with more slack, or a bound on the slack; the last one has ``ended``;
- ``chunk``: the ``plans`` of consecutive scenarios (null without a plan) and the ``decision_s`` of each; every chunk
  has its own ``clock`` message;
- ``ended``: the run has no outcome; ``termination`` and ``reason`` give the cause.

After the last message the worker waits to be killed, so that exit handlers of libraries do not run.
"""

import gc
import os
import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from time import monotonic, sleep
from types import ModuleType
from typing import TYPE_CHECKING

from bench.api import Bound, Outcome, Run, ignore, refusal
from bench.runner import worker_limits
from bench.runner.failures import SkippedError, ended_message, one_line, shortened
from bench.runner.messages import FREE_MESSAGES, MAX_BYTES, MESSAGES_PER_S, Message, encode
from bench.runner.outcome_json import proof_json, result_json, statistics_json
from bench.runner.worker_limits import in_control_group
from bench.schedulers import registry
from bench.schedulers.chain import Chain, RefusedError, run_chain
from bench.schedulers.parameters import instantiate
from bench.task import Task
from bench.then import Then
from instances import Instance, Objective, Plan, ScenarioSet
from instances.view import prepared

if TYPE_CHECKING:
    from bench.slack import Roomiest

CHUNK = 256
"""Largest number of scenarios per chunk."""

CHUNK_PART = 0.5
"""Fraction of the time limit after which a chunk is sent with fewer scenarios."""


def main(inbox: Connection, outbox: Connection, log: Connection) -> None:
    """Run the worker process: receive one task, execute it, report the outcome, and wait to be killed."""
    worker_limits.become_worker(log)
    try:
        # Pickle is safe here, because the bench sends the task. Pickle also supports instances that no file can store.
        task: Task = pickle.loads(inbox.recv_bytes())  # noqa: S301
    except EOFError:  # the bench has ended
        return
    worker_limits.limit_threads(task.threads)
    report = Report(outbox.fileno())
    try:
        # If the runner has created a control group, the group limits memory.
        worker_limits.limit_memory(None if in_control_group() else task.memory_limit_mb)
        if task.scenarios is None:
            _run(task, report)
        else:
            _run_scenarios(task, task.scenarios, report, inbox)
    except BaseException as error:  # noqa: BLE001 - every exception of a scheduler is a result, SystemExit included
        elapsed_s = report.elapsed_s
        report.send(ended_message(error, task) | {"decision_s": elapsed_s})
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
        self._write_lock = threading.Lock()
        self._start: float | None = None
        self._reports = 0
        self.refusal: str | None = None

    @property
    def elapsed_s(self) -> float | None:
        """Seconds since the clock started, or ``None`` before."""
        return None if self._start is None else monotonic() - self._start

    def start_clock(self, import_s: float, warm_s: float) -> float:
        """Tell the parent that the clock starts, and return the start as a time of the monotonic clock."""
        self.send({"type": "clock", "at": monotonic(), "import_s": import_s, "warm_s": warm_s})
        self._start = monotonic()
        return self._start

    def send(self, message: Message) -> None:
        """Send a message, and keep it apart from the messages of other threads.

        Raises
        ------
        RefusedError
            If the message has no JSON form, is too large, or comes from a fork of the worker.
        """
        if os.getpid() != self._process:
            raise RefusedError("a process that the scheduler forked tried to report")
        line = memoryview(_line(message | {"peak_memory_mb": worker_limits.peak_memory_mb()}))
        with self._write_lock:
            while line:
                line = line[os.write(self._outbox, line) :]

    def __call__(self, plan: Plan | None, bound: Bound | None) -> None:
        """Send an incumbent or a bound to the parent.

        Raises
        ------
        RefusedError
            If the plan or bound has the wrong type. The run then ends as ``invalid_plan``, even if a solver's callback
            catches the error.
        """
        try:
            self._wait_for_bench()
            message = {"type": "report", "t_s": self.elapsed_s, **result_json(plan, bound)}
            if plan is not None or message["bound"] is not None:
                self.send(message)
        except RefusedError as error:
            self.refusal = self.refusal or f"report: {error}"
            raise

    def _wait_for_bench(self) -> None:
        """Wait if the scheduler reports faster than the bench reads."""
        self._reports += 1
        ahead_s = (self._reports - FREE_MESSAGES / 2) / MESSAGES_PER_S - (self.elapsed_s or 0.0)
        if ahead_s > 0.0:
            sleep(ahead_s)


def _loaded(task: Task, report: Report) -> tuple[Chain, float, float]:
    """Load and warm the schedulers; return the schedulers and the seconds of both steps."""
    begin = monotonic()
    chain = []
    for stage in task.stages:
        report.send({"type": "phase", "phase": f"importing {stage.target}"})
        scheduler_class = registry.load(stage.target, stage.version)
        problem = refusal(scheduler_class, task.instance)
        if problem is not None:
            raise SkippedError(f"{stage.name} {problem}")
        chain.append((stage.name, instantiate(scheduler_class, stage.overrides, stage.name)))
    imported = monotonic()
    for name, scheduler in chain:
        report.send({"type": "phase", "phase": f"warming {name}"})
        warm = getattr(scheduler, "warm", None)
        if warm is not None:
            warm(task.instance.objective)
    if task.then is Then.SLACK and task.instance.objective is Objective.COST:
        report.send({"type": "phase", "phase": "warming the second objective"})
        _slack_search().warm()
    return chain, imported - begin, monotonic() - imported


def _scheduler_instance(task: Task, report: Report) -> Instance:
    """Fill the tables of the GPU types before the clock starts, and return the instance for the scheduler."""
    report.send({"type": "phase", "phase": "tabulating the GPU types"})
    return prepared(task.trial.planner_instance(task.instance))


def _run(task: Task, report: Report) -> None:
    """Run the schedulers of a task, send the outcome, and seek more slack if the task asks for it."""
    chain, import_s, warm_s = _loaded(task, report)
    instance = _scheduler_instance(task, report)
    start = report.start_clock(import_s, warm_s)
    try:
        outcome = run_chain(chain, instance, _limits(task, start, report))
    except RefusedError as error:
        raise RefusedError(report.refusal or str(error)) from error
    decision_s = report.elapsed_s
    gc.disable()  # a collection would delay the message, whose arrival the bench compares with decision_s
    worker_limits.lift_memory_limit()
    if report.refusal is not None:
        raise RefusedError(report.refusal)
    done = {
        "type": "done",
        "decision_s": decision_s,
        "status": outcome.status.value,
        "statistics": statistics_json(outcome),
        "reason": shortened(str(outcome.reason or "")),
        **result_json(outcome.plan, outcome.bound),
        **proof_json(outcome.proof),
    }
    report.send(done)  # sent before this function returns and frees the scheduler's data
    if task.then is Then.SLACK and outcome.plan is not None:
        _seek_slack(task, chain, instance, outcome, report)


def _slack_search() -> ModuleType:
    """Return the module of the second objective, which loads numba."""
    from bench import slack

    return slack


def _seek_slack(task: Task, chain: Chain, instance: Instance, outcome: Outcome, report: Report) -> None:
    """Seek plans of equal cost with more slack, and send each one. An error ends this search, but not the run."""
    gc.enable()
    deadline = monotonic() + task.then_limit_s

    def solve(slower: Instance, until: float) -> Outcome:
        run = Run(until, task.seed, task.threads, task.memory_limit_mb, None, ignore, task.work_limit)
        return run_chain(chain, prepared(slower), run)

    def send(roomiest: "Roomiest") -> None:
        plan = result_json(roomiest.plan, None)["plan"]
        report.send({"type": "slack", "plan": plan, "slack_bound": roomiest.bound, "ended": False})

    proves = outcome.bound is not None and outcome.bound.certified
    assert outcome.plan is not None
    with suppress(BaseException):  # the decision has been sent; no error of this phase may change it
        worker_limits.limit_memory(None if in_control_group() else task.memory_limit_mb)
        by_work = task.work_limit is not None
        _slack_search().more_slack(instance, outcome.plan, solve, deadline, proves, send, by_work)
    worker_limits.lift_memory_limit()
    report.send({"type": "slack", "plan": None, "slack_bound": None, "ended": True})


def _run_scenarios(task: Task, scenarios: ScenarioSet, report: Report, inbox: Connection) -> None:
    """Solve a chunk for every order, until the parent closes the pipe or kills this process."""
    chain, import_s, warm_s = _loaded(task, report)
    scheduler_scenarios = replace(scenarios, base=_scheduler_instance(task, report))
    while True:
        try:
            first: int = pickle.loads(inbox.recv_bytes())  # noqa: S301 - the bench sent it
        except EOFError:
            os._exit(0)
        start = report.start_clock(import_s, warm_s)
        send_at = start + CHUNK_PART * task.time_limit_s
        plans, decision_s = [], []
        for index in range(first, min(first + CHUNK, len(scenarios))):
            scenario = scheduler_scenarios.scenario(index)
            begin = monotonic()
            try:
                outcome = run_chain(chain, scenario, _limits(task, start))
                decision_s.append(monotonic() - begin)
                plans.append(result_json(outcome.plan, None)["plan"])
            except BaseException as error:
                error.add_note(f"({scenario.name})")
                raise
            if monotonic() >= send_at:
                break
        report.send({"type": "chunk", "elapsed_s": report.elapsed_s, "plans": plans, "decision_s": decision_s})


def _limits(task: Task, start: float, listener: Callable[[Plan | None, Bound | None], None] = ignore) -> Run:
    """Return the limits of a run, or of a chunk, whose clock started at ``start``."""
    deadline = start + task.time_limit_s
    return Run(deadline, task.seed, task.threads, task.memory_limit_mb, None, listener, task.work_limit)


def _line(message: Message) -> bytes:
    try:
        line = encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise RefusedError(f"the message has no JSON form: {one_line(error)}") from error
    if len(line) > MAX_BYTES:
        raise RefusedError(f"the message takes {len(line)} bytes as JSON; at most {MAX_BYTES} are accepted")
    return line
