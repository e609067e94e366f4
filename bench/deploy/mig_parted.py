"""Files for GPUs with MIG instances: mig-parted's configuration, and scripts that start and stop the processes.

If several processes share a MIG instance, the MIG instance has an MPS daemon of its own.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import yaml

from bench.deploy.hosts import (
    CHECK,
    STARTED,
    STOP_PROCESSES,
    addresses_on_host,
    ports_on_host,
    read_shell,
    start_lines,
)
from bench.deploy.placeholders import COMMAND, uuid_of
from bench.deploy.servers import PIPE_FOLDER, PIPE_VARIABLE, Server, slot_of
from bench.deploy.yaml_text import yaml_text
from instances import Gpulet, InputError, Instance, PlacedGpu, Plan
from instances.grouping import grouped

_CONFIG_NAME = "gpushare"

_GIB_PER_MIB = 1.0 / 1024.0

_PROFILES: dict[int, dict[int, str]] = {
    24: {1: "1g.6gb", 2: "2g.12gb", 4: "4g.24gb"},
    40: {1: "1g.5gb", 2: "2g.10gb", 3: "3g.20gb", 4: "4g.20gb", 7: "7g.40gb"},
    80: {1: "1g.10gb", 2: "2g.20gb", 3: "3g.40gb", 4: "4g.40gb", 7: "7g.80gb"},
    94: {1: "1g.12gb", 2: "2g.24gb", 3: "3g.47gb", 4: "4g.47gb", 7: "7g.94gb"},
    96: {1: "1g.12gb", 2: "2g.24gb", 3: "3g.48gb", 4: "4g.48gb", 7: "7g.96gb"},
    141: {1: "1g.18gb", 2: "2g.35gb", 3: "3g.71gb", 4: "4g.71gb", 7: "7g.141gb"},
    180: {1: "1g.23gb", 2: "2g.45gb", 3: "3g.90gb", 4: "4g.90gb", 7: "7g.180gb"},
}
"""Names of MIG profiles by the GPU's memory in GB and the profile's compute slices (NVIDIA's MIG User Guide).

The rows are A30; A100 40 GB; A100 and H100 80 GB; H100 94 GB; H100 96 GB; H200; B200. The names do not follow from the
memory by a rule: 3g on an H200 is 3g.71gb.
"""

_MEMORY_TOLERANCE = 0.01
"""Largest relative difference between the memory of a GPU and the rounded memory of its row."""


def profile_names(memory_mib: float, where: str) -> dict[int, str]:
    """Return the names of the MIG profiles of a GPU with ``memory_mib``, by compute slices.

    Raises
    ------
    InputError
        If no GPU with this memory is known; ``where`` is the place that the error names.
    """
    memory_gb = memory_mib * _GIB_PER_MIB
    nearest = min(_PROFILES, key=lambda profiled_gb: abs(profiled_gb - memory_gb))
    if abs(nearest - memory_gb) > _MEMORY_TOLERANCE * nearest:
        listed = ", ".join(map(str, _PROFILES))
        raise InputError(where, f"no MIG profiles are known for a GPU of {memory_gb:.0f} GB; expected one of {listed}")
    return _PROFILES[nearest]


def write_mig_parted(servers: Sequence[Server], instance: Instance) -> dict[str, str]:
    """Return ``config.yaml`` for mig-parted, the scripts, the addresses, and the front end of replicated services."""
    ports = ports_on_host(servers, 1)
    lines, daemons, devices = [_START], [], []
    for gpu, on_gpu in grouped((server.gpu, server) for server in servers).items():
        profile_of_units = _profiles(instance, on_gpu[0].gpu_type)
        mig_instances = grouped((server.mig_start, server) for server in on_gpu)
        counts = Counter(profile_of_units[first.share_units] for first, *_ in mig_instances.values())
        devices.append({"devices": [gpu], "mig-enabled": True, "mig-devices": dict(counts)})
        for start, residents in mig_instances.items():
            uuid = f"{uuid_of(gpu)}-MIG-{start}"
            device = {"CUDA_VISIBLE_DEVICES": uuid}
            if len(residents) > 1:
                folder = f"{PIPE_FOLDER}-{gpu}-{start}"
                lines.append(_START_DAEMON.format(folder=folder, uuid=uuid))
                daemons.append(_STOP_DAEMON.format(folder=folder))
                # The daemon makes the MIG instance visible, as device 0.
                device = {"CUDA_VISIBLE_DEVICES": "0", PIPE_VARIABLE: folder}
            mig_variables = {"GPUSHARE_MIG": profile_of_units[residents[0].share_units], "GPUSHARE_START": str(start)}
            lines += [
                start_lines(
                    {**device, **mig_variables, **server.slot_variables(ports[server.name])}, COMMAND, server.name
                )
                for server in residents
            ]
    config = {"version": "v1", "mig-configs": {_CONFIG_NAME: devices}}
    return {
        "config.yaml": yaml_text(config),
        "start.sh": "".join([*lines, STARTED]),
        "check.sh": CHECK,
        "stop.sh": "".join([STOP_PROCESSES, *daemons]),
        **addresses_on_host(servers, ports),
    }


def read_mig_parted(files: Mapping[str, str], instance: Instance) -> Plan:
    """Return the plan that the processes and the configuration describe.

    Raises
    ------
    ValueError
        If the configuration has other MIG instances than the processes, or two processes have one port.
    """
    gpulets: dict[int, dict[int, Gpulet]] = defaultdict(dict)
    type_of_gpu: dict[int, str] = {}
    profiles: dict[int, list[str]] = defaultdict(list)
    environments = read_shell(files)
    if len({environment["GPUSHARE_PORT"] for environment in environments}) < len(environments):
        raise ValueError("two processes have the same port")
    for environment in environments:
        gpu, start = int(environment["GPUSHARE_GPU"]), int(environment["GPUSHARE_START"])
        type_of_gpu[gpu] = environment["GPUSHARE_GPU_TYPE"]
        units_of_profile = {name: units for units, name in _profiles(instance, type_of_gpu[gpu]).items()}
        units = units_of_profile[environment["GPUSHARE_MIG"]]
        if start in gpulets[gpu]:
            gpulets[gpu][start] = replace(gpulets[gpu][start], processes=gpulets[gpu][start].processes + 1)
        else:
            gpulets[gpu][start] = Gpulet(units, (slot_of(environment),), start=start)
            profiles[gpu].append(environment["GPUSHARE_MIG"])
    for device in yaml.safe_load(files["config.yaml"])["mig-configs"][_CONFIG_NAME]:
        if Counter(device["mig-devices"]) != Counter(profiles[device["devices"][0]]):
            raise ValueError("the configuration has other MIG instances than the processes")
    return Plan(
        instance.name, tuple(PlacedGpu(type_of_gpu[gpu], tuple(gpulets[gpu].values())) for gpu in sorted(type_of_gpu))
    )


def _profiles(instance: Instance, gpu_type: str) -> dict[int, str]:
    """Return the names of the MIG profiles of a GPU type, by their number of compute slices."""
    pool = instance.pool(gpu_type)
    if pool is None or pool.type.mig is None:
        raise InputError("plan", f"{gpu_type} has no MIG instances")
    names = profile_names(pool.type.memory_mib, gpu_type)
    return {mig_slice.units: names[mig_slice.units] for mig_slice in pool.type.mig.slices if mig_slice.units in names}


_START = """\
#!/bin/sh
# Start the processes of every MIG instance, and an MPS daemon for each that several processes share; then check them.
set -eu
trap '' HUP  # the processes go on when the terminal closes
cd "$(dirname "$0")"
: > servers.pid
"""
_START_DAEMON = """\
mkdir -p {folder} {folder}-log
env CUDA_VISIBLE_DEVICES={uuid} CUDA_MPS_PIPE_DIRECTORY={folder} CUDA_MPS_LOG_DIRECTORY={folder}-log \\
    nvidia-cuda-mps-control -d
"""
_STOP_DAEMON = "echo quit | env CUDA_MPS_PIPE_DIRECTORY={folder} nvidia-cuda-mps-control\n"
