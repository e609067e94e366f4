"""Files for one host: shell scripts that start, check and stop the processes, and Docker Compose."""

import re
import shlex
from collections.abc import Mapping, Sequence

import yaml

from bench.deploy.front_end import (
    CONFIGURATION,
    CONTAINER_PORT,
    ENDPOINTS,
    FIRST_SERVER_PORT,
    FIRST_SERVICE_PORT,
    endpoints,
    nginx_configuration,
    ports_of_services,
    replicated,
)
from bench.deploy.names import DAEMON, FRONT_END
from bench.deploy.placeholders import COMMAND, CUDA_IMAGE, FRONT_END_IMAGE, IMAGE, uuid_of
from bench.deploy.servers import LOG_VARIABLE, PIPE_FOLDER, PIPE_VARIABLE, Server
from bench.deploy.yaml_text import yaml_text

_CONFIGURATION_IN_CONTAINER = "/etc/nginx/nginx.conf"

_RESOLVER = "127.0.0.11"
"""Address of Docker's name server in every container."""


def env_command(environment: Mapping[str, str]) -> str:
    """Return the beginning of a shell command that runs in an environment: ``env A=1 B=2``."""
    return " ".join(["env", *(f"{key}={shlex.quote(value)}" for key, value in environment.items())])


def start_lines(environment: Mapping[str, str], command: str, name: str) -> str:
    """Return the lines of ``start.sh`` that start a process in the background and record it in ``servers.pid``.

    The output goes to ``name.log``. A line of ``servers.pid`` has the number and the name of a process, and the folder
    of its MPS daemon or ``-``.
    """
    folder = environment.get(PIPE_VARIABLE, "-")
    start = f"{env_command(environment)} {command} > {name}.log 2>&1 &"
    return f'{start}\necho "$! {name} {folder}" >> servers.pid\n'


def write_shell(servers: Sequence[Server]) -> dict[str, str]:
    """Return ``start.sh``, ``check.sh`` and ``stop.sh``, the addresses, and the front end of replicated services."""
    ports = ports_on_host(servers, 1)
    lines = [start_lines(server.environment(ports[server.name]), COMMAND, server.name) for server in servers]
    return scripts(lines) | addresses_on_host(servers, ports)


def scripts(lines: Sequence[str], daemon_options: str = "-d") -> dict[str, str]:
    """Return the scripts that start MPS and processes, check that the processes are clients of MPS, and stop all.

    ``lines`` are the lines of ``start.sh`` that start the processes.
    """
    start = _START.format(options=daemon_options)
    return {"start.sh": "".join([start, *lines, STARTED]), "check.sh": CHECK, "stop.sh": _STOP}


def ports_on_host(servers: Sequence[Server], step: int) -> dict[str, int]:
    """Return the port of each server, by name, for servers that need ``step`` ports each."""
    return {server.name: FIRST_SERVER_PORT + step * number for number, server in enumerate(servers)}


def addresses_on_host(servers: Sequence[Server], ports: Mapping[str, int]) -> dict[str, str]:
    """Return the front end's configuration, if a service has several servers, and the table of addresses."""
    front_end_ports = ports_of_services(servers)

    def address_of(server: Server) -> str:
        return f"http://127.0.0.1:{front_end_ports.get(server.service, ports[server.name])}"

    files = {ENDPOINTS: endpoints(servers, address_of)}
    if front_end_ports:
        files[CONFIGURATION] = nginx_configuration(
            servers, front_end_ports, lambda server: f"127.0.0.1:{ports[server.name]}"
        )
    return files


def read_shell(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the servers that ``start.sh`` starts."""
    words = iter(shlex.split(files["start.sh"], comments=True))
    environments: list[dict[str, str]] = []
    for word in words:
        if word == "env":
            environments.append({})
        elif environments and (match := re.fullmatch(r"([A-Z_]+)=(.*)", word, re.DOTALL)):
            environments[-1][match[1]] = match[2]
    return [environment for environment in environments if "GPUSHARE_WORKLOAD" in environment]


def write_compose(servers: Sequence[Server]) -> dict[str, str]:
    """Return ``compose.yaml``: the MPS daemon, a service per gpulet, and a front end for replicated services.

    Every service has the same port in the network of Compose and on the host.
    """
    volume = f"{PIPE_FOLDER}:{PIPE_FOLDER}"
    gpus = [uuid_of(gpu) for gpu in sorted({server.gpu for server in servers})]
    labels = dict.fromkeys(server.service for server in servers)
    ports = {label: FIRST_SERVICE_PORT + number for number, label in enumerate(labels)}
    front_end_ports = {label: ports[label] for label in replicated(servers)}
    services: dict[str, dict[str, object]] = {
        DAEMON: {
            "image": CUDA_IMAGE,
            "command": ["nvidia-cuda-mps-control", "-f"],
            "stop_signal": "SIGTERM",
            "restart": "unless-stopped",
            "ipc": "host",
            # The daemon looks up its own process in /proc.
            "pid": "host",
            "environment": {PIPE_VARIABLE: PIPE_FOLDER, LOG_VARIABLE: PIPE_FOLDER},
            "volumes": [volume],
            "healthcheck": {
                "test": ["CMD-SHELL", "echo get_server_list | nvidia-cuda-mps-control"],
                "interval": "5s",
                "timeout": "5s",
                "retries": 12,
            },
            "deploy": _gpu_reservation(gpus),
        }
    }
    for server in servers:
        port = CONTAINER_PORT if server.service in front_end_ports else ports[server.service]
        # The reservation makes one GPU visible, as device 0.
        services[server.name] = {
            "image": IMAGE,
            "restart": "unless-stopped",
            "ipc": "host",
            # A process that does not reach the daemon would run without limits.
            "depends_on": {DAEMON: {"condition": "service_healthy", "restart": True}},
            "environment": {**server.mps_limits, **server.slot_variables(port)},
            "volumes": [volume],
            "deploy": _gpu_reservation([uuid_of(server.gpu)]),
        }
        if server.service not in front_end_ports:
            services[server.name]["ports"] = [_published(port)]
    files = {ENDPOINTS: endpoints(servers, lambda server: f"http://{server.service}:{ports[server.service]}")}
    if front_end_ports:
        services[FRONT_END] = {
            "image": FRONT_END_IMAGE,
            "restart": "unless-stopped",
            "depends_on": [server.name for server in servers if server.service in front_end_ports],
            "volumes": [f"./{CONFIGURATION}:{_CONFIGURATION_IN_CONTAINER}:ro"],
            "networks": {"default": {"aliases": list(front_end_ports)}},
            "ports": [_published(port) for port in front_end_ports.values()],
        }
        files[CONFIGURATION] = nginx_configuration(
            servers, front_end_ports, lambda server: f"{server.name}:{CONTAINER_PORT}", _RESOLVER
        )
    return {"compose.yaml": yaml_text({"services": _escaped(services)}), **files}


def read_compose(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the services in ``compose.yaml``."""
    services = yaml.safe_load(files["compose.yaml"])["services"]
    return [
        {name: value.replace("$$", "$") for name, value in service["environment"].items()}
        for name, service in services.items()
        if name not in (DAEMON, FRONT_END)
    ]


def _escaped(value: object) -> object:
    """Return ``value`` with every ``$`` doubled, since Compose replaces ``$NAME`` by a variable."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, Mapping):
        return {name: _escaped(part) for name, part in value.items()}
    return [_escaped(part) for part in value] if isinstance(value, list) else value


def _gpu_reservation(gpus: Sequence[str]) -> dict[str, object]:
    # MPS and CUDA need the capability compute, which images without CUDA do not ask for.
    device = {"driver": "nvidia", "device_ids": list(gpus), "capabilities": ["gpu", "compute", "utility"]}
    return {"resources": {"reservations": {"devices": [device]}}}


def _published(port: int) -> str:
    return f"{port}:{port}"


MPS_FOLDERS = f"""\
export CUDA_MPS_PIPE_DIRECTORY={PIPE_FOLDER} CUDA_MPS_LOG_DIRECTORY={PIPE_FOLDER}-log
"""
"""Line of the scripts that names the folders of the MPS daemon."""

_START = f"""\
#!/bin/sh
# Start the MPS daemon and one process per gpulet, then check that MPS serves every process.
set -eu
trap '' HUP  # the processes go on when the terminal closes
cd "$(dirname "$0")"
{MPS_FOLDERS}mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
nvidia-cuda-mps-control {{options}}
: > servers.pid
"""

STARTED = "exec sh ./check.sh\n"
"""Last line of ``start.sh``."""

CHECK = """\
#!/bin/sh
# Check that every process of start.sh runs, and is a client of its MPS daemon. A process that does not reach the daemon
# runs without MPS, and its limits are gone without a word. WAIT_S is the time to wait for the processes to load their
# models.
set -eu
cd "$(dirname "$0")"

# The clients of the daemon with the folder $1.
clients() {
    for server in $(echo get_server_list | env CUDA_MPS_PIPE_DIRECTORY="$1" nvidia-cuda-mps-control); do
        echo "get_client_list $server" | env CUDA_MPS_PIPE_DIRECTORY="$1" nvidia-cuda-mps-control
    done
}

# Whether process $1 runs: it exists and is no zombie.
runs() {
    sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null | grep -q '^[^ZX]'
}

# Whether process $1 is process $2 or was started by it.
descends() {
    each=$1
    while [ "${each:-0}" -gt 1 ]; do
        [ "$each" = "$2" ] && return 0
        each=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$each/status" 2>/dev/null || true)
    done
    return 1
}

tries=${WAIT_S:-120}
while :; do
    missing=
    while read -r pid name folder; do
        if ! runs "$pid"; then
            echo "$name (process $pid) has ended; see $name.log" >&2
            exit 1
        fi
        [ "$folder" != - ] || continue
        found=
        for client in $(clients "$folder" || true); do
            if descends "$client" "$pid"; then found=1; fi
        done
        [ -n "$found" ] || missing="$missing $name"
    done < servers.pid
    [ -n "$missing" ] || break
    tries=$((tries - 1))
    if [ "$tries" -le 0 ]; then
        echo "not served by MPS, so without limits:$missing; see control.log in the daemon's log folder" >&2
        exit 1
    fi
    sleep 1
done
echo "all processes run, and every MPS daemon serves its processes"
"""
"""Script that checks the processes."""

STOP_PROCESSES = """\
#!/bin/sh
# Stop the processes that start.sh started, then MPS; processes that have ended already are no obstacle.
set -u
cd "$(dirname "$0")"
pids=
if [ -f servers.pid ]; then
    while read -r pid name folder; do
        # The number of an ended process may belong to another program by now.
        if grep -qs GPUSHARE_WORKLOAD "/proc/$pid/environ"; then
            kill "$pid" 2>/dev/null
            pids="$pids $pid"
        fi
    done < servers.pid
    rm -f servers.pid
fi
# MPS removes no partition, and no other process gets a port, that a process still uses.
tries=${WAIT_S:-30}
for pid in $pids; do
    while [ "$tries" -gt 0 ] && sed -n 's/^State:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null | grep -q '^[^ZX]'; do
        tries=$((tries - 1))
        sleep 1
    done
done
"""
"""Script that stops the processes and waits until they have ended; the lines that stop MPS follow."""

_STOP = f"{STOP_PROCESSES}{MPS_FOLDERS}echo quit | nvidia-cuda-mps-control\n"
