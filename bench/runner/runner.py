"""Runner on this host: it executes every task in a process of its own with enforced limits and stores every result.

One thread watches all workers. At the end of every run, also of a successful one, the worker is killed with all
processes that it started. So no process outlives its run.
"""

import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import wait

from bench.ledger.row import JsonObject, Row, Termination
from bench.ledger.store import Ledger
from bench.ledger.writer import Writer
from bench.plan_simulation import warm_simulation
from bench.provenance import load_average, usable_cores
from bench.runner import worker
from bench.runner.active_run import ActiveRun
from bench.runner.forkserver import start_forkserver
from bench.runner.interruption import Interruption, signals_noted
from bench.runner.listener import Listener
from bench.runner.messages import Message, checked
from bench.runner.record import RunRecord
from bench.runner.scorer import Scorer, borrowed_scorer
from bench.runner.scoring import RefusedChunk, Start, judged_chunk, score, unscored
from bench.runner.watchdog import Watchdog
from bench.runner.worker_limits import control_group
from bench.runner.worker_process import Worker
from bench.scenarios import Tally
from bench.task import Task
from instances import InputError
from instances.files import instance_to_json

GRACE_S = 1.0
"""Time after the time limit until a run is killed. A scheduler that checks its deadline returns earlier."""

STARTUP_LIMIT_S = 300.0
"""Time limit for a scheduler's imports and ``warm``. They do not count towards the time limit of the run.

The first start on a machine compiles kernels; those of column generation take up to three minutes.
"""

ATTEMPTS = 3
"""Largest number of attempts of a run whose forkserver was killed."""

_EXIT_WAIT_S = 1.0
"""Time for which the bench waits for the end of a worker whose pipe has closed."""


def run_tasks(
    tasks: Sequence[Task],
    ledger: Ledger | None,
    jobs: int | None = None,
    listener: Listener | None = None,
    *,
    grace_s: float = GRACE_S,
    startup_limit_s: float = STARTUP_LIMIT_S,
    interruption: Interruption | None = None,
    retry: bool = False,
) -> list[Row]:
    """Run ``tasks``, ``jobs`` at a time, and return their rows in the order of ``tasks``.

    Parameters
    ----------
    tasks
        Tasks to run. A task whose key is in the ledger is not run again; equal tasks run once.
    ledger
        Ledger that stores each row when its run ends; ``None`` keeps rows in memory only.
    jobs
        Number of parallel runs; default: the number of cores that this process may use.
    grace_s, startup_limit_s
        Time after the time limit until a run is killed, and time limit for imports and ``warm``.
    interruption
        Flag by which another thread can interrupt the runs.
    retry
        Whether to repeat the failed runs in the ledger.

    Raises
    ------
    InputError
        If the ledger cannot store one of the instances, or cannot be written.
    KeyboardInterrupt
        On Ctrl-C or SIGTERM, after all workers are killed. Runs that ended before are in the ledger.
    """
    jobs = jobs if jobs is not None else usable_cores()
    if jobs < 1:
        raise InputError("jobs", f"{jobs}; expected at least 1")
    listener = listener or Listener()
    rows, remaining = known_rows(tasks, ledger, listener, retry)
    if remaining:
        bench = _Bench(ledger, Writer(ledger, listener.held_up), jobs, listener, grace_s, startup_limit_s)
        rows |= bench.run(remaining.values(), interruption)
    return [rows[task.key] for task in tasks]


def known_rows(
    tasks: Sequence[Task], ledger: Ledger | None, listener: Listener, retry: bool
) -> tuple[dict[str, Row], dict[str, Task]]:
    """Return the rows that the ledger already has, and the remaining tasks, both by key.

    The listener is notified of these rows. With ``retry``, failed runs belong to the remaining tasks.

    Raises
    ------
    InputError
        If the ledger cannot store one of the instances. The error comes before the runs, so that no run is lost.
    """
    if ledger is None:
        return {}, {task.key: task for task in tasks}
    for instance in {task.instance.fingerprint: task.instance for task in tasks}.values():
        instance_to_json(instance)
    keys = ledger.keys()
    rows: dict[str, Row] = {}
    for task in tasks:
        if task.key not in keys:
            continue
        (row,) = ledger.rows(key=task.key)
        if not (retry and row.failed):
            rows[task.key] = row
            listener.skipped(task, row)
    return rows, {task.key: task for task in tasks if task.key not in rows}


@dataclass
class _Bench:
    """State of ``run_tasks``: waiting tasks, active runs and finished rows."""

    ledger: Ledger | None
    writer: Writer
    jobs: int
    listener: Listener
    grace_s: float
    startup_limit_s: float
    active: list[ActiveRun] = field(default_factory=list)
    scorer: Scorer = field(init=False)
    rows: dict[str, Row] = field(default_factory=dict)
    waiting: deque[tuple[Task, int]] = field(default_factory=deque)
    """Tasks to run, each with the number of the attempt."""

    def run(self, tasks: Iterable[Task], interruption: Interruption | None) -> dict[str, Row]:
        """Run ``tasks`` and return their rows by key."""
        self.waiting.extend((task, 1) for task in tasks)
        with signals_noted(interruption) as interrupted:
            start_forkserver()
            watchdog = Watchdog()
            try:
                with borrowed_scorer(watchdog) as self.scorer:
                    if any(task.trial.arrivals is not None for task, _ in self.waiting):
                        self._warm_scorer(interrupted)
                    self._run_waiting(watchdog, interrupted)
                self.writer.settle(interrupted.wakeup)
            finally:
                self._kill_all()
                watchdog.close()
        if interrupted:
            raise KeyboardInterrupt
        return self.rows

    def _warm_scorer(self, interrupted: Interruption) -> None:
        """Let the scorer load the simulation before the clock of any run starts; on a new host this compiles it."""
        self.scorer.submit(warm_simulation, done=lambda _: None, failed=lambda _: None)
        while self.scorer and not interrupted:
            self._process_events(interrupted.wakeup)
        if interrupted:
            self.scorer.abandon_work()

    def _run_waiting(self, watchdog: Watchdog, interrupted: Interruption) -> None:
        """Run the waiting tasks until all are run and judged, or an interruption."""
        while (self.waiting or self.active or self.scorer) and not interrupted:
            while self.waiting and self._can_start and not interrupted:
                self._start(*self.waiting.popleft(), watchdog)
            self._process_events(interrupted.wakeup)
            self._end_overdue()
            self.writer.retry()
        if interrupted:
            self._interrupt()

    @property
    def _can_start(self) -> bool:
        """Whether the next run can start."""
        # A repeated run runs alone: its scheduler may kill the forkserver again, and must not harm other runs.
        if self.active and max(self.waiting[0][1], *(run.attempt for run in self.active)) > 1:
            return False
        # Unjudged runs fill memory and are lost if the bench dies, so their queue is limited.
        return len(self.active) < self.jobs and len(self.scorer) < self.jobs and not self.writer.full

    def _start(self, task: Task, attempt: int, watchdog: Watchdog) -> None:
        """Start a worker and order a task from it."""
        start = Start(datetime.now(UTC).isoformat(timespec="milliseconds"), load_average())
        started_at = time.monotonic()
        process = Worker(worker.main, watchdog)
        group = control_group(process.pid, task.memory_limit_mb, task.threads)
        tally = None
        if task.scenarios is not None:
            true_instance, _ = task.true_performance
            true_scenarios = replace(task.scenarios, base=true_instance)
            tally = Tally(true_scenarios, self.ledger.chunks(task.key) if self.ledger is not None else ())
        record = RunRecord(task, self.grace_s, tally, limited_by="address space" if group is None else "control group")
        self.active.append(
            ActiveRun(record, process, group, start, started_at, self.startup_limit_s, attempt, started_at)
        )
        process.order(task)
        if tally is not None:
            process.order(tally.decided)
        self.listener.started(task)

    def _process_events(self, wakeup: int) -> None:
        """Wait for the next event and process it: a message, the death of a process, or a deadline."""
        sources = [wakeup, *self.scorer.sources]
        for run in self.active:
            sources += [run.worker.sentinel, *(pipe.fileno() for pipe in run.worker.readable)]
        now = time.monotonic()
        next_deadline = min(
            (self.scorer.due, self.writer.retry_at, *(min(run.kill_at, run.read_at) for run in self.active))
        )
        ready = set(wait(sources, None if next_deadline == math.inf else max(0.0, next_deadline - now)))
        for run in list(self.active):
            died = run.worker.sentinel in ready
            if died or any(pipe.fileno() in ready for pipe in run.worker.readable):
                self._read(run, died)
            if run.worker.emptied:
                run.record_emptied(now)
        self.scorer.process_result()

    def _read(self, run: ActiveRun, died: bool) -> None:
        """Process the messages of a run and, if its worker has ended, the end of the run."""
        record = run.record
        try:
            for message in map(checked, run.worker.messages()):
                incumbent = record.take(message, time.monotonic())
                if incumbent is not None:
                    self.listener.incumbent(record.task, incumbent)
                if message["type"] == "chunk" and record.tally is not None and not record.ended:
                    self._judge_chunk(run, record.tally, message)
        except InputError as error:
            if record.improving:
                record.end_improving(time.monotonic())
            else:
                record.end(Termination.CRASHED, str(error))
        if (died or run.worker.silent) and record.improving:
            record.end_improving(time.monotonic())
        if (died or run.worker.silent) and not record.ended:
            exit_code = run.worker.exit_code(_EXIT_WAIT_S)
            if run.worker.lost and self._repeat(run):
                return
            out_of_memory = run.control_group is not None and run.control_group.ran_out_of_memory()
            if not record.ended:
                record.end_by_itself(exit_code, run.worker.log_tail, run.elapsed_s, out_of_memory)
        if record.ended:
            self._end(run)

    def _repeat(self, run: ActiveRun) -> bool:
        """Queue a run again after the forkserver's death, and return true.

        After the last attempt, end the record of the run and return false.
        """
        if run.attempt == ATTEMPTS:
            run.record.end(Termination.CRASHED, f"the bench's forkserver was killed in each of {ATTEMPTS} attempts")
            return False
        self.active.remove(run)
        run.end()
        self.waiting.appendleft((run.record.task, run.attempt + 1))
        self.listener.repeated(run.record.task, "the bench's forkserver was killed")
        return True

    def _end_overdue(self) -> None:
        """End the runs that have reached the time at which they are killed."""
        for run in [run for run in self.active if run.kill_at <= time.monotonic()]:
            peak_mb = run.worker.peak_memory_mb()
            run.record.peak_memory_mb = max(filter(None, (peak_mb, run.record.peak_memory_mb)), default=None)
            elapsed_s = run.elapsed_s
            if run.record.improving:
                run.record.end_improving(time.monotonic())
            elif elapsed_s is None:
                run.record.end_in_startup(run.startup_limit_s)
            else:
                run.record.end_at_limit(elapsed_s)
            self._end(run)

    def _end(self, run: ActiveRun) -> None:
        """Kill the worker and queue the run for the judge."""
        self.active.remove(run)
        run.end()
        run.record.wall_s = time.monotonic() - run.worker_started_at
        run.record.log_tail = run.worker.log_tail
        self.scorer.submit(
            score,
            run.record,
            run.start,
            done=lambda row: self._store(run, row),
            failed=lambda reason: self._store(run, unscored(run.record, run.start, reason)),
        )

    def _store(self, run: ActiveRun, row: Row) -> None:
        task = run.record.task
        self.writer.add(row, task.instance, partial(self._stored, task))

    def _stored(self, task: Task, row: Row) -> None:
        """Handle a row that is in the ledger now."""
        self.rows[row.key] = row
        self.listener.finished(task, row)

    def _judge_chunk(self, run: ActiveRun, tally: Tally, message: Message) -> None:
        self.scorer.submit(
            judged_chunk,
            tally.scenarios,
            tally.decided,
            message["plans"],
            message["decision_s"],
            done=lambda chunk: self._take_chunk(run, tally, chunk),
            failed=lambda reason: self._take_chunk(run, tally, RefusedChunk(Termination.EXCEPTION, f"judge: {reason}")),
        )

    def _take_chunk(self, run: ActiveRun, tally: Tally, chunk: JsonObject | RefusedChunk) -> None:
        """Count and store a chunk of scenarios. Then order the next chunk or end the run."""
        record = run.record
        if isinstance(chunk, RefusedChunk):
            record.log_tail = chunk.log_tail
            record.end(chunk.termination, chunk.reason)
        else:
            tally.add(chunk)
            record.resume_after_chunk(tally)
            self.writer.add_chunk(record.task.key, chunk)
            self.listener.advanced(record.task, tally.decided)
        if run not in self.active:  # the run ended while the judge was at work
            return
        if record.ended:
            self._end(run)
        else:
            run.ordered_at = time.monotonic()
            run.worker.order(tally.decided)

    def _interrupt(self) -> None:
        """Kill the current runs, and store the runs that have ended."""
        tasks = [run.record.task for run in self.active]
        self._kill_all()
        while self.scorer:
            wait(self.scorer.sources, max(0.0, self.scorer.due - time.monotonic()))
            self.scorer.process_result()
        self.listener.interrupted(tasks)

    def _kill_all(self) -> None:
        while self.active:
            self.active.pop().end()
