import numpy as np
import pytest
import torch

from rl.networks import DecidingNetworks, Networks, adam, descend, follow, limited_threads, usable_device


def networks(*shape, seed=0, parts=1):
    return Networks(*shape, torch.Generator().manual_seed(seed), parts)


def drawn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def plain_output(network, index, x):
    """Return the output of one network from matrix products in double precision."""
    weights, biases = ([part[index].double() for part in parts] for parts in (network.weights, network.biases))
    x = torch.relu(x.double() @ weights[0] + biases[0])
    x = torch.relu(x @ weights[1] + biases[1])
    return (x @ weights[2] + biases[2]).detach().numpy()


def test_stacked_networks_are_independent():
    stacked, x = networks(3, 5, 16, 2), drawn(0, 3, 11, 5)
    for index, output in enumerate(stacked(x).detach()):
        assert output.numpy() == pytest.approx(plain_output(stacked, index, x[index]), abs=1e-6)


def test_parts_share_one_network():
    scored, x = networks(2, 12, 8, 4, parts=4), drawn(0, 2, 5, 12)
    for index, output in enumerate(scored(x).detach()):
        expected = [plain_output(scored, index, x[index, :, 3 * part : 3 * part + 3]) for part in range(4)]
        assert output.numpy() == pytest.approx(np.concatenate(expected, axis=1), abs=1e-6)
    order = [2, 0, 3, 1]
    permuted = x.view(2, 5, 4, 3)[:, :, order].reshape(2, 5, 12)
    assert torch.allclose(scored(permuted), scored(x)[..., order], atol=1e-6)


@pytest.mark.parametrize("parts", [1, 2])
def test_deciding_networks_equal_the_learning_ones(parts):
    learning, x = networks(3, 4, 8, 2, parts=parts), drawn(0, 3, 5, 4)
    deciding = DecidingNetworks(learning)
    for seed in (1, 2):
        learning.load_state_dict(networks(3, 4, 8, 2, seed=seed, parts=parts).state_dict())
        deciding.refresh()
        for index, output in enumerate(learning(x).detach()):
            assert deciding.output(index, x[index].numpy()) == pytest.approx(output.numpy(), abs=1e-6)


def test_a_target_is_a_copy_that_follows_by_a_fraction():
    moved, before = networks(2, 3, 4, 1), networks(2, 3, 4, 1)
    target = moved.target()
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter += 1.0
    follow(target, moved, 0.25)
    for after, initial in zip(target.parameters(), before.parameters(), strict=True):
        assert torch.allclose(after, initial + 0.25, atol=1e-6)
        assert not after.requires_grad


def test_only_the_optimisers_parameters_are_trained():
    """The actors' loss depends on the critics, but only the actors are trained with it."""
    actor, critic, x = networks(1, 3, 8, 2), networks(1, 2, 8, 1, seed=1), drawn(0, 1, 6, 3)
    before = critic(actor(x)).mean().item()
    for _ in range(20):
        descend(adam(actor.parameters(), 0.01), critic(actor(x)).mean())
    assert critic(actor(x)).mean().item() < before
    assert all(parameter.grad is None for parameter in critic.parameters())
    unchanged = networks(1, 2, 8, 1, seed=1).state_dict()
    assert all(torch.equal(parameter, unchanged[name]) for name, parameter in critic.state_dict().items())


def test_weights_of_another_shape_are_refused():
    network = networks(2, 3, 4, 1)
    with pytest.raises(RuntimeError, match=r"size mismatch for weights\.0"):
        network.load_state_dict(networks(2, 3, 5, 1).state_dict())
    with pytest.raises(RuntimeError, match=r"Missing key"):
        network.load_state_dict({"network.0.weight": torch.zeros(1)})


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("gpu", "expected cpu, cuda or cuda:N"),
        ("meta", "expected cpu, cuda or cuda:N"),
        ("cuda:99", "finds no such GPU"),
    ],
)
def test_devices_that_cannot_be_used_are_refused(name, problem):
    assert usable_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match=problem):
        usable_device(name)


def test_the_limit_of_threads_is_temporary():
    before = torch.get_num_threads()
    with limited_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
