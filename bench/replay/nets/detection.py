"""Single-shot detectors (Liu et al., 2015): box offsets and class scores from feature maps of six sizes."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from bench.replay.nets.blocks import Layers, biased, biased_chain, normalised
from bench.replay.nets.convolutional import mobilenet_v1_features


class UnitLength(nn.Module):
    """Features of unit length times a learnt scale (Sec. 3.1)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1, channels, 1, 1), 20.0))

    def forward(self, features: Tensor) -> Tensor:
        """Return the scaled features."""
        return nn.functional.normalize(features) * self.scale


class Detector(nn.Module):
    """Stages of features, each with two convolutions that detect objects in its output.

    Parameters
    ----------
    stages
        Layers of each stage; the input of a stage is the output of the stage before.
    widths, boxes
        Channels and boxes per place of each stage's feature map.
    classes
        Number of classes with the background.
    kernel
        Kernel size of the convolutions that detect objects.
    first_adapter
        Layer between the features of the first stage and the convolutions that detect objects there.
    """

    def __init__(
        self,
        stages: Sequence[Layers],
        widths: Sequence[int],
        boxes: Sequence[int],
        classes: int,
        kernel: int,
        first_adapter: nn.Module,
    ) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(*layers) for layers in stages)
        self.adapters = nn.ModuleList([first_adapter, *(nn.Identity() for _ in stages[1:])])
        widths_and_boxes = list(zip(widths, boxes, strict=True))
        self.offsets, self.scores = (
            nn.ModuleList(
                nn.Conv2d(width, values_per_box * boxes_per_place, kernel, padding=kernel // 2)
                for width, boxes_per_place in widths_and_boxes
            )
            for values_per_box in (4, classes)
        )
        self.classes = classes

    def forward(self, pictures: Tensor) -> Tensor:
        """Return offsets and scores of every box, shape (batch, boxes, 4 + classes)."""
        outputs, features = [], pictures
        for stage, adapter, offsets, scores in zip(self.stages, self.adapters, self.offsets, self.scores, strict=True):
            features = stage(features)
            adapted = adapter(features)
            parts = (
                head(adapted).permute(0, 2, 3, 1).reshape(len(adapted), -1, values_per_box)
                for head, values_per_box in ((offsets, 4), (scores, self.classes))
            )
            outputs.append(torch.cat([*parts], dim=2))
        return torch.cat(outputs, dim=1)


def ssd_vgg16() -> nn.Module:
    """Return SSD300 on VGG-16 for the 20 classes of Pascal VOC: 8,732 boxes."""
    shallow = [*biased_chain(3, 64, 2), nn.MaxPool2d(2), *biased_chain(64, 128, 2), nn.MaxPool2d(2)]
    shallow += [*biased_chain(128, 256, 3), nn.MaxPool2d(2, ceil_mode=True), *biased_chain(256, 512, 3)]
    deep = [nn.MaxPool2d(2), *biased_chain(512, 512, 3), nn.MaxPool2d(3, 1, 1)]
    deep += [nn.Conv2d(512, 1024, 3, padding=6, dilation=6), nn.ReLU(), *biased(1024, 1024, 1)]
    extra = [
        [*biased(inputs, narrow, 1), *biased(narrow, outputs, 3, stride, stride - 1)]
        for inputs, narrow, outputs, stride in ((1024, 256, 512, 2), (512, 128, 256, 2), *((256, 128, 256, 1),) * 2)
    ]
    widths, boxes = (512, 1024, 512, 256, 256, 256), (4, 6, 6, 6, 4, 4)
    return Detector([shallow, deep, *extra], widths, boxes, 21, 3, UnitLength(512))


def ssd_mobilenet() -> nn.Module:
    """Return SSD on MobileNet for the 90 classes of COCO, pictures of 300 x 300: 1,917 boxes (Huang et al., 2016)."""
    parts, convolution = mobilenet_v1_features(), partial(normalised, activation=nn.ReLU6)
    # The first twelve parts end with the feature map of 19 x 19.
    shallow, deep = ([layer for part in stage_parts for layer in part] for stage_parts in (parts[:12], parts[12:]))
    extra = [
        [*convolution(inputs, narrow, 1), *convolution(narrow, outputs, 3, 2)]
        for inputs, narrow, outputs in ((1024, 256, 512), (512, 128, 256), (256, 128, 256), (256, 64, 128))
    ]
    widths, boxes = (512, 1024, 512, 256, 256, 128), (3, 6, 6, 6, 6, 6)
    return Detector([shallow, deep, *extra], widths, boxes, 91, 1, nn.Identity())
