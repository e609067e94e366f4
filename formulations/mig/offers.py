"""MIG layouts and instance sizes of a pool, and the best configuration of each workload on each size."""

from dataclasses import dataclass

import numpy as np

from instances import Instance, MigConfiguration
from instances.arrays import Floats, Ints
from instances.mig import Layout
from instances.tolerance import widened


@dataclass(frozen=True, slots=True)
class Offers:
    """Layouts and sizes of a pool's GPUs, with the best configuration per workload and size.

    The latency and throughput of a workload on a MIG instance depend only on the size of the MIG instance. So one
    configuration per size is enough: the one with the most throughput within the latency budget.

    Attributes
    ----------
    kinds
        Sizes of MIG instances, as (position of the GPU type in ``gpus``, units).
    layouts
        Layouts of a GPU, as (position of the GPU type in ``gpus``, layout).
    count
        Number of MIG instances of each kind in each layout, shape (layouts, kinds).
    price
        Price of one GPU of each layout, in dollars per hour, shape (layouts,).
    best
        Best configuration per workload and kind, or ``None`` if none is within the budget.
    rate_rps
        Rate that the best configuration serves, 0 if there is none, shape (workloads, kinds).
    """

    kinds: tuple[tuple[int, int], ...]
    layouts: tuple[tuple[int, Layout], ...]
    count: Ints
    price: Floats
    best: tuple[tuple[MigConfiguration | None, ...], ...]
    rate_rps: Floats

    @classmethod
    def of(cls, instance: Instance) -> "Offers":
        """Return the offers of ``instance``, whose GPUs are all cut into MIG instances."""
        mig_of_pool = {
            position: pool.type.mig for position, pool in enumerate(instance.gpus) if pool.type.mig is not None
        }
        kinds = tuple((position, slice_.units) for position, mig in mig_of_pool.items() for slice_ in mig.slices)
        layouts = tuple((position, layout) for position, mig in mig_of_pool.items() for layout in mig.layouts())
        best = tuple(
            tuple(
                mig_of_pool[position].fastest(
                    workload.model, units, widened(workload.slo_ms / 2.0 / instance.latency_buffer)
                )
                for position, units in kinds
            )
            for workload in instance.workloads
        )
        rates_rps = [
            [0.0 if configuration is None else configuration.throughput_rps for configuration in configurations]
            for configurations in best
        ]
        return cls(
            kinds,
            layouts,
            np.array(
                [[sum((pool, units) == kind for units, _ in layout) for kind in kinds] for pool, layout in layouts],
                dtype=np.int64,
            ),
            np.array([instance.gpus[pool].type.price_per_hour for pool, _ in layouts]),
            best,
            np.array(rates_rps).reshape(len(best), len(kinds)) / instance.latency_buffer,
        )
