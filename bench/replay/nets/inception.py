"""Nets of parallel branches for inference: GoogLeNet (Szegedy et al., 2014) and Inception v3 (2015).

The auxiliary classifiers, which only training uses, are left out.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

Size = int | tuple[int, int]


def unit(inputs: int, outputs: int, kernel: Size, stride: int = 1, padding: Size = 0) -> list[nn.Module]:
    """Return a convolution, its normalisation and its activation."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
    return [convolution, nn.BatchNorm2d(outputs, eps=0.001), nn.ReLU()]


class Branches(nn.Module):
    """Branches side by side, their channels put together."""

    def __init__(self, *branches: Sequence[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*layers) for layers in branches)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the channels of all branches."""
        return torch.cat([branch(inputs) for branch in self.branches], dim=1)


class Inception(nn.Module):
    """Layers, the mean over the picture, and one layer of scores."""

    def __init__(self, features: list[nn.Module], channels: int, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(*features, nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(channels, 1000))

    def forward(self, pictures: Tensor) -> Tensor:
        """Return scores, shape (batch, 1000)."""
        scores: Tensor = self.classifier(self.features(pictures).flatten(1))
        return scores


MODULES = {
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
"""Table 1 of the paper: inputs, 1x1, 3x3 reduced, 3x3, 5x5 reduced, 5x5, pooled and projected."""


class GoogLeNet(Inception):
    """GoogLeNet with batch normalisation; a 3x3 replaces the paper's 5x5, as in torchvision's weights."""

    def __init__(self) -> None:
        layers: list[nn.Module] = [*unit(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, ceil_mode=True), *unit(64, 64, 1)]
        layers += [*unit(64, 192, 3, 1, 1), nn.MaxPool2d(3, 2, ceil_mode=True)]
        for name, (inputs, one, three_in, three, five_in, five, pooled) in MODULES.items():
            if name == "4a":
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            if name == "5a":
                layers.append(nn.MaxPool2d(2, 2, ceil_mode=True))
            layers.append(
                Branches(
                    unit(inputs, one, 1),
                    [*unit(inputs, three_in, 1), *unit(three_in, three, 3, 1, 1)],
                    [*unit(inputs, five_in, 1), *unit(five_in, five, 3, 1, 1)],
                    [nn.MaxPool2d(3, 1, 1, ceil_mode=True), *unit(inputs, pooled, 1)],
                )
            )
        super().__init__(layers, 1024, 0.2)


class InceptionV3(Inception):
    """Inception v3, for pictures of 299 x 299."""

    def __init__(self) -> None:
        stem: list[nn.Module] = [*unit(3, 32, 3, 2), *unit(32, 32, 3), *unit(32, 64, 3, 1, 1), nn.MaxPool2d(3, 2)]
        stem += [*unit(64, 80, 1), *unit(80, 192, 3), nn.MaxPool2d(3, 2)]
        fine = [_fine(192, 32), _fine(256, 64), _fine(288, 64)]
        middle = [_factorised(width) for width in (128, 160, 160, 192)]
        coarse = [_coarse(1280), _coarse(2048)]
        super().__init__([*stem, *fine, _to_17(), *middle, _to_8(), *coarse], 2048, 0.5)


def _averaged(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.AvgPool2d(3, 1, 1), *unit(inputs, outputs, 1)]


def _fine(inputs: int, pooled: int) -> Branches:
    """Return the module of Figure 5, at 35 x 35."""
    return Branches(
        unit(inputs, 64, 1),
        [*unit(inputs, 48, 1), *unit(48, 64, 5, 1, 2)],
        [*unit(inputs, 64, 1), *unit(64, 96, 3, 1, 1), *unit(96, 96, 3, 1, 1)],
        _averaged(inputs, pooled),
    )


def _to_17() -> Branches:
    return Branches(
        unit(288, 384, 3, 2),
        [*unit(288, 64, 1), *unit(64, 96, 3, 1, 1), *unit(96, 96, 3, 2)],
        [nn.MaxPool2d(3, 2)],
    )


def _row(inputs: int, outputs: int) -> list[nn.Module]:
    return unit(inputs, outputs, (1, 7), 1, (0, 3))


def _column(inputs: int, outputs: int) -> list[nn.Module]:
    return unit(inputs, outputs, (7, 1), 1, (3, 0))


def _factorised(width: int) -> Branches:
    """Return the module of Figure 6, at 17 x 17."""
    twice = [*_column(width, width), *_row(width, width), *_column(width, width), *_row(width, 192)]
    return Branches(
        unit(768, 192, 1),
        [*unit(768, width, 1), *_row(width, width), *_column(width, 192)],
        [*unit(768, width, 1), *twice],
        _averaged(768, 192),
    )


def _to_8() -> Branches:
    return Branches(
        [*unit(768, 192, 1), *unit(192, 320, 3, 2)],
        [*unit(768, 192, 1), *_row(192, 192), *_column(192, 192), *unit(192, 192, 3, 2)],
        [nn.MaxPool2d(3, 2)],
    )


def _coarse(inputs: int) -> Branches:
    """Return the module of Figure 7, at 8 x 8."""
    return Branches(
        unit(inputs, 320, 1),
        [*unit(inputs, 384, 1), _both_ways()],
        [*unit(inputs, 448, 1), *unit(448, 384, 3, 1, 1), _both_ways()],
        _averaged(inputs, 192),
    )


def _both_ways() -> Branches:
    return Branches(unit(384, 384, (1, 3), 1, (0, 1)), unit(384, 384, (3, 1), 1, (1, 0)))
