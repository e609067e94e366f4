"""Files for GPUs with MIG instances: mig-parted's configuration, and a start script for the processes."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

import yaml

from bench.deploy.hosts import COMMAND, env_command, read_shell
from bench.deploy.servers import slot_of
from instances import Gpulet, InputError, Instance, Partition, PlacedGpu, Plan
from instances.errors import FieldName

_CONFIG_NAME = "gpushare"


def profile_name(units: int, span: int, memory_mib: float) -> str:
    """Return the name of a MIG profile, such as ``1g.10gb``: ``units`` compute slices, ``span`` of 8 memory slices."""
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
        profile_of_units = _profiles(instance, gpu.type)
        counts = Counter(profile_of_units[gpulet.share_units] for gpulet in gpu.gpulets)
        devices.append({"devices": [position], "mig-enabled": True, "mig-devices": dict(counts)})
        for gpulet in gpu.gpulets:
            (slot,) = gpulet.slots
            environment = {
                "CUDA_VISIBLE_DEVICES": f"UUID-OF-GPU-{position}-MIG-{gpulet.start}",
                "GPUSHARE_GPU": str(position),
                "GPUSHARE_GPU_TYPE": gpu.type,
                "GPUSHARE_MIG": profile_of_units[gpulet.share_units],
                "GPUSHARE_START": str(gpulet.start),
                "GPUSHARE_WORKLOAD": slot.workload,
                "GPUSHARE_BATCH": str(slot.batch),
                "GPUSHARE_RATE_RPS": repr(slot.rate_rps),
            }
            lines += [f"{env_command(environment)} {COMMAND} &"] * gpulet.processes
    config = {"version": "v1", "mig-configs": {_CONFIG_NAME: devices}}
    return {"config.yaml": yaml.safe_dump(config, sort_keys=False), "start.sh": "\n".join(lines) + "\n"}


def read_mig_parted(files: Mapping[str, str], instance: Instance) -> Plan:
    """Return the plan that the processes and the configuration describe.

    Raises
    ------
    ValueError
        If the configuration has other MIG instances than the processes.
    """
    gpulets: dict[int, dict[int, Gpulet]] = defaultdict(dict)
    type_of_gpu: dict[int, str] = {}
    profiles: dict[int, list[str]] = defaultdict(list)
    for environment in read_shell(files):
        gpu, start = int(environment["GPUSHARE_GPU"]), int(environment["GPUSHARE_START"])
        type_of_gpu[gpu] = environment["GPUSHARE_GPU_TYPE"]
        units = {name: units for units, name in _profiles(instance, type_of_gpu[gpu]).items()}[
            environment["GPUSHARE_MIG"]
        ]
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
    pool = instance.pool(gpu_type)
    if pool is None or pool.type.mig is None:
        raise InputError("plan", f"{gpu_type} has no MIG instances")
    return {
        mig_slice.units: profile_name(mig_slice.units, mig_slice.span, pool.type.memory_mib)
        for mig_slice in pool.type.mig.slices
    }
