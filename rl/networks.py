"""Networks of the agents: stacks of four-layer networks in one vector of weights, their gradients and their optimiser.

The gradients are written by hand, because the networks are so small that automatic differentiation would take as long
as the matrix products themselves.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch

from instances.arrays import Singles
from instances.compiled import compiled, compiled_with


class Stack:
    """Identical four-layer networks, one for each of several agents, with separate weights.

    Parameters
    ----------
    agents, inputs, hidden, outputs
        Number of networks, and number of neurons of their input, hidden and output layers.
    random
        Source of the initial weights.

    Attributes
    ----------
    flat
        All weights and biases, shape (parameters,); ``weights`` and ``biases`` are views of it.
    weights, biases
        Weights and biases of each layer, shape (agents, inputs, outputs) and (agents, 1, outputs).
    """

    def __init__(self, agents: int, inputs: int, hidden: int, outputs: int, random: torch.Generator) -> None:
        self._shape_as(agents, (inputs, hidden, hidden, outputs))
        for fan_in, weight, bias in zip((inputs, hidden, hidden), self.weights, self.biases, strict=True):
            # PyTorch's default for a linear layer
            limit = 1.0 / math.sqrt(fan_in)
            for part in (weight, bias):
                part[...] = torch.rand(part.shape, generator=random).mul_(2.0).sub_(1.0).numpy() * limit

    def _shape_as(self, agents: int, sizes: Sequence[int]) -> None:
        self._agents, self._sizes = agents, tuple(sizes)
        shapes = [(agents, rows, outputs) for fan_in, outputs in pairwise(sizes) for rows in (fan_in, 1)]
        ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
        self.flat: Singles = np.zeros(ends[-1], dtype=np.float32)
        parts = [
            self.flat[start:end].reshape(shape) for start, end, shape in zip([0, *ends[:-1]], ends, shapes, strict=True)
        ]
        self.weights, self.biases = parts[::2], parts[1::2]

    def like(self) -> Self:
        """Return a stack of the same shape with all weights 0, for example to hold gradients."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._shape_as(self._agents, self._sizes)
        return made

    def copy(self) -> Self:
        """Return a stack with the same weights."""
        made = self.like()
        made.flat[:] = self.flat
        return made

    def only(self, agent: int) -> Self:
        """Return the network of one agent as a stack that shares its weights; it has no ``flat`` of its own."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.weights = [weight[agent : agent + 1] for weight in self.weights]
        made.biases = [bias[agent : agent + 1] for bias in self.biases]
        return made

    def forward(self, x: Singles) -> list[Singles]:
        """Map shape (agents, batch, inputs) to (agents, batch, outputs); return all layers' inputs, then the output."""
        outputs = [np.ascontiguousarray(x)]
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            y = np.matmul(outputs[-1], weight)
            _add_bias(y, bias, layer < last)
            outputs.append(y)
        return outputs

    def backward(self, outputs: Sequence[Singles], gradient: Singles, into: "Stack | None") -> Singles | None:
        """Propagate the gradient of a loss from the last layer to the first.

        Parameters
        ----------
        outputs
            Result of ``forward``.
        gradient
            Gradient with respect to the output, which is the last item.
        into
            Stack of the same shape that receives the gradient with respect to the weights, or ``None``.

        Returns
        -------
        numpy.ndarray or None
            If ``into`` is ``None``, the gradient with respect to the input.
        """
        for layer in reversed(range(len(self.weights))):
            if into is not None:
                np.matmul(outputs[layer].transpose(0, 2, 1), gradient, out=into.weights[layer])
                np.sum(gradient, axis=1, keepdims=True, out=into.biases[layer])
                if layer == 0:
                    return None
            gradient = np.matmul(gradient, self.weights[layer].transpose(0, 2, 1))
            if layer > 0:
                _through_relu(gradient, outputs[layer])
        return gradient

    def one(self, agent: int, x: Singles) -> Singles:
        """Map shape (batch, inputs) to (batch, outputs) by the network of one agent."""
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = np.dot(x, weight[agent])
            x += bias[agent]
            if layer < last:
                np.maximum(x, 0.0, out=x)
        return x

    def _named(self) -> dict[str, Singles]:
        return {
            f"{kind}.{layer}": part
            for kind, parts in (("weights", self.weights), ("biases", self.biases))
            for layer, part in enumerate(parts)
        }

    def state_dict(self) -> dict[str, Any]:
        """Return all weights by name, as tensors."""
        return {name: torch.from_numpy(part.copy()) for name, part in self._named().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the weights of a ``state_dict``.

        Raises
        ------
        ValueError
            If they belong to a stack of another shape.
        """
        own = self._named()
        if state.keys() != own.keys():
            raise ValueError(f"has {', '.join(sorted(map(str, state)))[:60]}; expected {', '.join(sorted(own))}")
        for name, part in own.items():
            if tuple(state[name].shape) != part.shape:
                raise ValueError(f"{name} has the shape {tuple(state[name].shape)}; expected {part.shape}")
        for name, part in own.items():
            part[...] = state[name].numpy()


class PerAction(Stack):
    """Stack for interchangeable actions: an agent's network scores each action from that action's part of the state.

    A state is the concatenation of the parts of all actions, each of the same length.
    """

    def __init__(self, agents: int, inputs: int, hidden: int, outputs: int, random: torch.Generator) -> None:
        super().__init__(agents, inputs // outputs, hidden, 1, random)
        self._actions = outputs

    def forward(self, x: Singles) -> list[Singles]:
        """Map shape (agents, batch, inputs) to (agents, batch, outputs) as ``Stack.forward`` does."""
        *inputs, score = super().forward(self._parts(x))
        return [*inputs, score.reshape(*x.shape[:-1], -1)]

    def backward(self, outputs: Sequence[Singles], gradient: Singles, into: Stack | None) -> Singles | None:
        """Propagate the gradient of a loss as ``Stack.backward``; that of the input has one row per action."""
        return super().backward(outputs, gradient.reshape(*outputs[0].shape[:-1], 1), into)

    def one(self, agent: int, x: Singles) -> Singles:
        """Map shape (batch, inputs) to (batch, outputs) by the network of one agent."""
        return super().one(agent, self._parts(x)).reshape(*x.shape[:-1], -1)

    def _parts(self, x: Singles) -> Singles:
        return x.reshape(*x.shape[:-2], x.shape[-2] * self._actions, -1)


@compiled
def _add_bias(y: Singles, bias: Singles, relu: bool) -> None:
    """Add the bias of a layer to ``y``, and set negative sums to 0 if ``relu``."""
    zero = np.float32(0.0)
    for agent in range(y.shape[0]):
        for row in range(y.shape[1]):
            for j in range(y.shape[2]):
                total = y[agent, row, j] + bias[agent, 0, j]
                y[agent, row, j] = zero if relu and total < zero else total


@compiled
def _through_relu(gradient: Singles, outputs: Singles) -> None:
    """Set the gradient to 0 where the layer's output is 0."""
    zero = np.float32(0.0)
    for agent in range(gradient.shape[0]):
        for row in range(gradient.shape[1]):
            for j in range(gradient.shape[2]):
                if outputs[agent, row, j] <= zero:
                    gradient[agent, row, j] = zero


class Adam:
    """Optimiser Adam (Kingma and Ba, Alg. 1) with its usual parameters; ``step`` changes ``weights`` in place."""

    def __init__(self, weights: Singles, learning_rate: float) -> None:
        self._weights, self._rate, self._steps = weights, learning_rate, 0
        self._mean, self._square = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, gradient: Singles) -> None:
        """Take one step against the gradient, which has the shape of the weights."""
        self._steps += 1
        scale = self._rate / (1.0 - 0.9**self._steps)
        root = 1.0 / math.sqrt(1.0 - 0.999**self._steps)
        _adam(self._weights, gradient, self._mean, self._square, np.float32(scale), np.float32(root))

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resumption."""
        moments = {"mean": self._mean, "square": self._square}
        return {name: torch.from_numpy(moment.copy()) for name, moment in moments.items()} | {"steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        self._mean[:], self._square[:], self._steps = state["mean"], state["square"], state["steps"]


@compiled_with(fastmath={"contract"}, error_model="numpy")
def _adam(
    weights: Singles, gradient: Singles, mean: Singles, square: Singles, scale: np.float32, root: np.float32
) -> None:
    """Change weights and both moments in one pass over memory."""
    keep, new = np.float32(0.9), np.float32(0.1)
    keep_square, new_square, floor = np.float32(0.999), np.float32(0.001), np.float32(1e-8)
    for i in range(len(weights)):
        g = gradient[i]
        m = keep * mean[i] + new * g
        v = keep_square * square[i] + new_square * g * g
        mean[i], square[i] = m, v
        weights[i] -= scale * m / (np.sqrt(v) * root + floor)


@compiled
def follow(targets: Singles, weights: Singles, soft: float) -> None:
    """Move all weights of ``targets`` by the fraction ``soft`` towards ``weights``; both of shape (parameters,)."""
    part = np.float32(soft)
    for i in range(len(targets)):
        targets[i] += part * (weights[i] - targets[i])
