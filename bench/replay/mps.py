"""Control daemon of NVIDIA's Multi-Process Service (MPS): a running daemon is used, otherwise a daemon is started."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from instances import InputError
from instances.errors import FieldName

CONTROL = "nvidia-cuda-mps-control"
"""Program that controls MPS, a part of NVIDIA's driver."""

PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
"""Environment variables with the folders of the daemon; clients find the daemon by the first one."""

PERCENTAGE, MEMORY = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
"""Environment variables with the limits of a client."""

_PATIENCE_S = 20.0
"""Time limit for the start, an answer and the end of the daemon."""

_GUARD = f'cat > /dev/null; echo quit | {CONTROL}; rm -rf "$1"'
"""Shell command that ends the daemon when its input ends, because this process has closed it or is killed."""


@contextmanager
def daemon() -> Iterator[dict[str, str]]:
    """Yield the variables by which clients find a control daemon; end the daemon afterwards if it was started here.

    Raises
    ------
    InputError
        If no daemon runs and none can be started.
    """
    if _running():
        yield {name: os.environ[name] for name in (PIPES, LOGS) if name in os.environ}
        return
    folder = tempfile.mkdtemp(prefix="replay-")
    variables = {name: str(Path(folder, part)) for name, part in ((PIPES, "pipe"), (LOGS, "log"))}
    for path in variables.values():
        Path(path).mkdir()
    environment = {**os.environ, **variables}
    # The guard starts before the daemon, so that it ends the daemon even if this process is killed in between. The
    # guard has its own session, so that it does not receive Ctrl-C.
    guard = subprocess.Popen(  # noqa: S603 - a constant
        ["/bin/sh", "-c", _GUARD, "sh", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        _start(environment)
        yield variables
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        try:
            guard.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            _kill(Path(variables[PIPES]))
            os.killpg(guard.pid, signal.SIGKILL)  # the guard may still wait for an answer of the daemon
            guard.wait()
        shutil.rmtree(folder, ignore_errors=True)


def client(share_pct: float, memory_mib: float | None) -> dict[str, str]:
    """Return the variables that limit a client to a share of the multiprocessors and, if given, to a memory size."""
    # Device 0 is the only GPU that the client sees.
    memory_limit = {} if memory_mib is None else {MEMORY: f"0={int(memory_mib)}M"}
    return {PERCENTAGE: f"{share_pct:g}", **memory_limit}


def _start(environment: dict[str, str]) -> None:
    """Start the daemon, and wait until it runs in the background."""
    # The output goes to a file, because the daemon would inherit a pipe and keep the pipe open.
    with tempfile.TemporaryFile("w+") as output:
        try:
            subprocess.run(  # noqa: S603 - a program of the driver, found on the path
                [CONTROL, "-d"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=_PATIENCE_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            output.seek(0)
            lines = output.read().strip().splitlines()
            raise InputError(
                FieldName("backend", " mps"), f"{CONTROL} -d failed: {lines[-1] if lines else error}"
            ) from None


def _running() -> bool:
    """Return whether a control daemon answers in the folder that the environment names, or in the default one."""
    try:
        completed = subprocess.run(  # noqa: S603 - a program of the driver, found on the path
            [CONTROL], input="get_server_list\n", capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return completed.returncode == 0 and "Cannot find MPS control daemon" not in completed.stdout + completed.stderr


def _kill(pipes: Path) -> None:
    """Kill a daemon that does not quit."""
    with suppress(OSError, ValueError):
        os.kill(int(Path(pipes, f"{CONTROL}.pid").read_text(encoding="ascii")), signal.SIGKILL)
