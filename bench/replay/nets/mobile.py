"""Nets for phones, made of depthwise separable convolutions: MobileNet (v1, v2), MnasNet, EfficientNet-B0."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

Activation = Callable[[], nn.Module]


def unit(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, activation: Activation = nn.ReLU6
) -> list[nn.Module]:
    """Return a convolution, its normalisation and its activation."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), activation()]


def separable(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    """Return a depthwise convolution followed by a pointwise one (Howard et al., 2017)."""
    return [*unit(inputs, inputs, 3, stride, inputs), *unit(inputs, outputs, 1)]


class Classifier(nn.Module):
    """Convolutions, the mean over the picture, and one layer of scores."""

    def __init__(self, features: Sequence[nn.Module], channels: int) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(channels, 1000))

    def forward(self, pictures: Tensor) -> Tensor:
        """Return scores, shape (batch, 1000)."""
        scores: Tensor = self.classifier(self.pool(self.features(pictures)).flatten(1))
        return scores


class SqueezeExcite(nn.Module):
    """Squeeze and excitation: channels scaled by a function of their means (Hu et al., 2017)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        narrow, wide = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), narrow, nn.SiLU(), wide, nn.Sigmoid())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the scaled channels."""
        return inputs * self.scale(inputs)


class InvertedResidual(nn.Module):
    """Inverted residual: widened, filtered channel by channel, and narrowed again (Sandler et al., 2018)."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        expansion: int,
        kernel: int,
        stride: int,
        activation: Activation = nn.ReLU6,
        squeeze: bool = False,
    ) -> None:
        super().__init__()
        wide = inputs * expansion
        layers = unit(inputs, wide, 1, activation=activation) if expansion > 1 else []
        layers += unit(wide, wide, kernel, stride, wide, activation)
        if squeeze:
            layers.append(SqueezeExcite(wide, max(1, inputs // 4)))
        layers += [nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.body = nn.Sequential(*layers)
        self.residual = inputs == outputs and stride == 1

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the body's output, plus the input if the shapes agree."""
        outputs: Tensor = self.body(inputs)
        return inputs + outputs if self.residual else outputs


Stage = tuple[int, int, int, int, int]
"""Expansion, output channels, repeats, stride of the first, kernel."""

MOBILENET_V2: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
)

MNASNET: tuple[Stage, ...] = (
    (3, 24, 3, 2, 3),
    (3, 40, 3, 2, 5),
    (6, 80, 3, 2, 5),
    (6, 96, 2, 1, 3),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)

EFFICIENTNET_B0: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)

MOBILENET_V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
"""Output channels and stride of each separable convolution."""


def _stages(inputs: int, stages: Sequence[Stage], activation: Activation, squeeze: bool = False) -> list[nn.Module]:
    blocks: list[nn.Module] = []
    for expansion, outputs, repeats, stride, kernel in stages:
        for i in range(repeats):
            first = stride if not i else 1
            blocks.append(InvertedResidual(inputs, outputs, expansion, kernel, first, activation, squeeze))
            inputs = outputs
    return blocks


def mobilenet_v1_features() -> list[list[nn.Module]]:
    """Return the layers of MobileNet before its mean: the first convolution, then the separable ones."""
    units, inputs = [unit(3, 32, 3, 2)], 32
    for outputs, stride in MOBILENET_V1:
        units.append(separable(inputs, outputs, stride))
        inputs = outputs
    return units


def mobilenet_v1() -> nn.Module:
    """Return MobileNet (Howard et al., 2017)."""
    return Classifier([layer for layers in mobilenet_v1_features() for layer in layers], 1024)


def mobilenet_v2() -> nn.Module:
    """Return MobileNetV2 (Sandler et al., 2018)."""
    return Classifier([*unit(3, 32, 3, 2), *_stages(32, MOBILENET_V2, nn.ReLU6), *unit(320, 1280, 1)], 1280)


def mnasnet() -> nn.Module:
    """Return MnasNet-B1 (Tan et al., 2018)."""
    stem = [*unit(3, 32, 3, 2, activation=nn.ReLU), *unit(32, 32, 3, 1, 32, nn.ReLU)]
    stem += [nn.Conv2d(32, 16, 1, bias=False), nn.BatchNorm2d(16)]
    return Classifier([*stem, *_stages(16, MNASNET, nn.ReLU), *unit(320, 1280, 1, activation=nn.ReLU)], 1280)


def efficientnet_b0() -> nn.Module:
    """Return EfficientNet-B0 (Tan and Le, 2019)."""
    stages = _stages(32, EFFICIENTNET_B0, nn.SiLU, squeeze=True)
    ends = unit(3, 32, 3, 2, activation=nn.SiLU), unit(320, 1280, 1, activation=nn.SiLU)
    return Classifier([*ends[0], *stages, *ends[1]], 1280)
