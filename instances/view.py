"""View of an instance on one GPU type: the arrays that kernels and schedulers use."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from instances.arrays import Floats, Ints
from instances.budget import latency_budget_ms
from instances.gpu import GpuType
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
        """Return the latency budget ``tau`` of workloads at given batches; arguments broadcast.

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
