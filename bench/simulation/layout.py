"""Records for compiled code: executors and slots of a plan, and the state of queues and batches."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bench.simulation.applications import flow_of
from bench.simulation.serving_rules import DispatchRule
from instances import Instance, Partition, PlacedGpu, Plan
from instances.arrays import Ints, Records
from instances.interference import gpu_time_beside_ms
from instances.performance.gpulet import GpuletModel
from instances.tables import Tables, configuration_tables, gpu_tables
from instances.view import View

EXECUTOR = np.dtype([("first", "i8"), ("end", "i8"), ("units", "i8"), ("first_slot", "i8"), ("end_slot", "i8")])
"""Record of an executor, which runs one batch at a time: a gpulet, or a process in a MIG instance.

``first`` and ``end`` delimit the executors of its GPU. ``first_slot`` and ``end_slot`` delimit the slots that it
serves. ``units`` is its share.
"""

SLOT = np.dtype(
    [
        ("number", "i8"),
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

``number`` is its position among the slots of all sites of the plan. ``workload`` and ``application`` are positions in
the instance (``NONE`` outside applications). ``model`` is a row of the tables, and ``batch`` the largest batch. A
partial batch is ready after ``timeout_ms``.
"""

TIMES = np.dtype([("gpu_ms", "f8"), ("tail_ms", "f8"), ("delay_ms", "f8"), ("promised_ms", "f8")])
"""Record of the times of a batch of one size.

``gpu_ms``: GPU time with all neighbours active at their planned batches. ``tail_ms``: time from the end of ``gpu_ms``
until the next batch may start. ``delay_ms``: further time until the requests are finished, since transfers overlap with
the execution of other batches. ``promised_ms``: whole inference time by the planner's model. A request is dropped if it
would miss its SLO by this time.
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


def sites(plan: Plan, instance: Instance, truth: Instance) -> list[Site]:
    """Return the sites of a plan, one per GPU type that it uses.

    Parameters
    ----------
    plan
        Plan to simulate. The plan may violate constraints. It must belong to the instance, and the GPU types must
        have figures for its batches.
    instance
        Instance that the planner used; it determines dispatch timeouts and promised times.
    truth
        Instance with the true figures of the GPUs.
    """
    all_sites: list[Site] = []
    slots = 0
    application = flow_of(instance).application
    for pool, true_pool in zip(instance.gpus, truth.gpus, strict=True):
        gpus = [gpu for gpu in plan.gpus if gpu.type == pool.type.name and gpu.gpulets]
        if not gpus:
            continue
        if instance.partition is Partition.MIG:
            no_tables = configuration_tables(pool.type, GpuletModel.name, ())
            all_sites.append(_site([_executors_on_mig(gpu, instance) for gpu in gpus], application, no_tables, slots))
        else:
            view, tables = View.of(instance, pool.type), gpu_tables(true_pool.type, truth.performance_model)
            all_sites.append(_site([_executors(gpu, view, tables) for gpu in gpus], application, tables, slots))
        slots += len(all_sites[-1].slots)
    return all_sites


def _site(gpus: Sequence[Sequence[_ExecutorFigures]], application: Ints, tables: Tables, first_number: int) -> Site:
    """Return the site with the executors of each GPU; ``application`` has the application of each workload."""
    executors: list[tuple[int, ...]] = []
    slots: list[tuple[float, ...]] = []
    times: list[_Times] = []
    for gpu_executors in gpus:
        first, end = len(executors), len(executors) + len(gpu_executors)
        for units, slot_figures in gpu_executors:
            first_slot = len(slots)
            for workload, figures, slot_times in slot_figures:
                number = first_number + len(slots)
                slots.append((number, len(executors), workload, application[workload], *figures))
                times.append(slot_times)
            executors.append((first, end, units, first_slot, len(slots)))
    records = np.zeros((len(times), max(map(len, times)) + 1), dtype=TIMES)
    for row, slot_times in enumerate(times):
        records[row, 1 : len(slot_times) + 1] = slot_times
    return Site(np.array(executors, dtype=EXECUTOR), np.array(slots, dtype=SLOT), records, tables)


def _executors(gpu: PlacedGpu, view: View, tables: Tables) -> list[_ExecutorFigures]:
    """Return the executors of a GPU that is divided by shares: its gpulets."""
    instance, dispatch = view.instance, DispatchRule.of(view.instance)
    planned_demands, true_demands = view.demands(gpu, view.tables), view.demands(gpu, tables)
    executors: list[_ExecutorFigures] = []
    for resident, gpulet in enumerate(gpu.gpulets):
        units = gpulet.share_units
        slots: list[_SlotFigures] = []
        for slot in gpulet.slots:
            position = instance.workload_index[slot.workload]
            model, slo_ms = int(view.model[position]), float(view.slo_ms[position])
            times: _Times = []
            for batch in range(1, slot.batch + 1):
                exposed_ms = float(tables.exposed_ms[model, batch])
                times.append(
                    (
                        gpu_time_beside_ms(tables, model, batch, units, true_demands, resident),
                        exposed_ms,
                        float(tables.transfer_ms[model, batch]) - exposed_ms,
                        gpu_time_beside_ms(view.tables, model, batch, units, planned_demands, resident)
                        + float(view.tables.transfer_ms[model, batch]),
                    )
                )
            timeout_ms = dispatch.timeout_ms(slot.batch, slot.rate_rps, slo_ms, gpulet.duty_cycle_ms, times[-1][-1])
            slots.append((position, (model, slot.batch, slot.rate_rps, slo_ms, timeout_ms), times))
        executors.append((units, slots))
    return executors


def _executors_on_mig(gpu: PlacedGpu, instance: Instance) -> list[_ExecutorFigures]:
    """Return the executors of a GPU in MIG mode: every process, without interference."""
    pool = instance.pool(gpu.type)
    assert pool is not None
    assert pool.type.mig is not None
    dispatch = DispatchRule.of(instance)
    executors: list[_ExecutorFigures] = []
    for gpulet in gpu.gpulets:
        (slot,) = gpulet.slots
        position = instance.workload_index[slot.workload]
        workload = instance.workloads[position]
        measured = pool.type.mig.configuration(workload.model, gpulet.share_units, slot.batch, gpulet.processes)
        assert measured is not None
        period_ms = 1000.0 * gpulet.processes * slot.batch / measured.throughput_rps
        # A partial batch takes as long as a full batch. Latencies are rounded to milliseconds and may be below the
        # period of a single process; the delay is at least 0, because no request ends before its batch.
        delay_ms = max(0.0, measured.latency_ms - period_ms)
        times = [(period_ms, 0.0, delay_ms, measured.latency_ms)] * slot.batch
        timeout_ms = dispatch.timeout_ms(slot.batch, slot.rate_rps, workload.slo_ms, None, measured.latency_ms)
        figures = 0, slot.batch, slot.rate_rps / gpulet.processes, workload.slo_ms, timeout_ms
        executors += [(gpulet.share_units, [(position, figures, times)]) for _ in range(gpulet.processes)]
    return executors


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
