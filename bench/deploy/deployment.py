"""Deployment of a plan: the shares that a target can express, the cost of a plan with these shares, and the files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from bench.deploy import clusters, hosts, mig_parted, triton
from bench.deploy.duties import duties
from bench.deploy.servers import MEMORY_SLACK, Server, in_percents, plan_of_environments, rounded_up, servers
from bench.deploy.static_partitions import in_chunks, plan_in_chunks, read_mps_static, write_mps_static
from bench.deploy.target import Target
from bench.fleet.solving import solved_here
from bench.formatting import gpu_count
from bench.judging.judge import judge
from bench.slack import roomiest_shares
from instances import InputError, Instance, Partition, Plan
from instances.errors import FieldName

MOST_REPLICAS = 10
"""Largest number of equal shares per GPU that is tried for the device plugin."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Files of a deployment, and the plan that they express.

    Attributes
    ----------
    files
        Texts by path.
    plan, instance
        The feasible plan read back from the files, and the instance with the shares that the target can express.
    notes
        Sentences about the added cost of the target's limits, and about limits of memory.
    duties
        What the files leave to the operator.
    """

    files: Mapping[str, str]
    plan: Plan
    instance: Instance
    notes: tuple[str, ...]
    duties: tuple[str, ...]


_Writer = Callable[[list[Server]], dict[str, str]]
_Reader = Callable[[Mapping[str, str]], list[dict[str, str]]]

_WRITERS_AND_READERS: dict[Target, tuple[_Writer, _Reader]] = {
    Target.SHELL: (hosts.write_shell, hosts.read_shell),
    Target.MPS_STATIC: (write_mps_static, read_mps_static),
    Target.COMPOSE: (hosts.write_compose, hosts.read_compose),
    Target.KUBERNETES: (clusters.write_kubernetes, clusters.read_kubernetes),
    Target.DRA: (clusters.write_dra, clusters.read_dra),
    Target.HAMI: (clusters.write_hami, clusters.read_hami),
    Target.TRITON: (triton.write_triton, triton.read_triton),
}


def deployed(plan: Plan, instance: Instance, target: Target, time_limit_s: float = 30.0) -> Deployment:
    """Return the files that deploy a plan, and the plan that was read back from the files and judged.

    Raises
    ------
    InputError
        If the target can express no plan of the instance, or the plan read back from the files differs.
    """
    _check_partition(instance, target)
    notes = []
    if idle_gpus := sum(not gpu.gpulets for gpu in plan.gpus):
        notes.append(f"{gpu_count(idle_gpus)} of the plan without a service, which the files do not name")
    if target is Target.MIG_PARTED:
        processes = servers(plan, instance)
        files = mig_parted.write_mig_parted(processes, instance)
        read_back = mig_parted.read_mig_parted(files, instance)
        _require_same(plan, read_back, instance)
        notes.append("the processes of one MIG instance share its memory without limits")
        return Deployment(files, read_back, instance, tuple(notes), tuple(duties(target, processes)))
    expressed = _expressed(plan, instance, target, time_limit_s)
    processes = servers(expressed.plan, expressed.instance)
    files = expressed.write(processes)
    read_back = plan_of_environments(instance.name, expressed.read(files))
    _require_same(expressed.plan, read_back, expressed.instance)
    notes = [expressed.note, *notes, *_memory_notes(target, processes)]
    return Deployment(files, read_back, expressed.instance, tuple(notes), tuple(duties(target, processes)))


@dataclass(frozen=True, slots=True)
class _Expressed:
    """Plan and instance with shares that a target can express, and a note on these shares.

    ``write`` writes the target's files, and ``read`` reads the processes' environments back from them.
    """

    plan: Plan
    instance: Instance
    note: str
    write: _Writer
    read: _Reader


def _expressed(plan: Plan, instance: Instance, target: Target, time_limit_s: float) -> _Expressed:
    if target is Target.DEVICE_PLUGIN:
        replicas, target_plan, target_instance = _equal_shares(plan, instance, time_limit_s)
        note = _cost_note(plan, instance, target_plan, target_instance, f"{replicas} equal shares")
        write = partial(clusters.write_device_plugin, replicas=replicas)
        return _Expressed(target_plan, target_instance, note, write, clusters.read_device_plugin)
    functions = _WRITERS_AND_READERS[target]
    if target is Target.MPS_STATIC:
        note = "shares are whole chunks of SMs, as planned; each server has SMs of its own"
        return _Expressed(plan_in_chunks(plan, instance), in_chunks(instance), note, *functions)
    target_instance = in_percents(instance)
    if (rounded_plan := rounded_up(plan, instance)) is not None:
        note = "shares are rounded up to whole percents; the plan stays feasible at the same cost"
        return _Expressed(rounded_plan, target_instance, note, *functions)
    if (plan_with_new_shares := roomiest_shares(plan, target_instance)) is not None:
        planned_slack = judge(plan, instance).least_slack or 0.0
        new_slack = judge(plan_with_new_shares, target_instance).least_slack or 0.0
        note = (
            "shares are whole percents, chosen anew; services keep their GPUs and batches; same cost, "
            f"least slack {new_slack:.1%} ({planned_slack:.1%} as planned)"
        )
        return _Expressed(plan_with_new_shares, target_instance, note, *functions)
    target_plan = _solved(target_instance, time_limit_s, _field(target))
    note = _cost_note(plan, instance, target_plan, target_instance, "shares of whole percents")
    return _Expressed(target_plan, target_instance, note, *functions)


def instance_for(instance: Instance, target: Target | None) -> Instance:
    """Return the instance for a plan that ``target`` will deploy: with the shares that the target can express.

    Without a target, these are whole percents.

    Raises
    ------
    InputError
        If the target needs another way to divide GPUs, or its shares follow only from the plan.
    """
    if target is None:
        return instance if instance.partition is Partition.MIG else in_percents(instance)
    _check_partition(instance, target)
    if target is Target.DEVICE_PLUGIN:
        problem = "the number of equal shares follows from the plan; plan without a target, then deploy the plan"
        raise InputError(_field(target), problem)
    if target is Target.MIG_PARTED:
        return instance
    return in_chunks(instance) if target is Target.MPS_STATIC else in_percents(instance)


def _equal_shares(plan: Plan, instance: Instance, time_limit_s: float) -> tuple[int, Plan, Instance]:
    """Return the cheapest number of equal shares, the plan, and the instance with only these shares."""
    best: tuple[float, int, Plan, Instance] | None = None
    memory_mib = {pool.type.name: pool.type.memory_mib for pool in instance.gpus}
    for replicas in range(1, MOST_REPLICAS + 1):
        target_instance = in_percents(instance, (100 // replicas,))
        try:
            plan_of_shares = _solved(target_instance, time_limit_s / MOST_REPLICAS, _field(Target.DEVICE_PLUGIN))
        except InputError:
            continue
        if any(
            server.memory_mib * replicas > memory_mib[server.gpu_type]
            for server in servers(plan_of_shares, target_instance)
        ):
            continue  # the plugin also divides the memory into equal parts
        cost = judge(plan_of_shares, target_instance).cost_per_hour
        if best is None or cost < best[0]:
            best = cost, replicas, plan_of_shares, target_instance
    if best is None:
        raise InputError(
            _field(Target.DEVICE_PLUGIN), "no plan of equal shares serves all services; choose another target"
        )
    return best[1:]


def _check_partition(instance: Instance, target: Target) -> None:
    name = instance.gpus[0].type.name
    if instance.partition is Partition.MIG and target is not Target.MIG_PARTED:
        problem = f"{name} is cut into MIG instances; expected `target` {Target.MIG_PARTED}"
        raise InputError(_field(target), problem)
    if instance.partition is not Partition.MIG and target is Target.MIG_PARTED:
        problem = f"{name} is divided into MPS shares; expected a plan on MIG, such as a100-mig"
        raise InputError(_field(target), problem)


def _field(target: Target) -> FieldName:
    return FieldName("target", f" {target}")


def _solved(instance: Instance, time_limit_s: float, where: str) -> Plan:
    outcome = solved_here(instance, time_limit_s)
    if outcome.plan is None or not judge(outcome.plan, instance).feasible:
        raise InputError(where, f"no plan within the target's limits: {outcome.reason or 'none was found in time'}")
    return roomiest_shares(outcome.plan, instance) or outcome.plan


def _memory_notes(target: Target, processes: list[Server]) -> list[str]:
    """Return sentences on the limits of memory that the files set or leave out."""
    if target is Target.DEVICE_PLUGIN:
        return ["the plugin limits the memory of every server to an equal part of the GPU's"]
    if target is Target.HAMI:
        return ["the servers of a GPU get parts of its memory in proportion to their expected memories"]
    notes = []
    unmeasured = list(dict.fromkeys(server.model for server in processes if server.memory_limit_mib is None))
    if any(server.memory_limit_mib is not None for server in processes):
        notes.append(f"limits of memory are the measured memory plus {MEMORY_SLACK - 1.0:.0%}")
    if unmeasured:
        listed = f"{', '.join(unmeasured[:5])}{f' and {len(unmeasured) - 5} more' if len(unmeasured) > 5 else ''}"
        notes.append(
            f"memory of {listed} was not measured: no limit of memory; the column memory_mib of a profile gives one"
        )
    return notes


def _cost_note(plan: Plan, instance: Instance, target_plan: Plan, target_instance: Instance, limits: str) -> str:
    before, after = judge(plan, instance), judge(target_plan, target_instance)
    if after.cost_per_hour == before.cost_per_hour:
        return f"{limits}: solved again, {gpu_count(after.gpus_used)} as before; services may have moved"
    costs = f"${after.cost_per_hour:,.2f}/h instead of ${before.cost_per_hour:,.2f}/h"
    return f"{limits}: {gpu_count(after.gpus_used)} instead of {before.gpus_used}, {costs}"


def _require_same(plan: Plan, read_back: Plan, instance: Instance) -> None:
    """Raise an ``InputError`` unless the plan read back is feasible and equals the plan that was written."""
    verdict = judge(read_back, instance)
    if read_back.gpus != tuple(gpu for gpu in plan.gpus if gpu.gpulets):
        raise InputError("deploy", "the files read back differ from the plan that was written")
    if not verdict.feasible:
        raise InputError("deploy", f"the plan read back breaks a constraint: {verdict.violations[0].message}")
