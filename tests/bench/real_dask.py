"""Dask cluster of separate processes, as on several machines: a Dask scheduler and Dask workers without nannies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from processes import until

WORKER_TTL_S = 4
"""Time after which the Dask scheduler gives a silent worker's runs to other workers; short, since tests wait for it."""


class RealDask:
    """Processes of a Dask cluster.

    Parameters
    ----------
    folder
        Folder for the cluster's files.
    workers
        Number of workers, with one thread each.
    """

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)
        )
        assert until(lambda: file.exists() and '"address"' in file.read_text())
        self.address = file.read_text().split('"address": "')[1].split('"')[0]
        self.workers = [self.start_worker(f"w{number}") for number in range(workers)]
        log = folder / "dask_worker.log"
        assert until(lambda: log.read_text().count("Registered to:") == workers)

    def start_worker(self, name: str, path: str = "") -> subprocess.Popen[bytes]:
        """Start a further worker; ``path`` comes first in its PYTHONPATH."""
        options = ("--nthreads", "1", "--no-nanny", "--name", name, "--local-directory", str(self._folder))
        return self._start("dask_worker", self.address, *options, path=path)

    def _start(self, module: str, *arguments: str, path: str = "") -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))
        settings = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{WORKER_TTL_S}s", "PYTHONPATH": path}
        with (self._folder / f"{module}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *arguments],
                env={**os.environ, **settings},
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )

    def end(self) -> None:
        """Kill all processes of the cluster."""
        for process in (*self.workers, self.scheduler):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
