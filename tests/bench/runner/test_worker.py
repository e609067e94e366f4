"""Every way in which a scheduler can misbehave, all in one batch: each gets its row, and the honest ones theirs."""

import multiprocessing.forkserver
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import TaskFactory
from processes import sessions, survivors, until

from bench.ledger.row import Row, Termination
from bench.runner import watchdog
from bench.runner.forkserver import forkserver_pid, start_forkserver
from bench.runner.runner import Listener, run_tasks
from bench.runner.worker import main
from bench.runner.worker_process import Worker
from bench.task import Task

GARBAGE = {
    "none": "returned a NoneType",
    "text": "returned a str",
    "no plan": 'status is "optimal" but there is no plan',
    "plan is text": "plan is a str; expected a Plan",
    "status is text": "expected a Status",
    "gpus are text": "has no JSON form",
    "bound is a number": "bound is a float; expected a Bound",
    "statistics are text": "statistics",
    "negative share": "share_units: is -4",
    "NaN": "has no JSON form",
    "other instance": 'made for "another", judged against "mix"',
    "unknown workload": 'unknown workload "nobody"',
}
FINISHED = [f"finished {number}" for number in range(6)]
CRASHES = {
    "segfault": "died of SIGSEGV while scheduling",
    "exit": "exited with status 7 while scheduling",
    "kill": "died of SIGKILL while scheduling; not killed by the bench",
    "hang-up": "closed its connection to the bench while scheduling",
}


@pytest.fixture(scope="module")
def pids(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pids")
    return {name: folder / name.replace(" ", "-") for name in ("killed", *FINISHED)}


@pytest.fixture(scope="module")
def rows(make_task: TaskFactory, pids: dict[str, Path]) -> dict[str, Row]:
    """Run the whole batch once, two at a time."""
    short = {"time_limit_s": 0.3}
    tasks = {
        "honest first": make_task("Honest", seed=1),
        "sleeper": make_task("Sleeper", **short),
        "hogger": make_task("Hogger", **short),
        "parent killed": make_task("Parent", parameters={"pids": pids["killed"]}, time_limit_s=2.0),
        **{f"parent {f}": make_task("Parent", parameters={"pids": pids[f], "finish": True}) for f in FINISHED},
        "allocator": make_task("Allocator", memory_limit_mb=1000.0),
        "array allocator": make_task("Allocator", parameters={"array": True}, memory_limit_mb=1000.0),
        "unlimited array allocator": make_task("Allocator", parameters={"array": True}),
        "aborter": make_task("Aborter", memory_limit_mb=1000.0),
        "unlimited aborter": make_task("Aborter"),
        "small": make_task("Honest", memory_limit_mb=10.0),
        "raiser": make_task("Raiser"),
        "quitter": make_task("Quitter"),
        "printer": make_task("Printer"),
        "swallower": make_task("Swallower"),
        "array plan": make_task("ArrayPlan"),
        "forked report": make_task("ForkedReport"),
        "garbage after a plan": make_task("Garbage@Honest"),
        "absent": make_task("Absent"),
        "misused": make_task("Honest", parameters={"unit": 3}),
        **{f"garbage: {kind}": make_task("Garbage", parameters={"kind": kind}) for kind in GARBAGE},
        **{f"crash: {how}": make_task("Crasher", parameters={"how": how}) for how in CRASHES},
        "pipe flood": make_task("PipeFlood"),
        "sets the clock": make_task("SetsTheClock"),
        "honest last": make_task("Honest", seed=2),
    }
    return dict(zip(tasks, run_tasks(list(tasks.values()), None, jobs=2, grace_s=0.3), strict=True))


@pytest.mark.parametrize("which", ["honest first", "honest last"])
def test_honest_run_is_unharmed(rows: dict[str, Row], which: str) -> None:
    row = rows[which]
    assert (row.termination, row.status, row.reason) == (Termination.FINISHED, "optimal", "")
    assert (row.feasible, row.violations, row.value, row.gpus_used) == (True, 0, 6.12, 2)
    assert (row.bound, row.bound_certified) == (6.0, True)
    assert row.statistics == {"nodes": 3.0}
    assert row.log_tail == ""
    assert not row.failed


def test_times_are_positive_and_add_up(rows: dict[str, Row]) -> None:
    row = rows["honest first"]
    assert row.decision_s is not None
    assert row.import_s is not None
    assert row.warm_s is not None
    assert min(row.decision_s, row.import_s, row.warm_s, row.overhead_s) > 0.0
    assert row.wall_s == pytest.approx(row.decision_s + row.import_s + row.warm_s + row.overhead_s)
    assert row.overshoot_s == 0.0
    assert row.peak_memory_mb is not None
    assert row.peak_memory_mb > 10.0


def test_trajectory_holds_reports_and_the_end(rows: dict[str, Row]) -> None:
    points = [(p["value"], p["feasible"], p["bound"], p["bound_certified"]) for p in rows["honest first"].trajectory]
    assert points == [(6.12, True, 3.0, True), (None, None, 4.0, True), (6.12, True, 6.0, True)]
    times = [point["t_s"] for point in rows["honest first"].trajectory]
    assert times == sorted(times)
    assert times[-1] == rows["honest first"].decision_s


@pytest.mark.parametrize("which", ["sleeper", "hogger"])
def test_limit_kills_and_keeps_the_incumbent(rows: dict[str, Row], which: str) -> None:
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


def test_bound_is_kept_too(rows: dict[str, Row]) -> None:
    assert (rows["sleeper"].bound, rows["sleeper"].bound_certified) == (5.0, False)
    assert rows["sleeper"].bound_scope == {
        "plan_class": "spatial",
        "allowed_shares": None,
        "slots_per_gpulet": 1,
        "max_batch": None,
    }


@pytest.mark.parametrize("which", ["killed", *FINISHED])
def test_children_go_with_their_worker(rows: dict[str, Row], pids: dict[str, Path], which: str) -> None:
    expected = Termination.WALL_LIMIT if which == "killed" else Termination.FINISHED
    assert rows[f"parent {which}"].termination is expected
    processes = [int(pid) for pid in pids[which].read_text().split()]
    assert len(set(processes)) == 4
    assert survivors(processes) == []
    # Those with a session of their own were still starting children when the run ended.
    assert sessions(processes) == []


@pytest.mark.parametrize("which", ["allocator", "array allocator", "aborter", "small"])
def test_memory_limit_is_named(rows: dict[str, Row], which: str) -> None:
    row = rows[which]
    assert row.termination is Termination.MEMORY_LIMIT
    assert f"limit {row.memory_limit_mb:g} MiB" in row.reason
    assert row.failed


def test_memory_limit_keeps_the_incumbent(rows: dict[str, Row]) -> None:
    assert (rows["allocator"].status, rows["allocator"].value) == ("feasible", 6.12)
    assert "MemoryError" in rows["allocator"].reason


def test_without_a_limit_only_python_says_that_memory_was_short(rows: dict[str, Row]) -> None:
    assert rows["unlimited array allocator"].termination is Termination.MEMORY_LIMIT
    assert rows["unlimited array allocator"].reason.startswith("without a limit")
    assert rows["unlimited aborter"].termination is Termination.CRASHED
    assert rows["unlimited aborter"].reason == "died of SIGABRT while scheduling"


def test_exception_is_told_with_its_traceback(rows: dict[str, Row]) -> None:
    row = rows["raiser"]
    assert (row.termination, row.status, row.reason) == (Termination.EXCEPTION, "unknown", "LookupError: no such thing")
    assert "about to fail" in row.log_tail
    assert "in schedule" in row.log_tail
    assert (row.plan, row.value, row.feasible, row.violations) == (None, None, None, None)
    assert row.failed


def test_exit_by_exception_is_an_exception(rows: dict[str, Row]) -> None:
    assert (rows["quitter"].termination, rows["quitter"].reason) == (Termination.EXCEPTION, "SystemExit: 3")


def test_of_much_printing_the_end_is_kept(rows: dict[str, Row]) -> None:
    row = rows["printer"]
    assert (row.termination, row.reason) == (Termination.EXCEPTION, "RuntimeError: done printing")
    assert len(row.log_tail) <= 4096
    assert "the last line" in row.log_tail


@pytest.mark.parametrize("how", CRASHES)
def test_crash_names_its_cause_and_keeps_the_incumbent(rows: dict[str, Row], how: str) -> None:
    row = rows[f"crash: {how}"]
    assert row.termination is Termination.CRASHED
    assert row.reason.startswith(CRASHES[how])
    assert (row.status, row.value) == ("feasible", 6.12)
    assert row.failed


def test_segfault_leaves_a_stack(rows: dict[str, Row]) -> None:
    assert "Segmentation fault" in rows["crash: segfault"].log_tail
    assert "in schedule" in rows["crash: segfault"].log_tail


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_an_invalid_plan(rows: dict[str, Row], kind: str) -> None:
    row = rows[f"garbage: {kind}"]
    assert row.termination is Termination.INVALID_PLAN
    assert GARBAGE[kind] in row.reason
    assert (row.plan, row.value, row.feasible) == (None, None, None)
    assert row.failed


def test_no_earlier_plan_stands_in_for_garbage(rows: dict[str, Row]) -> None:
    row = rows["garbage after a plan"]
    assert (row.termination, row.status, row.plan) == (Termination.INVALID_PLAN, "unknown", None)
    assert row.trajectory[0]["value"] == 6.12


def test_garbage_reported_on_the_way_counts_though_the_end_is_good(rows: dict[str, Row]) -> None:
    assert rows["swallower"].termination is Termination.INVALID_PLAN
    assert rows["swallower"].reason == "report: plan is a str; expected a Plan"


def test_flood_of_messages_costs_its_own_run(rows: dict[str, Row]) -> None:
    assert rows["pipe flood"].termination is Termination.CRASHED
    assert rows["pipe flood"].reason.startswith("worker: sent more than the bench reads: ")


def test_time_that_the_bench_saw_counts(rows: dict[str, Row]) -> None:
    row = rows["sets the clock"]
    assert (row.termination, row.value) == (Termination.FINISHED, 6.12)
    assert row.decision_s is not None
    assert 1.0 <= row.decision_s < row.wall_s
    assert "the scheduler's worker claimed 0 s where the bench saw" in row.reason
    assert min(point["t_s"] for point in row.trajectory) > 0.8


def test_numpy_numbers_are_numbers(rows: dict[str, Row]) -> None:
    row = rows["array plan"]
    assert (row.termination, row.feasible, row.value) == (Termination.FINISHED, True, 6.12)
    assert row.statistics == {"nodes": 3.0, "ratio": None}
    assert row.bound is None


def test_fork_of_a_worker_cannot_speak_for_it(rows: dict[str, Row]) -> None:
    assert (rows["forked report"].termination, rows["forked report"].feasible) == (Termination.FINISHED, True)


def test_scheduler_that_cannot_be_made_is_an_exception(rows: dict[str, Row]) -> None:
    assert (rows["absent"].termination, rows["misused"].termination) == (Termination.EXCEPTION, Termination.EXCEPTION)
    assert 'has no "Absent"' in rows["absent"].reason
    assert 'did you mean "units"' in rows["misused"].reason
    assert rows["misused"].decision_s is None


def test_startup_has_a_limit_of_its_own(make_task: TaskFactory) -> None:
    (row,) = run_tasks([make_task("SlowToWarm")], None, startup_limit_s=1.0)
    assert row.termination is Termination.WALL_LIMIT
    assert row.reason == "start-up took more than 1 s (warming SlowToWarm)"
    assert (row.status, row.decision_s, row.overshoot_s) == ("unknown", None, 0.0)


def test_nothing_printed_reaches_our_output(make_task: TaskFactory, capfd: pytest.CaptureFixture[str]) -> None:
    run_tasks([make_task("Printer", parameters={"megabytes": 1}), make_task("Honest"), make_task("Raiser")], None)
    assert capfd.readouterr() == ("", "")


def test_child_that_starts_while_the_others_are_listed_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = subprocess.Popen(["sh", "-c", "sleep 1000 & setsid sleep 1000 & wait"], start_new_session=True)
    look = watchdog._descendants
    assert until(lambda: any(sessions([child]) for child in look(leader.pid)))
    early, late = sorted(look(leader.pid), key=lambda child: len(sessions([child])))
    looks = iter([{early}, {early, late}])
    monkeypatch.setattr(watchdog, "_descendants", lambda _: next(looks, {early, late}))
    watchdog.kill_tree(leader.pid)
    assert leader.wait(10) == -signal.SIGKILL
    assert survivors([early, late]) == []


def test_killed_warden_is_replaced() -> None:
    start_forkserver()
    warden = watchdog.Warden()
    worker = Worker(main, warden)
    first = warden._process
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    another = Worker(main, warden)
    assert warden._process.pid != first.pid
    warden.close()  # as when the bench dies: all that it guards goes, also what the first one guarded
    assert survivors([worker.pid, another.pid]) == []


def test_runs_are_made_again_whose_forkserver_was_killed(make_task: TaskFactory, tmp_path: Path) -> None:
    class Repeats(Listener):
        def repeated(self, task: Task, reason: str) -> None:
            told.append((task.scheduler, reason))

    told: list[tuple[str, str]] = []
    once = make_task("KillsTheForkserver", parameters={"once": tmp_path / "once"}, memory_limit_mb=8000.0)
    always, idle = make_task("KillsTheForkserver"), make_task("UsesHalfTheTime", time_limit_s=4.0)
    rows = run_tasks([once, idle, always, make_task("Honest")], None, 2, Repeats())
    assert [row.termination for row in rows] == ["finished", "finished", "crashed", "finished"]
    assert rows[2].reason == "the bench's forkserver was killed in each of 3 attempts"
    assert {reason for _, reason in told} == {"the bench's forkserver was killed"}
    assert [name for name, _ in told if name == "KillsTheForkserver"] == ["KillsTheForkserver"] * 3


def test_forkserver_that_dies_while_it_starts_a_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    start_forkserver()
    warden = watchdog.Warden()
    connect, killed = multiprocessing.forkserver.connect_to_new_process, []

    def connect_and_kill(pipes: list[int]) -> tuple[int, int]:
        if len(killed) < 3:
            multiprocessing.forkserver.ensure_running()
            server = forkserver_pid()
            assert server is not None
            os.kill(server, signal.SIGSTOP if killed else signal.SIGKILL)
            if killed:
                threading.Timer(0.2, os.kill, (server, signal.SIGKILL)).start()
            killed.append(server)
        return connect(pipes)

    monkeypatch.setattr(multiprocessing.forkserver, "connect_to_new_process", connect_and_kill)
    worker = Worker(main, warden)
    assert len(set(killed)) == 3
    assert worker.end() == -signal.SIGKILL
    warden.close()
