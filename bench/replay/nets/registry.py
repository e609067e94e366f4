"""Registry of the networks: names, input shapes, and preparation for serving."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from instances.errors import unknown_name

if TYPE_CHECKING:
    from torch import Tensor, nn

PICTURE = (3, 224, 224)

VOCABULARY = 30_522
"""Size of BERT's vocabulary."""


@dataclass(frozen=True, slots=True)
class NetEntry:
    """Construction and input shape of a net.

    Attributes
    ----------
    build
        ``module:function`` in this folder.
    arguments
        Arguments of that function.
    input_shape
        Shape of one request, without the batch.
    torchvision
        Name of the same net in torchvision, or ``None``.
    """

    build: str
    arguments: tuple[int | str, ...] = ()
    input_shape: tuple[int, ...] = PICTURE
    torchvision: str | None = None


NETS = {
    "alexnet": NetEntry("plain:AlexNet", torchvision="alexnet"),
    "bert": NetEntry("bert:Bert", input_shape=(3, 128)),
    "densenet121": NetEntry("densenet:DenseNet", (121,), torchvision="densenet121"),
    "densenet161": NetEntry("densenet:DenseNet", (161,), torchvision="densenet161"),
    "densenet169": NetEntry("densenet:DenseNet", (169,), torchvision="densenet169"),
    "densenet201": NetEntry("densenet:DenseNet", (201,), torchvision="densenet201"),
    "efficientnet": NetEntry("mobile:efficientnet_b0", torchvision="efficientnet_b0"),
    "googlenet": NetEntry("inception:GoogLeNet"),
    "inception": NetEntry("inception:InceptionV3", input_shape=(3, 299, 299)),
    "lenet": NetEntry("plain:LeNet", input_shape=(1, 28, 28)),
    "mnasnet": NetEntry("mobile:mnasnet", torchvision="mnasnet1_0"),
    "mobilenet": NetEntry("mobile:mobilenet_v2", torchvision="mobilenet_v2"),
    "mobilenet-v1": NetEntry("mobile:mobilenet_v1"),
    "resnet18": NetEntry("resnet:ResNet", (18,), torchvision="resnet18"),
    "resnet50": NetEntry("resnet:ResNet", (50,), torchvision="resnet50"),
    "resnet101": NetEntry("resnet:ResNet", (101,), torchvision="resnet101"),
    "resnet152": NetEntry("resnet:ResNet", (152,), torchvision="resnet152"),
    "ssd": NetEntry("detection:SsdVgg16", input_shape=(3, 300, 300)),
    "ssd-mobilenet": NetEntry("detection:SsdMobileNet", input_shape=(3, 300, 300)),
    "tiny-cnn": NetEntry("plain:TinyCnn", input_shape=(3, 32, 32)),
    "tiny-kernels": NetEntry("plain:TinyKernels", input_shape=(1,)),
    "vgg16": NetEntry("plain:Vgg", (16,), torchvision="vgg16"),
    "vgg19": NetEntry("plain:Vgg", (19,), torchvision="vgg19"),
}
"""Nets by name. ``mobilenet`` is MobileNetV2, in agreement with the memory in the catalogue. ``tiny-cnn`` is for tests
on the CPU; ``tiny-kernels`` measures the waiting time of kernels.

The SSDs return boxes and scores, without torchvision's suppression of overlaps, whose shapes depend on the data.
GoogLeNet and Inception lack the classifiers that only training uses.
"""


def net_names() -> list[str]:
    """Return the names of the nets, sorted."""
    return sorted(NETS)


def input_shape(name: str, where: str = "model") -> tuple[int, ...]:
    """Return the shape of one request: (channels, height, width), or for ``bert`` (ids, mask and types; tokens).

    Raises
    ------
    InputError
        If there is no such net; ``where`` is the location in the error.
    """
    return _net(name, where).input_shape


def build(name: str, half: bool = False, where: str = "model") -> "nn.Module":
    """Return the net called ``name``, ready for inference on the default device; use torchvision's if installed.

    Parameters
    ----------
    name
        Name in the catalogue.
    half
        Whether the weights are in half instead of single precision.
    where
        Location in errors.

    Raises
    ------
    InputError
        If there is no such net.
    """
    net = _net(name, where)
    built = _from_torchvision(net.torchvision) if net.torchvision and find_spec("torchvision") else None
    module = (built or _built_in(net))()
    return (module.half() if half else module).eval().requires_grad_(False)


def example_input(name: str, batch: int, half: bool = False, where: str = "model") -> "Tensor":
    """Return random requests to the net called ``name``, shape (batch, *input_shape), on the default device.

    Raises
    ------
    InputError
        If there is no such net.
    """
    import torch

    shape = (batch, *input_shape(name, where))
    if name == "bert":
        ids = torch.randint(0, VOCABULARY, (batch, shape[2]))
        return torch.stack([ids, torch.ones_like(ids), torch.zeros_like(ids)], dim=1)
    return torch.randn(shape, dtype=torch.float16 if half else torch.float32)


def settle(module: "nn.Module", examples: "Tensor") -> None:
    """Initialise a net of single precision so that its activations are like those of a trained net.

    Activations must neither overflow nor vanish, because the power of a GPU depends on the bits that change. The
    weights keep the variance from layer to layer (He et al., 2015). One pass in training mode sets the statistics of
    the batch normalisations; it needs at least two ``examples``, as a single value has no variance.
    """
    import torch
    from torch import nn

    norms = []
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if isinstance(layer, nn.BatchNorm2d):
            norms.append((layer, layer.momentum))
            layer.momentum = 1.0
            layer.train()
    with torch.no_grad():
        module(examples)
    for layer, momentum in norms:
        layer.momentum = momentum
        layer.eval()


def _net(name: str, where: str) -> NetEntry:
    if name not in NETS:
        raise unknown_name(where, "model", name, net_names())
    return NETS[name]


def _built_in(net: NetEntry) -> "Callable[[], nn.Module]":
    module, function = net.build.split(":")
    return partial(getattr(import_module(f"bench.replay.nets.{module}"), function), *net.arguments)


def _from_torchvision(name: str) -> "Callable[[], nn.Module] | None":
    return getattr(import_module("torchvision.models"), name, None)
