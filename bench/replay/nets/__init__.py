"""DNN models for serving on hardware: catalogue models by name, and nets of the user as ``module:callable``.

The architectures follow the original publications, in the variants with the sizes that torchvision states. Layers that
only training uses are left out. Weights are random and not downloaded, because times depend on shapes, not on weights.
This module loads without PyTorch; ``bench.replay.nets.building`` builds the nets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any

from instances.errors import InputError, unknown_name

PICTURE = (3, 224, 224)
"""Shape of most requests: channels, height and width."""

TINY = "tiny-cnn"
"""Net that a CPU serves instead of every model: a replay on a CPU tests the serving, not the models."""

SEPARATOR = ":"
"""Separator in the name of a user's net, ``module:callable``."""

CHAIN_LENGTH = 200
"""Number of kernels of ``tiny-kernels``."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Construction of a net, and the shape of one request, without the batch.

    ``target`` is a ``module:callable`` in this folder, and ``arguments`` are the arguments of the callable.
    """

    target: str
    arguments: tuple[Any, ...] = ()
    input_shape: tuple[int, ...] = PICTURE


NETS = {
    "alexnet": Architecture("convolutional:alexnet"),
    "bert": Architecture("bert:Bert", input_shape=(3, 128)),
    "densenet121": Architecture("convolutional:densenet", (32, 64, (6, 12, 24, 16))),
    "densenet161": Architecture("convolutional:densenet", (48, 96, (6, 12, 36, 24))),
    "densenet169": Architecture("convolutional:densenet", (32, 64, (6, 12, 32, 32))),
    "densenet201": Architecture("convolutional:densenet", (32, 64, (6, 12, 48, 32))),
    "efficientnet": Architecture("convolutional:efficientnet_b0"),
    "googlenet": Architecture("inception:googlenet"),
    "inception": Architecture("inception:inception_v3", input_shape=(3, 299, 299)),
    "lenet": Architecture("convolutional:lenet", input_shape=(1, 28, 28)),
    "mnasnet": Architecture("convolutional:mnasnet"),
    "mobilenet": Architecture("convolutional:mobilenet_v2"),
    "mobilenet-v1": Architecture("convolutional:mobilenet_v1"),
    "resnet18": Architecture("convolutional:basic_resnet", (2, 2, 2, 2)),
    "resnet50": Architecture("convolutional:bottleneck_resnet", (3, 4, 6, 3)),
    "resnet101": Architecture("convolutional:bottleneck_resnet", (3, 4, 23, 3)),
    "resnet152": Architecture("convolutional:bottleneck_resnet", (3, 8, 36, 3)),
    "ssd": Architecture("detection:ssd_vgg16", input_shape=(3, 300, 300)),
    "ssd-mobilenet": Architecture("detection:ssd_mobilenet", input_shape=(3, 300, 300)),
    TINY: Architecture("convolutional:tiny_cnn", input_shape=(3, 32, 32)),
    "tiny-kernels": Architecture("convolutional:TinyKernels", input_shape=(1,)),
    "vgg16": Architecture("convolutional:vgg", (2, 2, 3, 3, 3)),
    "vgg19": Architecture("convolutional:vgg", (2, 2, 4, 4, 4)),
}
"""Nets by name. ``mobilenet`` is MobileNetV2, in agreement with the memory in the catalogue. ``tiny-cnn`` is for tests
on the CPU; ``tiny-kernels`` measures the waiting time of kernels.

The SSDs return boxes and scores. They leave out torchvision's suppression of overlaps, because its shapes depend on
the data.
"""


def input_shape(name: str, where: str = "model") -> tuple[int, ...]:
    """Return the shape of one request: (channels, height, width), or for ``bert`` (3, tokens).

    A user's callable may state the shape in its attribute ``input_shape``; the default is ``PICTURE``.

    Raises
    ------
    InputError
        If there is no such net; ``where`` is the location in the error.
    """
    if SEPARATOR in name:
        return tuple(getattr(constructor(name, where), "input_shape", PICTURE))
    return _architecture(name, where).input_shape


def constructor(name: str, where: str = "model") -> Callable[[], Any]:
    """Return the callable that builds the net called ``name``.

    Raises
    ------
    InputError
        If there is no such net, or its module cannot be imported.
    """
    if SEPARATOR not in name:
        architecture = _architecture(name, where)
        builder = _callable(f"{__name__}.{architecture.target}", where)
        return partial(builder, *architecture.arguments) if architecture.arguments else builder
    return _callable(name, where)


def _callable(target: str, where: str) -> Callable[..., Any]:
    module, _, attribute = target.partition(SEPARATOR)
    try:
        result: Callable[..., Any] = attrgetter(attribute)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(where, f'"{target}" cannot be loaded: {error}; expected MODULE:CALLABLE') from None
    if not callable(result):
        raise InputError(where, f'"{target}" is a {type(result).__name__}; expected a callable that returns a net')
    return result


def _architecture(name: str, where: str) -> Architecture:
    if name not in NETS:
        raise unknown_name(where, "model", name, sorted(NETS))
    return NETS[name]
