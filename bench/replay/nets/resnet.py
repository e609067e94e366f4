"""Residual nets (He et al., 2015), with the stride in a bottleneck's middle convolution."""

from torch import Tensor, nn

DEPTHS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class ResNet(nn.Module):
    """ResNet with ``layers`` layers: basic blocks in the 18, bottlenecks in the deeper ones."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        block, growth = (_basic, 1) if layers == 18 else (_bottleneck, 4)
        stem = [nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        blocks: list[nn.Module] = [*stem, nn.MaxPool2d(3, stride=2, padding=1)]
        inputs = 64
        for stage, depth in enumerate(DEPTHS[layers]):
            width = 64 * 2**stage
            for i in range(depth):
                stride = 2 if stage and not i else 1
                blocks.append(Residual(block(inputs, width, stride), inputs, growth * width, stride))
                inputs = growth * width
        self.features = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(inputs, 1000)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return scores, shape (batch, 1000)."""
        scores: Tensor = self.classifier(self.pool(self.features(pictures)).flatten(1))
        return scores


class Residual(nn.Module):
    """A body beside a shortcut, which is a projection where the shapes differ."""

    def __init__(self, body: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_normalised(inputs, outputs, 1, stride))
        self.activation = nn.ReLU()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the activated sum."""
        outputs: Tensor = self.activation(self.body(inputs) + self.shortcut(inputs))
        return outputs


def _normalised(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


def _basic(inputs: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(*_normalised(inputs, width, 3, stride), nn.ReLU(), *_normalised(width, width, 3))


def _bottleneck(inputs: int, width: int, stride: int) -> nn.Sequential:
    narrow = [*_normalised(inputs, width, 1), nn.ReLU()]
    middle = [*_normalised(width, width, 3, stride), nn.ReLU()]
    return nn.Sequential(*narrow, *middle, *_normalised(width, 4 * width, 1))
