"""Nets ready for inference: construction, example requests, and initial weights."""

import torch
from torch import Tensor, nn

from bench.replay.nets import constructor, input_shape
from instances.errors import InputError


def build(name: str, half: bool = False, where: str = "model") -> nn.Module:
    """Return the net called ``name``, ready for inference on the default device.

    Parameters
    ----------
    name
        Name in the catalogue, or ``module:callable`` of a net of one's own.
    half
        Whether the weights are in half instead of single precision.
    where
        Location in errors.

    Raises
    ------
    InputError
        If there is no such net.
    """
    net = constructor(name, where)()
    if not isinstance(net, nn.Module):
        raise InputError(where, f'"{name}" returned a {type(net).__name__}; expected a torch.nn.Module')
    return (net.half() if half else net).eval().requires_grad_(False)


def example_input(name: str, batch: int, half: bool = False, where: str = "model") -> Tensor:
    """Return random requests to the net called ``name``, shape (batch, *input_shape), on the default device.

    A callable that takes other requests than normally distributed numbers has an attribute ``example_input``, a
    function of the batch size.

    Raises
    ------
    InputError
        If there is no such net.
    """
    own = getattr(constructor(name, where), "example_input", None)
    if own is not None:
        requests: Tensor = own(batch)
        return requests
    return torch.randn((batch, *input_shape(name, where)), dtype=torch.float16 if half else torch.float32)


def settle(net: nn.Module, examples: Tensor) -> None:
    """Initialise a net of single precision so that its activations are like those of a trained net.

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
