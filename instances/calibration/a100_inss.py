"""A100 with InSS's eight models (InSS, Sec. 6): RaPP's curves of a V100, fitted to points of InSS's Tables 3 and 4.

Each point is the inference time of the first model of a table row beside the other models of the row. It includes the
transfers (Sec. 4.1), so the fitted GPU time is the published time without the transfers of the batch. A star in the
name of a row means batch 8 at 20 percent. Of the 28 points, 18 are pinned (``PublishedTime.pinned``): the fit meets
them closely. Ten points test the fit: ResNet-50 at batch 4, VGG-16 at 4 and 8, MnasNet at 30 and 50 %, ResNet-18 and
VGG-19 at 50 %, and EfficientNet beside MobileNet at 30, 50 and 60 %. Row E*&M1 has times of EfficientNet beside
MobileNet at four shares of MobileNet; these times hardly depend on MobileNet's share. The tables have no time of
MobileNet itself. Its curve is the curve of RaPP's MobileNetV2, scaled by the ratio of two launch times: that of
MnasNet's fitted curve and that of RaPP's MnasNet.

The demands of models that are in ``a100`` were measured on an A100. The other models have the demands of a similar
model of ``a100``, scaled by the work per request. The growth of a time per percent of a neighbour's demand is the
average growth of the models of ``a100``, fitted to measured pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from instances.arrays import Floats
from instances.calibration.shapes import Shape, calibrated_model, fit_shape, read_shapes, shaped_profile
from instances.catalogue import gpu_type
from instances.gpu import DnnModel, GpuType, Line, Provenance
from instances.measurements import Configuration
from instances.performance.validation import latencies_ms


@dataclass(frozen=True, slots=True)
class PublishedTime:
    """An inference time in InSS's tables: of ``configuration`` beside ``neighbours``, transfers included.

    ``observed_ms`` is InSS's measurement, ``published_ms`` the prediction of InSS's own model. The fit is to the
    measurements of ``pinned`` points. ``row`` is the row of the table.
    """

    row: str
    configuration: Configuration
    neighbours: tuple[Configuration, ...]
    observed_ms: float
    published_ms: float
    pinned: bool


def _star(model: str) -> Configuration:
    """Return the configuration that the tables mark with a star."""
    return Configuration(model, 8, 20.0)


def _row(
    row: str,
    configurations: Sequence[Configuration],
    neighbours: Sequence[tuple[Configuration, ...]],
    observed_ms: Sequence[float],
    published_ms: Sequence[float],
    pinned: str,
) -> list[PublishedTime]:
    """Return the points of a row of a table; ``pinned`` has a ``p`` for each pinned point."""
    columns = zip(configurations, neighbours, observed_ms, published_ms, (mark == "p" for mark in pinned), strict=True)
    return [PublishedTime(row, *values) for values in columns]


def _at_batches(model: str) -> list[Configuration]:
    return [Configuration(model, batch, 20.0) for batch in (1, 4, 8, 16)]


def _at_shares(model: str) -> list[Configuration]:
    return [Configuration(model, 8, share_pct) for share_pct in (10.0, 30.0, 50.0, 60.0)]


TABLE_3 = (
    *_row(
        "R", _at_batches("resnet50"), [()] * 4, (4.997, 6.809, 11.059, 19.533), (4.923, 7.033, 10.864, 19.387), "p-pp"
    ),
    *_row(
        "A&R*",
        _at_batches("alexnet"),
        [(_star("resnet50"),)] * 4,
        (0.940, 1.773, 2.482, 3.976),
        (0.955, 1.785, 2.461, 3.968),
        "pppp",
    ),
    *_row(
        "V&A*&R*",
        _at_batches("vgg16"),
        [(_star("alexnet"), _star("resnet50"))] * 4,
        (4.366, 11.180, 19.343, 36.688),
        (4.349, 11.176, 19.602, 37.427),
        "p--p",
    ),
)
"""Batches 1, 4, 8 and 16, all models at 20 percent."""

TABLE_4 = (
    *_row("M", _at_shares("mnasnet"), [()] * 4, (5.674, 3.633, 3.675, 3.623), (5.673, 3.665, 3.642, 3.638), "p--p"),
    *_row(
        "R1&M*",
        _at_shares("resnet18"),
        [(_star("mnasnet"),)] * 4,
        (7.884, 3.113, 2.155, 2.004),
        (7.927, 3.185, 2.201, 2.104),
        "pp-p",
    ),
    *_row(
        "V1&R1*&M*",
        _at_shares("vgg19"),
        [(_star("resnet18"), _star("mnasnet"))] * 4,
        (43.645, 15.213, 9.909, 9.161),
        (44.878, 15.716, 10.202, 8.867),
        "pp-p",
    ),
    *_row(
        "E*&M1",
        [_star("efficientnet")] * 4,
        [(at,) for at in _at_shares("mobilenet")],
        (8.616, 8.733, 8.757, 8.779),
        (8.747, 8.877, 8.879, 8.879),
        "p---",
    ),
)
"""Batch 8, shares of 10, 30, 50 and 60 percent."""

POINTS = (*TABLE_3, *TABLE_4)

SHAPED_LIKE = {"mnasnet": "mnasnet1_0", "mobilenet": "mobilenet_v2", "efficientnet": "efficientnet_b0"}
"""RaPP's name of each model that RaPP calls otherwise."""

DEMANDS_OF = {
    "alexnet": ("vgg16", 0.71 / 15.5),
    "resnet50": ("resnet50", 1.0),
    "vgg16": ("vgg16", 1.0),
    "mnasnet": ("mobilenet", 1.0),
    "mobilenet": ("mobilenet", 1.0),
    "efficientnet": ("mobilenet", 1.3),
    "resnet18": ("resnet50", 1.82 / 4.1),
    "vgg19": ("vgg19", 1.0),
}
"""Model of ``a100`` whose demands are used, and the work per request relative to it (multiply-adds)."""

BATCHES = (1, 2, 4, 8, 16, 32)
SHARES_PCT = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 100.0)

PIN_TOLERANCE = 0.005
"""Relative tolerance of the fit at a pinned point."""

PRIOR_DEVIATIONS = np.array([1.0, 2.0, 1.5, 1.0, 0.1, 0.1])
"""Standard deviations of the prior of the logarithms of a shape's parameters, in the order of ``Shape``. The means of
the prior are those of RaPP's shape, scaled. The exponents may differ least from RaPP's."""

FIT_ROUNDS = 6
"""Rounds of the fit. Each round removes the effects of neighbours and of InSS's regression from the target times."""

SOURCE = (
    "times shaped like RaPP's on a V100 and pinned to 18 of the 28 points of InSS's Tables 3 and 4"
    " (instances/calibration/a100_inss.py names them); demands of measured A100 models"
)


def a100_inss(measurements: Path) -> GpuType:
    """Fit the eight models one after another; the neighbours in a model's points are fitted before it.

    Parameters
    ----------
    measurements
        Folder with ``v100-rapp``.

    Raises
    ------
    InputError
        If a file is missing or lacks a model.
    """
    samples, a100 = read_shapes(measurements), gpu_type("a100")
    companies = [model.company for model in a100.models.values() if model.company is not None]
    alpha_l2 = float(np.mean([company.alpha_l2 for company in companies]))
    alphas = alpha_l2, float(np.mean([company.alpha_dram for company in companies]))
    gpu = replace(a100, name="a100-inss", models={}, provenance=Provenance("calibrated", SOURCE), margins=())
    shapes = {
        name: fit_shape(SHAPED_LIKE.get(name, name), samples.get(SHAPED_LIKE.get(name, name), []))[0]
        for name in DEMANDS_OF
    }
    for name in ("resnet50", "alexnet", "vgg16", "mnasnet", "resnet18", "vgg19", "efficientnet"):
        shape = _pinned(gpu, name, shapes[name], alphas, a100)
        gpu = _with(gpu, _model(name, shape, alphas, a100))
        if name == "mnasnet":
            factor = shape.launch_ms / shapes[name].launch_ms
            gpu = _with(gpu, _model("mobilenet", shapes["mobilenet"].scaled(factor), alphas, a100))
    return gpu


def _with(gpu: GpuType, model: DnnModel) -> GpuType:
    return replace(gpu, models={**gpu.models, model.name: model})


def _model(name: str, shape: Shape, alphas: tuple[float, float], a100: GpuType) -> DnnModel:
    similar_model, work = DEMANDS_OF[name]
    solo = a100.model(similar_model).profiled("a100")

    def line(measured: Line) -> Line:
        # With more work per request, fewer requests per second cause the same utilisation.
        return measured[0] * work, measured[1]

    profile = shaped_profile(shape, BATCHES, SHARES_PCT, line(solo.l2), line(solo.dram))
    return calibrated_model(name, profile, alphas, SOURCE)


def _pinned(gpu: GpuType, name: str, shape: Shape, alphas: tuple[float, float], a100: GpuType) -> Shape:
    """Fit a shape to the pinned points of its model while it stays close to RaPP's shape.

    The scale is free, because RaPP used another GPU and framework.
    """
    points = [point for point in POINTS if point.configuration.model == name and point.pinned]
    transfers_ms = _transfers_ms(_with(gpu, _model(name, shape, alphas, a100)), points)
    observed_gpu_ms = _observed_ms(points) - transfers_ms
    batch = np.array([float(point.configuration.batch) for point in points])
    share = np.array([point.configuration.share_pct for point in points])
    prior = shape.scaled(float(np.exp(np.mean(np.log(observed_gpu_ms / shape.times_ms(batch, share))))))

    def residual(logs: Floats, target_ms: Floats) -> Floats:
        log_errors = np.log(Shape.from_logs(logs).times_ms(batch, share) / target_ms)
        return np.concatenate([log_errors / PIN_TOLERANCE, (logs - prior.logs()) / PRIOR_DEVIATIONS])

    fitted = prior
    for _ in range(FIT_ROUNDS):
        # Neighbours and the regression change the times of the shape by a factor; the targets are divided by it.
        model_ms = inference_times_ms(_with(gpu, _model(name, fitted, alphas, a100)), points) - transfers_ms
        target_ms = fitted.times_ms(batch, share) * observed_gpu_ms / model_ms
        fitted = Shape.from_logs(least_squares(residual, prior.logs(), kwargs={"target_ms": target_ms}).x)
    return fitted


def inference_times_ms(gpu: GpuType, points: Sequence[PublishedTime]) -> Floats:
    """Return the inference times that the performance model ``inss`` predicts at the points, transfers included."""
    groups = [(point.configuration, *point.neighbours) for point in points]
    return np.array([times[0] for times in latencies_ms(gpu, "inss", groups)])


def relative_errors(gpu: GpuType, points: Sequence[PublishedTime]) -> Mapping[PublishedTime, float]:
    """Return ``predicted / observed - 1`` for the predictions of ``inference_times_ms``, by point."""
    errors = inference_times_ms(gpu, points) / _observed_ms(points) - 1.0
    return dict(zip(points, errors.tolist(), strict=True))


def _observed_ms(points: Sequence[PublishedTime]) -> Floats:
    return np.array([point.observed_ms for point in points])


def _transfers_ms(gpu: GpuType, points: Sequence[PublishedTime]) -> Floats:
    per_item_ms = {
        name: (model.input_bytes + model.output_bytes) / gpu.hardware.pcie_bytes_per_ms
        for name, model in gpu.models.items()
    }
    return np.array([point.configuration.batch * per_item_ms[point.configuration.model] for point in points])
