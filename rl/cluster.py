"""Cluster that an agent controls: the workloads of an instance, GPUs of one type, and the inputs of the states."""

from dataclasses import dataclass

import numpy as np

from instances import InputError, Instance, Objective, SloRule
from instances.arrays import Floats, Ints
from instances.budget import latency_budget_ms
from instances.tables import Tables
from instances.view import View

OBJECTIVES = frozenset({Objective.CAPACITY, Objective.GOODPUT})
"""Objectives whose value is proportional to the reward."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The workloads of an instance on ``gpus`` GPUs of one type.

    Attributes
    ----------
    view
        The view of the instance on that type.
    tables
        Tables of the type, without any interference if ``interference`` is false.
    gpus
        Number of GPUs, K.
    interference
        Whether co-located workloads interfere (InSS) or not (InSS-ni).
    rms_rps
        Root mean square of the throughputs that workloads have alone, over all workloads, batches and shares. The paper
        normalises by a root mean square but does not state over which throughputs. Here it is one constant of the
        instance, so that the sum of normalised throughputs is proportional to the objective.
    model_rms_rps
        Root mean square over the throughputs of one workload's model only, shape (workloads,).
    turns_away
        Whether the objective is ``goodput``. If so, requests that a decision cannot serve in time are rejected, and a
        workload may have no GPU. Otherwise all requests are admitted.
    memory_mib
        Memory of each workload at its largest batch, shape (workloads,). The test for safe actions uses it, since the
        agent chooses the batch after the GPU.
    alone_rps
        Column u has the largest rate at which each workload meets its SLO alone on at most u share units; shape
        (workloads, share units + 1).
    alone_l2_pct, alone_dram_pct
        Column u has the L2 and DRAM demand of each workload alone on exactly u units, at the batch with the largest
        rate there; same shape.
    """

    view: View
    tables: Tables
    gpus: int
    interference: bool
    rms_rps: float
    model_rms_rps: Floats
    turns_away: bool
    memory_mib: Floats
    alone_rps: Floats
    alone_l2_pct: Floats
    alone_dram_pct: Floats

    @classmethod
    def of(cls, instance: Instance, interference: bool = True) -> "Cluster":
        """Return the cluster of ``instance``.

        Raises
        ------
        InputError
            If the instance does not have a known number of GPUs of a single type with every share permitted, has no
            workloads, or has an objective outside ``OBJECTIVES``; also if its SLO rule is not ``assembly`` or it has a
            latency buffer, because the environment's queue in its steady state follows ``assembly`` without a buffer.
        """
        if len(instance.gpus) != 1 or instance.gpus[0].count is None:
            raise InputError(f"{instance.name}: gpus", "expected a known number of GPUs of one type")
        pool = instance.gpus[0]
        if pool.type.allowed_shares is not None:
            raise InputError(
                f"{instance.name}: gpus[0].type",
                f"{pool.type.name} permits only some shares; expected a GPU type that permits all",
            )
        if instance.objective not in OBJECTIVES:
            expected = " or ".join(sorted(OBJECTIVES))
            raise InputError(f"{instance.name}: objective", f'is "{instance.objective}"; expected {expected}')
        if instance.slo_rule != SloRule.ASSEMBLY:
            raise InputError(f"{instance.name}: slo_rule", f'is "{instance.slo_rule}"; expected "{SloRule.ASSEMBLY}"')
        if instance.latency_buffer != 1.0:
            raise InputError(f"{instance.name}: latency_buffer", f"is {instance.latency_buffer:g}; expected 1")
        if not instance.workloads:
            raise InputError(f"{instance.name}: workloads", "is empty; expected at least one")
        view = View.of(instance, pool.type)
        tables = view.tables if interference else without_interference(view.tables)
        largest_batch = tables.max_batch[view.model]
        mean_square = np.array([_mean_square_rps(tables, int(m)) for m in view.model])
        return cls(
            view,
            tables,
            int(instance.gpus[0].count or 0),
            interference,
            float(np.sqrt(np.mean(mean_square))),
            np.sqrt(mean_square),
            instance.objective is Objective.GOODPUT,
            tables.memory_mib[view.model, largest_batch],
            *_alone(view, tables),
        )

    @property
    def workloads(self) -> int:
        """Number of workloads, I."""
        return len(self.view.model)

    @property
    def choices(self) -> int:
        """Number of choices for a workload: K GPUs, and one for no GPU if requests may be rejected."""
        return self.gpus + self.turns_away

    @property
    def max_batch(self) -> Ints:
        """Largest batch of each workload, shape (workloads,)."""
        return self.tables.max_batch[self.view.model]

    def least_units(self, rate_rps: Floats) -> Ints:
        """Return the least units at which ``alone_rps`` is at least ``rate_rps``, or all units if there are none.

        ``rate_rps`` and the result have the shape (..., workloads).
        """
        units = np.empty(rate_rps.shape, dtype=np.int64)
        for i, most_rps in enumerate(self.alone_rps):
            units[..., i] = np.searchsorted(most_rps, rate_rps[..., i])
        return np.clip(units, 1, self.tables.share_units)


def without_interference(tables: Tables) -> Tables:
    """Return ``tables`` without any interference between residents of one GPU."""
    return tables._replace(
        company=np.ones_like(tables.company),
        alpha_l2=np.zeros_like(tables.alpha_l2),
        alpha_dram=np.zeros_like(tables.alpha_dram),
        alpha_sch=0.0,
        beta_sch=0.0,
        throttle_per_w=0.0,
        pairwise=False,
    )


def _inference_ms(tables: Tables, model: int) -> Floats:
    """Return the latency alone of every batch and share, shape (batches, share units)."""
    batches = slice(1, tables.max_batch[model] + 1)
    alone_ms: Floats = tables.scheduling_ms[model] + tables.active_ms[model, batches, 1:]
    return alone_ms + tables.transfer_ms[model, batches, None]


def _mean_square_rps(tables: Tables, model: int) -> float:
    batch = np.arange(1, tables.max_batch[model] + 1)[:, None]
    throughput_rps = 1000.0 * batch / _inference_ms(tables, model)
    return float(np.mean(throughput_rps**2))


def _alone(view: View, tables: Tables) -> tuple[Floats, Floats, Floats]:
    """Compute ``alone_rps``, ``alone_l2_pct`` and ``alone_dram_pct``."""
    shape = (len(view.model), tables.share_units + 1)
    most_rps, l2, dram = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    columns = np.arange(tables.share_units)
    for i, model in enumerate(view.model):
        batch = np.arange(1, tables.max_batch[model] + 1)[:, None]
        inference_ms = _inference_ms(tables, int(model))
        served_rps = 1000.0 * batch / inference_ms
        # Even if requests arrive as fast as they can be served, a batch may take too long to fill.
        budget_ms = latency_budget_ms(view.instance.slo_rule, view.slo_ms[i], served_rps, batch, 0.0, 0.0)
        served_rps[inference_ms > budget_ms * (1.0 + 1e-12)] = 0.0
        best = np.argmax(served_rps, axis=0)
        most_rps[i, 1:] = np.maximum.accumulate(served_rps[best, columns])
        l2[i, 1:] = tables.l2_pct[model, best + 1, columns + 1]
        dram[i, 1:] = tables.dram_pct[model, best + 1, columns + 1]
    return most_rps, l2, dram
