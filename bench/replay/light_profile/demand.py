"""L2 and DRAM demand of models, from hardware counters or inferred from mutual slowdowns."""

import csv
import math
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from bench.replay.light_profile.journal import Journal, Reading, Traffic
from bench.replay.light_profile.points import Grid, Tenant
from bench.replay.nets import CHAIN_LENGTH
from instances.arrays import Floats

Demands = dict[Tenant, tuple[float, float | None]]
"""L2 and DRAM utilisation of a tenant that runs alone, in percent; ``None`` marks an unknown DRAM utilisation."""

NCU = "ncu"
"""Command of Nsight Compute."""

DURATION = "gpu__time_duration.sum"
"""Metric of Nsight Compute: duration of a kernel."""

L2, DRAM = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "dram__throughput.avg.pct_of_peak_sustained_elapsed"
"""Metrics of Nsight Compute: utilisation of the L2 cache and of the DRAM by a kernel."""

PATIENCE_S = 300.0
"""Time limit of Nsight Compute for one batch."""

PEAK_PCT = 100.0
"""Demand of the model that slows others most, if demands are inferred from slowdowns, which leave the unit open."""


def demands(journal: Journal, grid: Grid, models: Sequence[str]) -> tuple[Demands, str]:
    """Return the demand of each model at every measured batch and share, and the source of the figures.

    A batch moves the same bytes on any share, so its utilisation is inversely proportional to its time.
    """
    alone = {
        point[0]: reading for point, reading in journal.readings.items() if len(point) == 1 and point[0].model in models
    }
    counted = _counted(journal, {tenant: reading.times[0].gpu_ms for tenant, reading in alone.items()})
    if counted:
        return counted, "counted by Nsight Compute"
    inferred = _from_slowdowns(journal, grid, models, alone)
    if inferred:
        return inferred, "fitted to slowdowns in pairs, in percent of the model that slows others most"
    return {}, "unknown"


def _counted(journal: Journal, alone: dict[Tenant, float]) -> Demands:
    """Return utilisations from the traffic of the counted batches, interpolated linearly for other batches."""
    traffic: dict[str, dict[int, tuple[float, float]]] = {}
    for (model, batch), l2_and_dram in journal.traffic.items():
        if l2_and_dram is not None:
            traffic.setdefault(model, {})[batch] = l2_and_dram
    utilisations: Demands = {}
    for tenant, gpu_ms in alone.items():
        if tenant.model in traffic:
            batches = sorted(traffic[tenant.model])
            counts_of_batches = [traffic[tenant.model][batch] for batch in batches]
            l2, dram = (
                float(np.interp(tenant.batch, batches, counts)) / gpu_ms
                for counts in zip(*counts_of_batches, strict=True)
            )
            utilisations[tenant] = l2, dram
    return utilisations


def _from_slowdowns(
    journal: Journal, grid: Grid, models: Sequence[str], alone: dict[Tenant, Reading]
) -> Demands | None:
    """Return L2 demands from the pairs of equal shares, or ``None`` if one of these pairs was not measured."""
    tenants = [Tenant(model, grid.middle_batch, grid.light_shares_pct[1]) for model in models]
    growth = np.zeros((len(tenants), len(tenants)))
    try:
        delay_ms = _delay_ms(journal, grid, models[0])
        for i, first in enumerate(tenants):
            for j, second in enumerate(tenants[i:], i):
                pair_reading = journal.readings[first, second]
                for row, column, position in ((i, j, 0), (j, i, 1)):
                    # Growth of the work beside the other model, without the longer waits between kernels.
                    delays_ms = journal.facts[models[row]].kernels * delay_ms
                    alone_work = _work(alone[tenants[row]], 0)
                    growth[row, column] = (_work(pair_reading, position) - delays_ms) / alone_work - 1.0
    except KeyError:
        return None
    pressure = rank_one_pressure(growth)
    utilisations: Demands = {}
    for tenant, reading in alone.items():
        # The traffic of a batch is in proportion to its size.
        measured = tenants[models.index(tenant.model)]
        traffic = pressure[models.index(tenant.model)] * alone[measured].times[0].gpu_ms * tenant.batch / measured.batch
        utilisations[tenant] = float(traffic / reading.times[0].gpu_ms), None
    return utilisations


def _work(reading: Reading, position: int) -> float:
    """Return the GPU time of a tenant times the frequency, which a power cap lowers for all tenants."""
    return reading.times[position].gpu_ms * (reading.frequency_mhz or 1.0)


def _delay_ms(journal: Journal, grid: Grid, model: str) -> float:
    """Return the extra wait of a kernel beside one other tenant, times the frequency.

    It follows from the chain of kernels, the last tenant of its points, alone and beside a copy of ``model``.
    """
    alone, beside_copy = (
        _work(journal.readings[grid.chain_beside_copies(model, residents)], -1) for residents in (1, 2)
    )
    return (beside_copy - alone) / CHAIN_LENGTH


def rank_one_pressure(growth: Floats) -> Floats:
    """Return the pressure of each model on others, for a growth that is the product of a sensitivity and a pressure.

    Parameters
    ----------
    growth
        Growth of the row's model beside the column's, shape (models, models); negative values count as 0.

    Returns
    -------
    pressure
        Shape (models,), above 0, scaled to a largest value of ``PEAK_PCT``. It is the leading right singular vector,
        the best fit of rank one.
    """
    _, _, rows = np.linalg.svd(np.maximum(growth, 0.0))
    pressure = np.abs(rows[0])
    # A pressure of 0 would leave the model's own sensitivity undefined.
    return PEAK_PCT * np.maximum(pressure / pressure.max(), 0.01)


def counted_traffic(model: str, batch: int, half: bool, environment: Mapping[str, str]) -> Traffic:
    """Return the traffic of a batch on the whole GPU.

    The result is ``None`` if Nsight Compute is missing or the driver does not permit counting.
    """
    if shutil.which(NCU) is None:
        return None
    program = f"from bench.replay.light_profile.worker import run_once; run_once({model!r}, {batch}, {half})"
    command = [NCU, "--csv", "--metrics", f"{DURATION},{L2},{DRAM}", "--profile-from-start", "off"]
    try:
        completed = subprocess.run(  # noqa: S603 - a tool of the driver's maker, found on the path
            [*command, sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=dict(environment),
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return traffic_of(completed.stdout)


def traffic_of(output: str) -> Traffic:
    """Return the traffic of all kernels in the output of Nsight Compute, or ``None`` if it has no kernels."""
    lines = output.splitlines()
    header_line = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    kernels: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines[header_line:]):
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except (AttributeError, ValueError):  # a message of the profiler, or "n/a"
            continue
        in_ms = {"ns": 1e-6, "us": 1e-3, "usecond": 1e-3, "nsecond": 1e-6, "ms": 1.0, "msecond": 1.0}
        scale = in_ms.get(row["Metric Unit"], 1.0) if row["Metric Name"] == DURATION else 1.0
        kernels.setdefault(row["ID"], {})[row["Metric Name"]] = scale * value
    complete = [
        kernel
        for kernel in kernels.values()
        if len(kernel) == len((DURATION, L2, DRAM)) and all(map(math.isfinite, kernel.values()))
    ]
    if not complete:
        return None
    l2, dram = (sum(kernel[DURATION] * kernel[metric] for kernel in complete) for metric in (L2, DRAM))
    return l2, dram
