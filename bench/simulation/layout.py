"""Records for compiled code: executors and slots of a plan, and the state of queues, batches and measurements."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.simulation.applications import NONE
from bench.simulation.histogram import BINS
from bench.simulation.serving_rules import dispatch_timeout_ms
from instances import Gpulet, Instance, Partition, PlacedGpu, Plan, Slot
from instances.arrays import Floats, Ints
from instances.interference import gpu_time_beside_ms
from instances.tables import Tables, gpu_tables
from instances.view import View

Records = NDArray[np.void]

EXECUTOR = np.dtype([("first", "i8"), ("end", "i8"), ("units", "i8"), ("first_slot", "i8"), ("end_slot", "i8")])
"""Record of an executor, which runs one batch at a time: a gpulet, or a process in a MIG instance.

``first`` and ``end`` delimit the executors of its GPU. ``first_slot`` and ``end_slot`` delimit the slots that it
serves. ``units`` is its share.
"""

SLOT = np.dtype(
    [
        ("executor", "i8"),
        ("workload", "i8"),
        ("application", "i8"),
        ("model", "i8"),
        ("batch", "i8"),
        ("rate_rps", "f8"),
        ("slo_ms", "f8"),
        ("timeout_ms", "f8"),
    ]
)
"""Record of a slot.

``workload`` and ``application`` are positions in the instance (``NONE`` outside applications). ``model`` is a row of
the tables, and ``batch`` the largest batch. A partial batch is ready after ``timeout_ms``.
"""

TIMES = np.dtype([("gpu_ms", "f8"), ("tail_ms", "f8"), ("delay_ms", "f8"), ("promised_ms", "f8")])
"""Record of the times of a batch of one size.

``gpu_ms``: GPU time with all neighbours active at their planned batches. ``tail_ms``: time from there until the next
batch may start. ``delay_ms``: further time of a request, as transfers overlap with the execution of other batches.
``promised_ms``: whole inference time in the planner's model; a request that misses its SLO by this time is dropped.
"""


@dataclass(frozen=True, slots=True)
class Site:
    """The GPUs of one type in a plan.

    Attributes
    ----------
    executors, slots
        Records of ``EXECUTOR`` and ``SLOT``.
    times
        Records of ``TIMES``, shape (slots, largest batch + 1).
    tables
        Tables of the interference between overlapping batches; ``None`` without interference.
    """

    executors: Records
    slots: Records
    times: Records
    tables: Tables | None


def sites(plan: Plan, planned: Instance, truth: Instance) -> list[Site]:
    """Return the sites of a plan, one per GPU type that it uses.

    Parameters
    ----------
    plan
        Plan to simulate. It may violate constraints, but must belong to the instance and have figures for its batches.
    planned
        Instance that the planner used; it determines dispatch timeouts and promised times.
    truth
        Instance with the true figures of the GPUs.
    """
    found = []
    application = _applications(planned)
    for pool, true_pool in zip(planned.gpus, truth.gpus, strict=True):
        gpus = [gpu for gpu in plan.gpus if gpu.type == pool.type.name and gpu.gpulets]
        if not gpus:
            continue
        builder = _Builder(application)
        if planned.partition is Partition.MIG:
            for gpu in gpus:
                _lay_out_mig(builder, gpu, planned)
            tables = None
        else:
            view, tables = View.of(planned, pool.type), gpu_tables(true_pool.type, truth.performance_model)
            for gpu in gpus:
                _lay_out(builder, gpu, view, tables)
        found.append(builder.site(tables))
    return found


def _applications(instance: Instance) -> list[int]:
    """Return the application of each workload, or ``NONE`` outside applications."""
    of = {stage: number for number, one in enumerate(instance.applications) for stage in one.stages}
    return [of.get(workload.id, NONE) for workload in instance.workloads]


@dataclass(slots=True)
class _Builder:
    """A site under construction."""

    application: Sequence[int]
    executors: list[tuple[float, ...]] = field(default_factory=list)
    slots: list[tuple[float, ...]] = field(default_factory=list)
    times: list[Sequence[tuple[float, ...]]] = field(default_factory=list)
    gpu_begins: int = 0

    def add_slot(
        self,
        workload: int,
        model: int,
        slot: Slot,
        rate_rps: float,
        moments: tuple[float, ...],
        times: list[tuple[float, ...]],
    ) -> None:
        """Add a slot to the executor that ``end_executor`` will end; ``moments`` are its SLO and timeout."""
        self.slots.append(
            (len(self.executors), workload, self.application[workload], model, slot.batch, rate_rps, *moments)
        )
        self.times.append(times)

    def end_executor(self, units: int) -> None:
        begins = int(self.executors[-1][-1]) if self.executors else 0
        self.executors.append((self.gpu_begins, 0, units, begins, len(self.slots)))

    def end_gpu(self) -> None:
        count = len(self.executors)
        for at in range(self.gpu_begins, count):
            first, _, *rest = self.executors[at]
            self.executors[at] = (first, count, *rest)
        self.gpu_begins = count

    def site(self, tables: Tables | None) -> Site:
        times = np.zeros((len(self.times), max(len(sizes) for sizes in self.times) + 1), dtype=TIMES)
        for row, sizes in enumerate(self.times):
            times[row, 1 : len(sizes) + 1] = sizes
        return Site(np.array(self.executors, dtype=EXECUTOR), np.array(self.slots, dtype=SLOT), times, tables)


def _lay_out(builder: _Builder, gpu: PlacedGpu, view: View, tables: Tables) -> None:
    """Add a GPU that is divided by shares."""
    instance = view.instance
    planned, true = _demands(view, view.tables, gpu), _demands(view, tables, gpu)
    for own, gpulet in enumerate(gpu.gpulets):
        units = min(gpulet.share_units, tables.share_units)
        for slot in gpulet.slots:
            w = instance.workload_index[slot.workload]
            m = int(view.model[w])
            times: list[tuple[float, ...]] = []
            for b in range(1, slot.batch + 1):
                exposed_ms = float(tables.exposed_ms[m, b])
                times.append(
                    (
                        gpu_time_beside_ms(tables, m, b, units, true, own),
                        exposed_ms,
                        float(tables.transfer_ms[m, b]) - exposed_ms,
                        gpu_time_beside_ms(view.tables, m, b, units, planned, own)
                        + float(view.tables.transfer_ms[m, b]),
                    )
                )
            moments = (float(view.slo_ms[w]), _timeout_ms(instance, w, slot, gpulet.duty_cycle_ms, times[-1][-1]))
            builder.add_slot(w, m, slot, slot.rate_rps, moments, times)
        builder.end_executor(units)
    builder.end_gpu()


def _lay_out_mig(builder: _Builder, gpu: PlacedGpu, instance: Instance) -> None:
    """Add a GPU in MIG mode; every process is an executor without interference."""
    pool = instance.pool(gpu.type)
    assert pool is not None
    assert pool.type.mig is not None
    for gpulet in gpu.gpulets:
        (slot,) = gpulet.slots
        w = instance.workload_index[slot.workload]
        workload = instance.workloads[w]
        known = pool.type.mig.configuration(workload.model, gpulet.share_units, slot.batch, gpulet.processes)
        assert known is not None
        period_ms = 1000.0 * gpulet.processes * slot.batch / known.throughput_rps
        # A partial batch takes as long as a full one. Latencies are rounded to milliseconds and may be below the
        # period of a single process; the delay is at least 0, because no request ends before its batch.
        delay_ms = max(0.0, known.latency_ms - period_ms)
        times = [(period_ms, 0.0, delay_ms, known.latency_ms)] * slot.batch
        moments = (workload.slo_ms, _timeout_ms(instance, w, slot, None, known.latency_ms))
        for _ in range(gpulet.processes):
            builder.add_slot(w, 0, slot, slot.rate_rps / gpulet.processes, moments, [*times])
            builder.end_executor(gpulet.share_units)
    builder.end_gpu()


def _demands(view: View, tables: Tables, gpu: PlacedGpu) -> Floats:
    """Return the demand of each gpulet on its neighbours: the largest demand of its slots, as in the judge."""
    demands = np.zeros((len(gpu.gpulets), 3))
    for own, gpulet in enumerate(gpu.gpulets):
        for slot in gpulet.slots:
            at = _place(view, gpulet, slot)
            shown = tables.l2_pct[at], tables.dram_pct[at], tables.power_w[at]
            demands[own] = np.maximum(demands[own], shown)
    return demands


def _place(view: View, gpulet: Gpulet, slot: Slot) -> tuple[int, int, int]:
    model = int(view.model[view.instance.workload_index[slot.workload]])
    return model, slot.batch, min(gpulet.share_units, view.tables.share_units)


def _timeout_ms(instance: Instance, workload: int, slot: Slot, cycle_ms: float | None, promised_ms: float) -> float:
    """Return the timeout of a partial batch: see ``dispatch_timeout_ms``."""
    slo_ms = instance.workloads[workload].slo_ms
    buffered_ms = instance.latency_buffer * promised_ms
    rule, immediate = instance.slo_rule, instance.immediate_dispatch
    return dispatch_timeout_ms(rule, slo_ms, slot.batch, slot.rate_rps, cycle_ms, buffered_ms, immediate)


QUEUE = np.dtype([("head", "i8"), ("known", "i8"), ("batches", "i8")])
"""Record of a slot's queue: ``head`` is its oldest unfinished request, ``known`` the end of its drawn requests, and
``batches`` the number of started batches. The array has room after ``known`` for requests from earlier stages."""

STATE = np.dtype(
    [
        ("event_ms", "f8"),
        ("slot", "i8"),
        ("size", "i8"),
        ("started_ms", "f8"),
        ("since_ms", "f8"),
        ("left", "f8"),
        ("whole_ms", "f8"),
        ("factor", "f8"),
        ("free_ms", "f8"),
        ("turn", "i8"),
    ]
)
"""Record of an executor's state.

``event_ms``: end of its batch, or start of the next one. ``slot`` (``NONE`` between batches), ``size`` and
``started_ms``: those of the batch. ``left``: fraction of the batch that remained at ``since_ms``. ``whole_ms``: time of
the whole batch at the present speed. ``factor``: noise of the batch. ``free_ms``: earliest start of the next batch.
``turn``: slot of the next batch.
"""

COUNTS = np.dtype(
    [
        ("arrived", "i8"),
        ("served", "i8"),
        ("late", "i8"),
        ("dropped", "i8"),
        ("latency_ms", "f8"),
        ("waiting_ms", "f8"),
        ("largest_ms", "f8"),
    ]
)
"""Record of a slot's measurements: numbers of requests that finished, were served (in time or late), were served late,
and were dropped; sums of latencies and of waiting times before the batch; largest latency."""

BY_SECOND = np.dtype([("arrived", "i8"), ("served", "i8"), ("late", "i8"), ("dropped", "i8")])
"""Requests by the second in which they arrived."""


class KernelSettings(NamedTuple):
    """Settings of the compiled event loop.

    Attributes
    ----------
    from_ms, to_ms
        Begin (included) and end (excluded) of the arrivals that are measured.
    dynamic
        Whether batches slow each other only while they overlap; otherwise every neighbour is always active.
    dropping
        Whether requests that can no longer meet their SLO are dropped.
    noise
        Standard deviation of the logarithm of a factor on each batch's GPU time.
    seed
        Seed of the noise.
    """

    from_ms: float
    to_ms: float
    dynamic: bool
    dropping: bool
    noise: float
    seed: int


class Measured(NamedTuple):
    """Measurements of a simulation.

    Attributes
    ----------
    counts
        Records of ``COUNTS``, shape (slots,).
    histogram
        Latencies, shape (slots, BINS).
    by_second
        Records of ``BY_SECOND``, shape (seconds, slots); shape (0, slots) if not requested.
    """

    counts: Records
    histogram: Ints
    by_second: Records


def idle(site: Site) -> Records:
    """Return the initial state of the executors."""
    state = np.zeros(len(site.executors), dtype=STATE)
    state["slot"], state["turn"] = NONE, site.executors["first_slot"]
    return state


def nothing_measured(slots: int, seconds: int) -> Measured:
    """Return measurements that are all 0, with a series of ``seconds`` seconds."""
    return Measured(
        np.zeros(slots, dtype=COUNTS),
        np.zeros((slots, BINS), dtype=np.int64),
        np.zeros((seconds, slots), dtype=BY_SECOND),
    )
