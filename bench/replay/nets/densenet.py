"""Densely connected nets (Huang et al., 2016)."""

import torch
from torch import Tensor, nn

SHAPES = {
    121: (32, 64, (6, 12, 24, 16)),
    161: (48, 96, (6, 12, 36, 24)),
    169: (32, 64, (6, 12, 32, 32)),
    201: (32, 64, (6, 12, 48, 32)),
}
"""Growth, channels of the first convolution, layers in each block."""


class DenseLayer(nn.Module):
    """Layer that adds ``growth`` channels to its input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        narrow = [nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False)]
        wide = [nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)]
        self.body = nn.Sequential(*narrow, *wide)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the old channels and the new ones."""
        return torch.cat([inputs, self.body(inputs)], dim=1)


class DenseNet(nn.Module):
    """DenseNet with ``layers`` layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        growth, channels, depths = SHAPES[layers]
        stem = [nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
        blocks: list[nn.Module] = [*stem, nn.MaxPool2d(3, stride=2, padding=1)]
        for i, depth in enumerate(depths):
            if i:
                blocks += [nn.BatchNorm2d(channels), nn.ReLU()]
                blocks += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
                channels //= 2
            for _ in range(depth):
                blocks.append(DenseLayer(channels, growth))
                channels += growth
        self.features = nn.Sequential(*blocks, nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(channels, 1000)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return scores, shape (batch, 1000)."""
        scores: Tensor = self.classifier(self.features(pictures).flatten(1))
        return scores
