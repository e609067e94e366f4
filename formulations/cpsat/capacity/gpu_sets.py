"""Sets of workloads that may share a GPU, each with a search for its largest throughput.

A set is a tuple of ascending classes of identical workloads. Residents only slow each other down, so every subset of a
feasible set is feasible. Sets are therefore enumerated by adding one member at a time.
"""

import time
from collections.abc import Sequence

from formulations.cpsat.capacity.configurations import Configurations
from formulations.cpsat.capacity.one_gpu import OneGpu
from instances.tables import Tables

GpuSets = dict[tuple[int, ...], OneGpu]


def gpu_sets(
    gpu: Tables, configurations: Configurations, sizes: Sequence[int], most_sets: int, deadline: float
) -> GpuSets | None:
    """List the sets that may fit on a GPU type; return ``None`` if they are too many or take too long.

    Parameters
    ----------
    gpu, configurations
        Tables and configurations of the GPU type.
    sizes
        Number of workloads of each class.
    most_sets
        Largest number of sets to list.
    deadline
        ``time.monotonic()`` value at which the listing gives up.
    """
    found: GpuSets = {}
    grown: list[tuple[int, ...]] = [()]
    for _ in range(min(gpu.most_residents, sum(sizes))):
        last, grown = grown, []
        for members in last:
            for joining in range(members[-1] if members else 0, len(sizes)):
                candidate = (*members, joining)
                if candidate.count(joining) > sizes[joining] or not _parts_fit(candidate, found):
                    continue
                if len(found) == most_sets or time.monotonic() >= deadline:
                    return None
                search = OneGpu.of(gpu, configurations, candidate)
                if not search.impossible:
                    found[candidate] = search
                    grown.append(candidate)
    return found


def _parts_fit(candidate: tuple[int, ...], found: GpuSets) -> bool:
    return len(candidate) == 1 or all(candidate[:i] + candidate[i + 1 :] in found for i in range(len(candidate)))
