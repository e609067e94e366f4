"""Networks of the agents, several of one shape side by side, and an optimiser step."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from rl.layers import layers


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
