import numpy as np
import pytest
import torch
from torch.nn import functional

from rl.networks import Adam, PerAction, Stack, follow


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tensors(parts):
    return [torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in parts]


def plain(x, weights, biases):
    """The layers as single operations of torch, in double precision."""
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = bias + x @ weight
        if layer < len(weights) - 1:
            x = functional.relu(x)
    return x


@pytest.mark.parametrize("agents", [1, 3])
def test_gradients_are_those_of_automatic_differentiation(agents):
    stack = Stack(agents, 5, 16, 2, torch.Generator().manual_seed(0))
    x, direction = drawn(0, agents, 11, 5), drawn(1, agents, 11, 2)
    (inputs,), weights, biases = tensors([x]), tensors(stack.weights), tensors(stack.biases)
    theirs = plain(inputs, weights, biases)
    expected = torch.autograd.grad((theirs * torch.tensor(direction)).sum(), [inputs, *weights, *biases])
    outputs, gradient = stack.forward(x), stack.like()
    assert outputs[-1] == pytest.approx(theirs.detach().numpy(), abs=1e-5)
    assert stack.backward(outputs, direction, None) == pytest.approx(expected[0].numpy(), abs=1e-5)
    assert stack.backward(outputs, direction, gradient) is None
    for ours, right in zip([*gradient.weights, *gradient.biases], expected[1:], strict=True):
        assert ours == pytest.approx(right.numpy(), abs=1e-4)


def test_the_gradient_of_a_network_per_action_is_the_sum_over_its_actions():
    network = PerAction(2, 12, 8, 4, torch.Generator().manual_seed(0))
    x, direction = drawn(0, 2, 5, 12), drawn(1, 2, 5, 4)
    weights, biases = tensors(network.weights), tensors(network.biases)
    theirs = plain(torch.tensor(x, dtype=torch.float64).reshape(2, 20, 3), weights, biases).reshape(2, 5, 4)
    expected = torch.autograd.grad((theirs * torch.tensor(direction)).sum(), [*weights, *biases])
    outputs, gradient = network.forward(x), network.like()
    network.backward(outputs, direction, gradient)
    assert outputs[-1] == pytest.approx(theirs.detach().numpy(), abs=1e-5)
    for ours, right in zip([*gradient.weights, *gradient.biases], expected, strict=True):
        assert ours == pytest.approx(right.numpy(), abs=1e-4)


@pytest.mark.parametrize("kind", [Stack, PerAction])
def test_stacked_networks_are_separate_networks(kind):
    stack = kind(3, 4, 8, 2, torch.Generator().manual_seed(0))
    x = drawn(0, 3, 5, 4)
    together = stack.forward(x)[-1]
    for i in range(3):
        assert stack.one(i, x[i]) == pytest.approx(together[i], abs=1e-6)
        assert stack.only(i).forward(x[i : i + 1])[-1][0] == pytest.approx(together[i], abs=1e-6)


def test_a_copy_has_the_same_weights_and_its_own_memory():
    stack = Stack(2, 3, 4, 1, torch.Generator().manual_seed(0))
    copy = stack.copy()
    stack.weights[0] += 1.0
    assert copy.weights[0] == pytest.approx(stack.weights[0] - 1.0, abs=1e-6)
    assert np.all(stack.flat[: stack.weights[0].size] == stack.weights[0].ravel())


def test_weights_of_another_shape_are_refused():
    stack, other = (Stack(2, 3, hidden, 1, torch.Generator().manual_seed(0)) for hidden in (4, 5))
    with pytest.raises(ValueError, match=r"weights\.0 has the shape"):
        stack.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="expected biases"):
        stack.load_state_dict({"network.0.weight": torch.zeros(1)})
    twin = stack.like()
    twin.load_state_dict(stack.state_dict())
    assert np.array_equal(twin.flat, stack.flat)


def test_targets_go_a_part_of_the_way():
    target, weights = drawn(0, 20), drawn(1, 20)
    before = target.copy()
    follow(target, weights, 0.25)
    assert target == pytest.approx(0.75 * before + 0.25 * weights, abs=1e-6)


def test_adam_is_that_of_torch():
    ours = drawn(0, 50)
    theirs = torch.tensor(ours.copy(), requires_grad=True)
    optimiser, reference = Adam(ours, 0.01), torch.optim.Adam([theirs], lr=0.01)
    for step in range(20):
        gradient = drawn(10 + step, 50) * 10.0 ** (step % 5 - 3)
        theirs.grad = torch.tensor(gradient)
        optimiser.step(gradient)
        reference.step()
    assert ours == pytest.approx(theirs.detach().numpy(), rel=1e-5, abs=1e-6)
