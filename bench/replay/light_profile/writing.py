"""Conversion of the journal to the files of a folder of measurements (docs/measurements.md)."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from bench.replay.light_profile.demand import Demands, demands
from bench.replay.light_profile.journal import Journal, Reading
from bench.replay.light_profile.points import KERNEL_CHAIN, MAX_COPIES, MEASURED_HERE, Grid, Tenant
from bench.replay.nets import CHAIN_LENGTH
from instances.files import write_bytes
from instances.measurements import PAIR_COLUMNS, PAIRS_FILE, SOLO_COLUMNS, SOLO_FILE

JITTER = 0.01
"""Variation of the frequency of an unthrottled GPU, as a part of the highest frequency."""

TIMES_COLUMNS = ("std_ms", "upload_ms", "gpu_ms", "feedback_ms", "batches", "memory_mib")
"""Columns of ``solo.csv`` with the fields of ``Times``."""


@dataclass(frozen=True, slots=True)
class CatalogueFacts:
    """Facts of the catalogue entry that are not measured."""

    name: str
    price_per_hour: float


def write_files(folder: Path, journal: Journal, grid: Grid, models: Sequence[str], entry: CatalogueFacts) -> list[str]:
    """Write all files for which the measurements suffice and return their names.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    demand_of, source = demands(journal, grid, models)
    profile = light_profile(journal, grid, models, demand_of, entry.name)
    contents = {
        "gpu.json": _json(_facts(journal, entry, source)),
        SOLO_FILE: _csv(_solo_rows(journal, demand_of)),
        PAIRS_FILE: _csv(_pair_rows(journal)),
        "copies.csv": _csv(_copies_rows(journal)),
        "profile.json": None if profile is None else _json(profile),
    }
    for name, text in contents.items():
        if text is not None:
            write_bytes(folder / name, text.encode())
    return [name for name, text in contents.items() if text is not None]


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1) + "\n"


def _csv(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return rows as CSV with a header, or ``None`` if there are no rows."""
    if not rows:
        return None
    text = StringIO()
    table = csv.DictWriter(text, rows[0], lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _facts(journal: Journal, entry: CatalogueFacts, demand_source: str) -> dict[str, Any]:
    """Return the facts that ``bench profile fit`` reads instead of its options."""
    device = journal.device
    return {
        "name": entry.name,
        "provenance": MEASURED_HERE,
        "source": f"bench profile run: {device.name}, {device.software}, {device.partition}, "
        f"{'half' if device.half else 'single'} precision, {'CUDA graphs' if device.graphs else 'no CUDA graphs'}; "
        f"L2 and DRAM demands {demand_source}",
        "device": device.kind,
        "share_units": device.share_units,
        "memory_mib": device.memory_mib,
        "price_per_hour": entry.price_per_hour,
        "pcie_bytes_per_ms": device.pcie_bytes_per_ms,
    }


def _solo_rows(journal: Journal, demand_of: Demands) -> list[dict[str, Any]]:
    """Return a row per model that was measured alone, without the chain of kernels."""
    rows = []
    for point, reading in journal.readings.items():
        if len(point) > 1 or point[0].model == KERNEL_CHAIN:
            continue
        (tenant,), (times,) = point, reading.times
        l2, dram = demand_of.get(tenant, (None, None))
        values = (tenant.model, tenant.batch, f"{tenant.share_pct:g}", times.latency_ms)
        rows.append(
            dict(zip(SOLO_COLUMNS, values, strict=True))
            | {"l2_util_pct": l2, "dram_util_pct": dram}
            | {name: getattr(times, name) for name in TIMES_COLUMNS}
            | _state_of_gpu(journal, reading)
        )
    return rows


def _pair_rows(journal: Journal) -> list[dict[str, Any]]:
    """Return a row per pair of models, without pairs with the chain of kernels."""
    rows = []
    for point, reading in journal.readings.items():
        if len(point) != 2 or KERNEL_CHAIN in (tenant.model for tenant in point):
            continue
        (first, second), (first_times, second_times) = point, reading.times
        configuration_values = (
            value for tenant in (first, second) for value in (tenant.model, tenant.batch, f"{tenant.share_pct:g}")
        )
        rows.append(
            dict(zip(PAIR_COLUMNS, (*configuration_values, first_times.latency_ms), strict=True))
            | {"latency_b_ms": second_times.latency_ms, "std_a_ms": first_times.std_ms, "std_b_ms": second_times.std_ms}
            | _state_of_gpu(journal, reading)
        )
    return rows


def _copies_rows(journal: Journal) -> list[dict[str, Any]]:
    """Return a row per point with copies or the chain: the mean latency of the copies and the delay of the chain."""
    rows = []
    for point, reading in journal.readings.items():
        copies = [position for position, tenant in enumerate(point) if tenant.model != KERNEL_CHAIN]
        chain = [times.gpu_ms for position, times in enumerate(reading.times) if position not in copies]
        is_two_copies = len(point) == 2 and point[0] == point[1]
        if len(point) > 2 or chain or is_two_copies:
            first_copy = point[copies[0]] if copies else None
            rows.append(
                {
                    "residents": len(point),
                    "model": first_copy.model if first_copy else "",
                    "batch": first_copy.batch if first_copy else "",
                    "share_pct": f"{point[0].share_pct:g}",
                    "latency_ms": float(np.mean([reading.times[position].latency_ms for position in copies]))
                    if copies
                    else None,
                    "scheduling_delay_ms_per_kernel": chain[0] / CHAIN_LENGTH if chain else None,
                    **_state_of_gpu(journal, reading),
                }
            )
    return rows


def _state_of_gpu(journal: Journal, reading: Reading) -> dict[str, Any]:
    """Return the columns that every table has."""
    return {"power_w": reading.power_w, "frequency_mhz": reading.frequency_mhz, "device": journal.device.kind}


def light_profile(
    journal: Journal, grid: Grid, models: Sequence[str], demand_of: Demands, name: str
) -> dict[str, Any] | None:
    """Return the content of ``profile.json``, or ``None`` if a point is missing or the power is unknown."""
    device, readings = journal.device, journal.readings
    if device.idle_power_w is None or device.max_power_w is None:
        return None
    clocks = [reading.frequency_mhz for reading in readings.values() if reading.frequency_mhz is not None]
    try:
        top_mhz = max(clocks)
        delays_ms, power_w, frequency_mhz = [], [], []
        for count in range(1, MAX_COPIES + 1):
            copies_reading, chain_reading = (
                readings[grid.copies(models[0], count)],
                readings[grid.chain_beside_copies(models[0], count)],
            )
            power_w.append(_required(copies_reading.power_w))
            frequency_mhz.append(_clock_mhz(copies_reading, top_mhz))
            # The delay is scaled to the frequency of the copies; the fit converts it to the highest frequency.
            frequency_ratio = _clock_mhz(chain_reading, top_mhz) / frequency_mhz[-1]
            delays_ms.append(chain_reading.times[-1].gpu_ms / CHAIN_LENGTH * frequency_ratio)
        model_entries = {model: _light_model(journal, grid, model, demand_of, top_mhz, delays_ms) for model in models}
    except (KeyError, ValueError):  # not measured yet
        return None
    return {
        "gpu": {
            "name": name,
            "max_frequency_mhz": top_mhz,
            "max_power_w": device.max_power_w,
            "idle_power_w": device.idle_power_w,
            "pcie_bytes_per_ms": device.pcie_bytes_per_ms,
            "share_unit_pct": 100.0 / device.share_units,
            f"identical_{models[0]}_colocated_1_to_{MAX_COPIES}": {
                "power_w": power_w,
                "frequency_mhz": frequency_mhz,
                "scheduling_delay_ms_per_kernel": delays_ms,
            },
        },
        "profiled_batches": list(grid.light_batches),
        "profiled_shares_pct": list(grid.light_shares_pct),
        "models": model_entries,
    }


def _clock_mhz(reading: Reading, top_mhz: float) -> float:
    """Return the frequency, or the highest frequency if the difference is jitter and not throttling."""
    measured = _required(reading.frequency_mhz)
    return top_mhz if measured >= (1.0 - JITTER) * top_mhz else measured


def _required(value: float | None) -> float:
    """Return a measured value; raise ``ValueError`` if it is missing."""
    if value is None:
        raise ValueError
    return value


def _light_model(
    journal: Journal, grid: Grid, model: str, demand_of: Demands, top_mhz: float, delays_ms: Sequence[float]
) -> dict[str, Any]:
    """Return the object of one model; raise ``KeyError`` or ``ValueError`` if a measurement is missing."""
    facts, readings = journal.facts[model], journal.readings
    solo = [
        [readings[(Tenant(model, batch, share_pct),)] for share_pct in grid.light_shares_pct]
        for batch in grid.light_batches
    ]
    # The kernels of the chain also compute a little, so the delay is overestimated. The limit keeps the computing time
    # of every batch above 0.
    shortest_ms = min(reading.times[0].gpu_ms for row in solo for reading in row)
    scheduling_ms = min(facts.kernels * delays_ms[0], shortest_ms / 2.0)
    diagonal_pct = [
        demand_of[Tenant(model, batch, share_pct)][0]
        for batch, share_pct in zip(grid.light_batches, grid.light_shares_pct, strict=True)
    ]
    middle = Tenant(model, grid.middle_batch, grid.light_shares_pct[1])
    pair_reading = readings[middle, middle]
    middle_reading = solo[1][1]
    base_mib, per_item_mib = _memory_line(journal, model)
    return {
        "input_bytes": facts.input_bytes,
        "output_bytes": facts.output_bytes,
        "kernels": facts.kernels,
        "scheduling_delay_alone_ms": scheduling_ms,
        "memory_base_mib": base_mib,
        "memory_per_item_mib": per_item_mib,
        "gpu_latency_ms[batch][share]": [[reading.times[0].gpu_ms for reading in row] for row in solo],
        "power_w[batch][share]": [[_required(reading.power_w) for reading in row] for row in solo],
        "frequency_mhz[batch][share]": [[_clock_mhz(reading, top_mhz) for reading in row] for row in solo],
        "l2_util_pct_at_diagonal": diagonal_pct,
        "two_identical_colocated": {
            "active_time_ms_alone": middle_reading.times[0].gpu_ms * _clock_mhz(middle_reading, top_mhz) / top_mhz
            - scheduling_ms,
            "active_time_ms_colocated": float(np.mean([times.gpu_ms for times in pair_reading.times]))
            - (scheduling_ms + facts.kernels * (delays_ms[1] - delays_ms[0])),
            "frequency_mhz_colocated": _clock_mhz(pair_reading, top_mhz),
            "l2_util_pct_of_corunner": demand_of[middle][0],
        },
    }


def _memory_line(journal: Journal, model: str) -> tuple[float, float]:
    """Return intercept and slope of memory (MiB) over batch; no measured value lies above the line.

    The slope is not negative. If the memory by this line fits the device, the measured memory fits, too.
    """
    largest_mib: dict[int, float] = {}
    for point, reading in journal.readings.items():
        if len(point) == 1 and point[0].model == model:
            batch = point[0].batch
            largest_mib[batch] = max(largest_mib.get(batch, 0.0), reading.times[0].memory_mib)
    slope, _ = np.polyfit(list(largest_mib), list(largest_mib.values()), 1)
    slope = max(0.0, float(slope))
    return max(used_mib - slope * batch for batch, used_mib in largest_mib.items()), slope
