"""Preparation of an instance before the clock of a scheduler starts: its tables are filled."""

from dataclasses import replace

from instances.catalogue import gpu_type, gpu_type_names
from instances.gpu import GpuType, Partition
from instances.instance import Instance
from instances.view import View


def prepared(instance: Instance) -> Instance:
    """Return ``instance`` with the tables of its GPU types filled under its performance model.

    Filling takes up to half a second, as long as a hundred decisions of a greedy rule. Without it, a scheduler whose
    ``warm`` fills the same tables would have an advantage over others.

    GPU types of the catalogue are replaced by the catalogue's own objects: the cache finds these at once and compares
    others field by field.
    """
    pools = tuple(replace(pool, type=_of_catalogue(pool.type)) for pool in instance.gpus)
    ready = replace(instance, gpus=pools)
    if ready.partition is Partition.SHARES:
        for pool in ready.gpus:
            View.of(ready, pool.type)
    return ready


def _of_catalogue(gpu: GpuType) -> GpuType:
    if gpu.name not in gpu_type_names():
        return gpu
    known = gpu_type(gpu.name)
    return known if known == gpu else gpu
