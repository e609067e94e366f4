"""gpu-lets+: iGniter's version of gpulet as a baseline (iGniter, Sec. 5.1), with at most two residents per GPU."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run
from heuristics.gpulet.elastic_partitioning import KneeAxes, knee_units
from heuristics.packing import appropriate_batch, cheapest
from heuristics.tiny import tiny_instance
from instances import GpuType, InputError, Instance, Objective, Plan, SloRule
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms
from instances.performance.gpulet import GpuletModel
from instances.tables import Tables
from instances.view import View

CHOICES_PCT = (20, 40, 50, 60, 80)
"""The five choices of a share (iGniter, Sec. 5.3); throughput is profiled at these."""

PRINTED_PCT = {"v100": {"alexnet": 40, "resnet50": 60, "vgg19": 40}}
"""Most efficient shares that the paper prints, by GPU type and model.

Sec. 5.3 has those of AlexNet and ResNet-50. For VGG-19, it is the share in Table 1 and of W9.
"""

TRICKLE_RPS = 1e-3
"""Rate so low that only latency limits the budget."""

ROUNDING = 1e-9
"""Relative tolerance on a required rate."""

STEP = 0.05
"""Step of the rates tried under a rule whose budget depends on the share, as a fraction of the workload's rate."""

MOST_RESIDENTS = 2
"""Largest number of residents that the pair model covers."""


class BatchRule(StrEnum):
    """Rules by which a gpulet gets its batch."""

    LEAST = "least"
    """The smallest batch that serves the rate, or most of it (W4 in iGniter, Fig. 18)."""
    AS_IGNITER = "as-igniter"
    """iGniter's batch for the rate (equation 17), or the largest smaller one in time (iGniter, Sec. 5.1)."""


def most_efficient_share(view: View, model: int, printed: bool = True, unprinted_pct: int = 0) -> int:
    """Return ``p_eff`` in units of row ``model`` of the tables: the printed share, or the knee of its throughput.

    If ``unprinted_pct`` is not 0, it replaces the knee of a model whose share is not printed, rounded up to a permitted
    share.

    The authors' code (``Profile/tools/gpulet.py``, ``maxefficient``) draws the throughput at batch 1 in req/s over the
    share in percent. The points of the curve are the permitted choices, or all permitted shares if these are fewer than
    three.
    """
    tables = view.tables
    share_units = tables.share_units
    printed_pct = PRINTED_PCT.get(view.gpu.name, {}).get(list(view.gpu.models)[model])
    if printed and printed_pct is not None:
        return round(printed_pct * share_units / 100)
    permitted = tables.permitted.tolist()
    if printed_pct is None and unprinted_pct > 0:
        wanted = round(unprinted_pct * share_units / 100)
        return min((units for units in permitted if units >= wanted), default=int(permitted[-1]))
    choices = {max(1, round(pct * share_units / 100)) for pct in CHOICES_PCT}
    units = sorted(choices.intersection(permitted))
    if len(units) < 3:
        units = permitted
    if len(units) < 3:
        return int(units[0])
    alone_ms = tables.scheduling_ms[model] + tables.active_ms[model, 1, units]
    rate_rps = 1000.0 / (alone_ms + tables.exposed_ms[model, 1])
    return knee_units(np.array(units), share_units, rate_rps, KneeAxes.RAW)


@compiled
def _times_beside_ms(tables: Tables, model: int, units: int, other: int, other_batch: int, other_units: int) -> Floats:
    """Return the GPU time by batch beside one other resident; entry 0 is infinite."""
    times_ms = np.full(tables.max_batch[model] + 1, np.inf)
    for batch in range(1, len(times_ms)):
        times_ms[batch] = gpu_time_ms(
            tables,
            model,
            batch,
            units,
            2,
            tables.l2_pct[other, other_batch, other_units],
            tables.dram_pct[other, other_batch, other_units],
            tables.power_w[other, other_batch, other_units] + tables.power_w[model, batch, units],
        )
    return times_ms


@dataclass(slots=True)
class _Gpu:
    """GPU in use: its residents as (workload, units, batch, rate), and the units of the free gpulet."""

    residents: list[tuple[int, int, int, float]]
    free_units: int


@dataclass
class _Fleet:
    """GPUs of one type, filled with one workload after another.

    ``efficient`` has the most efficient share by row of the model in the tables, as far as it was needed.
    """

    view: View
    available: float
    scheduler: "GpuLetsPlus"
    gpus: list[_Gpu] = field(default_factory=list)
    efficient: dict[int, int] = field(default_factory=dict)

    def place(self, workload: int) -> float:
        """Give gpulets to a workload until it is served; return the rate that remains unserved."""
        view, model = self.view, int(self.view.model[workload])
        if model not in self.efficient:
            self.efficient[model] = most_efficient_share(
                view, model, self.scheduler.printed_shares, self.scheduler.unprinted_pct
            )
        rate_rps = float(view.rate_rps[workload])
        while rate_rps > 0.0:
            served_rps = self._best_fit(workload, model, rate_rps)
            if served_rps == 0.0:
                return rate_rps
            rate_rps = 0.0 if served_rps >= rate_rps else rate_rps - served_rps
        return 0.0

    def _best_fit(self, workload: int, model: int, rate_rps: float) -> float:
        """Take the smallest gpulet of at least ``p_eff`` that serves requests; return the rate that it serves."""
        efficient_units = self.efficient[model]
        open_gpus = (
            gpu for gpu in self.gpus if gpu.free_units >= efficient_units and len(gpu.residents) < MOST_RESIDENTS
        )
        for gpu in sorted(open_gpus, key=lambda gpu: gpu.free_units):
            served_rps = self._serve(gpu, workload, model, gpu.free_units, rate_rps)
            if served_rps > 0.0:
                gpu.free_units = 0
                return served_rps
        if len(self.gpus) >= self.available:
            return 0.0
        permitted = self.view.tables.permitted
        remainders = permitted[permitted <= self.view.tables.share_units - efficient_units]
        new_gpu = _Gpu([], int(remainders.max(initial=0)))
        served_rps = self._serve(new_gpu, workload, model, efficient_units, rate_rps)
        if served_rps > 0.0:
            self.gpus.append(new_gpu)
        return served_rps

    def _serve(self, gpu: _Gpu, workload: int, model: int, units: int, rate_rps: float) -> float:
        """Place the workload on ``gpu`` at the batch that just meets the rate, or else at the batch that serves most.

        Return the rate that it serves; 0 if no batch is possible.
        """
        view, tables = self.view, self.view.tables
        batch = np.arange(1, int(tables.max_batch[model]) + 1)
        alone_ms = tables.scheduling_ms[model] + tables.active_ms[model, batch, units]
        slo_rule = view.instance.slo_rule
        counted_transfers_ms = (tables.exposed_ms if slo_rule is SloRule.HALF_SLO else tables.transfer_ms)[model, batch]
        capacity_rps = 1000.0 * batch / (alone_ms + counted_transfers_ms) / view.instance.latency_buffer
        served_rps = np.minimum(rate_rps, capacity_rps * (1.0 - ROUNDING))
        beside_ms, memory_mib = alone_ms, tables.memory_mib[model, batch]
        for other, other_units, other_batch, _ in gpu.residents:
            row = int(view.model[other])
            beside_ms = _times_beside_ms(tables, model, units, row, other_batch, other_units)[1:]
            memory_mib = memory_mib + tables.memory_mib[row, other_batch]
        # The neighbour affects only the latency; the throughput is that of the profile.
        if slo_rule.by_share:
            served_rps = self._attained(workload, batch, units, rate_rps, capacity_rps, beside_ms)
            possible = (served_rps > 0.0) & (memory_mib <= tables.memory_limit_mib)
        else:
            # Under these rules the throughput is checked by ``capacity_rps``; only the latency limits the budget.
            latency_only = slo_rule in (SloRule.HALF_SLO, SloRule.DUTY_CYCLE)
            budget_rps = np.full_like(served_rps, TRICKLE_RPS) if latency_only else served_rps
            budget_ms = view.budget_ms(workload, batch, budget_rps)
            possible = (beside_ms <= budget_ms) & (memory_mib <= tables.memory_limit_mib)
        if not possible.any():
            return 0.0
        if self.scheduler.batch is BatchRule.AS_IGNITER:
            wanted = int(appropriate_batch(view, np.array([workload]), np.array([rate_rps]))[0])
            if (smaller := np.flatnonzero(possible & (batch <= wanted))).size:
                possible = batch == batch[smaller[-1]]
        served_rps = np.where(possible, served_rps, 0.0)
        chosen = int(np.argmax(served_rps))  # the smallest batch among those that serve most
        gpu.residents.append((workload, units, int(batch[chosen]), float(served_rps[chosen])))
        return float(served_rps[chosen])

    def _attained(
        self, workload: int, batch: Ints, units: int, rate_rps: float, capacity_rps: Floats, times_ms: Floats
    ) -> Floats:
        """Return by batch the largest rate, in steps of ``STEP``, that any batch serves in time; 0 for late batches."""
        full_rps, slo_ms = float(self.view.rate_rps[workload]), float(self.view.slo_ms[workload])
        rates = np.append(np.arange(1, ceil(rate_rps / (STEP * full_rps) - ROUNDING)) * STEP * full_rps, rate_rps)
        attained, reached, unreached = np.zeros(len(batch)), -1, len(rates)
        while unreached - reached > 1:  # a budget falls with the rate
            middle = (reached + unreached) // 2
            # A batch that takes longer than the SLO to fill is never full.
            rows = np.flatnonzero((batch <= np.ceil(slo_ms * rates[middle] / 1000.0)) & (capacity_rps > rates[middle]))
            budget_ms = self.view.budgets_at_ms(workload, batch[rows], rates[middle], units)
            fitting = rows[times_ms[rows] <= budget_ms]
            if len(fitting):
                attained[:] = 0.0
                attained[fitting], reached = rates[middle], middle
            else:
                unreached = middle
        return attained


@dataclass(frozen=True, slots=True)
class GpuLetsPlus:
    """gpu-lets+: gpulet's greedy rule as iGniter's baseline (iGniter, Sec. 5.1; gpulet arXiv'21, Alg. 1).

    Workloads are placed by descending rate. Each receives gpulets of its most efficient share until its rate is served:
    the smallest free gpulet that is large enough, or half of a new GPU split in two. The batch just meets the rate. The
    pair model predicts only the latency of the workload that joins. The latency of the resident and both throughputs
    are taken from the profile. So plans of this rule violate latency budgets, and the judge reports this.

    Times are those of gpulet's own model if the catalogue has its figures, otherwise those of the instance's model,
    which the judge always uses. On iGniter's twelve workloads the rule takes the published 8 GPUs: W2 has 40 % of GPU2,
    W4 60 % at batch 2 and W9 40 %, as in the paper. W7, W8 and W12, whose SLOs the paper found violated, are served in
    part.

    Attributes
    ----------
    printed_shares
        Whether the most efficient shares that the paper prints for the V100 replace the knee of the profile.
    unprinted_pct
        Most efficient share, in percent of a GPU, of the models whose share the paper does not print; 0 for the knee.
    batch
        Rule for the batch of a gpulet; the paper has two. ``least``: the smallest that serves the rate, or most of it,
        as Fig. 18 prints for W4. ``as-igniter``: that of equation 17, or the largest smaller one that is in time
        (Sec. 5.1: "the same as iGniter").
    """

    name: ClassVar[str] = "gpu-lets+"
    no_services: ClassVar[str] = "it computes the rate of a gpulet from whole requests"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY})
    own_model: ClassVar[bool] = True

    printed_shares: bool = True
    unprinted_pct: int = 0
    batch: BatchRule = BatchRule.LEAST

    def __post_init__(self) -> None:
        if not 0 <= self.unprinted_pct <= 100:
            raise ValueError(f"unprinted_pct is {self.unprinted_pct}; expected 0 to 100")

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernel."""
        self.schedule(tiny_instance(Objective.COST), Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return the cheapest plan on a single GPU type that serves all workloads."""
        plans, reasons = [], []
        for pool in instance.gpus:
            view = _pair_view(instance, pool.type)
            fleet = _Fleet(view, float("inf") if pool.count is None else pool.count, self)
            for workload in np.argsort(-view.rate_rps, kind="stable").tolist():
                unserved_rps = fleet.place(workload)
                if unserved_rps > 0.0:
                    unplaced = instance.workloads[workload]
                    reasons.append(
                        f"{unplaced.id}: no gpulet on {pool.type.name} serves {unserved_rps:g} "
                        f"of its {unplaced.rate_rps:g} req/s"
                    )
                    break
            else:
                gpus = (view.placed(*zip(*gpu.residents, strict=True)) for gpu in fleet.gpus)
                plans.append(Plan(instance.name, tuple(gpus)))
        return cheapest(plans, instance, "; ".join(reasons))


def _pair_view(instance: Instance, gpu: GpuType) -> View:
    """Return the instance under gpulet's model, or unchanged if the catalogue has no figures for that model."""
    try:
        return View.of(replace(instance, performance_model=GpuletModel.name), gpu)
    except InputError:
        return View.of(instance, gpu)
