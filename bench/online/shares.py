"""Growth and reduction of gpulets within the permitted shares of their GPU type."""

from dataclasses import replace

from instances import Gpulet, InputError, Instance, Partition, PlacedGpu, Plan
from instances.tables import gpu_tables


class Shares:
    """Permitted shares of the GPUs of an instance.

    Parameters
    ----------
    instance
        Instance whose GPUs are not partitioned by MIG.
    policy
        Policy that changes the shares, for error messages.
    """

    def __init__(self, instance: Instance, policy: str) -> None:
        if instance.partition is Partition.MIG:
            raise InputError(
                f'policy "{policy}"', f"changes shares, which the MIG instances of {instance.name} do not permit"
            )
        tables = {pool.type.name: gpu_tables(pool.type, instance.performance_model) for pool in instance.gpus}
        self._units = {name: each.share_units for name, each in tables.items()}
        self._permitted = {name: [int(units) for units in each.permitted] for name, each in tables.items()}

    def whole(self, gpu_type: str) -> int:
        """Return the units of a whole GPU."""
        return self._units[gpu_type]

    def free(self, gpu: PlacedGpu) -> int:
        """Return the unallocated units."""
        return max(0, self._units[gpu.type] - gpu.share_units)

    def grown(self, gpulet: Gpulet, gpu: PlacedGpu, extra_units: int) -> Gpulet:
        """Return the gpulet with up to ``extra_units`` more units of its GPU, limited by the free units."""
        most = gpulet.share_units + min(extra_units, self.free(gpu))
        return self._with(gpulet, [units for units in self._permitted[gpu.type] if gpulet.share_units <= units <= most])

    def shrunk(self, gpulet: Gpulet, gpu: PlacedGpu, fewer_units: int) -> Gpulet:
        """Return the gpulet with up to ``fewer_units`` fewer units of its GPU."""
        least = gpulet.share_units - fewer_units
        choices = [units for units in self._permitted[gpu.type] if least <= units <= gpulet.share_units]
        return self._with(gpulet, choices[:1])

    def _with(self, gpulet: Gpulet, choices: list[int]) -> Gpulet:
        return replace(gpulet, share_units=choices[-1]) if choices else gpulet


def with_gpulet(plan: Plan, position: int, number: int, gpulet: Gpulet) -> Plan:
    """Return ``plan`` with gpulet ``number`` of GPU ``position`` replaced."""
    gpu = plan.gpus[position]
    changed = replace(gpu, gpulets=(*gpu.gpulets[:number], gpulet, *gpu.gpulets[number + 1 :]))
    return replace(plan, gpus=(*plan.gpus[:position], changed, *plan.gpus[position + 1 :]))
