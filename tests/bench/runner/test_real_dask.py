"""Dask clusters whose processes end, stop, or have other versions: no row is lost, and none is stored twice."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import until

from bench.ledger.store import Ledger

pytest.importorskip("distributed")

from real_dask import RealDask

from bench.runner import cluster as bench_cluster
from bench.runner.cluster import DaskCluster
from instances import InputError

pytestmark = pytest.mark.soak

BENCH = Path(sys.executable).with_name("bench")
PLUGIN = '''
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bench.api import Outcome, Status
from instances import Objective


@dataclass(frozen=True)
class Slow:
    """With a seed of at least 2, waits until the file ``gate`` exists."""

    name: ClassVar[str] = "Slow"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})
    folder: str = ""

    def schedule(self, instance, run):
        with Path(self.folder, "log").open("a") as log:
            log.write(f"{run.seed}\\n")
        while run.seed >= 2 and not Path(self.folder, "gate").exists():
            time.sleep(0.02)
        return Outcome(Status.UNKNOWN)
'''


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[RealDask]:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    cluster = RealDask(tmp_path, 2)
    yield cluster
    cluster.end()


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [BENCH, "run", "--instances", "igniter-3", "--schedulers", "./plugin.py:Slow", "--seeds", "0,1,2,3,4"]
    limits = ["--param", f"Slow.folder={folder}", "--time-limit", "300"]
    return subprocess.Popen([*command, *limits, *options], cwd=folder, stderr=subprocess.PIPE, text=True)


def begun_seeds(folder: Path) -> list[str]:
    log = folder / "log"
    return sorted(log.read_text().split()) if log.exists() else []


def stored_seeds(folder: Path) -> list[int]:
    with Ledger(folder / "results/ledger.sqlite") as ledger:
        return sorted(row.seed for row in ledger.rows())


def test_if_the_dask_scheduler_ends_the_command_ends_with_one_line(dask: RealDask, tmp_path: Path) -> None:
    bench = start(tmp_path, "--cluster", dask.address)
    assert until(lambda: begun_seeds(tmp_path) == ["0", "1", "2", "3"], 120)
    dask.scheduler.kill()
    _, output = bench.communicate(timeout=180)
    assert bench.returncode == 2
    *progress, error = output.splitlines()
    assert error == "error: --cluster: the Dask scheduler has ended; restart it and repeat the command for the rest"
    assert len(progress) == 2, output
    assert stored_seeds(tmp_path) == [0, 1]
    (tmp_path / "gate").touch()
    local_bench = start(tmp_path)
    local_bench.communicate(timeout=180)
    assert local_bench.returncode == 0
    assert stored_seeds(tmp_path) == [0, 1, 2, 3, 4]


def test_runs_of_a_dask_worker_that_stops_answering_go_to_others(dask: RealDask, tmp_path: Path) -> None:
    bench = start(tmp_path, "--cluster", dask.address)
    assert until(lambda: begun_seeds(tmp_path) == ["0", "1", "2", "3"], 120)
    dask.workers[0].send_signal(signal.SIGSTOP)
    (tmp_path / "gate").touch()
    _, output = bench.communicate(timeout=180)
    assert bench.returncode == 0, output
    assert len(output.splitlines()) == 6, output
    assert stored_seeds(tmp_path) == [0, 1, 2, 3, 4]


def test_cluster_with_a_stopped_dask_worker_is_refused(
    dask: RealDask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaskCluster(dask.address) as cluster:
        assert len(cluster.nodes((), 1)) == 2
        dask.workers[0].send_signal(signal.SIGSTOP)
        monkeypatch.setattr(bench_cluster, "ANSWER_LIMIT_S", 1.0)
        with pytest.raises(InputError, match=r"a worker has not answered in 1 s; end it and repeat the command"):
            cluster.nodes((), 1)


def test_a_dask_worker_of_another_version_is_named_and_loses_no_row(dask: RealDask, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text('import platform\nplatform.python_version = lambda: "3.10.0"\n')
    bench = start(tmp_path, "--cluster", dask.address)
    assert until(lambda: begun_seeds(tmp_path) == ["0", "1", "2", "3"], 120)
    dask.workers.append(dask.start_worker("other", str(site)))
    _, output = bench.communicate(timeout=180)
    assert bench.returncode == 2
    assert "has python 3.10.0, here it is 3." in output.splitlines()[-1], output
    assert stored_seeds(tmp_path) == [0, 1]
    refused = start(tmp_path, "--cluster", dask.address)
    _, output = refused.communicate(timeout=180)
    assert refused.returncode == 2
    assert len(output.splitlines()) == 1
    assert "has python 3.10.0" in output
