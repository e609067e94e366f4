"""An instance whose tables are filled: what the harness does for every scheduler before it starts a clock."""

from dataclasses import replace

from instances.catalogue import gpu_type, gpu_type_names
from instances.gpu import GpuType, Partition
from instances.instance import Instance
from instances.view import View


def prepared(instance: Instance) -> Instance:
    """Return ``instance`` with the tables of its GPU types filled under its performance model.

    Filling takes up to half a second, as long as a hundred decisions of a greedy rule. A scheduler whose ``warm``
    happens to fill the same tables has no advantage then, and one that looks at them for the first time no drawback.

    GPU types that are in the catalogue become the catalogue's own objects: the cache finds those at once and compares
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
