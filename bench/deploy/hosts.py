"""Files for one host: a shell script, Docker Compose, and Triton's model repository."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

import yaml

from bench.deploy.servers import PIPE_FOLDER, Server

IMAGE, CUDA_IMAGE = "REGISTRY/SERVER:TAG", "REGISTRY/CUDA:TAG"
COMMAND = "SERVER_COMMAND"

_MPS_VARIABLES = f"""\
export CUDA_MPS_PIPE_DIRECTORY={PIPE_FOLDER}
export CUDA_MPS_LOG_DIRECTORY={PIPE_FOLDER}-log
"""
_START = f"""\
#!/bin/sh
# Start the MPS daemon and one process per gpulet.
set -eu
{_MPS_VARIABLES}mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
nvidia-cuda-mps-control -d
: > servers.pid
"""
_STOP = f"""\
#!/bin/sh
# Stop the processes that start.sh started, then the MPS daemon.
set -eu
{_MPS_VARIABLES}xargs -r kill < servers.pid
echo quit | nvidia-cuda-mps-control
"""


def env_command(environment: Mapping[str, str]) -> str:
    """Return the beginning of a shell command that runs in an environment: ``env A=1 B=2``."""
    return " ".join(["env", *(f"{key}={shlex.quote(value)}" for key, value in environment.items())])


def write_shell(servers: Sequence[Server]) -> dict[str, str]:
    """Return ``start.sh`` and ``stop.sh``."""
    lines = [f"{env_command(server.environment)} {COMMAND} &\necho $! >> servers.pid\n" for server in servers]
    return {"start.sh": "".join([_START, *lines]), "stop.sh": _STOP}


def read_shell(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the processes that ``start.sh`` starts."""
    return [
        dict(word.split("=", 1) for word in shlex.split(line)[1:] if re.match(r"[A-Z_]+=", word))
        for line in files["start.sh"].splitlines()
        if line.startswith("env ")
    ]


def write_compose(servers: Sequence[Server]) -> dict[str, str]:
    """Return ``compose.yaml``: the MPS daemon and a service per gpulet."""
    volume = f"{PIPE_FOLDER}:{PIPE_FOLDER}"
    gpus = sorted({str(server.gpu) for server in servers})
    services: dict[str, object] = {
        "mps-daemon": {
            "image": CUDA_IMAGE,
            "command": ["nvidia-cuda-mps-control", "-f"],
            "stop_signal": "SIGTERM",
            "ipc": "host",
            "environment": {"CUDA_MPS_PIPE_DIRECTORY": PIPE_FOLDER},
            "volumes": [volume],
            "deploy": _gpu_reservation(gpus),
        }
    }
    for server in servers:
        # The reservation makes one GPU visible, as device 0.
        services[server.name] = {
            "image": IMAGE,
            "ipc": "host",
            "depends_on": ["mps-daemon"],
            "environment": {**server.mps_limits, **server.slot_variables},
            "volumes": [volume],
            "deploy": _gpu_reservation([str(server.gpu)]),
        }
    return {"compose.yaml": yaml.safe_dump({"services": services}, sort_keys=False, default_flow_style=False)}


def read_compose(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the services in ``compose.yaml``."""
    services = yaml.safe_load(files["compose.yaml"])["services"]
    return [service["environment"] for name, service in services.items() if name != "mps-daemon"]


def write_triton(servers: Sequence[Server]) -> dict[str, str]:
    """Return a model repository per gpulet with its ``config.pbtxt``, and the script that starts the servers."""
    files = {}
    lines = [_START]
    for number, server in enumerate(servers):
        files[f"{server.name}/{server.name}/config.pbtxt"] = _pbtxt(server)
        port = 8000 + 3 * number
        ports = f"--http-port={port} --grpc-port={port + 1} --metrics-port={port + 2}"
        command = f"tritonserver --model-repository={server.name} {ports}"
        lines.append(f"{env_command(server.environment)} {command} &\necho $! >> servers.pid\n")
    return {**files, "start.sh": "".join(lines), "stop.sh": _STOP}


def read_triton(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the servers; the batches must agree with the model configurations."""
    environments = read_shell(files)
    config_batches = [
        int(match[1])
        for path, text in files.items()
        if path.endswith("config.pbtxt") and (match := re.search(r"^max_batch_size: (\d+)$", text, re.MULTILINE))
    ]
    server_batches = [int(environment["GPUSHARE_BATCH"]) for environment in environments]
    if sorted(config_batches) != sorted(server_batches):
        raise ValueError(f"the configurations have batches {config_batches}, the servers {server_batches}")
    return environments


def _pbtxt(server: Server) -> str:
    max_delay_us = round(1000.0 * server.timeout_ms)
    batching = f"dynamic_batching {{\n  preferred_batch_size: [ {server.batch} ]\n"
    batching += f"  max_queue_delay_microseconds: {max_delay_us}\n}}\n"
    return (
        f"name: {json.dumps(server.name)}\n"
        f"max_batch_size: {server.batch}\n"
        "instance_group [\n  {\n    count: 1\n    kind: KIND_GPU\n    gpus: [ 0 ]\n  }\n]\n"
        f"{batching}"
    )


def _gpu_reservation(gpus: Sequence[str]) -> dict[str, object]:
    device = {"driver": "nvidia", "device_ids": list(gpus), "capabilities": ["gpu"]}
    return {"resources": {"reservations": {"devices": [device]}}}
