"""GeForce RTX 2080 Ti with gpulet's nine models (ATC'22, Tables 2 and 3), and with the five of the arXiv version.

gpulet's authors published mean durations of a kernel by batch on the full GPU, and times to assemble a batch
(casys-kaist/glet). A batch takes ``n`` kernels of the mean duration, and its batching time:

- **Number of kernels.** Both papers set their SLOs to twice the latency of a batch of 32. Therefore
  ``n = (SLO / 2 - batching time) / duration``, with the times of a batch of 32. LeNet cannot have as many kernels as
  this number: it also stands for other time of LeNet's short inference.
- **Batching time.** The ATC's scheduler adds the published times, multiplied by a factor for caution, and nothing for
  transfers. These times are assumed to contain the transfers. Without the factor, the SLOs of the arXiv version give
  nearly the ATC's numbers of kernels, so the arXiv's GPU type has the times without it.
- **Shares** are inferred, because times were published for the full GPU only: a batch of b at r percent takes as
  long as a batch of ``100 b / r`` on the full GPU. Beyond a batch of 32, durations grow by their slope between 16 and
  32. On half a GPU, inferred times are 8 % off on average for RaPP's models on a V100. On an A100 (0909wlgur/Gpulet),
  they are 2 % off up to a batch of 4, and on average 7 % too long at 8 and 21 to 24 % at 16 and 32.

Utilisations and the five constants of the pair factor were published by the authors, too.
"""

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from instances.arrays import Floats
from instances.calibration.shapes import calibrated_model
from instances.errors import InputError
from instances.files import read_text
from instances.gpu import GpuType, Hardware, PairFactor, Provenance
from instances.memory import request_bytes
from instances.performance.solo_fit import demand_line, profile_of_grid, rounded
from instances.suites.gpulet import ARXIV_SLO_MS, ASSEMBLED_MS, ATC_SLO_MS, IMAGE_FACTOR, LARGE_IMAGE_FACTOR

PUBLISHED_AS = {"mnasnet": "mnasnet1_0", "mobilenet": "mobilenet_v2", "ssd-mobilenet": "ssd-mobilenetv1"}
"""Name of each model that has another name in the authors' files."""

PINNED_BATCH = 32
"""Batch whose latency on the full GPU is half of the SLO."""

BATCHES = (1, 2, 4, 8, 16, 32)
SHARES_PCT = (20.0, 40.0, 50.0, 60.0, 80.0, 100.0)
"""Shares that gpulet permits."""

CAUTION = {"3x224x224": IMAGE_FACTOR, "3x300x300": LARGE_IMAGE_FACTOR}
"""Factors of the authors' scheduler on the published times, by the size of an image."""

SHARE_UNITS = 10
MEMORY_MIB = 11264.0
PRICE_PER_HOUR = 1.0
PCIE_BYTES_PER_MS = 1e7

SOURCE = (
    "published mean duration of a kernel by batch, utilisations and pair constants (casys-kaist/glet);"
    " number of kernels pinned to latency(32, 100 %) = SLO / 2 of gpulet {table}; batching time published, {batching};"
    " inferred: a batch at a share takes as long as a batch larger by the inverse of the share on the full GPU"
)


def rtx2080ti(measurements: Path) -> GpuType:
    """Return the GPU type of the ATC's testbed with its nine models; see ``_calibrated``."""
    return _calibrated(measurements, "rtx2080ti", ATC_SLO_MS, "ATC'22 Table 3", CAUTION)


def rtx2080ti_arxiv(measurements: Path) -> GpuType:
    """Return the GPU type of the arXiv's testbed with its five models; see ``_calibrated``."""
    return _calibrated(measurements, "rtx2080ti-arxiv", ARXIV_SLO_MS, "arXiv'21 Table 4", dict.fromkeys(CAUTION, 1.0))


def _calibrated(
    measurements: Path, name: str, slos_ms: Mapping[str, float], table: str, caution: Mapping[str, float]
) -> GpuType:
    """Return the GPU type with the models of ``slos_ms``, each pinned to half of its SLO.

    Parameters
    ----------
    measurements
        Folder with ``rtx2080ti-glet``.
    name, slos_ms, table
        Name of the GPU type, SLOs of its models, and the table that states them.
    caution
        Factors on the published batching times, by the size of an image.

    Raises
    ------
    InputError
        If a file is missing or lacks a model.
    """
    published = measurements / "rtx2080ti-glet"
    pair = _pair(published / "interference_constants.csv")
    batching = (
        "times " + " and ".join(f"{factor:g}" for factor in caution.values()) if caution is CAUTION else "unscaled"
    )
    models, source = {}, SOURCE.format(table=table, batching=batching)
    for model_name, slo_ms in slos_ms.items():
        overhead_ms = _overhead_ms(published / "batching_overhead.csv", model_name, caution)
        kernel_ms, l2_pct, dram_pct = _by_batch(published / "util.csv", PUBLISHED_AS.get(model_name, model_name))
        kernels = float((slo_ms / 2.0 - overhead_ms[-1]) / kernel_ms[-1])
        gpu_ms = rounded(kernels * on_shares(kernel_ms))
        solo_rps = 1000.0 * np.array(BATCHES) / np.array(gpu_ms)[:, -1]
        solo = replace(
            profile_of_grid(
                BATCHES, SHARES_PCT, gpu_ms, demand_line(solo_rps, l2_pct), demand_line(solo_rps, dram_pct)
            ),
            l2_pct=rounded(l2_pct[None, :])[0],
            dram_pct=rounded(dram_pct[None, :])[0],
            batching_ms=tuple(rounded((overhead_ms - _transfers_ms(model_name))[None, :])[0]),
        )
        alphas = (pair.l2_other / 100.0, pair.dram_other / 100.0)
        models[model_name] = calibrated_model(model_name, solo, alphas, f"{source}; {kernels:.0f} kernels")
    return GpuType(
        name,
        SHARE_UNITS,
        MEMORY_MIB,
        PRICE_PER_HOUR,
        Hardware(PCIE_BYTES_PER_MS),
        models,
        Provenance("calibrated", source),
        allowed_shares=tuple(round(SHARE_UNITS * share / 100.0) for share in SHARES_PCT),
        pair=pair,
    )


def on_shares(full_ms: Floats) -> Floats:
    """Return times at ``BATCHES`` and ``SHARES_PCT`` from those on the full GPU, shape (batches, shares).

    A batch at r percent takes as long as a batch of ``100 b / r`` on the full GPU.
    """
    rising_ms = np.maximum.accumulate(full_ms)
    batch = np.array(BATCHES)[:, None] * 100.0 / np.array(SHARES_PCT)[None, :]
    slope = (rising_ms[-1] - rising_ms[-2]) / (BATCHES[-1] - BATCHES[-2])
    return np.interp(batch, BATCHES, rising_ms) + slope * np.maximum(0.0, batch - BATCHES[-1])


def _overhead_ms(file: Path, model: str, caution: Mapping[str, float]) -> Floats:
    """Return the published time to assemble and upload a batch, at ``BATCHES``."""
    if model in ASSEMBLED_MS:
        return np.full(len(BATCHES), ASSEMBLED_MS[model])
    size = "3x300x300" if model == "ssd-mobilenet" else "3x224x224"
    published_ms = {int(row["batch"]): float(row[f"ms_{size}"]) for row in _rows(file)}
    return caution[size] * np.array([published_ms[batch] for batch in BATCHES])


def _transfers_ms(model: str) -> Floats:
    return np.array(BATCHES) * (sum(request_bytes(model)) / PCIE_BYTES_PER_MS)


def _pair(file: Path) -> PairFactor:
    (row,) = _rows(file)
    return PairFactor(*(float(row[column]) for column in ("l2_own", "l2_other", "dram_own", "dram_other", "constant")))


def _by_batch(file: Path, name: str) -> tuple[Floats, Floats, Floats]:
    """Return the mean duration of a kernel in ms, and L2 and DRAM utilisation in percent, at ``BATCHES``."""
    rows = {int(row["batch"]): row for row in _rows(file) if row["model"] == name}
    if missing := [batch for batch in BATCHES if batch not in rows]:
        raise InputError(str(file), f'has no rows of "{name}" at batches {missing}')
    columns = ("mean_kernel_ms", "l2_util_pct", "dram_util_pct")
    kernel_ms, l2_pct, dram_pct = (np.array([float(rows[batch][column]) for batch in BATCHES]) for column in columns)
    return kernel_ms, l2_pct, dram_pct


def _rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(read_text(file).splitlines()))
