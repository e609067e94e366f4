from itertools import pairwise

import pytest
import torch
from torch.nn import functional

from rl.networks import layers


def network(agents, sizes, random, transposed):
    weights, biases = [], []
    for fan_in, fan_out in pairwise(sizes):
        shape = (agents, fan_out, fan_in) if transposed else (agents, fan_in, fan_out)
        weight = torch.randn(shape, generator=random, dtype=torch.float64)
        weights.append((weight.transpose(1, 2) if transposed else weight).requires_grad_())
        biases.append(torch.randn((agents, 1, fan_out), generator=random, dtype=torch.float64).requires_grad_())
    return weights, biases


def plain(x, weights, biases):
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = bias + x @ weight
        if layer < len(weights) - 1:
            x = functional.relu(x)
    return x


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [(5, 2), (5, 7, 2), (5, 7, 6, 2)])
def test_gradients_are_those_of_single_operations(sizes, transposed):
    random = torch.Generator().manual_seed(len(sizes))
    weights, biases = network(3, sizes, random, transposed)
    x = torch.randn((3, 11, sizes[0]), generator=random, dtype=torch.float64).requires_grad_()
    direction = torch.randn((3, 11, sizes[-1]), generator=random, dtype=torch.float64)
    asked = [x, *weights, *biases]
    ours, theirs = layers(x, weights, biases), plain(x, weights, biases)
    assert torch.allclose(ours, theirs)
    expected = torch.autograd.grad((theirs * direction).sum(), asked)
    for gradient, right in zip(torch.autograd.grad((ours * direction).sum(), asked), expected, strict=True):
        assert torch.allclose(gradient, right)


def test_a_part_of_the_gradients_is_the_same():
    random = torch.Generator().manual_seed(0)
    weights, biases = network(2, (4, 6, 3), random, transposed=False)
    x = torch.randn((2, 5, 4), generator=random, dtype=torch.float64)
    (alone,) = torch.autograd.grad(layers(x, weights, biases).square().sum(), [weights[1]])
    (right,) = torch.autograd.grad(plain(x, weights, biases).square().sum(), [weights[1]])
    assert torch.allclose(alone, right)
    (alone,) = torch.autograd.grad(layers(x.requires_grad_(), weights, biases).square().sum(), [x])
    (right,) = torch.autograd.grad(plain(x, weights, biases).square().sum(), [x])
    assert torch.allclose(alone, right)
