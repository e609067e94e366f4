"""Runs on a real Dask cluster of up to two worker processes: their rows, nodes that die or differ, Ctrl-C."""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
from conftest import TaskFactory
from processes import alive, survivors, until

from bench.cli.app import main
from bench.ledger.row import Row, Termination
from bench.ledger.store import Ledger
from bench.provenance import usable_cores
from bench.runner.listener import Listener
from bench.runner.runner import run_tasks
from bench.task import Task
from instances import InputError

distributed = pytest.importorskip("distributed")

from bench.runner import cluster as bench_cluster  # noqa: E402 - needs what may be missing
from bench.runner import dask_worker  # noqa: E402
from bench.runner.cluster import DaskCluster  # noqa: E402

# A cluster whose workers have more threads than the machine has cores is refused.
NODES = min(2, usable_cores())
TWO_NODES = pytest.mark.skipif(NODES < 2, reason="needs two cores: both nodes are busy at once")

# What Dask warns of while it comes and goes is no concern of the bench.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def dask() -> Iterator["distributed.LocalCluster"]:
    with distributed.LocalCluster(
        n_workers=NODES, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as started:
        yield started


@pytest.fixture
def cluster(dask: "distributed.LocalCluster") -> Iterator[DaskCluster]:
    with DaskCluster(dask.scheduler_address) as connected:
        yield connected


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite", create=True) as opened:
        yield opened


def starts(folder: Path) -> list[tuple[int, int]]:
    """(process, seed) of every gated run that began."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(pid), int(seed)) for pid, seed in (line.split() for line in lines if line.count(" ") == 1)]


def gated(make_task: TaskFactory, folder: Path, seeds: Sequence[int]) -> list[Task]:
    """Runs of which those with seeds from 3 on wait until the gate is there."""
    parameters = {"log": folder / "log", "gate": folder / "gate"}
    return [make_task("Gated", parameters=parameters, seed=seed, time_limit_s=120.0) for seed in seeds]


def test_rows_are_those_of_a_run_at_home(cluster: DaskCluster, make_task: TaskFactory, ledger: Ledger) -> None:
    tasks = [make_task("Honest", seed=seed) for seed in range(4)] + [
        make_task("Crash"),
        make_task("Crash:segfault"),
    ]
    rows = cluster.run(tasks, ledger)
    assert sorted(ledger.rows(), key=lambda row: row.key) == sorted(rows, key=lambda row: row.key)
    assert [row.key for row in rows] == [task.key for task in tasks]
    assert Counter(row.termination for row in rows) == {"finished": 4, "exception": 1, "crashed": 1}
    (home,) = run_tasks([tasks[0]], None)
    for field in ("plan", "value", "feasible", "bound", "status", "parameters", "statistics"):
        assert getattr(rows[0], field) == getattr(home, field)


def test_what_the_ledger_has_is_not_run_again(cluster: DaskCluster, make_task: TaskFactory, ledger: Ledger) -> None:
    class Notes(Listener):
        told: list[tuple[str, int]]

        def __init__(self) -> None:
            self.told = []

        def skipped(self, task: Task, row: Row) -> None:
            self.told.append(("skipped", task.seed))

        def finished(self, task: Task, row: Row) -> None:
            self.told.append(("finished", task.seed))

    run_tasks([make_task("Honest", seed=1)], ledger)
    notes = Notes()
    cluster.run([make_task("Honest", seed=seed) for seed in (1, 2)], ledger, notes)
    assert notes.told == [("skipped", 1), ("finished", 2)]


@TWO_NODES
def test_node_that_is_killed_costs_no_row_and_doubles_none(
    dask: "distributed.LocalCluster", cluster: DaskCluster, make_task: TaskFactory, ledger: Ledger, tmp_path: Path
) -> None:
    tasks = gated(make_task, tmp_path, range(5))  # with seeds 3 and 4 both nodes are busy, and nothing else waits
    rows: list[Row] = []
    bench = threading.Thread(target=lambda: rows.extend(cluster.run(tasks, None)))
    bench.start()
    assert until(lambda: sum(alive(pid) for pid, seed in starts(tmp_path) if seed >= 3) == 2)
    victim = dask.workers[0].pid
    os.kill(victim, signal.SIGKILL)
    # Its run goes with it, and begins once more on another dask_worker.
    assert until(lambda: len(starts(tmp_path)) == len({seed for _, seed in starts(tmp_path)}) + 1)
    (tmp_path / "gate").touch()
    bench.join(60)
    for row, task in zip(rows, tasks, strict=True):
        assert ledger.add(row, task.instance)
    assert [row.seed for row in ledger.rows()] == list(range(5))
    assert {row.termination for row in rows} == {Termination.FINISHED}
    assert len(starts(tmp_path)) == 6
    assert survivors(pid for pid, _ in starts(tmp_path)) == []


@TWO_NODES
def test_interruption_stops_the_nodes_and_loses_nothing(
    cluster: DaskCluster, make_task: TaskFactory, ledger: Ledger, tmp_path: Path
) -> None:
    tasks = gated(make_task, tmp_path, range(6))

    def interrupt() -> None:
        until(lambda: len(ledger_seeds(tmp_path)) == 3 and len(starts(tmp_path)) == 5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        cluster.run(tasks, ledger)
    assert survivors(pid for pid, _ in starts(tmp_path)) == []
    assert ledger_seeds(tmp_path) == [0, 1, 2]
    (tmp_path / "gate").touch()
    cluster.run(tasks, ledger)
    assert ledger_seeds(tmp_path) == list(range(6))
    again = Counter(seed for _, seed in starts(tmp_path))
    assert ([again[seed] for seed in range(3)], again.total()) == ([1, 1, 1], 8)  # the two that were stopped


def ledger_seeds(folder: Path) -> list[int]:
    with Ledger(folder / "ledger.sqlite") as ledger:
        return sorted(row.seed for row in ledger.rows())


def test_node_with_other_versions_is_refused_before_anything_runs(
    cluster: DaskCluster, make_task: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {**dask_worker.solver_versions(), "highspy": "0.1"}
    monkeypatch.setattr(dask_worker, "solver_versions", lambda: here)  # in this process, not on the nodes
    with pytest.raises(InputError, match=r"^cluster tcp://.*: has highspy .*, here it is 0.1; install the same"):
        cluster.run(gated(make_task, tmp_path, range(2)), None)
    assert starts(tmp_path) == []


def test_run_that_no_worker_is_large_enough_for_is_refused(cluster: DaskCluster, make_task: TaskFactory) -> None:
    with pytest.raises(InputError, match=r"has 1 threads; a run needs 2"):
        cluster.run([make_task("Honest", threads=2)], None)


def test_cluster_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_cluster, "CONNECT_LIMIT_S", 0.5)
    with pytest.raises(InputError, match=r"^cluster tcp://127.0.0.1:9: cannot be reached"):
        DaskCluster("tcp://127.0.0.1:9")


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("no such thing", "is not an address; expected one such as tcp://10.0.0.1:8786"),
        ("", "is not an address"),
        ("foo://a:1", "is not an address"),
        ("tcp://127.0.0.1", "is not an address"),
        ("tcp://127.0.0.1:port", "is not an address"),
        ("tcp://127.0.0.1:99999", "is not an address"),
        ("inproc://127.0.0.1/1/2", "is not an address"),
        ("tls://127.0.0.1:9", "needs certificates"),
    ],
)
def test_what_no_client_can_be_made_for_is_refused_before_one_is(
    monkeypatch: pytest.MonkeyPatch, address: str, problem: str
) -> None:
    monkeypatch.setattr(bench_cluster, "Client", None)
    with pytest.raises(InputError, match=problem) as refusal:
        DaskCluster(address)
    assert refusal.value.where == f"cluster {address}"


def test_command(
    dask: "distributed.LocalCluster",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["run", "--instances", "igniter-3,igniter-12", "--schedulers", "igniter,ffd+", "--cluster"]
    assert main([*line, dask.scheduler_address, "--format", "json"]) == 0
    found = {(row["instance"], row["scheduler"]): row for row in json.loads(capsys.readouterr().out)}
    assert found.keys() == {*product(("igniter-3", "igniter-12"), ("igniter", "ffd+"))}
    assert all(row["termination"] == "finished" for row in found.values())
    monkeypatch.setattr(bench_cluster, "CONNECT_LIMIT_S", 1.0)
    assert main([*line, "tcp://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err.startswith("error: --cluster tcp://127.0.0.1:9: cannot be reached")
