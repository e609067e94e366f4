"""Single-shot detectors (Liu et al., 2015): box offsets and class scores from feature maps of six sizes."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench.replay.nets.mobile import mobilenet_v1_features, unit
from bench.replay.nets.plain import vgg_block


class Detector(nn.Module):
    """Stages of features, each with two convolutions that detect objects in it.

    Parameters
    ----------
    stages
        Each continues the one before.
    widths, boxes
        Channels and boxes per place of each stage's feature map.
    classes
        Number of classes with the background.
    kernel
        Kernel size of the convolutions that detect objects.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[nn.Module]],
        widths: Sequence[int],
        boxes: Sequence[int],
        classes: int,
        kernel: int,
    ) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(*layers) for layers in stages)
        self.values = 4 + classes
        places = list(zip(widths, boxes, strict=True))
        self.offsets = nn.ModuleList(nn.Conv2d(width, 4 * n, kernel, padding=kernel // 2) for width, n in places)
        self.scores = nn.ModuleList(nn.Conv2d(width, classes * n, kernel, padding=kernel // 2) for width, n in places)

    def scaled(self, features: Tensor, stage: int) -> Tensor:
        """Return the features of a stage for detection, unchanged."""
        return features

    def forward(self, pictures: Tensor) -> Tensor:
        """Return offsets and scores of every box, shape (batch, boxes, 4 + classes)."""
        found, features = [], pictures
        for i, (stage, offsets, scores) in enumerate(zip(self.stages, self.offsets, self.scores, strict=True)):
            features = stage(features)
            seen = self.scaled(features, i)
            boxes, classes = (
                look(seen).permute(0, 2, 3, 1).reshape(len(seen), -1, values)
                for look, values in ((offsets, 4), (scores, self.values - 4))
            )
            found.append(torch.cat([boxes, classes], dim=2))
        return torch.cat(found, dim=1)


class SsdVgg16(Detector):
    """SSD300 on VGG-16 for the 20 classes of Pascal VOC: 8,732 boxes."""

    def __init__(self) -> None:
        shallow = [*vgg_block(3, 64, 2), nn.MaxPool2d(2), *vgg_block(64, 128, 2), nn.MaxPool2d(2)]
        shallow += [*vgg_block(128, 256, 3), nn.MaxPool2d(2, ceil_mode=True), *vgg_block(256, 512, 3)]
        deep = [nn.MaxPool2d(2), *vgg_block(512, 512, 3), nn.MaxPool2d(3, 1, 1)]
        deep += [nn.Conv2d(512, 1024, 3, padding=6, dilation=6), nn.ReLU(), nn.Conv2d(1024, 1024, 1), nn.ReLU()]
        extra = [
            _extra(1024, 256, 512, 2, 1),
            _extra(512, 128, 256, 2, 1),
            _extra(256, 128, 256, 1, 0),
            _extra(256, 128, 256, 1, 0),
        ]
        super().__init__([shallow, deep, *extra], (512, 1024, 512, 256, 256, 256), (4, 6, 6, 6, 4, 4), 21, 3)
        self.scale = nn.Parameter(torch.full((1, 512, 1, 1), 20.0))

    def scaled(self, features: Tensor, stage: int) -> Tensor:
        """Return the features; those of the first stage get unit length times a learnt scale (Sec. 3.1)."""
        return nn.functional.normalize(features) * self.scale if stage == 0 else features


def _extra(inputs: int, narrow: int, outputs: int, stride: int, padding: int) -> list[nn.Module]:
    return [
        *(nn.Conv2d(inputs, narrow, 1), nn.ReLU()),
        *(nn.Conv2d(narrow, outputs, 3, stride, padding), nn.ReLU()),
    ]


class SsdMobileNet(Detector):
    """SSD on MobileNet for the 90 classes of COCO, pictures of 300 x 300: 1,917 boxes (Huang et al., 2016)."""

    def __init__(self) -> None:
        layers = mobilenet_v1_features()
        shallow, deep = ([layer for each in part for layer in each] for part in (layers[:12], layers[12:]))
        extra = [
            [*unit(inputs, narrow, 1), *unit(narrow, outputs, 3, 2)]
            for inputs, narrow, outputs in ((1024, 256, 512), (512, 128, 256), (256, 128, 256), (256, 64, 128))
        ]
        super().__init__([shallow, deep, *extra], (512, 1024, 512, 256, 256, 128), (3, 6, 6, 6, 6, 6), 91, 1)
