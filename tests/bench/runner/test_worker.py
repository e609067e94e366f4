"""Hostile and honest schedulers in one batch: each has a row, with what it reported before it failed."""

import multiprocessing.forkserver
import os
import signal
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from conftest import TaskFactory
from hostile.collection import ENDS, KIND, is_expected
from processes import sessions, survivors, until

from bench.api import Scope
from bench.ledger.row import Row, Termination
from bench.runner import watchdog
from bench.runner.forkserver import forkserver_pid, start_forkserver
from bench.runner.listener import Listener
from bench.runner.runner import run_tasks
from bench.runner.worker import main
from bench.runner.worker_process import Worker
from bench.task import Task

HOSTILE_VARIANTS = [
    *(variant for variant in ENDS if KIND[variant.partition(":")[0]] in ("crashes", "outcomes")),
    *("Greedy:memory", "Greedy:array", "Greedy:bad-alloc", "Greedy:log", "Flood:messages", "ForkedReport"),
    "Clock:frozen",
]
"""Variants of hostile schedulers in the batch."""

ENDLESS = ("Endless:ignores-signals", "Endless:holds-the-lock")


@pytest.fixture(scope="module")
def rows(make_task: TaskFactory) -> dict[object, Row]:
    """Run the batch once, two runs at a time; return the rows by name."""
    tasks = {
        "honest first": make_task("Honest", seed=1),
        **{variant: make_task(variant, memory_limit_mb=4096.0) for variant in HOSTILE_VARIANTS},
        **{variant: make_task(variant, time_limit_s=0.3) for variant in ENDLESS},
        "array without a limit": make_task("Greedy:array"),
        "abort without a limit": make_task("Crash:abort"),
        "small": make_task("Honest", memory_limit_mb=10.0),
        "array plan": make_task("ArrayPlan"),
        "nothing after a plan": make_task("OddOutcome@Honest"),
        "infeasible after a plan": make_task("Claim:infeasible@Honest"),
        "absent": make_task("Absent"),
        "misused": make_task("Honest", parameters={"unit": 3}),
        "honest last": make_task("Honest", seed=2),
    }
    return dict(zip(tasks, run_tasks(list(tasks.values()), None, jobs=2, grace_s=0.3), strict=True))


@pytest.mark.parametrize("variant", HOSTILE_VARIANTS)
def test_hostile_runs_end_as_expected(rows: dict[object, Row], variant: str) -> None:
    row = rows[variant]
    assert is_expected(variant, row.termination, row.reason), (row.termination, row.reason)
    assert row.failed == (row.termination is not Termination.FINISHED)
    if row.termination is Termination.INVALID_PLAN:
        assert (row.plan, row.value, row.feasible) == (None, None, None)


@pytest.mark.parametrize("which", ["honest first", "honest last"])
def test_honest_runs_are_not_harmed(rows: dict[object, Row], which: str) -> None:
    row = rows[which]
    assert (row.termination, row.status, row.reason) == (Termination.FINISHED, "optimal", "")
    assert (row.feasible, row.violations, row.value, row.gpus_used) == (True, 0, 6.12, 2)
    assert (row.bound, row.bound_certified) == (6.0, True)
    assert row.statistics == {"nodes": 3.0}
    assert row.log_tail == ""
    assert not row.failed


def test_times_are_positive_and_add_up(rows: dict[object, Row]) -> None:
    row = rows["honest first"]
    assert row.decision_s is not None
    assert row.import_s is not None
    assert row.warm_s is not None
    assert min(row.decision_s, row.import_s, row.warm_s, row.overhead_s) > 0.0
    assert row.wall_s == pytest.approx(row.decision_s + row.import_s + row.warm_s + row.overhead_s)
    assert row.overshoot_s == 0.0
    assert row.peak_memory_mb is not None
    assert row.peak_memory_mb > 10.0


def test_the_trajectory_has_the_reports_and_the_result(rows: dict[object, Row]) -> None:
    points = [(p["value"], p["feasible"], p["bound"], p["bound_certified"]) for p in rows["honest first"].trajectory]
    assert points == [(6.12, True, 3.0, True), (None, None, 4.0, True), (6.12, True, 6.0, True)]
    times = [point["t_s"] for point in rows["honest first"].trajectory]
    assert times == sorted(times)
    assert times[-1] == rows["honest first"].decision_s


@pytest.mark.parametrize("which", ENDLESS)
def test_a_run_killed_at_its_limit_has_its_last_reported_plan(rows: dict[object, Row], which: str) -> None:
    row = rows[which]
    assert (row.termination, row.status) == (Termination.WALL_LIMIT, "feasible")
    assert "time limit of 0.3 s" in row.reason
    assert (row.feasible, row.value) == (True, 6.12)
    assert row.plan is not None
    assert row.decision_s is not None
    assert row.decision_s >= 0.6
    assert row.overshoot_s == row.decision_s - 0.3
    assert row.peak_memory_mb is not None
    assert not row.failed


def test_a_run_killed_at_its_limit_has_its_last_reported_bound(rows: dict[object, Row]) -> None:
    assert (rows["Endless:ignores-signals"].bound, rows["Endless:ignores-signals"].bound_certified) == (5.0, False)
    assert rows["Endless:ignores-signals"].bound_scope == Scope()


def test_the_reason_names_the_memory_limit(rows: dict[object, Row]) -> None:
    assert rows["small"].termination is Termination.MEMORY_LIMIT
    assert "limit 10 MiB" in rows["small"].reason
    assert rows["small"].failed


def test_without_a_limit_only_a_memory_error_counts_as_memory_limit(rows: dict[object, Row]) -> None:
    assert rows["array without a limit"].termination is Termination.MEMORY_LIMIT
    assert rows["array without a limit"].reason.startswith("without a limit")
    assert rows["abort without a limit"].termination is Termination.CRASHED
    assert rows["abort without a limit"].reason == "died of SIGABRT while scheduling"


def test_the_traceback_of_an_exception_is_in_the_log(rows: dict[object, Row]) -> None:
    row = rows["Crash:raise"]
    assert "about to fail" in row.log_tail
    assert "in schedule" in row.log_tail
    assert (row.status, row.plan, row.value, row.feasible, row.violations) == ("unknown", None, None, None, None)


def test_the_log_is_the_end_of_long_output(rows: dict[object, Row]) -> None:
    assert len(rows["Greedy:log"].log_tail) <= 4096
    assert "the last line" in rows["Greedy:log"].log_tail


@pytest.mark.parametrize(
    "variant",
    ["Greedy:memory", "Crash:segfault", "Crash:exit", "Crash:kill", "Crash:hang-up"],
    ids=" ".join,
)
def test_a_failed_run_has_its_last_reported_plan(rows: dict[object, Row], variant: str) -> None:
    assert (rows[variant].status, rows[variant].value) == ("feasible", 6.12)


def test_the_log_of_a_segmentation_fault_has_the_stack(rows: dict[object, Row]) -> None:
    assert "Segmentation fault" in rows["Crash:segfault"].log_tail
    assert "in schedule" in rows["Crash:segfault"].log_tail


def test_an_invalid_outcome_is_not_replaced_by_an_earlier_plan(rows: dict[object, Row]) -> None:
    row = rows["nothing after a plan"]
    assert (row.termination, row.status, row.plan) == (Termination.INVALID_PLAN, "unknown", None)
    assert row.trajectory[0]["value"] == 6.12


def test_infeasible_does_not_remove_the_plan_of_an_earlier_scheduler(rows: dict[object, Row]) -> None:
    row = rows["infeasible after a plan"]
    assert (row.status, row.value, row.feasible) == ("infeasible", 6.12, True)


def test_the_time_measured_by_the_bench_counts(rows: dict[object, Row]) -> None:
    row = rows["Clock:frozen"]
    assert row.value == 6.12
    assert row.decision_s is not None
    assert 1.0 <= row.decision_s < row.wall_s
    assert min(point["t_s"] for point in row.trajectory) > 0.8


def test_numpy_numbers_become_python_numbers(rows: dict[object, Row]) -> None:
    row = rows["array plan"]
    assert (row.termination, row.feasible, row.value) == (Termination.FINISHED, True, 6.12)
    assert row.statistics == {"nodes": 3.0, "ratio": None}
    assert row.bound is None


def test_a_scheduler_that_cannot_be_created_is_an_exception(rows: dict[object, Row]) -> None:
    assert (rows["absent"].termination, rows["misused"].termination) == (Termination.EXCEPTION, Termination.EXCEPTION)
    assert 'has no "Absent"' in rows["absent"].reason
    assert 'did you mean "units"' in rows["misused"].reason
    assert rows["misused"].decision_s is None


def test_start_up_has_its_own_limit(make_task: TaskFactory) -> None:
    (row,) = run_tasks([make_task("Endless:warms")], None, startup_limit_s=1.0)
    assert row.termination is Termination.WALL_LIMIT
    assert row.reason == "start-up took more than 1 s (warming Endless)"
    assert (row.status, row.decision_s, row.overshoot_s) == ("unknown", None, 0.0)


def test_output_of_schedulers_does_not_reach_that_of_the_bench(
    make_task: TaskFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    run_tasks([make_task("Greedy:log"), make_task("Honest"), make_task("Crash")], None)
    assert capfd.readouterr() == ("", "")


def test_a_child_that_starts_while_its_siblings_are_listed_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = subprocess.Popen(["sh", "-c", "sleep 1000 & setsid sleep 1000 & wait"], start_new_session=True)
    descendants_of = watchdog._descendants
    assert until(lambda: any(sessions([child]) for child in descendants_of(leader.pid)))
    early, late = sorted(descendants_of(leader.pid), key=lambda child: len(sessions([child])))
    listings = iter([{early}, {early, late}])
    monkeypatch.setattr(watchdog, "_descendants", lambda _: next(listings, {early, late}))
    watchdog.kill_tree(leader.pid)
    assert leader.wait(10) == -signal.SIGKILL
    assert survivors([early, late]) == []


def test_a_killed_watchdog_is_replaced() -> None:
    start_forkserver()
    guard = watchdog.Watchdog()
    worker = Worker(main, guard)
    first = guard._process
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    another = Worker(main, guard)
    assert guard._process.pid != first.pid
    guard.close()  # as at the death of the bench: the second watchdog also kills what the first one guarded
    assert survivors([worker.pid, another.pid]) == []


def test_runs_are_repeated_if_their_forkserver_was_killed(make_task: TaskFactory, tmp_path: Path) -> None:
    class Repeats(Listener):
        def repeated(self, task: Task, reason: str) -> None:
            repeats.append((task.scheduler, reason))

    repeats: list[tuple[str, str]] = []
    once, always = (
        make_task("Survivor:kills-the-forkserver", parameters={"pids": tmp_path / str(kill_once), "once": kill_once})
        for kill_once in (True, False)
    )
    idle = make_task("UsesHalfTheTime", time_limit_s=4.0)
    rows = run_tasks([once, idle, always, make_task("Honest")], None, 2, Repeats())
    assert [row.termination for row in rows] == ["finished", "finished", "crashed", "finished"]
    assert rows[2].reason == "the bench's forkserver was killed in each of 3 attempts"
    assert {reason for _, reason in repeats} == {"the bench's forkserver was killed"}
    assert [name for name, _ in repeats if name == "Survivor"] == ["Survivor"] * 3
    assert survivors(int(file.name) for file in tmp_path.glob("*/*")) == []


def test_a_forkserver_killed_while_it_starts_a_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    start_forkserver()
    killed: list[int | None] = []
    connect = multiprocessing.forkserver.connect_to_new_process

    def connect_and_kill(pipes: list[int]) -> tuple[int, int]:
        if len(killed) < 3:
            multiprocessing.forkserver.ensure_running()
            while (server := forkserver_pid()) in killed:  # a killed process takes a moment to end
                time.sleep(0.01)
                multiprocessing.forkserver.ensure_running()
            assert server is not None
            # Stop it before the connection: multiprocessing itself would replace a dead one.
            os.kill(server, signal.SIGSTOP)
            threading.Timer(0.2, os.kill, (server, signal.SIGKILL)).start()
            killed.append(server)
        return connect(pipes)

    monkeypatch.setattr(multiprocessing.forkserver, "connect_to_new_process", connect_and_kill)
    with closing(watchdog.Watchdog()) as guard:
        worker = Worker(main, guard)
        # End the worker before any check fails, since pytest would wait for it forever.
        assert (worker.end(), len(set(killed))) == (-signal.SIGKILL, 3)
