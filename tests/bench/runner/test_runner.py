import operator
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import TaskFactory

from bench.api import Status
from bench.ledger.row import Row, Termination
from bench.ledger.store import Ledger
from bench.runner import runner, scoring
from bench.runner.listener import Listener
from bench.runner.record import Incumbent, RunRecord
from bench.runner.runner import run_tasks
from bench.task import Task
from instances import InputError, Instance


class RecordingListener(Listener):
    """Records all events and finished rows."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int]] = []
        self.rows: list[Row] = []

    def started(self, task: Task) -> None:
        self.events.append(("started", task.scheduler, task.seed))

    def incumbent(self, task: Task, incumbent: Incumbent) -> None:
        self.events.append(("incumbent", task.scheduler, task.seed))

    def finished(self, task: Task, row: Row) -> None:
        self.events.append(("finished", task.scheduler, task.seed))
        self.rows.append(row)

    def skipped(self, task: Task, row: Row) -> None:
        self.events.append(("skipped", task.scheduler, task.seed))

    def interrupted(self, tasks: Sequence[Task]) -> None:
        self.events += [("interrupted", task.scheduler, task.seed) for task in tasks]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite", create=True) as opened:
        yield opened


def test_rows_are_returned_in_the_order_of_tasks_and_stored_in_the_order_of_their_ends(
    make_task: TaskFactory, ledger: Ledger, tmp_path: Path
) -> None:
    class OpensTheGate(RecordingListener):
        def finished(self, task: Task, row: Row) -> None:
            super().finished(task, row)
            if task.seed == 1:
                gate.touch()

    gate = tmp_path / "gate"
    tasks = [make_task("Gated", parameters={"gate": gate}, seed=seed) for seed in (3, 0, 1)]
    listener = OpensTheGate()
    rows = run_tasks(tasks, ledger, 2, listener)
    assert [row.seed for row in rows] == [3, 0, 1]
    assert [row.key for row in rows] == [task.key for task in tasks]
    assert [row.seed for row in ledger.rows()] == [0, 1, 3]
    assert listener.rows == ledger.rows() == [rows[1], rows[2], rows[0]]
    assert [event for event in listener.events if event[0] == "started"] == [("started", "Gated", s) for s in (3, 0, 1)]


def test_rows_in_the_ledger_are_not_run_again(make_task: TaskFactory, ledger: Ledger) -> None:
    first, second = make_task("Honest", seed=1), make_task("Honest", seed=2)
    (before,) = run_tasks([first], ledger)
    listener = RecordingListener()
    rows = run_tasks([second, first], ledger, 1, listener)
    assert rows[1] == before
    assert listener.events[0] == ("skipped", "Honest", 1)
    assert [event for event in listener.events if event[0] == "started"] == [("started", "Honest", 2)]
    assert ledger.keys() == {first.key, second.key}


def test_equal_tasks_are_run_once(make_task: TaskFactory, ledger: Ledger) -> None:
    listener = RecordingListener()
    rows = run_tasks([make_task("Honest"), make_task("Honest")], ledger, 2, listener)
    assert rows[0] == rows[1]
    assert [event[0] for event in listener.events].count("started") == 1


def test_the_plan_of_a_start_is_handed_over_and_its_time_counts(make_task: TaskFactory) -> None:
    row, alone = run_tasks([make_task("EchoStart@Honest", seed=5, threads=2), make_task("EchoStart")], None)
    assert row.scheduler == "EchoStart@Honest"
    assert (row.status, row.value, row.statistics["started"]) == ("feasible", 6.12, 1.0)
    assert row.bound == 6.0  # the bound of the start, Honest
    times = [point["t_s"] for point in row.trajectory]
    assert len(times) == 4  # Honest's two reports and result, and the end of EchoStart
    assert row.decision_s == times[-1] > times[2]
    assert (alone.status, alone.plan, alone.statistics["started"]) == ("unknown", None, 0.0)


def test_threads_seed_and_deadline_reach_the_scheduler_and_its_libraries(make_task: TaskFactory) -> None:
    one_thread, two_threads = run_tasks([make_task("EchoStart", threads=threads, seed=7) for threads in (1, 2)], None)
    for row, threads in ((one_thread, 1.0), (two_threads, 2.0)):
        thread_counts = [row.statistics[name] for name in ("threads", "openmp_threads", "numba_threads")]
        assert thread_counts == [threads] * 3
        assert row.statistics["seed"] == 7.0
        assert 10.0 < row.statistics["remaining_s"] <= 20.0


def program(folder: Path, scheduler: str) -> "subprocess.CompletedProcess[str]":
    """Execute a program that uses the bench for one run."""
    script = folder / "scripts" / "run.py"
    script.parent.mkdir()
    script.write_text(f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from conftest import _instance
from bench.runner.runner import run_tasks
from bench.task import Stage, Task
print("program")
(row,) = run_tasks([Task(_instance(), (Stage("{scheduler}", "toy_schedulers:{scheduler}"),))], None)
print(row.termination, row.reason)
""")
    return subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, check=False)


def test_workers_import_neither_the_working_folder_nor_the_program(tmp_path: Path) -> None:
    """The working folder has packages with the names of ours; the program has no main guard."""
    for name in ("instances", "bench", "numpy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not this one')")
    done = program(tmp_path, "Honest")
    assert (done.stdout, done.stderr) == ("program\nfinished \n", "")


def test_a_lock_of_a_killed_worker_is_no_warning(tmp_path: Path) -> None:
    done = program(tmp_path, "Locker")
    assert (done.stdout, done.stderr) == ("program\nfinished \n", "")


def test_the_plan_of_a_start_remains_if_the_next_scheduler_is_killed(make_task: TaskFactory) -> None:
    (row,) = run_tasks([make_task("Honest@Endless", time_limit_s=0.2)], None, grace_s=0.1)
    assert (row.termination, row.status, row.value) == (Termination.WALL_LIMIT, "feasible", 6.12)


def test_an_unsupported_objective_is_skipped_with_a_reason(
    make_task: TaskFactory, make_instance: Callable[..., Instance], ledger: Ledger
) -> None:
    goodput = make_instance("good", objective="throughput", throughput_of="goodput")
    rows = run_tasks([make_task("Honest", goodput), make_task("EchoStart@Honest", goodput)], ledger)
    assert {row.termination for row in rows} == {Termination.SKIPPED}
    assert rows[0].reason == "Honest does not solve goodput; it solves cost"
    assert (rows[0].objective, rows[0].throughput_of) == ("throughput", "goodput")
    assert (rows[0].status, rows[0].failed) == ("unknown", False)
    assert len(ledger.keys()) == 2


def test_of_many_reports_50_are_stored_at_even_distances(make_task: TaskFactory) -> None:
    (row,) = run_tasks([make_task("ManyReports", parameters={"reports": 3000})], None)
    assert row.termination is Termination.FINISHED
    assert row.bound == -1.0
    incumbents = [point["t_s"] for point in row.trajectory[:-1] if point["value"] is not None]
    bounds = [point["bound"] for point in row.trajectory[:-1] if point["bound"] is not None]
    assert len(incumbents) == len(bounds) == 50
    assert (bounds[0], bounds[-1]) == (-3000.0, -1.0)
    steps = [after - before for before, after in pairwise(bounds)]
    assert max(steps) < 2 * 3000 / 50


def test_an_odd_reason_can_be_stored(make_task: TaskFactory, ledger: Ledger) -> None:
    (row,) = run_tasks([make_task("Crash:raise-oddly")], ledger)
    assert len(row.reason) == 500
    assert ledger.rows() == [row]


def test_an_exception_in_the_judge_fails_one_row(
    make_task: TaskFactory, make_instance: Callable[..., Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = RunRecord(make_task("Honest"), 1.0, plan_text=b'{"version": 1, "instance": "mix", "gpus": []}')
    record.end(Termination.FINISHED, "", Status.OPTIMAL)
    monkeypatch.setattr(scoring, "judge", operator.truediv)
    row = scoring.score(record, scoring.Start("now", None))
    assert (row.termination, row.status, row.value) == (Termination.EXCEPTION, "optimal", None)
    assert row.reason.startswith("judge: TypeError: ")


def test_a_run_that_cannot_be_scored_has_a_row_with_the_reason(
    make_task: TaskFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "score", operator.truediv)
    (row,) = run_tasks([make_task("Honest")], None)
    assert (row.termination, row.status, row.value) == (Termination.EXCEPTION, "optimal", None)
    assert row.reason.startswith("judge: TypeError: ")
    assert row.decision_s is not None


def test_the_row_of_an_infeasible_plan_has_its_value_and_violations(
    make_task: TaskFactory, make_instance: Callable[..., Instance], ledger: Ledger
) -> None:
    w = {"id": "w1", "model": "vgg19", "slo_ms": 15, "rate_rps": 900}
    task = make_task("Honest", make_instance(workloads=[w, {**w, "id": "w2"}]), parameters={"units": 2})
    (row,) = run_tasks([task], ledger)
    assert (row.termination, row.status, row.feasible, row.value) == (Termination.FINISHED, "optimal", False, 6.12)
    assert row.violations == len(row.violation_details) == 2
    assert {violation["kind"] for violation in row.violation_details} == {"latency"}
    assert ledger.rows() == [row]


def test_an_instance_that_cannot_be_stored_is_refused_before_any_run(
    make_task: TaskFactory, instance: Instance, ledger: Ledger
) -> None:
    no_seed = replace(instance, seed=-1)
    listener = RecordingListener()
    with pytest.raises(InputError, match="seed"):
        run_tasks([make_task("Honest"), make_task("Honest", no_seed)], ledger, 1, listener)
    assert listener.events == []
    (row,) = run_tasks([make_task("Honest", no_seed)], None)
    assert row.value == 6.12


class InterruptsWhenStarted(RecordingListener):
    """Sends a signal to this process as soon as Endless has reported a plan."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.signum = signum

    def incumbent(self, task: Task, incumbent: Incumbent) -> None:
        if task.scheduler == "Endless":
            os.kill(os.getpid(), self.signum)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_after_an_interruption_finished_runs_are_in_the_ledger(
    make_task: TaskFactory, ledger: Ledger, signum: int
) -> None:
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    tasks = [make_task("Honest"), make_task("Endless"), make_task("Honest", seed=9)]
    listener = InterruptsWhenStarted(signum)
    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, ledger, 1, listener)
    assert ledger.keys() == {tasks[0].key}
    assert listener.events[-1] == ("interrupted", "Endless", 0)
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_failing_listener_ends_the_bench_and_leaves_no_worker(make_task: TaskFactory, tmp_path: Path) -> None:
    class Broken(Listener):
        def incumbent(self, task: Task, incumbent: Incumbent) -> None:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_tasks([make_task("Endless"), make_task("Endless", seed=1)], None, 2, Broken())
    (row,) = run_tasks([make_task("Honest")], None)
    assert row.value == 6.12


def test_everything_that_can_change_the_row_changes_the_key(
    make_task: TaskFactory, make_instance: Callable[..., Instance]
) -> None:
    tasks = [
        make_task("Honest"),
        make_task("Honest", seed=1),
        make_task("Honest", time_limit_s=21.0),
        make_task("Honest", memory_limit_mb=4096.0),
        make_task("Honest", threads=2),
        make_task("Honest", source="replay"),
        make_task("Honest", parameters={"units": 3}),
        make_task("Honest", make_instance(latency_buffer=1.1)),
        make_task("Honest@Honest"),
        make_task("Crash"),
    ]
    assert len({task.key for task in tasks}) == len(tasks)
    assert make_task("Honest").key == tasks[0].key


def test_a_change_of_the_schedulers_code_changes_the_key(
    make_task: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench import provenance

    package = tmp_path / "plugin"
    (package / "__pycache__").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)

    def version() -> str:
        provenance._package_hash.cache_clear()
        return provenance.sources_hash(["plugin", "plugin"])

    (package / "__init__.py").write_text("width = 1")
    first = version()
    (package / "__pycache__" / "x.pyc").write_text("changes all the time")
    assert version() == first
    (package / "__init__.py").write_text("width = 2")
    second = version()
    (package / "weights.bin").write_text("0.5")
    assert len({first, second, version()}) == 3


@pytest.mark.parametrize(
    "terms", [{"time_limit_s": 0.0}, {"time_limit_s": float("nan")}, {"memory_limit_mb": -1.0}, {"threads": 0}]
)
def test_impossible_limits_are_refused(make_task: TaskFactory, terms: dict[str, float]) -> None:
    with pytest.raises(InputError):
        make_task("Honest", **terms)


def late_record(make_task: TaskFactory, message: dict[str, object]) -> RunRecord:
    record = RunRecord(make_task("Honest", time_limit_s=1.0), grace_s=0.5)
    record.take({"type": "clock", "at": 100.0, "import_s": 0.1, "warm_s": 0.1, "peak_memory_mb": 1.0}, 101.0)
    record.take({"type": "report", "t_s": 1.4, "plan": b'{"first": 1}', "bound": None, "peak_memory_mb": 2.0}, 101.4)
    record.take({"peak_memory_mb": 3.0, **message}, 101.6)
    return record


@pytest.mark.parametrize(
    "message",
    [
        {"type": "report", "t_s": 1.6, "plan": b'{"second": 2}', "bound": None},
        {"type": "done", "decision_s": 1.6, "plan": b'{"second": 2}', "bound": None, "status": "optimal"},
        {"type": "ended", "decision_s": 1.6, "termination": "exception", "reason": "too late"},
    ],
)
def test_messages_after_the_time_of_the_kill_do_not_count(make_task: TaskFactory, message: dict[str, object]) -> None:
    """A busy bench may kill later than due, which must not help the run."""
    record = late_record(make_task, message)
    assert (record.termination, record.status, record.plan_text) == (
        Termination.WALL_LIMIT,
        "feasible",
        b'{"first": 1}',
    )
    assert record.decision_s == 1.6


def test_provenance_has_versions_but_no_host_name_or_paths(make_task: TaskFactory) -> None:
    (row,) = run_tasks([make_task("Honest")], None)
    assert row.provenance["packages"]["numpy"]
    assert row.provenance["python"].startswith("3.")
    assert row.provenance["cores"] == os.cpu_count()
    text = str(row.to_json())
    assert os.uname().nodename not in text.split()
    assert str(Path.cwd()) not in text
    assert str(Path.home()) not in text


def test_failed_runs_are_repeated_with_retry_only(make_task: TaskFactory, ledger: Ledger, tmp_path: Path) -> None:
    """The new row replaces the failed one; other runs are not repeated."""
    mark = tmp_path / "there"
    tasks = [make_task("FailsUnless", parameters={"mark": str(mark)}), make_task("Honest")]
    failed, finished = run_tasks(tasks, ledger)
    assert failed.termination is Termination.EXCEPTION
    assert run_tasks(tasks, ledger) == [failed, finished]
    mark.touch()
    assert run_tasks(tasks, ledger) == [failed, finished]
    repeated, other = run_tasks(tasks, ledger, retry=True)
    assert (repeated.key, repeated.termination, other) == (failed.key, Termination.FINISHED, finished)
    assert sorted(row.key for row in ledger.rows()) == sorted([repeated.key, finished.key])
    assert run_tasks(tasks, ledger, retry=True) == [repeated, finished]
