"""Linear layers with ReLUs between them as one operation of automatic differentiation.

The backward pass is written by hand. It computes only the requested gradients, by matrix products of whole
mini-batches, and keeps no intermediate tensors except the outputs of the layers.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


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
