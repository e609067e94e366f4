"""Targets of a deployment: the shares that each target can express, and the cost of a plan with these shares."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bench.command_text import command_line
from bench.deploy import clusters, hosts, mig_parted
from bench.deploy.servers import Server, in_percents, plan_of_environments, rounded_up, servers
from bench.fleet.solving import solved_here
from bench.formatting import gpu_count
from bench.formatting import servers as servers_in_words
from bench.judging.judge import judge
from instances import InputError, Instance, Partition, Plan, SloRule
from instances.errors import FieldName

MOST_REPLICAS = 10
"""Largest number of equal shares per GPU that is tried for the device plugin."""


class Target(StrEnum):
    """Target of a deployment."""

    SHELL = "shell"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"
    DRA = "dra"
    DEVICE_PLUGIN = "device-plugin"
    HAMI = "hami"
    MIG_PARTED = "mig-parted"
    TRITON = "triton"


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
        Sentences about the added cost of the target's limits.
    """

    files: Mapping[str, str]
    plan: Plan
    instance: Instance
    notes: tuple[str, ...]


_Writer = Callable[[list[Server]], dict[str, str]]
_Reader = Callable[[Mapping[str, str]], list[dict[str, str]]]

_WRITERS_AND_READERS: dict[Target, tuple[_Writer, _Reader]] = {
    Target.SHELL: (hosts.write_shell, hosts.read_shell),
    Target.COMPOSE: (hosts.write_compose, hosts.read_compose),
    Target.KUBERNETES: (clusters.write_kubernetes, clusters.read_kubernetes),
    Target.DRA: (clusters.write_dra, clusters.read_dra),
    Target.HAMI: (clusters.write_hami, clusters.read_hami),
    Target.TRITON: (hosts.write_triton, hosts.read_triton),
}

_REMARKS = {
    Target.KUBERNETES: "nothing keeps other pods off the GPUs: plain Kubernetes has no admission control of shares",
    Target.DRA: "unequal shares need the driver's feature gate MPSSupport",
    Target.DEVICE_PLUGIN: "the plugin chooses the GPU within a node: use nodes of one GPU, or one node per GPU",
    Target.HAMI: "HAMi limits cores by time; latencies of the plan assume limits by space",
}


def deployed(plan: Plan, instance: Instance, target: Target, time_limit_s: float = 30.0) -> Deployment:
    """Return the files that deploy a plan, read back and judged.

    Raises
    ------
    InputError
        If the target can express no plan of the instance, or the plan read back from the files differs.
    """
    notes = [_REMARKS[target]] if target in _REMARKS else []
    notes += [_server_note(instance)] if instance.slo_rule is SloRule.ATTAINMENT else []
    if idle_gpus := sum(not gpu.gpulets for gpu in plan.gpus):
        notes.append(f"{gpu_count(idle_gpus)} of the plan without a service, which the files do not name")
    if target is Target.MIG_PARTED:
        files = mig_parted.write_mig_parted(plan, instance)
        return _checked_deployment(files, plan, mig_parted.read_mig_parted(files, instance), instance, notes)
    if instance.partition is Partition.MIG:
        name = instance.gpus[0].type.name
        problem = f"{name} is cut into MIG instances; expected `target` {Target.MIG_PARTED}"
        raise InputError(_field(target), problem)
    if target is Target.DEVICE_PLUGIN:
        replicas, equal_plan, target_instance = _equal_shares(plan, instance, time_limit_s)
        notes.insert(0, _cost_note(plan, instance, equal_plan, target_instance, f"{replicas} equal shares"))
        files = clusters.write_device_plugin(servers(equal_plan, target_instance), replicas)
        read_back = plan_of_environments(instance.name, clusters.read_device_plugin(files))
        return _checked_deployment(files, equal_plan, read_back, target_instance, notes)
    target_instance = in_percents(instance)
    target_plan = rounded_up(plan, instance)
    if target_plan is None:
        target_plan = _solved(target_instance, time_limit_s, _field(target))
        notes.insert(0, _cost_note(plan, instance, target_plan, target_instance, "shares of whole percents"))
    else:
        notes.insert(0, "shares are rounded up to whole percents; the plan stays feasible at the same cost")
    write, read = _WRITERS_AND_READERS[target]
    files = write(servers(target_plan, target_instance))
    return _checked_deployment(
        files, target_plan, plan_of_environments(instance.name, read(files)), target_instance, notes
    )


def placeholders(files: Mapping[str, str]) -> list[str]:
    """Return the placeholders to fill in before the files are used."""
    words = {word.strip("\"'=,") for text in files.values() for word in text.replace("=", " ").split()}
    fixed = (hosts.IMAGE, hosts.CUDA_IMAGE, hosts.COMMAND)
    prefixes = ("NODE-OF-GPU-", "INDEX-OF-GPU-", "UUID-OF-GPU-")
    return sorted(word for word in words if word in fixed or word.startswith(prefixes))


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


def _field(target: Target) -> FieldName:
    return FieldName("target", f" {target}")


def _solved(instance: Instance, time_limit_s: float, where: str) -> Plan:
    outcome = solved_here(instance, time_limit_s)
    if outcome.plan is None or not judge(outcome.plan, instance).feasible:
        raise InputError(where, f"no plan within the target's limits: {outcome.reason or 'none was found in time'}")
    return outcome.plan


def _server_note(instance: Instance) -> str:
    """Return a sentence on the servers for which the plan is made."""
    note = f"the plan is made for {servers_in_words(instance.dropping)}; the files do not configure that"
    return (
        note if not instance.dropping else f"{note}; for other servers, plan with {command_line('plan', no_drop=True)}"
    )


def _cost_note(plan: Plan, instance: Instance, target_plan: Plan, target_instance: Instance, limits: str) -> str:
    before, after = judge(plan, instance), judge(target_plan, target_instance)
    if after.cost_per_hour == before.cost_per_hour:
        return f"{limits}: solved again, {gpu_count(after.gpus_used)} as before"
    costs = f"${after.cost_per_hour:,.2f}/h instead of ${before.cost_per_hour:,.2f}/h"
    return f"{limits}: {gpu_count(after.gpus_used)} instead of {before.gpus_used}, {costs}"


def _checked_deployment(
    files: Mapping[str, str], plan: Plan, read_back: Plan, instance: Instance, notes: list[str]
) -> Deployment:
    """Return the deployment if the plan read back is feasible and equals the plan that was written."""
    verdict = judge(read_back, instance)
    if read_back.gpus != tuple(gpu for gpu in plan.gpus if gpu.gpulets):
        raise InputError("deploy", "the files read back differ from the plan that was written")
    if not verdict.feasible:
        raise InputError("deploy", f"the plan read back breaks a constraint: {verdict.violations[0].message}")
    return Deployment(files, read_back, instance, tuple(notes))
