"""Networks of the agents, several of one shape side by side, and an optimiser step.

Linear layers with ReLUs between them are one operation of automatic differentiation. Its backward pass is written by
hand: it computes only the requested gradients, by matrix products of whole mini-batches, and keeps no intermediate
tensors except the outputs of the layers.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def layers(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Map ``x`` through all layers.

    Parameters
    ----------
    x
        Shape (agents, batch, inputs).
    weights, biases
        Weights and biases of each layer, shape (agents, inputs, outputs) and (agents, 1, outputs).
    """
    return _Layers.apply(x, len(weights), *weights, *biases)  # type: ignore[no-untyped-call]


class _Layers(torch.autograd.Function):
    """The layers as one operation of automatic differentiation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, depth: int, *parts: Tensor) -> Tensor:
        """Store the input of every layer for the backward pass."""
        outputs = [x]
        for layer in range(depth):
            x = torch.bmm(x, parts[layer]).add_(parts[depth + layer])
            if layer < depth - 1:
                x.relu_()
                outputs.append(x)
        ctx.depth = depth
        ctx.save_for_backward(*outputs, *parts[:depth])
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Propagate gradients from the last layer to the first."""
        (gradient,) = gradients
        depth = ctx.depth
        inputs, weights = ctx.saved_tensors[:depth], ctx.saved_tensors[depth:]
        of_parts: list[Tensor | None] = [None] * (2 * depth)
        for layer in reversed(range(depth)):
            weight = weights[layer]
            if ctx.needs_input_grad[2 + layer]:
                # In the memory order of the weight itself, which may be a transposed view
                of_parts[layer] = (
                    torch.bmm(inputs[layer].transpose(1, 2), gradient)
                    if weight.stride(2) == 1
                    else torch.bmm(gradient.transpose(1, 2), inputs[layer]).transpose(1, 2)
                )
            if ctx.needs_input_grad[2 + depth + layer]:
                of_parts[depth + layer] = gradient.sum(dim=1, keepdim=True)
            if layer == 0 and not ctx.needs_input_grad[0]:
                return None, None, *of_parts
            gradient = torch.bmm(gradient, weight.transpose(1, 2))
            if layer > 0:
                gradient = torch.ops.aten.threshold_backward(gradient, inputs[layer], 0)
        return gradient, None, *of_parts


class Stack(nn.Module):
    """Identical four-layer networks, one for each of several agents, with separate weights."""

    def __init__(self, agents: int, inputs: int, hidden: int, outputs: int, random: torch.Generator) -> None:
        super().__init__()
        sizes = (inputs, hidden, hidden, outputs)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            # PyTorch's default for a linear layer
            limit = 1.0 / math.sqrt(fan_in)
            self.weights.append(torch.rand((agents, fan_in, fan_out), generator=random).mul_(2.0).sub_(1.0) * limit)
            self.biases.append(torch.rand((agents, 1, fan_out), generator=random).mul_(2.0).sub_(1.0) * limit)
        # A tuple, because its items are accessed a thousand times per second
        self._layers = tuple(zip(self.weights, self.biases, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """Map shape (agents, batch, inputs) to (agents, batch, outputs)."""
        return layers(x, [weight for weight, _ in self._layers], [bias for _, bias in self._layers])

    def one(self, agent: int, x: Tensor) -> Tensor:
        """Map shape (batch, inputs) to (batch, outputs) by the network of one agent."""
        *hidden, (weight, bias) = self._layers
        for into, plus in hidden:
            x = functional.relu(torch.addmm(plus[agent], x, into[agent]))
        return torch.addmm(bias[agent], x, weight[agent])


class PerAction(Stack):
    """Network for interchangeable actions: one per agent; it scores each action from the action's part of the state.

    A state is the concatenation of the parts of all actions, each of the same length.
    """

    def __init__(self, agents: int, inputs: int, hidden: int, outputs: int, random: torch.Generator) -> None:
        super().__init__(agents, inputs // outputs, hidden, 1, random)
        self._actions = outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map shape (agents, batch, inputs) to (agents, batch, outputs)."""
        return super().forward(self._parts(x)).reshape(*x.shape[:-1], -1)

    def one(self, agent: int, x: Tensor) -> Tensor:
        """Map shape (batch, inputs) to (batch, outputs) by the network of one agent."""
        return super().one(agent, self._parts(x)).reshape(*x.shape[:-1], -1)

    def _parts(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-2], x.shape[-2] * self._actions, -1)


class Critics(nn.Module):
    """Pairs of critics, one pair for each of several agents or one for all; both of a pair are computed side by side.

    Parameters
    ----------
    kind
        Kind of network.
    agents, inputs, hidden, outputs
        Shape of the problem.
    shared
        Whether all agents share one pair.
    random
        Random generator of the weights.
    """

    def __init__(
        self,
        kind: type[Stack],
        agents: int,
        inputs: int,
        hidden: int,
        outputs: int,
        shared: bool,
        random: torch.Generator,
    ) -> None:
        super().__init__()
        self._shared = shared
        self.networks = kind(2 if shared else 2 * agents, inputs, hidden, outputs, random)

    def forward(self, x: Tensor) -> Tensor:
        """Map shape (agents, batch, inputs) to (2, agents, batch, outputs)."""
        once = x.reshape(1, -1, x.shape[-1]) if self._shared else x
        worth: Tensor = self.networks(torch.cat([once, once]))
        return worth.reshape(2, *x.shape[:-1], -1)


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step of ``optimiser`` along the negative gradient of ``loss``, computed for its weights alone."""
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = gradient
    optimiser.step()


@torch.no_grad()
def follow(targets: nn.Module, networks: nn.Module, soft: float) -> None:
    """Move the weights of ``targets`` by the fraction ``soft`` towards those of ``networks``."""
    for target, weight in zip(targets.parameters(), networks.parameters(), strict=True):
        target.lerp_(weight, soft)
