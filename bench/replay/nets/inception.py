"""Classifiers of parallel branches: GoogLeNet (Szegedy et al., 2014) and Inception v3 (2015)."""

from functools import partial

from torch import nn

from bench.replay.nets.blocks import Branches, Layers, mean_scores, normalised

conv = partial(normalised, eps=0.001)
"""Function that returns a convolution as in torchvision's variants of these nets."""

ROW, COLUMN = (1, 7), (7, 1)
"""Kernel sizes of the two convolutions that replace a 7x7 convolution."""

GOOGLENET = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}
"""Channels in Table 1 of the paper: inputs, 1x1, 3x3 reduced, 3x3, 5x5 reduced, 5x5, pool projection."""


def googlenet() -> nn.Module:
    """Return GoogLeNet with batch normalisation; a 3x3 replaces the paper's 5x5, as in torchvision's weights."""
    layers: Layers = [*conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, ceil_mode=True), *conv(64, 64, 1)]
    layers += [*conv(64, 192, 3), nn.MaxPool2d(3, 2, ceil_mode=True)]
    for name, (inputs, width_1, reduced_3, width_3, reduced_5, width_5, pooled) in GOOGLENET.items():
        if name in ("4a", "5a"):
            layers.append(nn.MaxPool2d(3 if name == "4a" else 2, 2, ceil_mode=True))
        layers.append(
            Branches(
                conv(inputs, width_1, 1),
                [*conv(inputs, reduced_3, 1), *conv(reduced_3, width_3, 3)],
                [*conv(inputs, reduced_5, 1), *conv(reduced_5, width_5, 3)],
                [nn.MaxPool2d(3, 1, 1, ceil_mode=True), *conv(inputs, pooled, 1)],
            )
        )
    return nn.Sequential(*layers, *mean_scores(1024))


def inception_v3() -> nn.Module:
    """Return Inception v3, for pictures of 299 x 299."""
    stem: Layers = [*conv(3, 32, 3, 2, 0), *conv(32, 32, 3, 1, 0), *conv(32, 64, 3), nn.MaxPool2d(3, 2)]
    stem += [*conv(64, 80, 1), *conv(80, 192, 3, 1, 0), nn.MaxPool2d(3, 2)]
    fine = [_fine(192, 32), _fine(256, 64), _fine(288, 64)]
    reduction_to_17 = Branches(
        conv(288, 384, 3, 2, 0), [*_reduced_3x3(288), *conv(96, 96, 3, 2, 0)], [nn.MaxPool2d(3, 2)]
    )
    middle = [_factorised(width) for width in (128, 160, 160, 192)]
    factorised_path = [*conv(768, 192, 1), *conv(192, 192, ROW), *conv(192, 192, COLUMN), *conv(192, 192, 3, 2, 0)]
    reduction_to_8 = Branches([*conv(768, 192, 1), *conv(192, 320, 3, 2, 0)], factorised_path, [nn.MaxPool2d(3, 2)])
    return nn.Sequential(
        *stem, *fine, reduction_to_17, *middle, reduction_to_8, _coarse(1280), _coarse(2048), *mean_scores(2048)
    )


def _averaged(inputs: int, outputs: int) -> Layers:
    return [nn.AvgPool2d(3, 1, 1), *conv(inputs, outputs, 1)]


def _reduced_3x3(inputs: int) -> Layers:
    return [*conv(inputs, 64, 1), *conv(64, 96, 3)]


def _fine(inputs: int, pooled: int) -> Branches:
    """Return the module of Figure 5, at 35 x 35."""
    path_5x5 = [*conv(inputs, 48, 1), *conv(48, 64, 5)]
    return Branches(conv(inputs, 64, 1), path_5x5, [*_reduced_3x3(inputs), *conv(96, 96, 3)], _averaged(inputs, pooled))


def _factorised(width: int) -> Branches:
    """Return the module of Figure 6, at 17 x 17."""
    short_path = [*conv(768, width, 1), *conv(width, width, ROW), *conv(width, 192, COLUMN)]
    long_path = [
        *conv(width, width, COLUMN),
        *conv(width, width, ROW),
        *conv(width, width, COLUMN),
        *conv(width, 192, ROW),
    ]
    return Branches(conv(768, 192, 1), short_path, [*conv(768, width, 1), *long_path], _averaged(768, 192))


def _coarse(inputs: int) -> Branches:
    """Return the module of Figure 7, at 8 x 8."""
    short_path = [*conv(inputs, 384, 1), _row_and_column()]
    long_path = [*conv(inputs, 448, 1), *conv(448, 384, 3), _row_and_column()]
    return Branches(conv(inputs, 320, 1), short_path, long_path, _averaged(inputs, 192))


def _row_and_column() -> Branches:
    return Branches(conv(384, 384, (1, 3)), conv(384, 384, (3, 1)))
