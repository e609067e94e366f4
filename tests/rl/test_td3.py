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
    """Return the mean reward of decisions (n, 2) over ``replicas`` steps with steady queues."""
    units, batch = np.repeat(units, replicas, axis=0), np.repeat(batch, replicas, axis=0)
    environments = Environments(cluster, len(units), STEADY, np.random.default_rng(seed))
    gpu = np.zeros_like(units)
    environments.step(gpu, units, batch)
    return environments.step(gpu, units, batch).reward.sum(axis=1).reshape(-1, replicas).mean(axis=1)


def optimum(cluster):
    """Return the largest worth of all 53 divisions and 32 x 32 pairs of batches."""
    u, a, b = (part.ravel() for part in np.meshgrid(np.arange(1, 54), np.arange(1, 33), np.arange(1, 33)))
    units, batch = np.stack([u, 54 - u], axis=1), np.stack([a, b], axis=1)
    candidates = np.argsort(worth(cluster, units, batch, 1))[-300:]
    return worth(cluster, units[candidates], batch[candidates], 100).max()


def trained(cluster, seed, steps, count=32):
    agent = Td3(2, allocation_size(2), TINY, torch.Generator().manual_seed(seed))
    environments = Environments(cluster, count, STEADY, np.random.default_rng(seed))
    state = states(cluster, environments)
    for step in range(steps):
        action = agent.act(state)
        feedback = environments.step(*decided(cluster, action))
        next_state = states(cluster, environments)
        reward = compressed(feedback.reward)
        agent.replay.add(state=state, action=action, reward=reward, next_state=next_state)
        state = next_state
        if step >= 20:
            agent.update()
    return agent


def states(cluster, environments):
    placing = Placing(cluster, environments.rates_rps, environments.queued)
    for i in range(cluster.workloads):
        placing.place(i, np.zeros(environments.count, dtype=np.int64))
    return placing.allocation()[:, 0]


def decided(cluster, action):
    gpu = np.zeros((len(action), 2), dtype=np.int64)
    return gpu, whole_units(action[:, :2], gpu, 1, 54), whole_batches(action[:, 2:], cluster.max_batch)


def demand_driven(state, action):
    """Return rewards, largest (1/2) if shares are proportional to the rates and batches are equal to them."""
    rate = state[:, 2:4]
    share = rate / rate.sum(axis=1, keepdims=True)
    return 0.5 - 2.0 * ((action[:, :2] - share) ** 2 + (action[:, 2:] - rate) ** 2)


def drawn(count, random):
    rate = 0.2 + 0.8 * torch.rand((count, 2), generator=random).numpy()
    ones, zeros = np.ones((count, 2), dtype=np.float32), np.zeros((count, 3), dtype=np.float32)
    return np.concatenate([ones, rate, zeros], axis=1)


@pytest.mark.parametrize("summed", [False, True])
def test_training_reaches_the_optimum(summed):
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
    action = np.array([[0.5, 0.5, 0.6, 0.6]])  # the best action that ignores the state
    assert demand_driven(unseen, action).sum(axis=1).mean() < 0.8


def test_training_divides_a_gpu_well(cluster):
    """The optimum is close to a cliff: a batch larger by one request makes its first one late, at a high penalty."""
    agent = trained(cluster, 0, 700)
    environment = Environments(cluster, 1, STEADY, np.random.default_rng(3))
    _, units, batch = decided(cluster, agent.act(states(cluster, environment), greedy=True))
    best = optimum(cluster)
    assert 0.85 * best <= worth(cluster, units, batch, 100)[0] <= best + 0.01


def test_training_repeats_for_a_seed(cluster):
    agents = [trained(cluster, seed, 60) for seed in (1, 1, 2)]
    first, second, other = (torch.nn.utils.parameters_to_vector(agent.actor.parameters()) for agent in agents)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_updates_continue_from_a_saved_state(cluster):
    first, second = trained(cluster, 1, 60), trained(cluster, 2, 60)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for agent in (first, second):
        agent._random.manual_seed(5)
    for _ in range(3):
        assert first.update() == second.update()
    state = first.replay.sample(7, torch.Generator().manual_seed(0))["state"].numpy()
    assert np.array_equal(first.act(state, greedy=True), second.act(state, greedy=True))


def test_the_loss_counts_only_workloads_on_the_gpu():
    random = torch.Generator().manual_seed(0)
    agent = Td3(2, allocation_size(2), TINY, random)
    state = np.array([[1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.1]], dtype=np.float32)
    next_state = np.array(
        [[0.0, 1.0, 0.0, 0.5, 0.0, 0.0, 0.1]]
    )  # the other workload is there next: no value is bootstrapped
    action, reward = np.array([[1.0, 0.0, 0.5, 0.0]], dtype=np.float32), np.array([[0.7, 0.0]])
    agent.replay.add(state=state, action=action, reward=reward, next_state=next_state)
    values = agent.critics(torch.tensor(np.concatenate([state, action], axis=1)).expand(2, -1, -1))[:, 0, 0].tolist()
    assert agent.update()["critic_loss"] == pytest.approx(sum((value - 0.7) ** 2 for value in values), rel=1e-5)


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.floats(0.0, 3.0))
def test_actions_divide_the_gpu_among_its_workloads(seed, sigma):
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
        occupied = state[:, :5].any(axis=1)
        assert action[:, :5].sum(axis=1) == pytest.approx(occupied.astype(float), abs=1e-5)
