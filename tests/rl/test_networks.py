import pytest
import torch

from rl.networks import Critics, PerAction, Stack, descend, follow


def test_stacked_networks_are_separate_networks():
    random = torch.Generator().manual_seed(0)
    stack = Stack(3, 4, 8, 2, random)
    x = torch.rand((3, 5, 4), generator=random)
    together = stack(x)
    for i in range(3):
        layers = torch.nn.Sequential(*(layer for _ in range(3) for layer in (torch.nn.Linear(1, 1), torch.nn.ReLU())))[
            :-1
        ]
        for layer, weight, bias in zip(layers[::2], stack.weights, stack.biases, strict=True):
            layer.weight, layer.bias = torch.nn.Parameter(weight[i].T), torch.nn.Parameter(bias[i, 0])
        assert torch.allclose(layers(x[i]), together[i], atol=1e-6)
        assert torch.allclose(stack.one(i, x[i]), together[i], atol=1e-6)


@pytest.mark.parametrize("kind", [Stack, PerAction])
@pytest.mark.parametrize("shared", [False, True])
def test_critics_are_two_for_each_agent_or_two_for_all(kind, shared):
    critics = Critics(kind, 3, 4, 8, 2, shared, torch.Generator().manual_seed(0))
    x = torch.rand((3, 5, 4), generator=torch.Generator().manual_seed(1))
    worth = critics(x)
    assert worth.shape == (2, 3, 5, 2)
    for critic in range(2):
        for i in range(3):
            which = critic if shared else 3 * critic + i
            assert torch.allclose(critics.networks.one(which, x[i]), worth[critic, i], atol=1e-6)


def test_targets_go_a_part_of_the_way():
    random = torch.Generator().manual_seed(0)
    target, network = Stack(2, 3, 4, 1, random), Stack(2, 3, 4, 1, random)
    before = [weight.detach().clone() for weight in target.parameters()]
    follow(target, network, 0.25)
    for weight, start, end in zip(target.parameters(), before, network.parameters(), strict=True):
        assert torch.allclose(weight, 0.75 * start + 0.25 * end)


def test_descending_changes_the_weights_of_the_optimiser_alone():
    random = torch.Generator().manual_seed(0)
    own, other = Stack(2, 3, 4, 3, random), Stack(2, 3, 4, 1, random)
    x = torch.rand((2, 5, 3), generator=random)
    loss = other(own(x)).square().sum()
    expected = torch.autograd.grad(loss, list(own.parameters()), retain_graph=True)
    before = [weight.detach().clone() for weight in own.parameters()]
    descend(torch.optim.SGD(own.parameters(), lr=0.5), loss)
    for weight, start, gradient in zip(own.parameters(), before, expected, strict=True):
        assert torch.allclose(weight, start - 0.5 * gradient)
    assert all(weight.grad is None for weight in other.parameters())
