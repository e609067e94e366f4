"""GeForce RTX 2080 Ti with gpulet's nine models (ATC'22, Tables 2 and 3), and with the five of the arXiv version.

The shape of a model is RaPP's on a V100, scaled so that a batch of 32 on the full GPU takes half the SLO of the ATC's
Table 3: both papers set their SLOs to twice this latency. The arXiv testbed has an older PyTorch and shorter times, so
it is a GPU type of its own, with the ATC's times scaled to the SLOs of the arXiv's Table 4. Each model has one pinned
point; the other times follow from the shape. RaPP has no LeNet, SSD-MobileNet and BERT; their shapes are those of
AlexNet, MobileNetV2 and ResNet-18. Utilisations and the five constants of the pair factor were published by gpulet's
authors (casys-kaist/glet).
"""

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from instances.arrays import Floats
from instances.calibration.shapes import SHARPNESS, Shape, calibrated_model, fit_shape, read_shapes, shaped_profile
from instances.errors import InputError
from instances.files import read_text
from instances.gpu import GpuType, Hardware, PairFactor, Provenance
from instances.memory import request_bytes
from instances.performance.solo_fit import demand_line, rounded
from instances.suites.gpulet import ARXIV_SLO_MS, ATC_SLO_MS

SHAPED_LIKE = {
    "lenet": "alexnet",
    "ssd-mobilenet": "mobilenet_v2",
    "bert": "resnet18",
    "mnasnet": "mnasnet1_0",
    "mobilenet": "mobilenet_v2",
}
PUBLISHED_AS = {"mnasnet": "mnasnet1_0", "mobilenet": "mobilenet_v2", "ssd-mobilenet": "ssd-mobilenetv1"}

PINNED_BATCH = 32
BATCHES = (1, 2, 4, 8, 16, 32)
SHARES_PCT = (20.0, 40.0, 50.0, 60.0, 80.0, 100.0)
"""Shares that gpulet permits."""

SHARE_UNITS = 10
MEMORY_MIB = 11264.0
PRICE_PER_HOUR = 1.0
PCIE_BYTES_PER_MS = 1e7

SOURCE = (
    "times shaped like RaPP's on a V100 and pinned to latency(32, 100 %) = SLO / 2 of gpulet {table};"
    " utilisations and pair constants published with gpulet (casys-kaist/glet)"
)


def rtx2080ti(measurements: Path) -> GpuType:
    """Return the GPU type of the ATC's testbed with its nine models; see ``_calibrated``."""
    return _calibrated(measurements, "rtx2080ti", ATC_SLO_MS, "ATC'22 Table 3")


def rtx2080ti_arxiv(measurements: Path) -> GpuType:
    """Return the GPU type of the arXiv's testbed with its five models; see ``_calibrated``."""
    return _calibrated(measurements, "rtx2080ti-arxiv", ARXIV_SLO_MS, "arXiv'21 Table 4")


def _calibrated(measurements: Path, name: str, slos_ms: Mapping[str, float], table: str) -> GpuType:
    """Return the GPU type with the models of ``slos_ms``, each shaped and pinned to half of its SLO.

    Parameters
    ----------
    measurements
        Folder with ``v100-rapp`` and ``rtx2080ti-glet``.
    name, slos_ms, table
        Name of the GPU type, SLOs of its models, and the table that states them.

    Raises
    ------
    InputError
        If a file is missing or lacks a model.
    """
    samples, published = read_shapes(measurements), measurements / "rtx2080ti-glet"
    pair = _pair(published / "interference_constants.csv")
    models, source = {}, SOURCE.format(table=table)
    for model_name, slo_ms in slos_ms.items():
        shape_model = SHAPED_LIKE.get(model_name, model_name)
        shape, error = fit_shape(shape_model, samples.get(shape_model, []))
        transfer_ms = PINNED_BATCH * sum(request_bytes(model_name)) / PCIE_BYTES_PER_MS
        shape = pinned(shape, ATC_SLO_MS[model_name] / 2.0 - transfer_ms).scaled(slo_ms / ATC_SLO_MS[model_name])
        solo = shaped_profile(shape, BATCHES, SHARES_PCT, (0.0, 0.0), (0.0, 0.0))
        l2_pct, dram_pct = _utilisations(published / "util.csv", PUBLISHED_AS.get(model_name, model_name))
        solo_rps = 1000.0 * np.array(BATCHES) / solo.times_ms[:, -1]
        solo = replace(
            solo,
            l2_pct=rounded(l2_pct[None, :])[0],
            dram_pct=rounded(dram_pct[None, :])[0],
            l2=demand_line(solo_rps, l2_pct),
            dram=demand_line(solo_rps, dram_pct),
        )
        alphas = (pair.l2_other / 100.0, pair.dram_other / 100.0)
        model = calibrated_model(model_name, solo, alphas, f"{source}; shape of {shape_model}")
        residual = {**model.provenance.residual, "shape_rel_mean": error}
        models[model_name] = replace(model, provenance=replace(model.provenance, residual=residual))
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


def pinned(shape: Shape, full_ms: float) -> Shape:
    """Scale the work so that a batch of 32 on the full GPU takes ``full_ms``.

    The launch time depends on the host, so it is not scaled, but it is limited to half of ``full_ms``.
    """
    launch_ms = min(shape.launch_ms, full_ms / 2.0)
    work_ms = (full_ms**SHARPNESS - launch_ms**SHARPNESS) ** (1.0 / SHARPNESS)
    full_work = replace(shape, launch_ms=1e-9).times_ms(np.array(float(PINNED_BATCH)), np.array(100.0))
    return replace(shape.scaled(work_ms / float(full_work)), launch_ms=launch_ms)


def _pair(file: Path) -> PairFactor:
    (row,) = _rows(file)
    return PairFactor(*(float(row[column]) for column in ("l2_own", "l2_other", "dram_own", "dram_other", "constant")))


def _utilisations(file: Path, name: str) -> tuple[Floats, Floats]:
    """Return the L2 and DRAM utilisation on the full GPU at ``BATCHES``, in percent, interpolated between rows."""
    rows = sorted((row for row in _rows(file) if row["model"] == name), key=lambda row: int(row["batch"]))
    if not rows:
        raise InputError(str(file), f'has no rows of "{name}"')
    batch = [float(row["batch"]) for row in rows]
    l2, dram = (
        np.interp(BATCHES, batch, [float(row[column]) for row in rows]) for column in ("l2_util_pct", "dram_util_pct")
    )
    return l2, dram


def _rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(read_text(file).splitlines()))
