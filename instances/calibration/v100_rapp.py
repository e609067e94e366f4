"""Tesla V100 with torchvision models as RaPP measured them in eager PyTorch, for MediatorDNN's forty jobs.

The times of a model are a shape fitted to its measurements at batches up to 8. Times of larger batches follow from the
shape. No time is scaled to another GPU. RaPP measured no network as small as LeNet, so ``lenet`` has AlexNet's launch
time, and AlexNet's work in proportion to the multiplications of both.

RaPP measured no utilisations. They are taken from the catalogue's ``rtx2080ti`` (published by gpulet's authors) or
``a100``: those of the model itself or of a related model (``UTILISATION_OF``). The constants of the pair factor are
those of ``rtx2080ti``, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from instances.arrays import Floats
from instances.calibration.shapes import Shape, calibrated_model, fit_shape, read_shapes, shaped_profile
from instances.catalogue import gpu_type
from instances.errors import InputError
from instances.gpu import DnnModel, GpuType, Hardware, PairFactor, Provenance
from instances.measurements import SoloSample
from instances.performance.solo_fit import demand_line, rounded

RAPP_NAMES = {
    "convnext": "convnext_base",
    "efficientnet": "efficientnet_b0",
    "googlenet": "googlenet",
    "inception": "inception_v3",
    "lenet": "alexnet",
    "mnasnet": "mnasnet1_0",
    "mnasnet-wide": "mnasnet1_3",
    "mobilenet": "mobilenet_v2",
    "regnet": "regnet_y_16gf",
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "resnet101": "resnet101",
    "resnet152": "resnet152",
    "shufflenet-half": "shufflenet_v2_x0_5",
}
"""RaPP's name of the model whose times shape each model."""

UTILISATION_OF = {
    "convnext": "vgg16",
    "efficientnet": "mnasnet",
    "mnasnet-wide": "mnasnet",
    "regnet": "vgg16",
    "resnet18": "resnet50",
    "shufflenet-half": "mnasnet",
}
"""Related model with measured utilisations, for each model without them."""

ON_A100 = ("inception", "resnet101", "resnet152")
"""Models whose utilisations were measured on an A100 only."""

MILLION_MULTIPLICATIONS = {"alexnet": 714.0, "lenet": 0.42}
"""Multiplications of one inference, in millions."""

BATCHES = (1, 2, 4, 8, 16, 32)
LENET_BATCHES = (*BATCHES, 64, 128, 256, 512)
"""Batches of ``lenet``: MediatorDNN's text jobs come in batches of 512."""

SHARES_PCT = (5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0)
SHARE_UNITS = 20
MEMORY_MIB = 16384.0
PRICE_PER_HOUR = 3.06
PCIE_BYTES_PER_MS = 1e7

SOURCE = (
    "shapes fitted to RaPP's times on a V100 in eager PyTorch, at batches up to 8 (KontonGu/RaPP); utilisations and"
    " pair constants of the catalogue's rtx2080ti (casys-kaist/glet), some utilisations of its a100 (0909wlgur)"
)


def v100_rapp(measurements: Path) -> GpuType:
    """Return the GPU type with the models of ``RAPP_NAMES``.

    Parameters
    ----------
    measurements
        Folder with ``v100-rapp``.

    Raises
    ------
    InputError
        If the file is missing or lacks a model.
    """
    samples, pair = read_shapes(measurements), gpu_type("rtx2080ti").pair
    if pair is None:
        raise InputError("rtx2080ti", "has no constants of the pair factor")
    return GpuType(
        "v100-rapp",
        SHARE_UNITS,
        MEMORY_MIB,
        PRICE_PER_HOUR,
        Hardware(PCIE_BYTES_PER_MS),
        {name: _model(name, samples, pair) for name in RAPP_NAMES},
        Provenance("calibrated", SOURCE),
        pair=pair,
    )


def _model(name: str, samples: Mapping[str, Sequence[SoloSample]], pair: PairFactor) -> DnnModel:
    shape, error = _shape(name, samples)
    batches = LENET_BATCHES if name == "lenet" else BATCHES
    l2_pct, dram_pct = _utilisations(name, batches)
    solo = shaped_profile(shape, batches, SHARES_PCT, (0.0, 0.0), (0.0, 0.0))
    solo_rps = 1000.0 * np.array(batches) / solo.times_ms[:, -1]
    solo = replace(
        solo,
        l2_pct=rounded(l2_pct[None, :])[0],
        dram_pct=rounded(dram_pct[None, :])[0],
        l2=demand_line(solo_rps, l2_pct),
        dram=demand_line(solo_rps, dram_pct),
    )
    alphas = (pair.l2_other / 100.0, pair.dram_other / 100.0)
    source = f"{SOURCE}; times of {RAPP_NAMES[name]}, utilisations of {UTILISATION_OF.get(name, name)}"
    model = calibrated_model(name, solo, alphas, source)
    residual = {**model.provenance.residual, "shape_rel_mean": error}
    return replace(model, provenance=replace(model.provenance, residual=residual))


def _shape(name: str, samples: Mapping[str, Sequence[SoloSample]]) -> tuple[Shape, float]:
    """Return the shape of a model and the mean relative error of its fit."""
    shape, error = fit_shape(RAPP_NAMES[name], samples.get(RAPP_NAMES[name], []))
    if name == "lenet":
        work_ratio = MILLION_MULTIPLICATIONS["lenet"] / MILLION_MULTIPLICATIONS["alexnet"]
        shape = replace(shape.scaled(work_ratio), launch_ms=shape.launch_ms)
    return shape, error


def _utilisations(name: str, batches: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the L2 and DRAM utilisation on the full GPU in percent; the largest known batch stands for larger ones."""
    gpu = gpu_type("a100" if name in ON_A100 else "rtx2080ti")
    solo = gpu.model(UTILISATION_OF.get(name, name)).profiled(gpu.name)
    l2_pct, dram_pct = (np.interp(batches, solo.batch, percent) for percent in (solo.l2_pct, solo.dram_pct))
    return l2_pct, dram_pct
