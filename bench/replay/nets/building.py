"""Nets ready for inference: construction, example requests, and initial weights."""

import torch
from torch import Tensor, nn

from bench.replay.nets import constructor, input_shape
from instances.errors import InputError


def build(name: str, half: bool = False, where: str = "model") -> nn.Module:
    """Return the net called ``name`` on the default device, ready for inference in single or half precision.

    Raises
    ------
    InputError
        If there is no such net; ``where`` is the location in the error.
    """
    net = constructor(name, where)()
    if not isinstance(net, nn.Module):
        raise InputError(where, f'"{name}" returned a {type(net).__name__}; expected a torch.nn.Module')
    return (net.half() if half else net).eval().requires_grad_(False)


def example_input(name: str, batch: int, half: bool = False) -> Tensor:
    """Return random requests to the net called ``name``, shape (batch, *input_shape), on the default device.

    The net's callable may have an attribute ``example_input``, a function of the batch size that makes the requests.
    Otherwise the requests are normally distributed numbers.
    """
    make_input = getattr(constructor(name), "example_input", None)
    if make_input is not None:
        requests: Tensor = make_input(batch)
        return requests
    return torch.randn((batch, *input_shape(name)), dtype=torch.float16 if half else torch.float32)


def initialised_net(name: str, half: bool) -> nn.Module:
    """Return the net called ``name`` on the default device, initialised by ``initialise``."""
    net = build(name)
    initialise(net, example_input(name, 2))
    return net.half() if half else net


def initialise(net: nn.Module, examples: Tensor) -> None:
    """Initialise a net of single precision so that its activations resemble the activations of a trained net.

    Activations must neither overflow nor vanish, because the power of a GPU depends on the bits that change. The
    weights keep the variance from layer to layer (He et al., 2015). One pass in training mode sets the statistics of
    the batch normalisations; it needs at least two ``examples``, as a single value has no variance.
    """
    norms = []
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if isinstance(layer, nn.BatchNorm2d):
            norms.append((layer, layer.momentum))
            layer.momentum = 1.0
            layer.train()
    with torch.no_grad():
        net(examples)
    for layer, momentum in norms:
        layer.momentum = momentum
        layer.eval()
