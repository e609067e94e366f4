"""Blocks that the nets share: convolutions, sums, branches, and fully connected layers."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

Layers = list[nn.Module]
"""Layers that run one after the other."""

Size = int | tuple[int, int]
"""Height and width, or both as one number."""


def normalised(
    inputs: int,
    outputs: int,
    kernel: Size,
    stride: int = 1,
    padding: Size | None = None,
    groups: int = 1,
    activation: Callable[[], nn.Module] | None = nn.ReLU,
    eps: float = 1e-5,
) -> Layers:
    """Return a convolution with batch normalisation and activation; the default padding keeps the size at stride 1."""
    same_padding = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
    padding = same_padding if padding is None else padding
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs, eps=eps), *([] if activation is None else [activation()])]


def biased(inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> Layers:
    """Return a convolution with bias and its activation."""
    return [nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU()]


def biased_chain(inputs: int, channels: int, depth: int) -> Layers:
    """Return ``depth`` convolutions of 3 x 3 with ``channels`` outputs each, the block of VGG."""
    widths = [inputs] + [channels] * depth
    return [layer for pair in pairwise(widths) for layer in biased(*pair, 3, padding=1)]


def dense(*widths: int) -> Layers:
    """Return fully connected layers of the given widths, with activations between them."""
    layers: Layers = [nn.Flatten()]
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return layers[:-1]


def mean_scores(channels: int) -> Layers:
    """Return the mean over the picture and one layer of 1,000 scores."""
    return [nn.AdaptiveAvgPool2d(1), *dense(channels, 1000)]


class Branches(nn.Module):
    """Branches side by side, their channels put together; a branch without layers is the input."""

    def __init__(self, *branches: Sequence[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*layers) for layers in branches)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the channels of all branches."""
        return torch.cat([branch(inputs) for branch in self.branches], dim=1)


class Residual(nn.Module):
    """Sum of a body's output and the input, or a projection of the input (He et al., 2015)."""

    def __init__(self, body: Sequence[nn.Module], projection: Sequence[nn.Module] = ()) -> None:
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*body), nn.Sequential(*projection)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the sum."""
        total: Tensor = self.body(inputs) + self.shortcut(inputs)
        return total


class SqueezeExcite(nn.Module):
    """Squeeze and excitation: channels scaled by a function of their means (Hu et al., 2017)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        narrow, wide = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), narrow, nn.SiLU(), wide, nn.Sigmoid())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the scaled channels."""
        return inputs * self.scale(inputs)
