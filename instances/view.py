"""View of an instance on one GPU type: the arrays that kernels and schedulers use."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from instances.arrays import Floats, Ints
from instances.attainment_terms import AttainmentTerms, burstiness
from instances.budget import latency_budget_ms
from instances.catalogue import known_gpu_type
from instances.continuous import continuous_budget_ms, places_needed
from instances.gpu import GpuType, Partition
from instances.instance import Instance
from instances.plan import PlacedGpu, spatial_gpu
from instances.tables import Tables, gpu_tables
from instances.tolerance import widened

if TYPE_CHECKING:
    from instances.attainment_table import BudgetTable


@dataclass(frozen=True, slots=True)
class View:
    """The workloads of an instance on one GPU type.

    Attributes
    ----------
    tables
        Tables of the GPU type under the instance's performance model.
    model
        Row of each workload's model in ``tables``, shape (workloads,).
    slo_ms, rate_rps
        SLO and rate of each workload, shape (workloads,).
    steps
        Decoding steps of a request of each workload under the rule ``continuous``; 0 under the instance's rule.
    network_rps
        Rate at which the inputs of one workload alone use a GPU's whole network bandwidth, shape (workloads,); infinite
        unless a scheduler limits the network.
    """

    instance: Instance
    gpu: GpuType
    tables: Tables
    model: Ints
    slo_ms: Floats
    rate_rps: Floats
    steps: Ints
    network_rps: Floats

    @classmethod
    def of(cls, instance: Instance, gpu: GpuType) -> "View":
        """Build the view of ``instance`` on ``gpu``, a type with figures for all models of the instance."""
        rows = {name: row for row, name in enumerate(gpu.models)}
        return cls(
            instance,
            gpu,
            gpu_tables(gpu, instance.performance_model),
            np.array([rows[workload.model] for workload in instance.workloads], dtype=np.int64),
            np.array([workload.slo_ms for workload in instance.workloads], dtype=np.float64),
            np.array([workload.rate_rps for workload in instance.workloads], dtype=np.float64),
            np.array([workload.steps for workload in instance.workloads], dtype=np.int64),
            np.full(len(instance.workloads), np.inf),
        )

    def demands(self, gpu: PlacedGpu, tables: Tables) -> Floats:
        """Return the demands of each gpulet, shape (gpulets, 3): the largest demands of its slots, each running alone.

        The columns are L2, DRAM and power as in ``tables``: the tables of this view, or those of the true GPUs.
        """
        demands, index = [], self.instance.workload_index
        for gpulet in gpu.gpulets:
            entries = [(int(self.model[index[slot.workload]]), slot.batch, gpulet.share_units) for slot in gpulet.slots]
            columns = (tables.l2_pct, tables.dram_pct, tables.power_w)
            demands.append([max(float(column[entry]) for entry in entries) for column in columns])
        return np.array(demands).reshape(-1, 3)

    def placed(self, workload: ArrayLike, units: ArrayLike, batch: ArrayLike, rate_rps: ArrayLike) -> PlacedGpu:
        """Return a GPU of a plan with these residents, each in its own gpulet; ``workload`` has positions."""
        ids = [self.instance.workloads[position].id for position in np.asarray(workload).tolist()]
        columns = (
            np.asarray(units).tolist(),
            np.asarray(batch).tolist(),
            np.asarray(rate_rps, dtype=np.float64).tolist(),
        )
        return spatial_gpu(self.gpu.name, list(zip(ids, *columns, strict=True)))

    def places_needed(self, workload: Ints, rate_rps: Floats) -> Ints:
        """Return the fewest places in a decoding batch that serve each rate with the longest permitted steps."""
        slo_ms, most_places = self.slo_ms[workload], int(self.tables.max_batch.max(initial=1))
        return places_needed(slo_ms, rate_rps, self.steps[workload], self.instance.may_miss, most_places)

    def budget_ms(self, workload: ArrayLike, batch: ArrayLike, rate_rps: ArrayLike | None = None) -> Floats:
        """Return the latency budgets of workloads at given batches, for rules whose budgets do not depend on the share.

        Budgets are widened by the tolerance of constraints. Arguments broadcast.

        Parameters
        ----------
        workload
            Positions in the instance.
        batch
            Batches, from 1 to the largest in the tables. The budget of a batch that the model does not support is -inf.
        rate_rps
            Rate served; by default the workload's rate.
        """
        return widened(self._budget_ms(workload, batch, rate_rps))

    def _budget_ms(self, workload: ArrayLike, batch: ArrayLike, rate_rps: ArrayLike | None) -> Floats:
        """Return the budgets of ``budget_ms`` without the tolerance."""
        workloads, batches = np.asarray(workload), np.asarray(batch)
        rates_rps = self.rate_rps[workloads] if rate_rps is None else np.asarray(rate_rps, float)
        if not self.steps.any():
            return self._whole_request_ms(workloads, batches, rates_rps)
        workloads, batches, rates_rps = np.broadcast_arrays(workloads, batches, rates_rps)
        budgets_ms = np.empty(workloads.shape)
        decoding = self.steps[workloads] > 0
        budgets_ms[decoding] = self._continuous_ms(workloads[decoding], batches[decoding], rates_rps[decoding])
        budgets_ms[~decoding] = self._whole_request_ms(workloads[~decoding], batches[~decoding], rates_rps[~decoding])
        return budgets_ms

    def _whole_request_ms(self, workload: Ints, batch: Ints, rate_rps: Floats) -> Floats:
        """Return the budgets under the instance's rule, without the tolerance."""
        model = self.model[workload]
        return latency_budget_ms(
            self.instance.slo_rule,
            self.slo_ms[workload],
            rate_rps,
            batch,
            self.tables.transfer_ms[model, batch],
            self.tables.exposed_ms[model, batch],
            self.instance.latency_buffer,
        )

    def _continuous_ms(self, workload: Ints, batch: Ints, rate_rps: Floats) -> Floats:
        """Return the budgets under the rule ``continuous``, without the tolerance; -inf at unsupported batches."""
        budget_ms = continuous_budget_ms(
            self.slo_ms[workload],
            rate_rps,
            batch,
            self.steps[workload],
            self.instance.may_miss,
            self.instance.latency_buffer,
        )
        return np.where(batch <= self.tables.max_batch[self.model[workload]], budget_ms, -np.inf)

    def budgets_ms(self, workload: ArrayLike, batch: ArrayLike, rate_rps: ArrayLike | None = None) -> Floats:
        """Return the latency budgets by share, for every rule; arguments as for ``budget_ms``.

        Returns
        -------
        numpy.ndarray
            The broadcast shape and one more axis: the share in units, from 0 to the whole GPU. The axis has length 1 if
            the budget is the same at every share.
        """
        return widened(self.unwidened_budgets_ms(workload, batch, rate_rps))

    def unwidened_budgets_ms(self, workload: ArrayLike, batch: ArrayLike, rate_rps: ArrayLike | None = None) -> Floats:
        """Return ``budgets_ms`` without the tolerance of constraints: the numbers that the SLO rule defines."""
        if not self.instance.slo_rule.by_share:
            return self._budget_ms(workload, batch, rate_rps)[..., None]
        positions = np.asarray(workload)
        return self._by_share_ms(positions, batch, self.rate_rps[positions] if rate_rps is None else rate_rps)

    def budgets_at_ms(self, workload: ArrayLike, batch: ArrayLike, rate_rps: ArrayLike, units: int) -> Floats:
        """Return the latency budgets at a share of ``units``, for every rule; arguments as for ``budget_ms``."""
        if not self.instance.slo_rule.by_share:
            return self.budget_ms(workload, batch, rate_rps)
        return widened(self._by_share_ms(workload, batch, rate_rps, units)[..., units])

    def _by_share_ms(self, workload: ArrayLike, batch: ArrayLike, rate_rps: ArrayLike, units: int = 0) -> Floats:
        """Return unwidened budgets by share under ``attainment``; with ``units``, those at other shares may be -inf."""
        workloads, batches, rates_rps = np.broadcast_arrays(workload, batch, rate_rps)
        table = self.attainment_table()
        budgets_ms = np.empty((*workloads.shape, self.tables.share_units + 1))
        decoding = self.steps[workloads] > 0
        budgets_ms[decoding] = self._continuous_ms(workloads[decoding], batches[decoding], rates_rps[decoding])[:, None]
        rows = [
            table.row_ms(*slot, units)
            for slot in self._slots(workloads[~decoding], batches[~decoding], rates_rps[~decoding])
        ]
        rows_ms = np.array(rows).reshape(-1, self.tables.share_units + 1)
        budgets_ms[~decoding] = rows_ms / self.instance.latency_buffer
        return budgets_ms

    @property
    def bracketed(self) -> bool:
        """Whether ``bracket_ms`` may be used: under ``attainment``, with Poisson arrivals and without decoding."""
        poisson = self.instance.slo_rule.by_share and burstiness(self.instance.arrivals) == 1.0
        return poisson and not self.steps.any()

    def bracket_ms(
        self, workload: int, batch: int, rate_rps: float, budgets_at_lower_rate_ms: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return lower and upper bounds by share on the latency budgets of one slot; only for ``bracketed`` views.

        ``budgets_at_lower_rate_ms`` has upper bounds on the slot's budgets at a lower rate, or is ``None``.
        """
        buffer = self.instance.latency_buffer
        known_upper_ms = None if budgets_at_lower_rate_ms is None else budgets_at_lower_rate_ms * buffer
        slot = int(self.model[workload]), float(self.slo_ms[workload]), batch, rate_rps
        lower_ms, upper_ms = self.attainment_table().bracket_ms(*slot, known_upper_ms)
        return widened(lower_ms / buffer), widened(upper_ms / buffer)

    def attainment_table(self) -> "BudgetTable":
        """Return the budgets under the instance's terms of ``attainment``."""
        from instances.attainment_table import BudgetTable  # loads numba; `import instances.view` does not

        instance = self.instance
        terms = AttainmentTerms(instance.attainment, burstiness(instance.arrivals), instance.dropping)
        return BudgetTable(self.gpu, instance.performance_model, self.tables, terms)

    def load_kernels(self) -> None:
        """Compile or load the kernels of ``attainment``: compute one budget, one least share and one pair of bounds."""
        positions = np.flatnonzero(self.steps == 0)[:1]
        self.budgets_ms(positions, 1)
        table, every_share = self.attainment_table(), (0, len(self.tables.permitted) - 1)
        for slot in self._slots(positions, np.ones_like(positions), self.rate_rps[positions]):
            table.least_meeting_share(*slot, every_share)
        if self.bracketed:
            self.bracket_ms(0, 1, float(self.rate_rps[0]))

    def _slots(self, workload: Ints, batch: Ints, rate_rps: Floats) -> Iterator[tuple[int, float, float, int, float]]:
        """Yield for each slot: model, SLO, rate of the workload, batch and rate of the slot."""
        columns = self.model[workload], self.slo_ms[workload], self.rate_rps[workload], batch, rate_rps
        return zip(*(np.ravel(column).tolist() for column in columns), strict=True)


def prepared(instance: Instance) -> Instance:
    """Fill the tables of the instance's GPU types before schedulers are timed.

    Filling takes up to half a second. If it were timed, a scheduler whose ``warm`` fills the same tables would have an
    advantage. GPU types that equal one of the catalogue are replaced by the catalogue's object: the cache of the tables
    finds this object at once, and compares other objects field by field.

    If the budgets depend on the share, one budget and one least share are computed, so that the kernels are compiled.
    After an installation, the compilation takes longer than many time limits, and a scheduler that is killed during
    compilation would never have compiled kernels.

    Returns
    -------
    Instance
        The same instance with the catalogue's objects.
    """
    pools = tuple(replace(pool, type=_of_catalogue(pool.type)) for pool in instance.gpus)
    with_catalogue_types = replace(instance, gpus=pools)
    if with_catalogue_types.partition is Partition.SHARES:
        for pool in with_catalogue_types.gpus:
            view = View.of(with_catalogue_types, pool.type)
            if with_catalogue_types.slo_rule.by_share:
                view.load_kernels()
    return with_catalogue_types


def _of_catalogue(gpu: GpuType) -> GpuType:
    """Return the catalogue's object if it equals ``gpu``, otherwise ``gpu``."""
    catalogued = known_gpu_type(gpu.name)
    return gpu if catalogued is None or catalogued != gpu else catalogued
