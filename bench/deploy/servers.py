"""Servers of a plan, one process per gpulet with its environment variables, and the plan read back from them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bench.deploy.names import labels, replica_names
from bench.deploy.placeholders import uuid_of
from bench.judging.judge import judge
from bench.simulation.serving_rules import DispatchRule
from instances import Gpulet, GpuType, InputError, Instance, PlacedGpu, Plan, Slot
from instances.errors import printable
from instances.memory import MEMORY_MEASURED

PIPE_FOLDER = "/tmp/gpushare-mps"  # noqa: S108 - a folder that every user can write to
"""Folder of the MPS daemon. The daemon's default folder is mounted into every GPU container of a host by NVIDIA's
container runtime, so processes of others would become clients of the daemon."""

PIPE_VARIABLE, LOG_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
SHARE_VARIABLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""Variable by which MPS limits the share of a process."""

DROP_LATE, DROP_NONE = "late", "never"
"""Values of ``GPUSHARE_DROP``: when a batch starts, the server drops the requests that would be late, or none."""

MEMORY_SLACK = 1.1
"""Limit of a process's memory divided by its measured memory."""

PERCENTS = 100
"""Share units of a GPU if its shares are whole percents."""


@dataclass(frozen=True, slots=True)
class Server:
    """Process that serves one slot.

    Attributes
    ----------
    service, name
        Label of the service, and label of this server, unique in the plan. If a service has one server, both labels are
        equal. All servers of a service have the same model name, so that any of them can answer a request.
    gpu
        Position of the GPU in the plan.
    share_units
        Share of the GPU in the target's units: whole percents, SMs, or slices of MIG.
    memory_mib
        Expected device memory of the process.
    memory_limit_mib
        Limit of its device memory, ``MEMORY_SLACK`` times its measured memory; ``None`` if the memory was not measured.
    workload, model, batch, rate_rps
        The slot that the process serves; ``rate_rps`` is the rate of all processes of the slot together.
    slo_ms
        Time within which a request is to be answered.
    timeout_us
        Time after which a partial batch starts, in microseconds.
    longest_wait_us
        Time in the queue after which a request of a full batch would be late, so that the server drops it, in
        microseconds; ``None`` if the server decodes or the plan is made for servers that serve every request.
    random_routing
        Whether each request of the service goes to one of its servers at random; otherwise the servers take turns.
    language_service
        Language-model service of which the server has one stage; ``None`` for other services.
    decodes
        Whether that stage is decoding: the prefill sends its requests there, and they join and leave the batch at any
        step.
    mig_start
        Position of its MIG instance on the GPU; ``None`` without MIG.
    processes
        Processes of its slot side by side in the MIG instance; 1 without MIG.
    """

    service: str
    name: str
    gpu: int
    gpu_type: str
    share_units: int
    memory_mib: float
    memory_limit_mib: int | None
    workload: str
    model: str
    batch: int
    rate_rps: float
    slo_ms: float
    timeout_us: int
    longest_wait_us: int | None
    random_routing: bool = False
    language_service: str | None = None
    decodes: bool = False
    mig_start: int | None = None
    processes: int = 1

    @property
    def own_rate_rps(self) -> float:
        """Planned rate of this process alone."""
        return self.rate_rps / self.processes

    def slot_variables(self, port: int) -> dict[str, str]:
        """Return the environment variables that describe the slot, and the port on which the process listens."""
        wait_us = self.longest_wait_us
        return {
            "GPUSHARE_GPU": str(self.gpu),
            "GPUSHARE_GPU_TYPE": self.gpu_type,
            "GPUSHARE_WORKLOAD": self.workload,
            "GPUSHARE_MODEL": self.model,
            "GPUSHARE_PORT": str(port),
            "GPUSHARE_BATCH": str(self.batch),
            "GPUSHARE_RATE_RPS": repr(self.rate_rps),
            "GPUSHARE_SLO_MS": repr(self.slo_ms),
            "GPUSHARE_TIMEOUT_US": str(self.timeout_us),
            "GPUSHARE_DROP": DROP_NONE if wait_us is None else DROP_LATE,
            **({} if wait_us is None else {"GPUSHARE_LONGEST_WAIT_US": str(wait_us)}),
        }

    @property
    def mps_limits(self) -> dict[str, str]:
        """Environment variables by which MPS limits the process; the process sees only device 0."""
        limits = {PIPE_VARIABLE: PIPE_FOLDER, SHARE_VARIABLE: str(self.share_units)}
        if self.memory_limit_mib is not None:
            limits["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={self.memory_limit_mib}M"
        return limits

    def environment(self, port: int) -> dict[str, str]:
        """Return all environment variables of the process on a host."""
        return {"CUDA_VISIBLE_DEVICES": uuid_of(self.gpu), **self.mps_limits, **self.slot_variables(port)}


def in_percents(instance: Instance, allowed: tuple[int, ...] | None = None) -> Instance:
    """Return the instance with shares in whole percents: all that its GPU types permit, or the ``allowed`` among them.

    A GPU type without such a share is left out.

    Raises
    ------
    InputError
        If no GPU type has such a share.
    """
    pools = []
    for pool in instance.gpus:
        shares = _permitted_percents(pool.type)
        if allowed is not None:
            shares = allowed if shares is None else tuple(share for share in shares if share in allowed)
        if shares != ():
            pools.append(replace(pool, type=replace(pool.type, share_units=PERCENTS, allowed_shares=shares)))
    if not pools and instance.gpus:
        listed = ", ".join(f"{share} %" for share in allowed or ())
        raise InputError("target", f"no GPU of the pool was measured at {listed}")
    return replace(instance, gpus=tuple(pools))


def _permitted_percents(gpu: GpuType) -> tuple[int, ...] | None:
    """Return the whole percents that are equal to a permitted share or just above it; ``None`` permits all.

    Just above means by less than one percent or one unit, whichever is larger.
    """
    if gpu.allowed_shares is None:
        return None
    step = max(PERCENTS, gpu.share_units)
    return tuple(
        percent
        for percent in range(1, PERCENTS + 1)
        if any(units * PERCENTS <= percent * gpu.share_units < units * PERCENTS + step for units in gpu.allowed_shares)
    )


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
    """Return the processes of a plan; ``instance`` has shares in the target's units.

    Raises
    ------
    InputError
        If slots take turns, or a name has characters that no file can hold.
    """
    for kind, name in [pair for w in instance.workloads for pair in (("service", w.id), ("model", w.model))]:
        if not name.isprintable():
            raise InputError(f"{kind} {printable(name)}", "has a character that cannot be printed; rename it to deploy")
    slot_verdicts = iter(judge(plan, instance).slots)
    dispatch = DispatchRule.of(instance)
    label_of = labels(workload.id for workload in instance.workloads)
    processes: list[Server] = []
    for position, gpu in enumerate(plan.gpus):
        for gpulet in gpu.gpulets:
            if len(gpulet.slots) > 1 or gpulet.duty_cycle_ms is not None:
                raise InputError(f"plan: gpus[{position}]", "slots take turns; expected one slot per gpulet to deploy")
            (slot,) = gpulet.slots
            workload = instance.workloads[instance.workload_index[slot.workload]]
            pool = instance.pool(gpu.type)
            assert pool is not None  # the judge has checked the GPU types
            memory_mib, measured = _memory(pool.type, workload.model, slot.batch)
            full_batch_ms = next(slot_verdicts).t_inf_ms
            timeout_ms = dispatch.timeout_ms(slot.batch, slot.rate_rps, workload.slo_ms, None, full_batch_ms)
            processes += [
                Server(
                    service=label_of[slot.workload],
                    name="",
                    gpu=position,
                    gpu_type=gpu.type,
                    share_units=gpulet.share_units,
                    memory_mib=memory_mib,
                    memory_limit_mib=math.ceil(MEMORY_SLACK * memory_mib) if measured else None,
                    workload=slot.workload,
                    model=workload.model,
                    batch=slot.batch,
                    rate_rps=slot.rate_rps,
                    slo_ms=workload.slo_ms,
                    # Every decoding step begins at once, with the requests that are there, and drops none.
                    timeout_us=0 if workload.steps > 0 else round(1000.0 * timeout_ms),
                    # Zero would mean to Triton that a request waits for ever.
                    longest_wait_us=max(1, math.floor(1000.0 * (workload.slo_ms - full_batch_ms)))
                    if instance.dropping and not workload.steps
                    else None,
                    random_routing=instance.random_routing,
                    language_service=None if workload.service is None else workload.service.name,
                    decodes=workload.steps > 0,
                    mig_start=gpulet.start,
                    processes=gpulet.processes,
                )
            ] * gpulet.processes
    names = replica_names([server.service for server in processes])
    return [replace(server, name=name) for server, name in zip(processes, names, strict=True)]


def _memory(gpu: GpuType, model_name: str, batch: int) -> tuple[float, bool]:
    """Return the expected device memory of a process in MiB, and whether it was measured; unknown under MIG."""
    if gpu.mig is not None:
        return math.nan, False
    model = gpu.model(model_name)
    return model.memory_mib(batch), model.provenance.source.endswith(f"; {MEMORY_MEASURED}")


def slot_of(environment: Mapping[str, str]) -> Slot:
    """Return the slot that the environment of a process describes."""
    batch, rate_rps = int(environment["GPUSHARE_BATCH"]), float(environment["GPUSHARE_RATE_RPS"])
    return Slot(environment["GPUSHARE_WORKLOAD"], batch, rate_rps)


def plan_of_environments(name: str, environments: Iterable[Mapping[str, str]]) -> Plan:
    """Return the plan of the instance ``name`` that the environments of its processes describe."""
    type_of_gpu: dict[int, str] = {}
    gpulets: dict[int, list[Gpulet]] = defaultdict(list)
    for environment in environments:
        gpu = int(environment["GPUSHARE_GPU"])
        type_of_gpu[gpu] = environment["GPUSHARE_GPU_TYPE"]
        gpulets[gpu].append(Gpulet(int(environment[SHARE_VARIABLE]), (slot_of(environment),)))
    return Plan(name, tuple(PlacedGpu(type_of_gpu[gpu], tuple(gpulets[gpu])) for gpu in sorted(type_of_gpu)))
