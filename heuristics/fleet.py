"""GPUs of one type and their residents during a search."""

from itertools import islice
from typing import NamedTuple

import numpy as np

from instances import PlacedGpu, spatial_gpu
from instances.arrays import Floats, Ints
from instances.configurations import Configurations
from instances.view import View


class Fleet(NamedTuple):
    """GPUs of one type, each with its residents and their shares.

    Attributes
    ----------
    row, units
        Configuration (row of ``Configurations``) and share of each resident, shape (GPUs, share units + 1).
    residents, allocated, memory_mib
        Number of residents, and units and memory in use, shape (GPUs,).
    """

    row: Ints
    units: Ints
    residents: Ints
    allocated: Ints
    memory_mib: Floats

    @classmethod
    def empty(cls, gpus: int, share_units: int) -> "Fleet":
        """Return ``gpus`` empty GPUs."""
        return cls(
            np.zeros((gpus, share_units + 1), dtype=np.int64),
            np.zeros((gpus, share_units + 1), dtype=np.int64),
            np.zeros(gpus, dtype=np.int64),
            np.zeros(gpus, dtype=np.int64),
            np.zeros(gpus),
        )

    def copied(self) -> "Fleet":
        """Return a deep copy."""
        return Fleet._make(array.copy() for array in self)


def placed_gpus(view: View, configurations: Configurations, fleet: Fleet) -> tuple[PlacedGpu, ...]:
    """Return the GPUs in use as GPUs of a plan."""
    used = np.arange(fleet.row.shape[1]) < fleet.residents[:, None]
    row = fleet.row[used]
    columns = fleet.units[used], configurations.batch[row], configurations.rate_rps[row]
    ids = [view.instance.workloads[w].id for w in configurations.workload[row].tolist()]
    slots = zip(ids, *(column.tolist() for column in columns), strict=True)
    counts = fleet.residents[fleet.residents > 0].tolist()
    return tuple(spatial_gpu(view.gpu.name, list(islice(slots, count))) for count in counts)
