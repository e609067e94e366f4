"""Targets of a deployment: what each can express of a plan, and the cost of a plan within these limits."""

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
"""Largest number of equal shares of a GPU that is tried for the device plugin."""


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
        The plan read back from the files, and the instance in the target's terms; the plan is feasible.
    notes
        Sentences about the added cost of the target's limits.
    """

    files: Mapping[str, str]
    plan: Plan
    instance: Instance
    notes: tuple[str, ...]


_Writer = Callable[[list[Server]], dict[str, str]]
_Reader = Callable[[Mapping[str, str]], list[dict[str, str]]]

_BY_PERCENT: dict[Target, tuple[_Writer, _Reader]] = {
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
        If the target can express no plan of the instance, or the files read back differ from the plan.
    """
    notes = [_REMARKS[target]] if target in _REMARKS else []
    notes += [_serving(instance)] if instance.slo_rule is SloRule.ATTAINMENT else []
    if idle := sum(not gpu.gpulets for gpu in plan.gpus):
        notes.append(f"{gpu_count(idle)} of the plan without a service, which the files do not name")
    if target is Target.MIG_PARTED:
        files = mig_parted.write_mig_parted(plan, instance)
        return _checked(files, plan, mig_parted.read_mig_parted(files, instance), instance, notes)
    if instance.partition is Partition.MIG:
        name = instance.gpus[0].type.name
        problem = f"{name} is cut into MIG instances; expected `target` {Target.MIG_PARTED}"
        raise InputError(_place(target), problem)
    if target is Target.DEVICE_PLUGIN:
        replicas, equal, terms = _equal(plan, instance, time_limit_s)
        notes.insert(0, _price(plan, instance, equal, terms, f"{replicas} equal shares"))
        files = clusters.write_device_plugin(servers(equal, terms), replicas)
        back = plan_of_environments(instance.name, clusters.read_device_plugin(files))
        return _checked(files, equal, back, terms, notes)
    terms = in_percents(instance)
    found = rounded_up(plan, instance)
    if found is None:
        found = _solved(terms, time_limit_s, _place(target))
        notes.insert(0, _price(plan, instance, found, terms, "shares of whole percents"))
    else:
        notes.insert(0, "shares are rounded up to whole percents; the plan stays feasible at the same cost")
    write, read = _BY_PERCENT[target]
    files = write(servers(found, terms))
    return _checked(files, found, plan_of_environments(instance.name, read(files)), terms, notes)


def placeholders(files: Mapping[str, str]) -> list[str]:
    """Return the placeholders to fill in before the files are used."""
    words = {word.strip("\"'=,") for text in files.values() for word in text.replace("=", " ").split()}
    known = (hosts.IMAGE, hosts.CUDA_IMAGE, hosts.COMMAND)
    starts = ("NODE-OF-GPU-", "INDEX-OF-GPU-", "UUID-OF-GPU-")
    return sorted(word for word in words if word in known or word.startswith(starts))


def _equal(plan: Plan, instance: Instance, time_limit_s: float) -> tuple[int, Plan, Instance]:
    """Return the cheapest number of equal shares, the plan, and the instance with only these shares."""
    best: tuple[float, int, Plan, Instance] | None = None
    memory_mib = {pool.type.name: pool.type.memory_mib for pool in instance.gpus}
    for replicas in range(1, MOST_REPLICAS + 1):
        terms = in_percents(instance, (100 // replicas,))
        try:
            found = _solved(terms, time_limit_s / MOST_REPLICAS, _place(Target.DEVICE_PLUGIN))
        except InputError:
            continue
        if any(server.memory_mib * replicas > memory_mib[server.gpu_type] for server in servers(found, terms)):
            continue  # the plugin also divides the memory into equal parts
        cost = judge(found, terms).cost_per_hour
        if best is None or cost < best[0]:
            best = cost, replicas, found, terms
    if best is None:
        raise InputError(
            _place(Target.DEVICE_PLUGIN), "no plan of equal shares serves all services; choose another target"
        )
    return best[1:]


def _place(target: Target) -> FieldName:
    return FieldName("target", f" {target}")


def _solved(instance: Instance, time_limit_s: float, where: str) -> Plan:
    found = solved_here(instance, time_limit_s)
    if found.plan is None or not judge(found.plan, instance).feasible:
        raise InputError(where, f"no plan within the target's limits: {found.reason or 'none was found in time'}")
    return found.plan


def _serving(instance: Instance) -> str:
    """Return on which servers the plan meets its SLOs."""
    note = f"the plan is made for {servers_in_words(instance.dropping)}; the files do not configure that"
    return (
        note if not instance.dropping else f"{note}; for other servers, plan with {command_line('plan', no_drop=True)}"
    )


def _price(plan: Plan, instance: Instance, found: Plan, terms: Instance, what: str) -> str:
    before, after = judge(plan, instance), judge(found, terms)
    if after.cost_per_hour == before.cost_per_hour:
        return f"{what}: solved again, {gpu_count(after.gpus_used)} as before"
    costs = f"${after.cost_per_hour:,.2f}/h instead of ${before.cost_per_hour:,.2f}/h"
    return f"{what}: {gpu_count(after.gpus_used)} instead of {before.gpus_used}, {costs}"


def _checked(files: Mapping[str, str], plan: Plan, back: Plan, instance: Instance, notes: list[str]) -> Deployment:
    """Check that the plan read back is the one that was written, and feasible."""
    verdict = judge(back, instance)
    if back.gpus != tuple(gpu for gpu in plan.gpus if gpu.gpulets):
        raise InputError("deploy", "the files read back differ from the plan that was written")
    if not verdict.feasible:
        raise InputError("deploy", f"the plan read back breaks a constraint: {verdict.violations[0].message}")
    return Deployment(files, back, instance, tuple(notes))
