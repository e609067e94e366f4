"""Files for Triton on one host: a server with a model repository of its own for each gpulet, and the scripts."""

import json
import re
from collections.abc import Mapping, Sequence

from bench.deploy.hosts import addresses_on_host, ports_on_host, read_shell, scripts, start_lines
from bench.deploy.placeholders import BACKEND, MODEL_FILE
from bench.deploy.servers import Server

_PORTS_PER_SERVER = 3
"""Ports for HTTP, gRPC and metrics."""


def write_triton(servers: Sequence[Server]) -> dict[str, str]:
    """Return a model repository per gpulet, the scripts, the addresses, and the front end of replicated services.

    All servers of a service have the model under the same name.
    """
    files, lines = {}, []
    ports = ports_on_host(servers, _PORTS_PER_SERVER)
    for server in servers:
        folder = f"{server.name}/{server.service}"
        files[f"{folder}/config.pbtxt"] = _pbtxt(server)
        files[f"{folder}/1/{MODEL_FILE}"] = f"Replace this file by the file of {server.model} for the backend.\n"
        port = ports[server.name]
        options = f"--http-port={port} --grpc-port={port + 1} --metrics-port={port + 2}"
        command = f"tritonserver --model-repository={server.name} {options}"
        lines.append(start_lines(server.environment(port), command, server.name))
    return files | scripts(lines) | addresses_on_host(servers, ports)


def read_triton(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the servers.

    Raises
    ------
    ValueError
        If a model configuration has another batch, timeout or drop rule than its server.
    """
    environments = read_shell(files)
    configured = sorted(_read_pbtxt(text) for path, text in files.items() if path.endswith("config.pbtxt"))
    described = sorted(
        (
            int(environment["GPUSHARE_BATCH"]),
            int(environment["GPUSHARE_TIMEOUT_US"]),
            int(environment.get("GPUSHARE_LONGEST_WAIT_US", "0")),
        )
        for environment in environments
    )
    if configured != described:
        raise ValueError(f"the model configurations {configured} differ from the servers {described}")
    return environments


def _pbtxt(server: Server) -> str:
    lines = [
        f"name: {json.dumps(server.service)}",
        f"backend: {json.dumps(BACKEND)}",
        f"max_batch_size: {server.batch}",
        "instance_group [\n  {\n    count: 1\n    kind: KIND_GPU\n    gpus: [ 0 ]\n  }\n]",
    ]
    if server.decodes:
        # Triton schedules every step anew, so requests join and leave the batch at any step.
        return "\n".join([*lines, "sequence_batching {\n  iterative_sequence: true\n}"]) + "\n"
    lines += [
        f"dynamic_batching {{\n  preferred_batch_size: [ {server.batch} ]",
        f"  max_queue_delay_microseconds: {server.timeout_us}",
    ]
    if server.longest_wait_us is not None:
        lines += [
            "  default_queue_policy {\n    timeout_action: REJECT",
            f"    default_timeout_microseconds: {server.longest_wait_us}",
            "    allow_timeout_override: false\n  }",
        ]
    return "\n".join([*lines, "}"]) + "\n"


def _read_pbtxt(text: str) -> tuple[int, int, int]:
    """Return batch, timeout and longest wait in microseconds; the longest wait is 0 if no request is dropped."""
    fields = ("max_batch_size", "max_queue_delay_microseconds", "default_timeout_microseconds")
    matches = (re.search(rf"^ *{field}: (\d+)$", text, re.MULTILINE) for field in fields)
    batch, delay_us, wait_us = (int(match[1]) if match else 0 for match in matches)
    return batch, delay_us, wait_us
