"""Servers of a plan, one process per gpulet with its environment variables, and the plan read back from them."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bench.judging.judge import judge
from bench.simulation.serving_rules import DispatchRule
from instances import Gpulet, InputError, Instance, PlacedGpu, Plan, Slot

PIPE_FOLDER = "/tmp/nvidia-mps"  # noqa: S108 - default folder of the daemon
SHARE_VARIABLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""Variable by which MPS limits the share of a process."""

PERCENTS = 100
"""Share units of a GPU if its shares are whole percents."""


@dataclass(frozen=True, slots=True)
class Server:
    """Process that serves one slot.

    Attributes
    ----------
    name
        DNS label, unique in the plan.
    gpu
        Position of the GPU in the plan.
    percent
        Share of the GPU in whole percents.
    memory_mib
        Device memory of the process, rounded up.
    timeout_ms
        Time after which a partial batch starts.
    """

    name: str
    gpu: int
    gpu_type: str
    percent: int
    memory_mib: int
    workload: str
    model: str
    batch: int
    rate_rps: float
    timeout_ms: float

    @property
    def slot_variables(self) -> dict[str, str]:
        """Environment variables that describe the slot."""
        return {
            "GPUSHARE_GPU": str(self.gpu),
            "GPUSHARE_GPU_TYPE": self.gpu_type,
            "GPUSHARE_WORKLOAD": self.workload,
            "GPUSHARE_MODEL": self.model,
            "GPUSHARE_BATCH": str(self.batch),
            "GPUSHARE_RATE_RPS": repr(self.rate_rps),
            "GPUSHARE_TIMEOUT_MS": f"{self.timeout_ms:.3f}",
        }

    @property
    def mps_limits(self) -> dict[str, str]:
        """Environment variables by which MPS limits the process; the process sees only device 0."""
        return {
            "CUDA_MPS_PIPE_DIRECTORY": PIPE_FOLDER,
            SHARE_VARIABLE: str(self.percent),
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={self.memory_mib}M",
        }

    @property
    def environment(self) -> dict[str, str]:
        """All environment variables, on a host that numbers its GPUs as the plan does."""
        return {"CUDA_VISIBLE_DEVICES": str(self.gpu), **self.mps_limits, **self.slot_variables}


def in_percents(instance: Instance, allowed: tuple[int, ...] | None = None) -> Instance:
    """Return the instance with shares in whole percents: all of them, or only the ``allowed`` shares."""
    types = (replace(pool.type, share_units=PERCENTS, allowed_shares=allowed) for pool in instance.gpus)
    pools = tuple(replace(pool, type=gpu) for pool, gpu in zip(instance.gpus, types, strict=True))
    return replace(instance, gpus=pools)


def rounded_up(plan: Plan, instance: Instance) -> Plan | None:
    """Return the plan with shares in whole percents, rounded up; ``None`` if it then breaks a constraint."""
    units = {pool.type.name: pool.type.share_units for pool in instance.gpus}
    gpus = []
    for gpu in plan.gpus:
        percents = [math.ceil(gpulet.share_units * PERCENTS / units[gpu.type] - 1e-9) for gpulet in gpu.gpulets]
        gpulets = [replace(gpulet, share_units=share) for gpulet, share in zip(gpu.gpulets, percents, strict=True)]
        gpus.append(replace(gpu, gpulets=tuple(gpulets)))
    rounded = replace(plan, gpus=tuple(gpus))
    return rounded if judge(rounded, in_percents(instance)).feasible else None


def servers(plan: Plan, instance: Instance) -> list[Server]:
    """Return the processes of a plan in whole percents of ``instance``.

    Raises
    ------
    InputError
        If slots take turns.
    """
    slot_verdicts = iter(judge(plan, instance).slots)
    dispatch = DispatchRule.of(instance)
    copies, used_names = Counter[str](), set[str]()
    processes = []
    for position, gpu in enumerate(plan.gpus):
        for gpulet in gpu.gpulets:
            if len(gpulet.slots) > 1 or gpulet.duty_cycle_ms is not None:
                raise InputError(f"plan: gpus[{position}]", "slots take turns; expected one slot per gpulet to deploy")
            (slot,) = gpulet.slots
            workload = instance.workloads[instance.workload_index[slot.workload]]
            pool = instance.pool(gpu.type)
            assert pool is not None  # the judge has checked the GPU types
            full_batch_ms = next(slot_verdicts).t_inf_ms
            name = label = _label(slot.workload)
            while name in used_names:
                copies[label] += 1
                name = f"{label}-{copies[label] + 1}"
            used_names.add(name)
            processes.append(
                Server(
                    name,
                    position,
                    gpu.type,
                    round(100.0 * gpulet.share_units / pool.type.share_units),
                    math.ceil(pool.type.model(workload.model).memory_mib(slot.batch)),
                    slot.workload,
                    workload.model,
                    slot.batch,
                    slot.rate_rps,
                    dispatch.timeout_ms(slot.batch, slot.rate_rps, workload.slo_ms, None, full_batch_ms),
                )
            )
    return processes


def slot_of(environment: Mapping[str, str]) -> Slot:
    """Return the slot that the environment of a process describes."""
    batch, rate_rps = int(environment["GPUSHARE_BATCH"]), float(environment["GPUSHARE_RATE_RPS"])
    return Slot(environment["GPUSHARE_WORKLOAD"], batch, rate_rps)


def plan_of_environments(name: str, environments: Iterable[Mapping[str, str]]) -> Plan:
    """Return the plan of the instance ``name`` that the environments of its processes describe, in whole percents."""
    type_of_gpu: dict[int, str] = {}
    gpulets: dict[int, list[Gpulet]] = defaultdict(list)
    for environment in environments:
        gpu = int(environment["GPUSHARE_GPU"])
        type_of_gpu[gpu] = environment["GPUSHARE_GPU_TYPE"]
        gpulets[gpu].append(Gpulet(int(environment[SHARE_VARIABLE]), (slot_of(environment),)))
    return Plan(name, tuple(PlacedGpu(type_of_gpu[gpu], tuple(gpulets[gpu])) for gpu in sorted(type_of_gpu)))


def _label(name: str) -> str:
    """Return ``name`` as a DNS label: lower case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "service"
