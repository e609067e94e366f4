"""Files for GPUs cut into MIG instances: mig-parted's configuration, and a start script for their processes."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

import yaml

from bench.deploy.hosts import COMMAND, in_shell, read_shell
from bench.deploy.servers import slot_of
from instances import Gpulet, InputError, Instance, Partition, PlacedGpu, Plan
from instances.errors import FieldName

_NAME = "gpushare"


def profile_name(units: int, span: int, memory_mib: float) -> str:
    """Return the name of a MIG profile, such as ``1g.10gb``, of ``units`` compute and ``span`` of 8 memory slices."""
    return f"{units}g.{round(memory_mib / 1024 * span / 8)}gb"


def write_mig_parted(plan: Plan, instance: Instance) -> dict[str, str]:
    """Return ``config.yaml`` for mig-parted, and ``start.sh`` with the processes of every MIG instance.

    Raises
    ------
    InputError
        If the GPUs are divided into shares.
    """
    if instance.partition is not Partition.MIG:
        name = instance.gpus[0].type.name
        problem = f"{name} is divided into MPS shares; expected a plan on MIG, such as a100-mig"
        raise InputError(FieldName("target", " mig-parted"), problem)
    devices, lines = [], ["#!/bin/sh", "# Start the processes of every MIG instance.", "set -eu"]
    for position, gpu in enumerate(plan.gpus):
        names = _profiles(instance, gpu.type)
        counts = Counter(names[gpulet.share_units] for gpulet in gpu.gpulets)
        devices.append({"devices": [position], "mig-enabled": True, "mig-devices": dict(counts)})
        for gpulet in gpu.gpulets:
            (slot,) = gpulet.slots
            facts = {
                "CUDA_VISIBLE_DEVICES": f"UUID-OF-GPU-{position}-MIG-{gpulet.start}",
                "GPUSHARE_GPU": str(position),
                "GPUSHARE_GPU_TYPE": gpu.type,
                "GPUSHARE_MIG": names[gpulet.share_units],
                "GPUSHARE_START": str(gpulet.start),
                "GPUSHARE_WORKLOAD": slot.workload,
                "GPUSHARE_BATCH": str(slot.batch),
                "GPUSHARE_RATE_RPS": repr(slot.rate_rps),
            }
            lines += [f"{in_shell(facts)} {COMMAND} &"] * gpulet.processes
    config = {"version": "v1", "mig-configs": {_NAME: devices}}
    return {"config.yaml": yaml.safe_dump(config, sort_keys=False), "start.sh": "\n".join(lines) + "\n"}


def read_mig_parted(files: Mapping[str, str], instance: Instance) -> Plan:
    """Return the plan of the processes, whose MIG instances are those of the configuration.

    Raises
    ------
    ValueError
        If the configuration has other MIG instances than the processes.
    """
    gpulets: dict[int, dict[int, Gpulet]] = defaultdict(dict)
    types: dict[int, str] = {}
    cut: dict[int, list[str]] = defaultdict(list)
    for facts in read_shell(files):
        gpu, start = int(facts["GPUSHARE_GPU"]), int(facts["GPUSHARE_START"])
        types[gpu] = facts["GPUSHARE_GPU_TYPE"]
        units = {name: units for units, name in _profiles(instance, types[gpu]).items()}[facts["GPUSHARE_MIG"]]
        if start in gpulets[gpu]:
            gpulets[gpu][start] = replace(gpulets[gpu][start], processes=gpulets[gpu][start].processes + 1)
        else:
            gpulets[gpu][start] = Gpulet(units, (slot_of(facts),), start=start)
            cut[gpu].append(facts["GPUSHARE_MIG"])
    for device in yaml.safe_load(files["config.yaml"])["mig-configs"][_NAME]:
        if Counter(device["mig-devices"]) != Counter(cut[device["devices"][0]]):
            raise ValueError("the configuration has other MIG instances than the processes")
    return Plan(instance.name, tuple(PlacedGpu(types[gpu], tuple(gpulets[gpu].values())) for gpu in sorted(types)))


def _profiles(instance: Instance, gpu_type: str) -> dict[int, str]:
    pool = instance.pool(gpu_type)
    if pool is None or pool.type.mig is None:
        raise InputError("plan", f"{gpu_type} has no MIG instances")
    return {one.units: profile_name(one.units, one.span, pool.type.memory_mib) for one in pool.type.mig.slices}
