"""Nets of one chain of layers: LeNet-5, AlexNet, VGG, and tiny ones for tests and measurements."""

from torch import Tensor, nn


class Chain(nn.Module):
    """Convolutions, then fully connected layers."""

    def __init__(self, features: list[nn.Module], classifier: list[nn.Module]) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(*classifier)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return scores, shape (batch, classes)."""
        scores: Tensor = self.classifier(self.features(pictures).flatten(1))
        return scores


class TinyCnn(Chain):
    """Two convolutions: enough to be timed."""

    def __init__(self) -> None:
        super().__init__(
            [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Conv2d(8, 16, 3), nn.ReLU()],
            [nn.Linear(16 * 6 * 6, 10)],
        )


KERNELS = 200
"""Number of additions of ``TinyKernels``."""


class TinyKernels(nn.Module):
    """Chain of tiny additions; its time is that of launching and scheduling kernels."""

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the numbers plus ``KERNELS``."""
        for _ in range(KERNELS):
            numbers = numbers + 1.0
        return numbers


class LeNet(Chain):
    """LeNet-5 (LeCun et al., 1998) with full connections between its convolutions."""

    def __init__(self) -> None:
        super().__init__(
            [
                *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
                *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
            ],
            [nn.Linear(16 * 5 * 5, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)],
        )


class AlexNet(Chain):
    """AlexNet on one GPU (Krizhevsky, 2014)."""

    def __init__(self) -> None:
        super().__init__(
            [
                *(nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
                *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
                *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
                *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
                *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
            ],
            [
                *(nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU()),
                *(nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()),
                nn.Linear(4096, 1000),
            ],
        )


VGG_CHANNELS = (64, 128, 256, 512, 512)
VGG_DEPTHS = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg_block(inputs: int, channels: int, depth: int) -> list[nn.Module]:
    """Return ``depth`` convolutions of one width."""
    layers: list[nn.Module] = []
    for i in range(depth):
        layers += [nn.Conv2d(channels if i else inputs, channels, 3, padding=1), nn.ReLU()]
    return layers


class Vgg(Chain):
    """VGG with ``layers`` layers (Simonyan and Zisserman, 2014), configurations D and E."""

    def __init__(self, layers: int) -> None:
        features: list[nn.Module] = []
        inputs = 3
        for channels, depth in zip(VGG_CHANNELS, VGG_DEPTHS[layers], strict=True):
            features += [*vgg_block(inputs, channels, depth), nn.MaxPool2d(2)]
            inputs = channels
        classifier: list[nn.Module] = [
            *(nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout()),
            *(nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout()),
            nn.Linear(4096, 1000),
        ]
        super().__init__(features, classifier)
