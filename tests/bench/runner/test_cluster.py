"""Runs on a Dask cluster of one or two worker processes (nodes): rows, killed or different nodes, and Ctrl-C."""

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

# The bench refuses clusters with more worker threads than cores.
NODES = min(2, usable_cores())
TWO_NODES = pytest.mark.skipif(NODES < 2, reason="needs two cores: both nodes are busy at once")

# Dask may warn when it starts and ends; these warnings are no errors.
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
    """Return (process, seed) of every gated run that began."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(pid), int(seed)) for pid, seed in (line.split() for line in lines if line.count(" ") == 1)]


def gated(make_task: TaskFactory, folder: Path, seeds: Sequence[int]) -> list[Task]:
    """Make tasks whose runs with seeds from 3 on wait until the file "gate" exists."""
    parameters = {"log": folder / "log", "gate": folder / "gate"}
    return [make_task("Gated", parameters=parameters, seed=seed, time_limit_s=120.0) for seed in seeds]


def test_rows_are_those_of_local_runs(cluster: DaskCluster, make_task: TaskFactory, ledger: Ledger) -> None:
    tasks = [make_task("Honest", seed=seed) for seed in range(4)] + [
        make_task("Crash"),
        make_task("Crash:segfault"),
    ]
    rows = cluster.run(tasks, ledger)
    assert sorted(ledger.rows(), key=lambda row: row.key) == sorted(rows, key=lambda row: row.key)
    assert [row.key for row in rows] == [task.key for task in tasks]
    assert Counter(row.termination for row in rows) == {"finished": 4, "exception": 1, "crashed": 1}
    (local,) = run_tasks([tasks[0]], None)
    for field in ("plan", "value", "feasible", "bound", "status", "parameters", "statistics"):
        assert getattr(rows[0], field) == getattr(local, field)


def test_runs_in_the_ledger_are_not_repeated(cluster: DaskCluster, make_task: TaskFactory, ledger: Ledger) -> None:
    class Notes(Listener):
        told: list[tuple[str, int]]

        def __init__(self) -> None:
            self.told = []

        def skipped(self, task: Task, row: Row) -> None:
            self.told.append(("skipped", task.seed))

        def finished(self, task: Task, row: Row) -> None:
            self.told.append(("finished", task.seed))

    run_tasks([make_task("Honest", seed=1)], ledger)
    listener = Notes()
    cluster.run([make_task("Honest", seed=seed) for seed in (1, 2)], ledger, listener)
    assert listener.told == [("skipped", 1), ("finished", 2)]


@TWO_NODES
def test_a_killed_node_loses_and_repeats_no_row(
    dask: "distributed.LocalCluster", cluster: DaskCluster, make_task: TaskFactory, ledger: Ledger, tmp_path: Path
) -> None:
    tasks = gated(make_task, tmp_path, range(5))  # the runs with seeds 3 and 4 occupy both nodes
    rows: list[Row] = []
    bench = threading.Thread(target=lambda: rows.extend(cluster.run(tasks, None)))
    bench.start()
    assert until(lambda: sum(alive(pid) for pid, seed in starts(tmp_path) if seed >= 3) == 2)
    victim = dask.workers[0].pid
    os.kill(victim, signal.SIGKILL)
    # Its run is killed, too, and begins again on the other node.
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
def test_ctrl_c_stops_the_runs_on_nodes_and_stores_finished_ones(
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
    start_counts = Counter(seed for _, seed in starts(tmp_path))
    assert ([start_counts[seed] for seed in range(3)], start_counts.total()) == (
        [1, 1, 1],
        8,
    )  # two runs were stopped and began again


def ledger_seeds(folder: Path) -> list[int]:
    with Ledger(folder / "ledger.sqlite") as ledger:
        return sorted(row.seed for row in ledger.rows())


def test_a_node_with_other_versions_is_refused_before_any_run(
    cluster: DaskCluster, make_task: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {**dask_worker.solver_versions(), "highspy": "0.1"}
    monkeypatch.setattr(dask_worker, "solver_versions", lambda: here)  # changes this process only, not the nodes
    with pytest.raises(InputError, match=r"^cluster tcp://.*: has highspy .*, here it is 0.1; install the same"):
        cluster.run(gated(make_task, tmp_path, range(2)), None)
    assert starts(tmp_path) == []


def test_a_run_with_more_threads_than_any_worker_is_refused(cluster: DaskCluster, make_task: TaskFactory) -> None:
    with pytest.raises(InputError, match=r"has 1 threads; a run needs 2"):
        cluster.run([make_task("Honest", threads=2)], None)


def test_an_unreachable_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_wrong_address_is_refused_without_connecting(
    monkeypatch: pytest.MonkeyPatch, address: str, problem: str
) -> None:
    monkeypatch.setattr(bench_cluster, "Client", None)
    with pytest.raises(InputError, match=problem) as refusal:
        DaskCluster(address)
    assert refusal.value.where == f"cluster {address}"


def test_the_command_runs_on_a_cluster(
    dask: "distributed.LocalCluster",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["run", "--instances", "igniter-3,igniter-12", "--schedulers", "igniter,ffd+", "--cluster"]
    assert main([*line, dask.scheduler_address, "--format", "json"]) == 0
    rows = {(row["instance"], row["scheduler"]): row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == {*product(("igniter-3", "igniter-12"), ("igniter", "ffd+"))}
    assert all(row["termination"] == "finished" for row in rows.values())
    monkeypatch.setattr(bench_cluster, "CONNECT_LIMIT_S", 1.0)
    assert main([*line, "tcp://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err.startswith("error: --cluster tcp://127.0.0.1:9: cannot be reached")
