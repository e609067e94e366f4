"""Convolutional classifiers: LeNet, AlexNet, VGG, ResNet, DenseNet, nets for phones, and tiny nets for tests."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn

from bench.replay.nets import CHAIN_LENGTH
from bench.replay.nets.blocks import (
    Branches,
    Layers,
    Residual,
    SqueezeExcite,
    biased,
    biased_chain,
    dense,
    mean_scores,
    normalised,
)


class TinyKernels(nn.Module):
    """Chain of tiny additions; its time is the time for launching and scheduling kernels."""

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the numbers plus ``CHAIN_LENGTH``."""
        for _ in range(CHAIN_LENGTH):
            numbers = numbers + 1.0
        return numbers


def tiny_cnn() -> nn.Module:
    """Return two convolutions, a small net for timing tests."""
    return nn.Sequential(*biased(3, 8, 3, padding=1), nn.MaxPool2d(4), *biased(8, 16, 3), *dense(16 * 6 * 6, 10))


def lenet() -> nn.Module:
    """Return LeNet-5 (LeCun et al., 1998) with full connections between its convolutions."""
    features = [*biased(1, 6, 5, padding=2), nn.MaxPool2d(2), *biased(6, 16, 5), nn.MaxPool2d(2)]
    return nn.Sequential(*features, *dense(16 * 5 * 5, 120, 84, 10))


def alexnet() -> nn.Module:
    """Return AlexNet on one GPU (Krizhevsky, 2014)."""
    features = [*biased(3, 64, 11, 4, 2), nn.MaxPool2d(3, 2), *biased(64, 192, 5, padding=2), nn.MaxPool2d(3, 2)]
    features += [*biased(192, 384, 3, padding=1), *biased_chain(384, 256, 2), nn.MaxPool2d(3, 2)]
    return nn.Sequential(*features, *dense(256 * 6 * 6, 4096, 4096, 1000))


def vgg(*depths: int) -> nn.Module:
    """Return VGG with ``depths`` convolutions per width (Simonyan and Zisserman, 2014)."""
    features: Layers = []
    inputs = 3
    for channels, depth in zip((64, 128, 256, 512, 512), depths, strict=True):
        features += [*biased_chain(inputs, channels, depth), nn.MaxPool2d(2)]
        inputs = channels
    return nn.Sequential(*features, *dense(512 * 7 * 7, 4096, 4096, 1000))


# ResNet (He et al., 2015), with the stride in a bottleneck's middle convolution


def basic_resnet(*depths: int) -> nn.Module:
    """Return ResNet with two convolutions per residual, as in ResNet-18."""
    return _resnet(_basic, 1, depths)


def bottleneck_resnet(*depths: int) -> nn.Module:
    """Return ResNet with three convolutions per residual, as in ResNet-50 and deeper."""
    return _resnet(_bottleneck, 4, depths)


def _resnet(body: Callable[[int, int, int], Layers], expansion: int, depths: Sequence[int]) -> nn.Module:
    """Return ResNet with residuals of ``body``; their outputs are ``expansion`` times as wide as their convolutions."""
    layers: Layers = [*normalised(3, 64, 7, 2), nn.MaxPool2d(3, stride=2, padding=1)]
    inputs = 64
    for stage, depth in enumerate(depths):
        width = 64 * 2**stage
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            outputs = expansion * width
            same_shape = inputs == outputs and stride == 1
            projection = [] if same_shape else normalised(inputs, outputs, 1, stride, activation=None)
            layers += [Residual(body(inputs, width, stride), projection), nn.ReLU()]
            inputs = outputs
    return nn.Sequential(*layers, *mean_scores(inputs))


def _basic(inputs: int, width: int, stride: int) -> Layers:
    return [*normalised(inputs, width, 3, stride), *normalised(width, width, 3, activation=None)]


def _bottleneck(inputs: int, width: int, stride: int) -> Layers:
    first = [*normalised(inputs, width, 1), *normalised(width, width, 3, stride)]
    return [*first, *normalised(width, 4 * width, 1, activation=None)]


# DenseNet


def densenet(growth: int, channels: int, depths: Sequence[int]) -> nn.Module:
    """Return a densely connected net (Huang et al., 2016).

    Parameters
    ----------
    growth
        Channels that each layer adds to its input.
    channels
        Channels of the first convolution.
    depths
        Layers of each block.
    """
    layers: Layers = [*normalised(3, channels, 7, 2), nn.MaxPool2d(3, stride=2, padding=1)]
    for block, depth in enumerate(depths):
        if block:
            layers += [*_preactivated(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(depth):
            added = [*_preactivated(channels, 4 * growth, 1), *_preactivated(4 * growth, growth, 3)]
            layers.append(Branches([], added))
            channels += growth
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), *mean_scores(channels))


def _preactivated(inputs: int, outputs: int, kernel: int) -> Layers:
    convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
    return [nn.BatchNorm2d(inputs), nn.ReLU(), convolution]


# Nets for phones, made of depthwise separable convolutions


MOBILENET_V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
"""Output channels and stride of each separable convolution."""


def mobilenet_v1_features() -> list[Layers]:
    """Return the layers of MobileNet before its mean: the first convolution, then the separable convolutions."""
    convolution = partial(normalised, activation=nn.ReLU6)
    parts, inputs = [convolution(3, 32, 3, 2)], 32
    for outputs, stride in MOBILENET_V1:
        parts.append([*convolution(inputs, inputs, 3, stride, groups=inputs), *convolution(inputs, outputs, 1)])
        inputs = outputs
    return parts


def mobilenet_v1() -> nn.Module:
    """Return MobileNet (Howard et al., 2017)."""
    return nn.Sequential(*(layer for part in mobilenet_v1_features() for layer in part), *mean_scores(1024))


Stage = tuple[int, int, int, int, int]
"""Expansion, output channels, number of residuals, stride of the first residual, and kernel size."""


def mobilenet_v2() -> nn.Module:
    """Return MobileNetV2 (Sandler et al., 2018)."""
    stem = normalised(3, 32, 3, 2, activation=nn.ReLU6)
    stages = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3)]
    return _inverted(stem, 32, [*stages, (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)], nn.ReLU6)


def mnasnet() -> nn.Module:
    """Return MnasNet-B1 (Tan et al., 2018)."""
    stem = [*normalised(3, 32, 3, 2), *normalised(32, 32, 3, groups=32), *normalised(32, 16, 1, activation=None)]
    stages = [(3, 24, 3, 2, 3), (3, 40, 3, 2, 5), (6, 80, 3, 2, 5), (6, 96, 2, 1, 3), (6, 192, 4, 2, 5)]
    return _inverted(stem, 16, [*stages, (6, 320, 1, 1, 3)], nn.ReLU)


def efficientnet_b0() -> nn.Module:
    """Return EfficientNet-B0 (Tan and Le, 2019)."""
    stem = normalised(3, 32, 3, 2, activation=nn.SiLU)
    stages = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5)]
    return _inverted(stem, 32, [*stages, (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)], nn.SiLU, squeeze=True)


def _inverted(
    stem: Layers, channels: int, stages: Sequence[Stage], activation: Callable[[], nn.Module], squeeze: bool = False
) -> nn.Module:
    """Return a classifier of inverted residuals: widened, filtered channel by channel, and narrowed again.

    A residual has no shortcut if its input and output differ in shape (Sandler et al., 2018).
    """
    layers, convolution = [*stem], partial(normalised, activation=activation)
    for expansion, outputs, repeats, first_stride, kernel in stages:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            wide_channels = channels * expansion
            body = convolution(channels, wide_channels, 1) if expansion > 1 else []
            body += convolution(wide_channels, wide_channels, kernel, stride, groups=wide_channels)
            body += [SqueezeExcite(wide_channels, max(1, channels // 4))] if squeeze else []
            body += normalised(wide_channels, outputs, 1, activation=None)
            layers += [Residual(body)] if channels == outputs and stride == 1 else body
            channels = outputs
    return nn.Sequential(*layers, *convolution(channels, 1280, 1), *mean_scores(1280))
