"""Control groups of runs, in a fake of the kernel's file system."""

import os
from pathlib import Path

import pytest
from conftest import TaskFactory

from bench.ledger.row import Termination
from bench.runner import runner as runner
from bench.runner import worker_limits as groups
from bench.runner.record import RunRecord
from bench.runner.runner import run_tasks
from bench.runner.worker_limits import ControlGroup, control_group, in_control_group


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a fake of the kernel's folder: this process is in a scope whose parent controls memory and CPU."""
    monkeypatch.setattr(groups, "ROOTS", (tmp_path / "sys",))
    monkeypatch.setattr(groups, "MEMBERSHIP", tmp_path / "membership")
    (tmp_path / "membership").write_text("0::/app.slice/run-7.scope\n")
    (tmp_path / "sys/app.slice/run-7.scope").mkdir(parents=True)
    (tmp_path / "sys/app.slice/run-7.scope/cgroup.subtree_control").write_text("\n")
    (tmp_path / "sys/app.slice/cgroup.subtree_control").write_text("cpu memory pids\n")
    return tmp_path / "sys"


def test_a_group_with_limits_is_made_beside_that_of_the_bench(kernel: Path) -> None:
    group = control_group(9, 512.0, 2)
    assert group is not None
    folder = kernel / f"app.slice/gpushare-bench-{os.getpid()}-9"
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        "memory.max": str(512 * 2**20),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "200000 100000",
        "cgroup.procs": "9",
    }


def test_a_group_below_that_of_the_bench_is_preferred(kernel: Path) -> None:
    bench_group = kernel / "app.slice/run-7.scope"
    (bench_group / "cgroup.subtree_control").write_text("memory\n")
    assert control_group(9, 512.0, 2) is not None
    assert len(list(bench_group.glob("gpushare-bench-*"))) == 1


def test_killing_a_group_writes_to_its_kill_file(kernel: Path) -> None:
    group = control_group(9, 512.0, 2)
    assert group is not None
    group.kill()
    assert next(kernel.rglob("cgroup.kill")).read_text() == "1"


@pytest.mark.parametrize("membership", ["", "4:memory:/x\n", "0::/\n", "0::/elsewhere\n"])
def test_without_control_groups_there_is_none(kernel: Path, membership: str) -> None:
    groups.MEMBERSHIP.write_text(membership)
    assert control_group(9, 512.0, 2) is None


def test_without_a_memory_limit_there_is_no_group(kernel: Path) -> None:
    assert control_group(9, None, 1) is None


def test_a_group_that_refuses_its_limit_is_removed(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ControlGroup, file: str, value: str) -> None:
        raise PermissionError

    monkeypatch.setattr(ControlGroup, "_write", refuse)
    assert control_group(9, 512.0, 1) is None
    assert not list(kernel.rglob("gpushare-bench-*"))


def test_a_process_knows_whether_it_is_in_a_group_of_the_bench(kernel: Path) -> None:
    assert not in_control_group()
    groups.MEMBERSHIP.write_text("0::/app.slice/gpushare-bench-5-9\n")
    assert in_control_group()


def test_a_kill_for_memory_by_the_kernel_is_a_memory_limit(kernel: Path, make_task: TaskFactory) -> None:
    group = control_group(9, 512.0, 2)
    assert group is not None
    events = next(kernel.rglob("memory.max")).with_name("memory.events")
    events.write_text("low 0\noom 1\noom_kill 0\n")
    assert not group.ran_out_of_memory()
    events.write_text("low 0\noom 1\noom_kill 3\n")
    assert group.ran_out_of_memory()
    record = RunRecord(make_task("Honest", memory_limit_mb=512.0), grace_s=1.0)
    record.end_by_itself(-9, "", 1.0, out_of_memory=True)
    assert (record.termination, record.reason) == (
        Termination.MEMORY_LIMIT,
        "limit 512 MiB: died of SIGKILL while starting",
    )


def test_every_run_has_a_group_that_is_removed(make_task: TaskFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    actions: list[tuple[str, int]] = []

    class FakeGroup:
        def __init__(self, process: int, memory_mb: float | None, threads: int) -> None:
            assert (memory_mb, threads) == (4096.0, 1)
            self.process = process
            actions.append(("hold", process))

        def ran_out_of_memory(self) -> bool:
            return True

        def kill(self) -> None:
            actions.append(("kill", self.process))

        def remove(self) -> None:
            actions.append(("remove", self.process))

    monkeypatch.setattr(runner, "control_group", FakeGroup)
    honest, killed = run_tasks([make_task(name, memory_limit_mb=4096.0) for name in ("Honest", "Crash:kill")], None, 1)
    assert (honest.termination, killed.termination) == (Termination.FINISHED, Termination.MEMORY_LIMIT)
    assert {row.provenance["limited_by"] for row in (honest, killed)} == {"control group"}
    (first, second) = (process for action, process in actions if action == "hold")
    assert actions == [(action, process) for process in (first, second) for action in ("hold", "kill", "remove")]
