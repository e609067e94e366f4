from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.suites.inss import four_gpus
from rl.cluster import Cluster
from rl.environment import DecisionProcess, Environments, compressed, whole_batches, whole_units
from rl.states import Placing, allocation_size
from rl.td3 import Td3, Td3Settings, blurred

torch.set_num_threads(1)

BASE = four_gpus()[0]
TINY = Td3Settings(hidden=64, buffer=20_000, minibatch=128, learning_rate=1e-3, soft=0.02, discount=0.5)
STEADY = DecisionProcess(step_s=10.0, lowest=1.0, highest=1.0)


@pytest.fixture(scope="module")
def cluster():
    return Cluster.of(replace(BASE, workloads=BASE.workloads[1:3], gpus=(replace(BASE.gpus[0], count=1),)))


def worth(cluster, units, batch, replicas, seed=1):
    """Mean reward of decisions (n, 2) over ``replicas`` steps with steady queues."""
    units, batch = np.repeat(units, replicas, axis=0), np.repeat(batch, replicas, axis=0)
    there = Environments(cluster, len(units), STEADY, np.random.default_rng(seed))
    gpu = np.zeros_like(units)
    there.step(gpu, units, batch)
    return there.step(gpu, units, batch).reward.sum(axis=1).reshape(-1, replicas).mean(axis=1)


def optimum(cluster):
    """The best of all 53 divisions and 32 x 32 pairs of batches."""
    u, a, b = (part.ravel() for part in np.meshgrid(np.arange(1, 54), np.arange(1, 33), np.arange(1, 33)))
    units, batch = np.stack([u, 54 - u], axis=1), np.stack([a, b], axis=1)
    short = np.argsort(worth(cluster, units, batch, 1))[-300:]
    return worth(cluster, units[short], batch[short], 100).max()


def trained(cluster, seed, steps, count=32):
    agent = Td3(2, allocation_size(2), TINY, torch.Generator().manual_seed(seed), torch.device("cpu"))
    there = Environments(cluster, count, STEADY, np.random.default_rng(seed))
    state = states(cluster, there)
    for step in range(steps):
        action = agent.act(state)
        feedback = there.step(*decided(cluster, action.numpy()))
        next_state = states(cluster, there)
        reward = torch.tensor(compressed(feedback.reward))
        agent.replay.add(state=state, action=action, reward=reward, next_state=next_state)
        state = next_state
        if step >= 20:
            agent.update()
    return agent


def states(cluster, there):
    placing = Placing(cluster, there.rates_rps, there.queued)
    for i in range(cluster.workloads):
        placing.place(i, np.zeros(there.count, dtype=np.int64))
    return torch.tensor(placing.allocation()[:, 0])


def decided(cluster, action):
    gpu = np.zeros((len(action), 2), dtype=np.int64)
    return gpu, whole_units(action[:, :2], gpu, 1, 54), whole_batches(action[:, 2:], cluster.max_batch)


def demand_driven(state, action):
    """Best where each of two workloads has a share in proportion to its rate, and its rate for a batch: worth 1/2."""
    rate = state[:, 2:4]
    share = rate / rate.sum(dim=1, keepdim=True)
    return 0.5 - 2.0 * ((action[:, :2] - share).square() + (action[:, 2:] - rate).square())


def drawn(count, random):
    rate = 0.2 + 0.8 * torch.rand((count, 2), generator=random)
    return torch.cat([torch.ones((count, 2)), rate, torch.zeros((count, 3))], dim=1)


def test_learns_the_optimum():
    random = torch.Generator().manual_seed(0)
    agent = Td3(2, allocation_size(2), TINY, random, torch.device("cpu"))
    state = drawn(32, random)
    for step in range(1200):
        action, next_state = agent.act(state), drawn(32, random)
        agent.replay.add(state=state, action=action, reward=demand_driven(state, action), next_state=next_state)
        state = next_state
        if step >= 20:
            agent.update()
    unseen = drawn(1000, random)
    assert demand_driven(unseen, agent.act(unseen, greedy=True)).sum(dim=1).mean() >= 0.98
    action = torch.tensor([0.5, 0.5, 0.6, 0.6]).expand(1000, 4)  # the best that knows nothing of the state
    assert demand_driven(unseen, action).sum(dim=1).mean() < 0.8


def test_learns_to_divide_a_gpu(cluster):
    """Beside a cliff: one request more in a batch makes its first one late, which costs 40 times the throughput."""
    agent = trained(cluster, 0, 700)
    there = Environments(cluster, 1, STEADY, np.random.default_rng(3))
    _, units, batch = decided(cluster, agent.act(states(cluster, there), greedy=True).numpy())
    best = optimum(cluster)
    assert 0.85 * best <= worth(cluster, units, batch, 100)[0] <= best + 0.01


def test_twins_are_identical(cluster):
    first, second, other = (trained(cluster, seed, 60).actor.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_goes_on_from_its_state(cluster):
    first, second = trained(cluster, 1, 60), trained(cluster, 2, 60)
    second.load_state_dict(first.state_dict())
    for agent in (first, second):
        agent._random.manual_seed(5)
    for _ in range(3):
        assert first.update() == second.update()
    state = first.replay.sample(7, torch.Generator().manual_seed(0), torch.device("cpu"))["state"]
    assert torch.equal(first.act(state, greedy=True), second.act(state, greedy=True))


def test_the_loss_is_of_those_who_are_there():
    random = torch.Generator().manual_seed(0)
    agent = Td3(2, allocation_size(2), TINY, random, torch.device("cpu"))
    state = torch.tensor([[1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.1]])
    arrives = torch.tensor([[0.0, 1.0, 0.0, 0.5, 0.0, 0.0, 0.1]])  # in the other's place: neither bootstraps
    action, reward = torch.tensor([[1.0, 0.0, 0.5, 0.0]]), torch.tensor([[0.7, 0.0]])
    agent.replay.add(state=state, action=action, reward=reward, next_state=arrives)
    told = [float(agent.critics.one(n, torch.cat([state, action], dim=1))[0, 0].detach()) for n in range(2)]
    assert agent.update()["critic_loss"] == pytest.approx(sum((value - 0.7) ** 2 for value in told), rel=1e-5)


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.floats(0.0, 3.0))
def test_actions_divide_the_gpu_among_those_there(seed, sigma):
    random = torch.Generator().manual_seed(seed)
    agent = Td3(5, allocation_size(5), TINY, random, torch.device("cpu"))
    state = torch.rand((8, allocation_size(5)), generator=random)
    state[:, :5] = (state[:, :5] < 0.5).float()
    greedy = agent.act(state, greedy=True)
    for action in (greedy, blurred(state, greedy, sigma * torch.randn(greedy.shape, generator=random))):
        assert torch.all((action >= 0.0) & (action <= 1.0 + 1e-6))
        assert torch.all(action[:, :5][state[:, :5] == 0.0] == 0.0)
        assert torch.all(action[:, 5:][state[:, :5] == 0.0] == 0.0)
        anyone = state[:, :5].any(dim=1).float()
        assert torch.allclose(action[:, :5].sum(dim=1), anyone, atol=1e-5)
