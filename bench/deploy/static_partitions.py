"""Files for one host with static SM partitions of MPS: each server has SMs of its own, in whole chunks.

A share of MPS only limits a process, and processes may still run on the same SMs. A static partition reserves its SMs.
The commands and the sizes of chunks are those of NVIDIA's MPS documentation, release 590 and later.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.deploy.hosts import (
    MPS_FOLDERS,
    STOP_PROCESSES,
    addresses_on_host,
    ports_on_host,
    read_shell,
    scripts,
    start_lines,
)
from bench.deploy.placeholders import COMMAND, uuid_of
from bench.deploy.servers import SHARE_VARIABLE, Server
from instances import GpuType, InputError, Instance, Plan
from instances.errors import FieldName

PARTITION_VARIABLE = "CUDA_MPS_SM_PARTITION"
"""Variable by which a process names its partition; a process without one fails under this daemon."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Number of SMs of a GPU, and number of SMs of a chunk, the unit of the GPU's partitions."""

    sms: int
    chunk_sms: int

    @property
    def shares(self) -> tuple[int, ...]:
        """Shares of whole chunks, in SMs, ascending."""
        return tuple(range(self.chunk_sms, self.sms + 1, self.chunk_sms))


_AMPERE_CHUNK_SMS, _HOPPER_CHUNK_SMS = 4, 8

_CHUNKS = {
    "a30": Chunks(56, _AMPERE_CHUNK_SMS),
    "a10": Chunks(72, _AMPERE_CHUNK_SMS),
    "a40": Chunks(84, _AMPERE_CHUNK_SMS),
    "a100": Chunks(108, _AMPERE_CHUNK_SMS),
    "l4": Chunks(58, _AMPERE_CHUNK_SMS),
    "l40": Chunks(142, _AMPERE_CHUNK_SMS),
    "l40s": Chunks(142, _AMPERE_CHUNK_SMS),
    "h100": Chunks(132, _HOPPER_CHUNK_SMS),
    "h100-pcie": Chunks(114, _HOPPER_CHUNK_SMS),
    "h200": Chunks(132, _HOPPER_CHUNK_SMS),
    "b200": Chunks(148, _HOPPER_CHUNK_SMS),
}
"""Chunks by GPU. Discrete GPUs of Ampere and Ada have chunks of 4 SMs; GPUs from Hopper on have chunks of 8."""

_OLDER = ("p4", "p40", "p100", "v100", "t4", "rtx2080ti")
"""GPUs from before Ampere, which have no static partitions."""


def chunks_of(gpu_type: str) -> Chunks:
    """Return the chunks of a GPU type, known by the first part of its name: ``a100-inss`` is an ``a100``.

    Raises
    ------
    InputError
        If the GPU has no static partitions, or its number of SMs is not known.
    """
    base_names = [name for name in (*_CHUNKS, *_OLDER) if gpu_type == name or gpu_type.startswith(f"{name}-")]
    name = max(base_names, key=len, default="")
    if name in _CHUNKS:
        return _CHUNKS[name]
    listed = ", ".join(_CHUNKS)
    problem = f"the number of SMs of {gpu_type} is not known; expected a name that begins with one of {listed}"
    if name in _OLDER:
        problem = f"{gpu_type} is older than Ampere and has no static SM partitions; expected one of {listed}"
    raise InputError(_FIELD, problem)


def in_chunks(instance: Instance) -> Instance:
    """Return the instance with shares in SMs, of which whole chunks are allowed.

    Raises
    ------
    InputError
        If a GPU has no static partitions, or none of its permitted shares is a whole number of chunks.
    """
    pools = tuple(replace(pool, type=_type_in_chunks(pool.type)) for pool in instance.gpus)
    return replace(instance, gpus=pools)


def _type_in_chunks(gpu: GpuType) -> GpuType:
    chunks = chunks_of(gpu.name)
    permitted = gpu.allowed_shares
    shares = tuple(
        sms
        for sms in chunks.shares
        if permitted is None or any(units * chunks.sms == sms * gpu.share_units for units in permitted)
    )
    if not shares:
        listed = ", ".join(f"{gpu.share_pct(units):.4g} %" for units in (permitted or ())[:5])
        problem = (
            f"{gpu.name} is planned in shares of {listed} only, and none is whole chunks of {chunks.chunk_sms} SMs"
        )
        raise InputError(_FIELD, problem)
    return replace(gpu, share_units=chunks.sms, allowed_shares=shares)


def plan_in_chunks(plan: Plan, instance: Instance) -> Plan:
    """Return the plan with shares in SMs.

    Raises
    ------
    InputError
        If a share is not a whole number of chunks.
    """
    types = {pool.type.name: pool.type for pool in instance.gpus}
    gpus = []
    for position, gpu in enumerate(plan.gpus):
        chunks, units = chunks_of(gpu.type), types[gpu.type].share_units
        gpulets = []
        for gpulet in gpu.gpulets:
            sms, remainder = divmod(gpulet.share_units * chunks.sms, units)
            if remainder or sms % chunks.chunk_sms:
                share = f"{types[gpu.type].share_pct(gpulet.share_units):.4g} % of its {chunks.sms} SMs"
                problem = f"a share is {share}, not a whole number of chunks of {chunks.chunk_sms} SMs"
                raise InputError(
                    f"plan: gpus[{position}]", f"{problem}; plan again (bench plan) for the target mps-static"
                )
            gpulets.append(replace(gpulet, share_units=sms))
        gpus.append(replace(gpu, gpulets=tuple(gpulets)))
    return replace(plan, gpus=tuple(gpus))


def write_mps_static(servers: Sequence[Server]) -> dict[str, str]:
    """Return the scripts, the addresses, and the front end of replicated services."""
    ports = ports_on_host(servers, 1)
    partitions, processes = [_START_PARTITIONS], []
    for number, server in enumerate(servers):
        uuid = uuid_of(server.gpu)
        chunk_count = server.share_units // chunks_of(server.gpu_type).chunk_sms
        partitions.append(f"add_partition {uuid} {chunk_count}\npartition_{number}=$partition\n")
        environment = {"CUDA_VISIBLE_DEVICES": uuid} | server.mps_limits | server.slot_variables(ports[server.name])
        del environment[SHARE_VARIABLE]
        command = f'{PARTITION_VARIABLE}="$partition_{number}" {COMMAND}'
        processes.append(start_lines(environment, command, server.name))
    files = scripts([*partitions, *processes], "-d -S") | {"stop.sh": _STOP}
    return files | addresses_on_host(servers, ports)


def read_mps_static(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the servers, with the SMs of their partitions as shares.

    Raises
    ------
    ValueError
        If a server has no partition of its own on its GPU.
    """
    added = re.findall(r"^add_partition (\S+) (\d+)\npartition_(\d+)=\$partition$", files["start.sh"], re.MULTILINE)
    partition_of = {f"$partition_{number}": (uuid, int(chunk_count)) for uuid, chunk_count, number in added}
    environments = read_shell(files)
    for environment in environments:
        uuid, chunk_count = partition_of.pop(environment[PARTITION_VARIABLE], ("", 0))
        if not uuid_of(int(environment["GPUSHARE_GPU"])) == environment["CUDA_VISIBLE_DEVICES"] == uuid:
            raise ValueError(f"{environment['GPUSHARE_WORKLOAD']} has no partition of its own on its GPU")
        environment[SHARE_VARIABLE] = str(chunk_count * chunks_of(environment["GPUSHARE_GPU_TYPE"]).chunk_sms)
    return environments


_FIELD = FieldName("target", " mps-static")

_START_PARTITIONS = """\
: > partitions

# Reserve $2 chunks of GPU $1; the answer is "Partition UUID/ID created".
add_partition() {
    answer=$(echo "sm_partition add $1 $2" | nvidia-cuda-mps-control 2>&1) || true
    partition=$(printf '%s\\n' "$answer" | sed -n 's/^Partition \\([^ ]*\\) created.*/\\1/p')
    if [ -z "$partition" ]; then
        echo "MPS reserves no partition of $2 chunks on $1: $answer" >&2
        sh ./stop.sh
        exit 1
    fi
    echo "$partition" >> partitions
}

"""

_STOP = f"""\
{STOP_PROCESSES}{MPS_FOLDERS}if [ -f partitions ]; then
    # The identifier after the first slash may have slashes, too.
    while read -r partition; do
        echo "sm_partition rm ${{partition%%/*}} ${{partition#*/}}" | nvidia-cuda-mps-control
    done < partitions
    rm -f partitions
fi
echo quit | nvidia-cuda-mps-control
"""
