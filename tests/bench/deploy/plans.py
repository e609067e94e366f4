"""Plans made by hand for tests of deployments."""

from dataclasses import replace

from instances import Gpulet, Instance, PlacedGpu, Plan, Slot


def named(mix: Instance, *ids: str) -> Instance:
    """Return ``mix`` with as many of its services as there are ``ids``, under these names."""
    return replace(mix, workloads=tuple(replace(w, id=name) for w, name in zip(mix.workloads, ids, strict=False)))


def placed(instance: Instance, *ids: str, percent: int = 20) -> Plan:
    """Return a plan with a server of ``percent`` for each of ``ids``, at 1, 2, 3, ... requests per second."""
    gpulets = [Gpulet(percent, (Slot(name, 1, 1.0 + number),)) for number, name in enumerate(ids)]
    per_gpu = 100 // percent
    gpus = [PlacedGpu("v100", tuple(gpulets[first : first + per_gpu])) for first in range(0, len(gpulets), per_gpu)]
    return Plan(instance.name, tuple(gpus))
