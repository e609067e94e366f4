"""Networks of the agents in PyTorch, many small ones computed together, and functions for learning and decisions."""

import copy
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from instances.arrays import Singles

CPU = torch.device("cpu")


class Networks(nn.Module):
    """Identical four-layer networks with separate weights, which batched matrix products compute together.

    Parameters
    ----------
    count, inputs, hidden, outputs
        Number of networks, and number of neurons of their input, hidden and output layers.
    random
        Source of the initial weights.
    parts
        Number of equal parts of which an input and an output consist. A network maps each part of the input to the
        same part of the output, so the parts are interchangeable.

    Attributes
    ----------
    weights, biases
        Parameters of each layer, shape (count, inputs, outputs) and (count, 1, outputs).
    """

    def __init__(
        self, count: int, inputs: int, hidden: int, outputs: int, random: torch.Generator, parts: int = 1
    ) -> None:
        super().__init__()
        self.parts = parts
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise((inputs // parts, hidden, hidden, outputs // parts)):
            limit = 1.0 / math.sqrt(fan_in)  # PyTorch's default for a linear layer
            for parameters, rows in ((self.weights, fan_in), (self.biases, 1)):
                uniform = torch.rand((count, rows, fan_out), generator=random)
                parameters.append(nn.Parameter((2.0 * uniform - 1.0) * limit))

    def forward(self, x: Tensor) -> Tensor:
        """Map shape (count, batch, inputs) to (count, batch, outputs)."""
        return self._through(zip(self.weights, self.biases, strict=True), x)

    def first(self, x: Tensor) -> Tensor:
        """Map shape (1, batch, inputs) to (1, batch, outputs) by the first network; its parameters get no gradient."""
        layers = zip(self.weights, self.biases, strict=True)
        return self._through(((weight[:1].detach(), bias[:1].detach()) for weight, bias in layers), x)

    def _through(self, layers: Iterable[tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
        count, batch, _ = x.shape
        x = x.reshape(count, batch * self.parts, -1)
        for layer, (weight, bias) in enumerate(layers):
            x = torch.baddbmm(bias, x.relu_() if layer > 0 else x, weight)
        return x.view(count, batch, -1)

    def target(self) -> Self:
        """Return a copy without gradients, a target network that ``follow`` moves."""
        return copy.deepcopy(self).requires_grad_(False)


@torch.no_grad()
def follow(targets: nn.Module, networks: nn.Module, fraction: float) -> None:
    """Move the parameters of ``targets`` by a fraction of the way towards those of ``networks``."""
    for target, parameter in zip(targets.parameters(), networks.parameters(), strict=True):
        target.lerp_(parameter, fraction)


class DecidingNetworks:
    """Networks as NumPy arrays: for decisions, NumPy takes less time than PyTorch.

    If the parameters are on the CPU, the arrays share their memory and follow every change. If they are on a GPU, the
    arrays are copies that ``refresh`` renews.
    """

    def __init__(self, networks: Networks) -> None:
        self._networks, self._parts = networks, networks.parts
        self._layers = self._arrays()

    def _arrays(self) -> list[tuple[Singles, Singles]]:
        layers = zip(self._networks.weights, self._networks.biases, strict=True)
        return [(weight.detach().cpu().numpy(), bias.detach().cpu().numpy()) for weight, bias in layers]

    def refresh(self) -> None:
        """Take over the parameters after they have changed."""
        if self._networks.weights[0].is_cuda:
            self._layers = self._arrays()

    def output(self, index: int, x: Singles) -> Singles:
        """Map shape (batch, inputs) to (batch, outputs) by the network with this index."""
        batch = len(x)
        x = x.reshape(batch * self._parts, -1)
        last = len(self._layers) - 1
        for layer, (weight, bias) in enumerate(self._layers):
            x = np.dot(x, weight[index])
            x += bias[index]
            if layer < last:
                np.maximum(x, 0.0, out=x)
        return x.reshape(batch, -1)


def adam(parameters: Iterable[Tensor], learning_rate: float) -> torch.optim.Adam:
    """Return Adam with its usual parameters (Kingma and Ba, Alg. 1), computed in one pass over memory.

    The first call takes about a second, because it imports PyTorch's compiler. Decisions need no optimiser.
    """
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True)


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step against the gradient of ``loss``; only the optimiser's parameters receive a gradient."""
    optimiser.zero_grad()
    loss.backward(inputs=[parameter for group in optimiser.param_groups for parameter in group["params"]])  # type: ignore[no-untyped-call]
    optimiser.step()


def usable_device(name: str) -> torch.device:
    """Return the device ``cpu``, ``cuda`` or ``cuda:N``.

    Raises
    ------
    ValueError
        If the name is none of these, or PyTorch finds no such GPU.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")  # refused below
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f'device is "{name}"; expected cpu, cuda or cuda:N')
    if device.type == "cuda":
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= gpus:
            raise ValueError(f'device is "{name}", but PyTorch {torch.__version__} finds no such GPU; expected cpu')
    return device


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let the matrix products of PyTorch and NumPy use ``count`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count, "blas"):
            yield
    finally:
        torch.set_num_threads(before)
