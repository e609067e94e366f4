"""View of an instance on one GPU type: the arrays that kernels and schedulers use, and their early filling."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from instances.arrays import Floats, Ints
from instances.attainment_terms import AttainmentTerms, burstiness
from instances.budget import latency_budget_ms
from instances.catalogue import gpu_type, gpu_type_names
from instances.gpu import GpuType, Partition
from instances.instance import Instance
from instances.tables import Tables, gpu_tables


@dataclass(frozen=True, slots=True)
class View:
    """The workloads of an instance on one type of GPU.

    Attributes
    ----------
    instance, gpu
        The instance and the GPU type.
    tables
        Tables of the GPU type under the instance's performance model.
    model
        Row of each workload's model in ``tables``, shape (workloads,).
    slo_ms, rate_rps
        SLO and rate of each workload, shape (workloads,).
    """

    instance: Instance
    gpu: GpuType
    tables: Tables
    model: Ints
    slo_ms: Floats
    rate_rps: Floats

    @classmethod
    def of(cls, instance: Instance, gpu: GpuType) -> "View":
        """Build the view of ``instance`` on ``gpu``, a type with figures for all its models."""
        rows = {name: row for row, name in enumerate(gpu.models)}
        return cls(
            instance,
            gpu,
            gpu_tables(gpu, instance.performance_model),
            np.array([rows[w.model] for w in instance.workloads], dtype=np.int64),
            np.array([w.slo_ms for w in instance.workloads], dtype=np.float64),
            np.array([w.rate_rps for w in instance.workloads], dtype=np.float64),
        )

    def budget_ms(self, workload: ArrayLike, batch: ArrayLike, rate_rps: ArrayLike | None = None) -> Floats:
        """Return the latency budget ``tau`` of workloads at given batches, for rules that have one for all shares.

        Arguments broadcast.

        Parameters
        ----------
        workload
            Positions in the instance.
        batch
            Batch sizes, 1 to the largest of the tables. The budget of a batch that the model does not support is -inf.
        rate_rps
            Rate served; the workload's own by default.
        """
        w = np.asarray(workload)
        model, b = self.model[w], np.asarray(batch)
        return latency_budget_ms(
            self.instance.slo_rule,
            self.slo_ms[w],
            self.rate_rps[w] if rate_rps is None else rate_rps,
            b,
            self.tables.transfer_ms[model, b],
            self.tables.exposed_ms[model, b],
            self.instance.latency_buffer,
        )

    def budgets_ms(self, workload: ArrayLike, batch: ArrayLike, rate_rps: ArrayLike | None = None) -> Floats:
        """Return the latency budgets by share, for every rule; arguments as for ``budget_ms``.

        Returns
        -------
        numpy.ndarray
            The broadcast shape and one more axis: the share in units, from 0 to all; or of length 1 if the budget is
            the same at every share. Kernels read entry ``min(units, length - 1)``.
        """
        instance = self.instance
        if not instance.slo_rule.by_share:
            return self.budget_ms(workload, batch, rate_rps)[..., None]
        from instances.attainment_budget import attainment_rows_ms  # loads numba

        w = np.asarray(workload)
        w, b, rate = np.broadcast_arrays(w, batch, self.rate_rps[w] if rate_rps is None else rate_rps)
        terms = AttainmentTerms(instance.attainment, burstiness(instance.arrivals), instance.immediate_dispatch)
        rows = attainment_rows_ms(
            self.gpu, self.tables, self.model[w].ravel(), self.slo_ms[w].ravel(), self.rate_rps[w].ravel(),
            b.ravel(), rate.ravel(), terms,
        )  # fmt: skip
        return rows.reshape(*w.shape, -1) / instance.latency_buffer

    def budget_at_ms(self, workload: int, batch: int, rate_rps: float, units: int) -> float:
        """Return the latency budget of one slot."""
        budgets_ms = self.budgets_ms(workload, batch, rate_rps)
        return float(budgets_ms[min(units, len(budgets_ms) - 1)])


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
