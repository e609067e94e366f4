"""Records for compiled code: executors and slots of a plan, and the state of queues, batches and measurements."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.simulation.applications import NONE
from bench.simulation.histogram import BINS
from bench.simulation.serving_rules import dispatch_timeout_ms
from instances import Instance, Partition, PlacedGpu, Plan, Slot
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


class Site(NamedTuple):
    """The GPUs of one type in a plan.

    Attributes
    ----------
    executors, slots
        Records of ``EXECUTOR`` and ``SLOT``.
    times
        Records of ``TIMES``, shape (slots, largest batch + 1).
    tables
        Tables of the interference between overlapping batches; empty for MIG, which has none.
    """

    executors: Records
    slots: Records
    times: Records
    tables: Tables


_Times = list[tuple[float, float, float, float]]
"""Times of the batches of a slot by size, from 1 on, as in ``TIMES``."""

_SlotFigures = tuple[int, tuple[float, ...], _Times]
"""Workload of a slot, the fields of ``SLOT`` from ``model`` on, and the times of its batches."""

_ExecutorFigures = tuple[int, list[_SlotFigures]]
"""Share of an executor, and its slots."""


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
    of_stage = {stage: number for number, one in enumerate(planned.applications) for stage in one.stages}
    application = [of_stage.get(workload.id, NONE) for workload in planned.workloads]
    for pool, true_pool in zip(planned.gpus, truth.gpus, strict=True):
        gpus = [gpu for gpu in plan.gpus if gpu.type == pool.type.name and gpu.gpulets]
        if not gpus:
            continue
        if planned.partition is Partition.MIG:
            found.append(_site([_executors_on_mig(gpu, planned) for gpu in gpus], application, _NO_TABLES))
        else:
            view, tables = View.of(planned, pool.type), gpu_tables(true_pool.type, truth.performance_model)
            found.append(_site([_executors(gpu, view, tables) for gpu in gpus], application, tables))
    return found


def _site(gpus: Sequence[Sequence[_ExecutorFigures]], application: Sequence[int], tables: Tables) -> Site:
    """Return the site with the executors of each GPU; ``application`` is that of each workload."""
    executors: list[tuple[int, ...]] = []
    slots: list[tuple[float, ...]] = []
    times: list[_Times] = []
    for on_gpu in gpus:
        first, end = len(executors), len(executors) + len(on_gpu)
        for units, served in on_gpu:
            first_slot = len(slots)
            for workload, figures, of_sizes in served:
                slots.append((len(executors), workload, application[workload], *figures))
                times.append(of_sizes)
            executors.append((first, end, units, first_slot, len(slots)))
    records = np.zeros((len(times), max(map(len, times)) + 1), dtype=TIMES)
    for row, of_sizes in enumerate(times):
        records[row, 1 : len(of_sizes) + 1] = of_sizes
    return Site(np.array(executors, dtype=EXECUTOR), np.array(slots, dtype=SLOT), records, tables)


def _executors(gpu: PlacedGpu, view: View, tables: Tables) -> list[_ExecutorFigures]:
    """Return the executors of a GPU that is divided by shares: its gpulets."""
    instance = view.instance
    planned, true = _demands(view, view.tables, gpu), _demands(view, tables, gpu)
    found: list[_ExecutorFigures] = []
    for own, gpulet in enumerate(gpu.gpulets):
        units = min(gpulet.share_units, tables.share_units)
        slots: list[_SlotFigures] = []
        for slot in gpulet.slots:
            w = instance.workload_index[slot.workload]
            m = int(view.model[w])
            times: _Times = []
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
            timeout_ms = _timeout_ms(instance, w, slot, gpulet.duty_cycle_ms, times[-1][-1])
            slots.append((w, (m, slot.batch, slot.rate_rps, float(view.slo_ms[w]), timeout_ms), times))
        found.append((units, slots))
    return found


def _executors_on_mig(gpu: PlacedGpu, instance: Instance) -> list[_ExecutorFigures]:
    """Return the executors of a GPU in MIG mode: every process, without interference."""
    pool = instance.pool(gpu.type)
    assert pool is not None
    assert pool.type.mig is not None
    found: list[_ExecutorFigures] = []
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
        timeout_ms = _timeout_ms(instance, w, slot, None, known.latency_ms)
        figures = 0, slot.batch, slot.rate_rps / gpulet.processes, workload.slo_ms, timeout_ms
        found += [(gpulet.share_units, [(w, figures, times)]) for _ in range(gpulet.processes)]
    return found


def _demands(view: View, tables: Tables, gpu: PlacedGpu) -> Floats:
    """Return the demand of each gpulet on its neighbours: the largest demand of its slots, as in the judge."""
    demands = np.zeros((len(gpu.gpulets), 3))
    for own, gpulet in enumerate(gpu.gpulets):
        for slot in gpulet.slots:
            model = int(view.model[view.instance.workload_index[slot.workload]])
            at = model, slot.batch, min(gpulet.share_units, view.tables.share_units)
            shown = tables.l2_pct[at], tables.dram_pct[at], tables.power_w[at]
            demands[own] = np.maximum(demands[own], shown)
    return demands


def _no_tables() -> Tables:
    """Return empty tables, for GPUs without interference."""
    cube, square, row = np.zeros((0, 1, 1)), np.zeros((0, 1)), np.zeros(0)
    whole = np.zeros(0, dtype=np.int64)
    return Tables(
        active_ms=cube,
        l2_pct=cube,
        dram_pct=cube,
        power_w=cube,
        company=cube,
        transfer_ms=square,
        exposed_ms=square,
        memory_mib=square,
        scheduling_ms=row,
        kernels=row,
        alpha_l2=row,
        alpha_dram=row,
        max_batch=whole,
        next_share=whole,
        permitted=whole,
        share_units=0,
        memory_limit_mib=0.0,
        alpha_sch=0.0,
        beta_sch=0.0,
        idle_power_w=0.0,
        max_power_w=0.0,
        throttle_per_w=0.0,
        pairwise=False,
        falling=False,
        most_residents=0,
    )


_NO_TABLES = _no_tables()


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
        Begin (included) and end (excluded) of the measurement; requests that arrive in between count.
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
    """Return the state of executors without batches."""
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
