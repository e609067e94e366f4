import copy
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
from rl.td3 import Td3, Td3Settings, with_noise

BASE = four_gpus()[0]
TINY = Td3Settings(
    hidden=64,
    buffer=20_000,
    minibatch=128,
    learning_rate=1e-3,
    soft=0.02,
    discount=0.5,
    random_part=0.1,
    logit_penalty=0.001,
    summed=False,
)
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
    agent = Td3(2, allocation_size(2), TINY, torch.Generator().manual_seed(seed))
    there = Environments(cluster, count, STEADY, np.random.default_rng(seed))
    state = states(cluster, there)
    for step in range(steps):
        action = agent.act(state)
        feedback = there.step(*decided(cluster, action))
        next_state = states(cluster, there)
        reward = compressed(feedback.reward)
        agent.replay.add(state=state, action=action, reward=reward, next_state=next_state)
        state = next_state
        if step >= 20:
            agent.update()
    return agent


def states(cluster, there):
    placing = Placing(cluster, there.rates_rps, there.queued)
    for i in range(cluster.workloads):
        placing.place(i, np.zeros(there.count, dtype=np.int64))
    return placing.allocation()[:, 0]


def decided(cluster, action):
    gpu = np.zeros((len(action), 2), dtype=np.int64)
    return gpu, whole_units(action[:, :2], gpu, 1, 54), whole_batches(action[:, 2:], cluster.max_batch)


def demand_driven(state, action):
    """Best where each of two workloads has a share in proportion to its rate, and its rate for a batch: worth 1/2."""
    rate = state[:, 2:4]
    share = rate / rate.sum(axis=1, keepdims=True)
    return 0.5 - 2.0 * ((action[:, :2] - share) ** 2 + (action[:, 2:] - rate) ** 2)


def drawn(count, random):
    rate = 0.2 + 0.8 * torch.rand((count, 2), generator=random).numpy()
    ones, zeros = np.ones((count, 2), dtype=np.float32), np.zeros((count, 3), dtype=np.float32)
    return np.concatenate([ones, rate, zeros], axis=1)


@pytest.mark.parametrize("summed", [False, True])
def test_learns_the_optimum(summed):
    random = torch.Generator().manual_seed(0)
    agent = Td3(2, allocation_size(2), replace(TINY, summed=summed), random)
    state = drawn(32, random)
    for step in range(1200):
        action, next_state = agent.act(state), drawn(32, random)
        agent.replay.add(state=state, action=action, reward=demand_driven(state, action), next_state=next_state)
        state = next_state
        if step >= 20:
            agent.update()
    unseen = drawn(1000, random)
    assert demand_driven(unseen, agent.act(unseen, greedy=True)).sum(axis=1).mean() >= 0.98
    action = np.array([[0.5, 0.5, 0.6, 0.6]])  # the best that knows nothing of the state
    assert demand_driven(unseen, action).sum(axis=1).mean() < 0.8


def test_learns_to_divide_a_gpu(cluster):
    """Beside a cliff: one request more in a batch makes its first one late, which costs 40 times the throughput."""
    agent = trained(cluster, 0, 700)
    there = Environments(cluster, 1, STEADY, np.random.default_rng(3))
    _, units, batch = decided(cluster, agent.act(states(cluster, there), greedy=True))
    best = optimum(cluster)
    assert 0.85 * best <= worth(cluster, units, batch, 100)[0] <= best + 0.01


def test_twins_are_identical(cluster):
    agents = [trained(cluster, seed, 60) for seed in (1, 1, 2)]
    first, second, other = (torch.nn.utils.parameters_to_vector(agent.actor.parameters()) for agent in agents)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_goes_on_from_its_state(cluster):
    first, second = trained(cluster, 1, 60), trained(cluster, 2, 60)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for agent in (first, second):
        agent._random.manual_seed(5)
    for _ in range(3):
        assert first.update() == second.update()
    state = first.replay.sample(7, torch.Generator().manual_seed(0))["state"].numpy()
    assert np.array_equal(first.act(state, greedy=True), second.act(state, greedy=True))


def test_the_loss_is_of_those_who_are_there():
    random = torch.Generator().manual_seed(0)
    agent = Td3(2, allocation_size(2), TINY, random)
    state = np.array([[1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.1]], dtype=np.float32)
    arrives = np.array([[0.0, 1.0, 0.0, 0.5, 0.0, 0.0, 0.1]])  # in the other's place: neither bootstraps
    action, reward = np.array([[1.0, 0.0, 0.5, 0.0]], dtype=np.float32), np.array([[0.7, 0.0]])
    agent.replay.add(state=state, action=action, reward=reward, next_state=arrives)
    told = agent.critics(torch.tensor(np.concatenate([state, action], axis=1)).expand(2, -1, -1))[:, 0, 0].tolist()
    assert agent.update()["critic_loss"] == pytest.approx(sum((value - 0.7) ** 2 for value in told), rel=1e-5)


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.floats(0.0, 3.0))
def test_actions_divide_the_gpu_among_those_there(seed, sigma):
    random = torch.Generator().manual_seed(seed)
    agent = Td3(5, allocation_size(5), TINY, random)
    state = torch.rand((8, allocation_size(5)), generator=random).numpy()
    state[:, :5] = state[:, :5] < 0.5
    greedy = agent.act(state, greedy=True)
    noise = sigma * torch.randn(greedy.shape, generator=random)
    for action in (greedy, with_noise(torch.from_numpy(state), torch.from_numpy(greedy), noise).numpy()):
        assert np.all((action >= 0.0) & (action <= 1.0 + 1e-6))
        assert np.all(action[:, :5][state[:, :5] == 0.0] == 0.0)
        assert np.all(action[:, 5:][state[:, :5] == 0.0] == 0.0)
        anyone = state[:, :5].any(axis=1)
        assert action[:, :5].sum(axis=1) == pytest.approx(anyone.astype(float), abs=1e-5)
